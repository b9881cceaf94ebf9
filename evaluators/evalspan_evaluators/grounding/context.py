"""Context: the words around a claim or a fact that say what the value is."""

import re
from functools import lru_cache
from typing import NamedTuple

from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.text import STOP_WORDS, abbreviates, key_words, stem
from evalspan_evaluators.grounding.unit import dimension

__all__ = [
    "Context",
    "attribute_match",
    "context_of",
    "fact_words",
    "key_stems",
    "may_stand_near",
    "own_match",
    "own_name",
    "stems_of",
    "tail_of",
    "without_span",
]

_TOKEN = re.compile(r"[^\W\d_]+(?:[/'-][^\W\d_]+)*")
#: `week52`, `30d`, `24_hours` in a key.
_NAMED_SPAN = re.compile(
    r"(?<![A-Za-z])(?:(?:weeks?|days?|hours?|months?|years?)_?\d+|\d+_?(?:weeks?|wk|w|days?|d|hours?|hrs?|h|months?|mo|years?"
    r"|yr|y))(?![a-z])",
    re.IGNORECASE,
)
_JOINT = re.compile(r"[/'-]")
_BREAK = re.compile(r"[.!?;,:]\s|[\n、，。]|\b(?=[awuey])(?:and|with|und|et|y)\b", re.IGNORECASE)
_TAIL_END = re.compile(
    _BREAK.pattern + r"|(?<![-–])\s\(?[$€£¥]?\d|\s\([^)\d]{2,30}\d|,(?=[\u3040-\u9fff])", re.IGNORECASE
)
#: Words whose match is held for each set of words.
_MOST_MATCHES = 8_192
_HARD = re.compile(r"[.!?;:]\s|\n")


class Context(NamedTuple):
    """Words around a claim.

    Attributes:
        label: Words of a `Label:` before the value.
        after: Content words right behind the value, up to the next break.
        before: Content words before it in the clause.
        sentence: Offsets of the sentence or line.
    """

    label: tuple[str, ...]
    after: tuple[str, ...]
    before: tuple[str, ...]
    sentence: tuple[int, int]

    @property
    def all(self) -> frozenset[str]:
        """Every word, as stems."""
        return frozenset(self.label + self.after + self.before)


_GENERIC = frozenset(
    [
        "total",
        "number",
        "num",
        "count",
        "current",
        "new",
        "value",
        "id",
        "data",
        "info",
        "detail",
        "result",
        "all",
        "team",
        "item",
        "at",
        "on",
        "by",
        "before",
        "until",
        "date",
        "datetime",
        "timestamp",
    ]
)


@lru_cache(maxsize=4096)
def stems_of(text: str) -> tuple[str, ...]:
    """The content words of a text as stems, in order."""
    found: list[str] = []
    for token in _TOKEN.findall(text):
        low = token.lower()
        if "/" in low and len(low) <= 5:
            found.append(low.replace("/", ""))
        else:
            parts = (low,) if low.isalpha() else _JOINT.split(low)
            found.extend(stem(w) for w in parts if w not in STOP_WORDS and len(w) > 1)
            if "-" in low:
                found.append(low.replace("-", ""))
    return tuple(found)


def _label(head: str) -> str:
    """The words of a `Label:` on the same line, at most 40 characters before the value."""
    line = head[head.rfind("\n") + 1 :]
    colon = line.rfind(":")
    if colon <= 0 or len(line) - colon > 42:
        return ""
    before = line[max(0, colon - 60) : colon]
    return before[max(before.rfind(mark) for mark in ":,;.") + 1 :]


def tail_of(text: str, end: int, stop: int) -> str:
    """The text right behind a claim, up to the next break."""
    tail = text[end : min(stop, end + 60)]
    found = _TAIL_END.search(tail)
    return tail[: found.start()] if found else tail


@lru_cache(maxsize=2048)
def context_of(text: str, start: int, end: int, sentence: tuple[int, int]) -> Context:
    """The words around text[start:end] inside its sentence."""
    head = text[max(sentence[0], start - 120) : start]
    tail = tail_of(text, end, sentence[1])
    clause = head
    for brk in _HARD.finditer(head):
        clause = head[brk.end() :]
    return Context(
        label=stems_of(_label(head)),
        after=stems_of(tail)[:4],
        before=stems_of(clause)[-8:],
        sentence=sentence,
    )


def without_span(key: str) -> str:
    """A key without a span of time that is part of a name, such as `week52` in `week52_high`."""
    return _NAMED_SPAN.sub("_", key)


@lru_cache(maxsize=8192)
def key_stems(key: str) -> tuple[str, ...]:
    """The parts of a key as stems, without spans of time that are part of a name."""
    # Short parts are often abbreviations (`pts`, `qty`), which a stem would cut.
    return tuple(
        w if (len(w) <= 4 and not w.endswith("s")) or not set("aeiou") & set(w) else stem(w)
        for w in key_words(without_span(key))
        if not w.isdigit() and (len(w) > 1 or not w.isascii())
    )


def fact_words(fact: Fact) -> tuple[str, ...]:
    """Stems that say what a fact is: its key and the named keys around it, or the words near it in prose."""
    if fact.words is None:
        fact.words = _fact_words(fact)
    return fact.words


def may_stand_near(fact: Fact, heads: tuple[str, ...]) -> bool:
    """Whether words that start so may be among those near a fact in prose; cheaper than their stems."""
    if fact.words is not None:
        return True
    text = _near(fact).lower()
    return "-" in text or "/" in text or any(head in text for head in heads)


def _near(fact: Fact) -> str:
    """The text that says what a fact in prose is."""
    prose = fact.record.prose or ""
    part = fact.quantity or fact.moment
    return prose if part is None else prose[max(0, part.start - 40) : part.end + 30]


def _fact_words(fact: Fact) -> tuple[str, ...]:
    record = fact.record
    if record.prose is not None:
        return stems_of(_near(fact))
    own = key_stems(fact.key)
    if fact.quantity is not None and fact.quantity.unit:
        own = (*own, fact.quantity.unit)
    named = record.named_key
    return own + key_stems(named) if record.parent is not None else own


@lru_cache(maxsize=65536)
def _word_match(fact_word: str, claim_word: str) -> float:
    if fact_word == claim_word:
        return 1.0
    if (
        len(fact_word) >= 4
        and len(claim_word) >= 4
        and (fact_word.startswith(claim_word[:5]) and claim_word.startswith(fact_word[:5]))
    ):
        return 0.8
    if (
        abbreviates(fact_word, claim_word)
        or abbreviates(fact_word, claim_word + "s")
        or abbreviates(claim_word, fact_word)
    ):
        return 0.7
    return 0.0


def own_match(words: tuple[str, ...], fact: Fact) -> float:
    """Like `attribute_match` over the fact's own key, and the key of a plain inner object such as `prices`."""
    record = fact.record
    if record.prose is not None:
        return 0.0
    own = _share(words, key_stems(fact.key))
    around = record.key
    if (
        isinstance(around, str)
        and record.parent is not None
        and around[:1] not in ".[$"
        and not any(c.isdigit() for c in around)
    ):
        outer = _share(words, key_stems(around))
        return 0.5 * own + 0.6 * outer if outer >= 0.6 else 0.6 * own
    return own


def own_name(words: tuple[str, ...], fact: Fact) -> float:
    """How well the words name the fact's own key alone, 0 to 1."""
    return _share(words, key_stems(fact.key)) if fact.record.prose is None else 0.0


def attribute_match(words: tuple[str, ...] | frozenset[str], fact: Fact) -> float:
    """How well the words name the fact's key, 0 to 1: the best share of its own key's parts."""
    if not words:
        return 0.0
    if fact.record.prose is not None:
        known = _matches_of(tuple(words))
        total = 0.0
        for part in fact_words(fact):
            match = known[part]
            if match >= 0.7:
                total += match
        return min(1.0, total / 2)
    return _key_match(tuple(words), fact.key, fact.record.named_key if fact.record.parent is not None else "")


class _Matches(dict[str, float]):
    """How well words of sentences match given ones, told as they are met: texts have few words, often."""

    def __init__(self, words: tuple[str, ...]) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, part: str) -> float:
        if len(self) >= _MOST_MATCHES:
            self.clear()
        found = self[part] = max((_word_match(part, word) for word in self._words), default=0.0)
        return found


_matches_of = lru_cache(maxsize=64)(_Matches)


@lru_cache(maxsize=32768)
def _key_match(words: tuple[str, ...], key: str, around: str) -> float:
    own = _share(words, key_stems(key))
    return max(own, 0.9 * _share(words, key_stems(around))) if own < 0.9 and around else own


@lru_cache(maxsize=32768)
def _share(words: tuple[str, ...], parts: tuple[str, ...]) -> float:
    """How well words name a key of these parts; parts like `total` and `number` say little alone."""
    telling = tuple(p for p in parts if p not in _GENERIC)
    if len(telling) > 1:
        # `days_since_delivery` is named by the delivery, not by any number of days.
        telling = tuple(p for p in telling if dimension(p) != "time") or telling
    if not telling:
        return 1.0 if parts and all(p in words for p in parts) else 0.5 * any(p in words for p in parts)
    best = [max((_word_match(part, word) for word in words), default=0.0) for part in telling]
    joined = "".join(p[0] for p in parts)
    acronym = 0.8 if len(joined) >= 2 and joined in words else 0.0
    return max(max(best) * 0.5 + sum(best) / len(best) * 0.5, acronym)
