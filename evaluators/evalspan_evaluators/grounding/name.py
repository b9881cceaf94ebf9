"""Name: proper names and upper-case codes of an answer against the sources."""

import re
from collections.abc import Iterator

from evalspan_evaluators.grounding.bind import Binder, closeness
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import context_of
from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.mention import Mention
from evalspan_evaluators.grounding.text import STOP_WORDS, guess_language, key_words, stem
from evalspan_evaluators.grounding.unit import dimension
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check_names"]

_NAME = re.compile(
    r"(?<![\w@/.])[A-ZÀ-ÖØ-Þ](?:[\w'&-]|\.(?=\w))*(?:[ \t](?:(?:of|de|la"
    r"|del|van|von|der|da|do|the)[ \t])?[A-ZÀ-ÖØ-Þ](?:[\w'&-]|\.(?=\w))*)*"
)
#: Names beyond these are not looked at.
_MOST = 300
_CODE = re.compile(r"^[A-Z]{2,6}$")
_KNOWN = frozenset(
    [
        "id",
        "ids",
        "ok",
        "faq",
        "am",
        "pm",
        "est",
        "edt",
        "pst",
        "pdt",
        "cst",
        "cet",
        "gmt",
        "utc",
        "usd",
        "eur",
        "gbp",
        "dob",
        "url",
        "api",
        "usa",
        "us",
        "uk",
        "eu",
        "tv",
        "ceo",
        "cfo",
        "cto",
        "hr",
        "it",
        "pdf",
        "csv",
        "json",
        "html",
        "sql",
        "ai",
        "llm",
        "q1",
        "q2",
        "q3",
        "q4",
        "vat",
        "gdp",
        "ytd",
        "p/e",
        "eps",
        "roi",
        "asap",
        "eta",
        "etc",
        "i",
        "dear",
        "hi",
        "hello",
        "thank",
        "thanks",
        "please",
        "sorry",
        "sir",
        "madam",
        "mr",
        "mrs",
        "ms",
        "dr",
        "yes",
        "no",
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "celsius",
        "fahrenheit",
        "kelvin",
        "bce",
        "bc",
        "ad",
        "ce",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "english",
        "german",
        "french",
        "spanish",
        "portuguese",
    ]
)
_LINE_HEAD = re.compile(r"(?:^|\n)[\s>#*_•\d.)\-\"'(\[|]*$")
_SENTENCE_HEAD = re.compile(r"[.!?:;]['\")*_]*\s+[*_\"'(\[]*$|[(\"“:][*_]*\s?$|\*\*$")
#: Where something took place or belongs is often common knowledge: `at the City Hall`, `in the West`.
_BACKGROUND = re.compile(r"\b(?:at|at the|in the|im|am|au|à la|en el|en la|no|na)\s$", re.IGNORECASE)
#: `Lyon, France`: the second name places the first.
_QUALIFIES = re.compile(r"[A-ZÀ-Þ][\w'-]+,\s$")
_ALIAS_AFTER = re.compile(r"\s?\(\W{0,2}([A-Z0-9]{2,6})\W{0,2}\)")


def check_names(text: str, binder: Binder, index: Index, taken: bytearray) -> list[ClaimVerdict]:
    """Names no source holds, and codes that belong to another record; minor by nature."""
    if guess_language(text) in ("de", "ja", "zh"):
        return []  # capitals say nothing there
    found: list[ClaimVerdict] = []
    aliases: set[str] = set()
    spans = [(m.start(), m.end()) for m in _NAME.finditer(text)][:_MOST]
    for start, end in spans:
        alias = _ALIAS_AFTER.match(text, end)
        if alias is not None and index.holds(alias[1]) >= 0:
            aliases.update(w.lower() for w in text[start:end].split())
    heads = [(line.start, line.end) for line in binder.layout.lines if line.heading]
    for start, end in spans:
        if any(a <= start < b for a, b in heads) and not _CODE.match(text[start:end]):
            continue  # titles are set in capitals
        for a, b in _trim(text, start, end):
            if any(taken[a:b]):
                continue
            verdict = _check_one(text, a, b, index, aliases)
            if verdict is not None:
                found.append(verdict)
    found.extend(_misplaced(text, binder))
    found.extend(_with_itself(text))
    return found


_ITSELF = re.compile(
    r"(?<![\w'])(?P<a>[A-Z][\w']++(?: [A-Z][\w']++){0,5})\s(?:\w+\s)?(?:\w{2,}ed|beat|over"
    r"|against|vs\.?|versus|than)\s(?:the\s)?(?:host\s)?(?P<b>(?P=a))(?![\w'])"
)


def _with_itself(text: str) -> Iterator[ClaimVerdict]:
    """`the Hawks defeated the Hawks`: nobody does this to themselves."""
    for match in _ITSELF.finditer(text):
        claim = Claim("name", match["b"], match.start("b"), match.end("b"))
        yield ClaimVerdict(claim=claim, outcome="contradicted", severity="minor", code="SAME_NAME_TWICE")


def _trim(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The name without a capital that only starts a sentence, and without a label's words."""
    while end > start and text[end - 1] in ".'&-":
        end -= 1
    if text[start:end].startswith(("I'", "I’")) or text[start:end] in ("I", "A"):
        return
    tail = text[end : end + 4].lstrip("*_ ")
    if tail.startswith(":") and not _CODE.match(text[start:end]):
        return
    head = text[max(0, start - 12) : start]
    if _LINE_HEAD.search(head) or _SENTENCE_HEAD.search(head) or start == 0:
        first, _, rest = text[start:end].partition(" ")
        if not rest:
            if _CODE.match(first) and len(first) >= 3:
                yield start, end
            return
        if first.lower() in STOP_WORDS or len(first) < 3 or not rest[0].isupper():
            start += len(first) + 1
            while text[start : start + 1].islower():
                start = text.find(" ", start, end) + 1 or end
    if end - start >= 2:
        yield start, end


def _check_one(text: str, start: int, end: int, index: Index, aliases: set[str]) -> ClaimVerdict | None:
    name = text[start:end]
    parts = [w for w in re.split(r"[\s]", name) if w and (_CODE.match(w) or w.lower() not in STOP_WORDS)]
    unknown = [w for w in parts if not _is_known(w, index, aliases)]
    claim = Claim("name", name, start, end)
    if not parts:
        return None
    if not unknown:
        facts = index.strings.get(name.lower())
        return ClaimVerdict(claim=claim, outcome="supported", severity="minor", fact=facts[0] if facts else None)
    if _QUALIFIES.search(text, max(0, start - 30), start) or (
        _BACKGROUND.search(text, max(0, start - 10), start) and not _CODE.match(name)
    ):
        return ClaimVerdict(claim=claim, outcome="not_checkable", severity="minor")
    if len(unknown) < len(parts) and not all(w[0].isupper() and w.isalpha() for w in unknown):
        return None
    return ClaimVerdict(claim=claim, outcome="unsupported", severity="minor", code="UNKNOWN_NAME")


def _is_known(word: str, index: Index, aliases: set[str]) -> bool:
    low = word.lower().strip("'.&-")
    bare = low.removesuffix("'s")
    if bare in _KNOWN or bare in aliases or len(bare) < 2 or dimension(bare):
        return True
    if index.holds(bare) >= 0 or any(
        len(bare) > len(s) + 2 and bare.endswith(s) and index.holds(bare.removesuffix(s)) >= 0 for s in ("s", "es")
    ):
        return True
    if _CODE.match(word):
        return False
    short = stem(bare)
    return len(short) >= 4 and short in index.blob


def _misplaced(text: str, binder: Binder) -> Iterator[ClaimVerdict]:
    """A known code or name whose record is not the one the line speaks of."""
    for mention in binder.mentions.items[:_MOST]:
        if not mention.strong or mention.numbered or _is_key(mention):
            continue
        verdict = (
            _other_name(text, mention, binder) or _other_end(text, mention) or _other_partner(text, mention, binder)
        )
        if verdict is not None:
            yield verdict


def _is_key(mention: Mention) -> bool:
    """An id in letters only; ids have a check of their own."""
    return any({"id", "number", "code", "no"} & set(key_words(f.key)) for f in mention.facts[:10])


def _is_item(text: str, start: int) -> bool:
    """Whether a sentence starts a line, so that it belongs to the lines over it."""
    return not text[text.rfind("\n", 0, start) + 1 : start].strip(" \t*-•#>0123456789.)")


def _other_name(text: str, mention: Mention, binder: Binder) -> ClaimVerdict | None:
    claim = Claim("name", mention.text, mention.start, mention.end)
    sentence = binder.sentence(mention.start)
    scope = binder.scope(claim, context_of(text, mention.start, mention.end, sentence))
    if not scope.line and scope.near and scope.near[0].end <= sentence[0] and not _is_item(text, sentence[0]):
        return None  # a sentence of its own may have a subject of its own
    others = tuple(m for m in scope.all if m.text.lower() != mention.text.lower())
    strong = [m for m in others if m.numbered and len(m.records) <= 6]
    facts = [f for f in mention.facts if f.record.prose is None][:60]
    if not strong or not facts or len(facts) < len(mention.facts[:60]):
        return None
    ours = max(closeness(f, others) for f in facts)
    keys = {f.key for f in facts}
    best: tuple[float, Fact] | None = None
    said = {m.text.lower() for m in (*scope.line, *scope.near)}
    for other in strong:
        for record in other.records:
            for fact in record.facts:
                if (
                    fact.key in keys
                    and isinstance(fact.value, str)
                    and fact.value.lower() not in (mention.text.lower(), *said)
                ):
                    near = closeness(fact, others)
                    if best is None or near > best[0]:
                        best = (near, fact)
    if best is None or best[0] < max(ours + 0.2, 1.4 * ours):
        return None
    return ClaimVerdict(claim=claim, outcome="contradicted", severity="minor", fact=best[1], code="OTHER_RECORD")


_WAY = re.compile(r"\b(?P<from>from|von)\s$|\b(?P<to>to|nach)\s$", re.IGNORECASE)
_ENDS = {
    "from": frozenset(("from", "origin", "departure", "depart", "start", "source")),
    "to": frozenset(("to", "destination", "dest", "arrival", "arrive", "end", "target")),
}


def _other_end(text: str, mention: Mention) -> ClaimVerdict | None:
    """`from FRA` where every record says `to: FRA` and goes out from somewhere else."""
    match = _WAY.search(text, max(0, mention.start - 8), mention.start)
    if match is None:
        return None
    meant, other = (_ENDS["from"], _ENDS["to"]) if match["from"] else (_ENDS["to"], _ENDS["from"])
    facts = mention.facts[:60]
    if any(f.record.prose is not None or f.record.source.kind == "user" or not _is_of(f, other) for f in facts):
        return None
    own = next((g for g in facts[0].record.facts[:60] if _is_of(g, meant) and isinstance(g.value, str)), None)
    if own is None or str(own.value).lower() == mention.text.lower():
        return None
    claim = Claim("name", mention.text, mention.start, mention.end)
    return ClaimVerdict(claim=claim, outcome="contradicted", severity="minor", fact=own, code="OTHER_FIELD")


def _is_of(fact: Fact, role: frozenset[str]) -> bool:
    """Whether a key starts or ends with a word of a role."""
    parts = key_words(fact.key)
    return bool(parts) and (parts[0] in role or parts[-1] in role)


def _other_partner(text: str, mention: Mention, binder: Binder) -> ClaimVerdict | None:
    """`Sam owns Globex` where the record of Globex names another owner, and the sentence nobody else."""
    start, end = binder.sentence(mention.start)
    said = binder.mentions.within(start, end)
    if len(said) != _TWO or end - start > _SHORT or _RELATIVE.search(text, start, end):
        return None
    other = next(m for m in said if m is not mention)
    if len(other.records) != 1 or other.reach.holds(mention.records[0]) or len(mention.facts) > _FEW:
        return None
    keys = {f.key for f in mention.facts}
    row = other.records[0]
    if row.prose is not None or any(not _is_sibling(r, row) for r in mention.records):
        return None
    own = next((f for f in row.facts if f.key in keys and isinstance(f.value, str)), None)
    if own is None or any(f.key in keys for f in other.facts) or not _names_row(other):
        return None
    claim = Claim("name", mention.text, mention.start, mention.end)
    return ClaimVerdict(claim=claim, outcome="contradicted", severity="minor", fact=own, code="OTHER_RECORD")


def _is_sibling(record: Record, row: Record) -> bool:
    return record.parent is row.parent and record is not row and record.parent is not None


def _names_row(mention: Mention) -> bool:
    """Whether a value is the only one of its key in its list: it names its record."""
    fact = mention.facts[0]
    rows = fact.record.parent.children[:1000] if fact.record.parent is not None else []
    values = [f.value for row in rows for f in row.facts if f.key == fact.key]
    return len(values) == len(set(map(str, values)))


_TWO, _FEW, _SHORT = 2, 6, 120
#: Such a sentence may speak of two records.
_RELATIVE = re.compile(
    r"\b(?:not|no|unlike|than|while|but|whereas|and|or|with|after|before|both|also|instead|other|compared|versus|vs|nicht|als"
    r"|und|et|y|e|ou|o)\b|[,;:]",
    re.IGNORECASE,
)
