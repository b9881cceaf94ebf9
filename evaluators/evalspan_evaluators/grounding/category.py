"""Category: values from a small set (`economy`, `round trip`, `shipped`) against the record an answer speaks of."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from evalspan_evaluators.grounding.bind import Binder, closeness
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.text import key_words
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check_categories"]

_VALUE = re.compile(r"[a-z][a-z]*(?:[_ -][a-z]+){0,2}")
_GAP = re.compile(r"[_\s-]+")
_YES_NO = frozenset(["yes", "no", "true", "false", "none", "null", "n", "y", "ok"])
_CHANGE = re.compile(
    r"\b(?:upgrad|downgrad|chang|switch|convert|instead|rather than"
    r"|would|could|if|want|prefer|either|eligible)\w*|\bor\b",
    re.IGNORECASE,
)
_MOVE = re.compile(r"\b(?:from|to|into|than|another|other)\s(?:the |a |an |new )*\W*$", re.IGNORECASE)
_TIME_NOUN = re.compile(r"[ -](?:days?|hours?|weeks?|months?)\b")
#: Values beyond these are not looked at.
_MOST = 200
_MAX_DOMAIN = 12
_MAX_VALUES = 60
_MAX_RECORDS = 400
_MAX_FIELDS = 8
_MAX_PROMPT = 100_000
_TELLING = frozenset(("tool_result", "tool_arguments", "document", "context"))


class _Domain:
    """The values a key takes, as normal text, and who has which."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.facts: dict[str, list[Fact]] = {}
        self.more: set[str] = set()

    @property
    def values(self) -> set[str]:
        return set(self.facts) | self.more


def _normal(text: str) -> str:
    return text if text.isalpha() and text.islower() else _GAP.sub(" ", text.strip().lower())


def _domains(index: Index, said: str) -> dict[str, _Domain]:
    """Keys whose values are few short lower-case words, widened by the prompt's lists and by keys that name values."""
    found: dict[str, _Domain] = {}
    for text, facts in index.strings.items():
        if len(text) > 30 or not text.isascii() or text[:1] < "a" or not _VALUE.fullmatch(text) or text in _YES_NO:
            continue
        for fact in facts:
            if fact.key and fact.place < 0 and fact.record.source.kind in _TELLING and fact.value.islower():
                domain = found.setdefault(fact.key, _Domain(fact.key))
                domain.facts.setdefault(_normal(text), []).append(fact)
    found = {k: d for k, d in found.items() if len(d.facts) <= _MAX_DOMAIN}
    if not found:
        return found
    named = _named_sets(index)
    lists = _Lists(index)
    for domain in found.values():
        values = frozenset(domain.facts)
        for names in named:
            if names & values:
                domain.more.update(names)
        domain.more.update(w for w in lists.beside(values, domain.key) if w in said)
    return {k: d for k, d in found.items() if any(v in said for v in d.values)}


def _named_sets(index: Index) -> list[frozenset[str]]:
    """Names of the fields of records that hold numbers only."""
    keys = dict.fromkeys(
        tuple(f.key for f in record.facts if f.key)
        for record in index.records[:_MAX_RECORDS]
        if record.prose is None
        and 2 <= len(record.facts) <= _MAX_FIELDS
        and all(isinstance(f.value, int | float) for f in record.facts)
    )
    return [frozenset(map(_normal, names)) for names in keys]


class _Lists:
    """Values that prompts list beside others, such as `(a, b, or c)` and `a silver member`, `a gold member`."""

    def __init__(self, index: Index) -> None:
        self._texts = [
            _folded(s.content)
            for s in index.sources
            if s.kind == "system_prompt" and isinstance(s.content, str) and len(s.content) < _MAX_PROMPT
        ]

    def beside(self, values: frozenset[str], key: str) -> frozenset[str]:
        """Further values of a key."""
        return frozenset(w for text in self._texts for w in _beside(text, values, key))


@lru_cache(maxsize=64)
def _folded(text: str) -> str:
    return _normal(text)


@lru_cache(maxsize=1024)
def _beside(text: str, values: frozenset[str], key: str) -> frozenset[str]:
    found: set[str] = set()
    for value in values:
        if value not in text:
            continue
        for match in re.finditer(
            rf"(?:([a-z]+(?: [a-z]+)?)(?:, | or |/))?\b{re.escape(value)}\b(?:(?:, | or |/)([a-z]+(?: [a-z]+)?))?", text
        ):
            found.update(w for w in match.groups() if w and len(w) > 2 and _near_key(text, match.start(), key))
    found.update(_parallel(text, values))
    return frozenset(found)


def _near_key(text: str, at: int, key: str) -> bool:
    before = text[max(0, at - 40) : at]
    return any(word in before for word in key_words(key) if len(word) > 2)


def _parallel(text: str, values: frozenset[str]) -> Iterator[str]:
    """Words in the place of a value in a repeated phrase: `a silver member`, `a gold member`."""
    counts: Counter[str] = Counter()
    for value in values:
        if value not in text:
            continue
        nouns = {m[1] for m in re.finditer(rf"\b(?:a|an|each|every) {re.escape(value)} ([a-z]+)\b", text)}
        for noun in sorted(nouns)[:4]:
            counts.update(m[1] for m in re.finditer(rf"\b(?:a|an|each|every) ([a-z]+(?: [a-z]+)?) {noun}\b", text))
    yield from (word for word, count in counts.items() if count >= 2 or (" " not in word and len(counts) <= 3))


def check_categories(text: str, binder: Binder, index: Index) -> list[ClaimVerdict]:
    """Categories that the subject's record, or every record, states otherwise."""
    domains = _domains(index, _normal(text))
    if not domains:
        return []
    pattern_values = sorted({v for d in domains.values() for v in d.values if len(v) > 2}, key=len, reverse=True)[
        :_MAX_VALUES
    ]
    if not pattern_values:
        return []
    pattern = re.compile(
        r"(?<!\w)(?:" + "|".join(re.escape(v).replace(r"\ ", r"[ _-]") for v in pattern_values) + r")(?!\w)"
    )
    asked = _normal(" ".join(str(s.content) for s in index.sources if s.kind == "user"))
    found: list[ClaimVerdict] = []
    for match in islice(pattern.finditer(text.lower()), _MOST):
        value = _normal(match[0])
        for domain in domains.values():
            if value in domain.values:
                claim = Claim("category", text[match.start() : match.end()], match.start(), match.end())
                verdict = _check_one(claim, value, domain, binder, asked)
                if verdict is not None:
                    found.append(verdict)
                    break
    return found


def _check_one(claim: Claim, value: str, domain: _Domain, binder: Binder, asked: str) -> ClaimVerdict | None:
    text, start, end = binder.text, claim.start, claim.end
    sentence = binder.sentence(start)
    around = text[max(sentence[0], start - 60) : min(sentence[1], end + 40)].lower()
    true_facts = _subject_facts(claim, domain, binder, sentence)
    if not true_facts:
        return None
    if any(_normal(str(f.value)) == value for f in true_facts):
        return ClaimVerdict(claim=claim, outcome="supported", severity="minor", fact=true_facts[0])
    said = _normal(around)
    if any(_normal(str(f.value)) in said.replace(value, " ", 1) for f in true_facts) or _CHANGE.search(around):
        return None
    if (
        _MOVE.search(text, max(0, start - 24), start)
        or re.search(rf"\b{re.escape(value)}\b", asked)
        or _TIME_NOUN.match(text, end)
    ):
        return None
    return ClaimVerdict(
        claim=claim, outcome="contradicted", severity="minor", fact=true_facts[0], code="OTHER_CATEGORY"
    )


def _subject_facts(claim: Claim, domain: _Domain, binder: Binder, sentence: tuple[int, int]) -> list[Fact]:
    """The key's values in the records in scope; every value there is when all agree."""
    from evalspan_evaluators.grounding.context import context_of

    context = context_of(binder.text, claim.start, claim.end, sentence)
    scope = binder.scope(claim, context)
    pool = [f for facts in domain.facts.values() for f in facts]
    scored = [(closeness(f, scope.all), f) for f in pool[:200]]
    best = max((s for s, _ in scored), default=0.0)
    if best > 0:
        return [f for s, f in scored if s >= best - 1e-9]
    return pool if len(domain.facts) == 1 else _latest(pool)


def _latest(pool: list[Fact]) -> list[Fact]:
    """Values of the last call that states the key."""
    last = max(f.record.source.call for f in pool)
    return [f for f in pool if f.record.source.call == last] if last >= 0 else []
