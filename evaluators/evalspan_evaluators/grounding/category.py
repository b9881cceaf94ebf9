"""Category: values from a small set (`economy`, `round trip`, `shipped`) against the record an answer speaks of."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from evalspan_evaluators.grounding.bind import Binder, closeness
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.index import Fact, Index
from evalspan_evaluators.grounding.text import key_words
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check_categories"]

_VALUE = re.compile(r"[a-z][a-z]*(?:[_ -][a-z]+){0,2}")
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
    return re.sub(r"[_\s-]+", " ", text.strip().lower())


def _domains(index: Index) -> dict[str, _Domain]:
    """Keys whose values are few short lower-case words, widened by the prompt's lists and by keys that name values."""
    found: dict[str, _Domain] = {}
    for text, facts in index.strings.items():
        if len(text) > 30 or not _VALUE.fullmatch(text) or text in _YES_NO:
            continue
        for fact in facts:
            if (
                fact.key
                and fact.place < 0
                and fact.record.source.kind in ("tool_result", "tool_arguments", "document", "context")
            ):
                if str(fact.value) != str(fact.value).lower():
                    continue
                domain = found.setdefault(fact.key, _Domain(fact.key))
                domain.facts.setdefault(_normal(text), []).append(fact)
    found = {k: d for k, d in found.items() if len(d.facts) <= _MAX_DOMAIN}
    for domain in found.values():
        domain.more.update(_alternatives(index, domain))
    return found


def _alternatives(index: Index, domain: _Domain) -> Iterator[str]:
    """Further values: names of fields beside a field named like a value, and lists in prose such as `(a, b, or c)`."""
    values = set(domain.facts)
    seen: set[frozenset[str]] = set()
    for record in index.records[:400]:
        names = frozenset(_normal(f.key) for f in record.facts if f.key)
        plain = all(isinstance(f.value, int | float) for f in record.facts)
        if plain and 2 <= len(names) <= 8 and names & values and names not in seen:
            seen.add(names)
            yield from names
    for source in index.sources:
        if source.kind != "system_prompt" or not isinstance(source.content, str):
            continue
        text = _normal(source.content)
        for value in values:
            for match in re.finditer(
                rf"(?:([a-z]+(?: [a-z]+)?)(?:, | or |/))?\b{re.escape(value)}\b(?:(?:, | or |/)([a-z]+(?: [a-z]+)?))?",
                text,
            ):
                yield from (
                    w for w in match.groups() if w and len(w) > 2 and _near_key(text, match.start(), domain.key)
                )
        yield from _parallel(text, values)


def _near_key(text: str, at: int, key: str) -> bool:
    before = text[max(0, at - 40) : at]
    return any(word in before for word in key_words(key) if len(word) > 2)


def _parallel(text: str, values: set[str]) -> Iterator[str]:
    """Words in the place of a value in a repeated phrase: `a silver member`, `a gold member`."""
    counts: Counter[str] = Counter()
    for value in values:
        nouns = {m[1] for m in re.finditer(rf"\b(?:a|an|each|every) {re.escape(value)} ([a-z]+)\b", text)}
        for noun in sorted(nouns)[:4]:
            counts.update(m[1] for m in re.finditer(rf"\b(?:a|an|each|every) ([a-z]+(?: [a-z]+)?) {noun}\b", text))
    yield from (word for word, count in counts.items() if count >= 2 or (" " not in word and len(counts) <= 3))


def check_categories(text: str, binder: Binder, index: Index) -> list[ClaimVerdict]:
    """Categories that the subject's record, or every record, states otherwise."""
    domains = _domains(index)
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
