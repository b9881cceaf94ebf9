"""Mention: where an answer names a value that identifies a record of the sources."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.text import STOP_WORDS, key_words

__all__ = ["Mention", "Mentions", "Reach"]

_TOKEN = re.compile(r"[^\W_]+(?:['.&][^\W_]+)*")
#: In a text of a script without spaces a Latin word ends where that script begins.
_TOKEN_BESIDE = re.compile(
    r"(?:(?![\u3040-\u30ff\u3400-\u9fff])[^\W_])+(?:['.&](?:(?![\u3040-\u30ff\u3400-\u9fff])[^\W_])+)*"
    r"|[\u3040-\u30ff\u3400-\u9fff]+"
)
_HASHED = re.compile(r"#(\d{1,12})\b")
#: Parts of the names of fields that number something.
_NUMBERS = frozenset(("number", "num", "no", "nr", "id", "key", "ref", "iid", "ticket", "issue", "order", "pr"))
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_MAX_PARTS = 6
_SHORTEST_PLURAL = 3
_MAX_LENGTH = 30
#: Mentions of one sentence that count.
_MOST = 40
_MAX_REACH = 200


class Reach:
    """The records a mention belongs with: its own, those inside, those around, and the other half of its calls."""

    __slots__ = ("_around", "_calls", "_known", "_own", "_records")

    def __init__(self, records: tuple[Record, ...]) -> None:
        self._records = records
        self._own: set[int] | None = None
        self._around: set[int] = set()
        self._calls: set[tuple[int, str | None, str]] = set()
        #: Answers given, by record: every check of a claim asks about the same ones.
        self._known: dict[int, bool] = {}

    def _read(self) -> set[int]:
        self._around = {id(r) for record in self._records for r in record.chain()}
        self._calls = {
            (s.call, s.tool, s.kind) for s in {id(r.source): r.source for r in self._records}.values() if s.call != -1
        }
        self._own = {id(r) for r in self._records}
        return self._own

    def holds(self, record: Record) -> bool:
        """Whether a record is one of them."""
        known = self._known.get(id(record))
        if known is None:
            known = self._known[id(record)] = self._holds(record)
        return known

    def _holds(self, record: Record) -> bool:
        own = self._read() if self._own is None else self._own
        if id(record) in self._around:
            return True
        at: Record | None = record
        while at is not None:
            if id(at) in own:
                return True
            at = at.parent
        source = record.source
        if source.call == -1 or not self._calls:
            return False
        other = "tool_arguments" if source.kind == "tool_result" else "tool_result"
        return (source.call, source.tool, other) in self._calls


@dataclass(frozen=True, slots=True, eq=False)
class Mention:
    """One place of the answer that names values of the sources.

    Attributes:
        facts: The values it may name.
        strong: It looks like a name or an id, not like an ordinary word.
        numbered: It holds a digit.
        records: Records that hold one of the facts.
    """

    start: int
    end: int
    text: str
    facts: tuple[Fact, ...]
    strong: bool
    numbered: bool
    records: tuple[Record, ...]
    reach: "Reach"

    def __hash__(self) -> int:
        return hash((self.start, self.end))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(text.lower()))


@lru_cache(maxsize=8192)
def _is_strong(value: str) -> bool:
    return any(c.isdigit() or c.isupper() for c in value)


def _forms(token: str) -> tuple[str, ...]:
    """A word as it stands, and as the singular it may be the plural of."""
    if len(token) <= _SHORTEST_PLURAL or token[-1] != "s" or not token.isalpha():
        return (token,)
    return (token, token[:-1], token[:-2]) if token.endswith("es") else (token, token[:-1])


def _is_said(parts: tuple[str, ...], tokens: list[tuple[int, int, str]], at: int) -> bool:
    """Whether the tokens from a place are these parts; the last one may be a plural."""
    if any(tokens[at + i][2] != part for i, part in enumerate(parts[:-1])):
        return False
    return parts[-1] in _forms(tokens[at + len(parts) - 1][2])


class Mentions:
    """Every mention of an answer, longest first where they overlap."""

    def __init__(self, text: str, index: Index) -> None:
        self.items: list[Mention] = []
        token_form = _TOKEN_BESIDE if _CJK.search(text) else _TOKEN
        tokens = [(m.start(), m.end(), m[0].lower()) for m in token_form.finditer(text)]
        # `DE` is a country, `de` a word.
        codes = {t for start, end, t in tokens if t in STOP_WORDS and text[start:end].isupper()}
        names = _names(index, {form for _, _, t in tokens for form in _forms(t)}, codes)
        taken_to = -1
        for at, (start, _, token) in enumerate(tokens):
            if start < taken_to or (token in codes and text[start].islower()):
                continue
            for parts, facts in (named for form in _forms(token) for named in names.get(form, ())):
                last = at + len(parts) - 1
                if last < len(tokens) and _is_said(parts, tokens, at):
                    end = tokens[last][1]
                    strong = any(map(_is_strong, {str(f.value) for f in facts})) and (
                        text[start:end] != text[start:end].lower() or any(c.isdigit() for c in text[start:end])
                    )
                    self.items.append(_mention(text, start, end, facts, strong=strong))
                    taken_to = end
                    break
        if _CJK.search(text):
            self.items = sorted([*self.items, *_unspaced(text, index)], key=lambda m: m.start)
        if "#" in text:
            self.items = sorted([*self.items, *_numbered(text, index)], key=lambda m: m.start)
        self._starts = [m.start for m in self.items]

    def within(self, start: int, end: int, *, strong: bool = True) -> list[Mention]:
        """Mentions inside a span of the answer."""
        first = bisect_left(self._starts, start)
        found: list[Mention] = []
        for mention in self.items[first:]:
            if mention.start >= end:
                break
            if mention.end <= end and (mention.strong or not strong):
                found.append(mention)
        return found[:_MOST]


def _mention(text: str, start: int, end: int, facts: list[Fact], *, strong: bool) -> Mention:
    records = tuple(dict.fromkeys(f.record for f in facts))
    said = text[start:end]
    numbered = not said.isalpha() and any(c.isdigit() for c in said)
    return Mention(start, end, said, tuple(facts), strong, numbered, records, Reach(records[:_MAX_REACH]))


def _numbered(text: str, index: Index) -> Iterator[Mention]:
    """`#812`: the record of that number."""
    for match in islice(_HASHED.finditer(text), _MOST):
        number = float(match[1])
        facts = [f for f in index.near(number, 0.0) if not _NUMBERS.isdisjoint(key_words(f.key))]
        if facts:
            yield _mention(text, match.start(), match.end(), facts, strong=True)


def _unspaced(text: str, index: Index) -> list[Mention]:
    """Values in a script without spaces, longest first where they overlap."""
    low = text.lower()
    taken = bytearray(len(text))
    found: list[Mention] = []
    values = sorted((v for v in index.strings if 2 <= len(v) <= _MAX_LENGTH and _CJK.search(v)), key=len, reverse=True)
    for value in values:
        at = low.find(value)
        while at >= 0 and len(found) < _MOST:
            end = at + len(value)
            if not any(taken[at:end]):
                taken[at:end] = b"\1" * len(value)
                found.append(_mention(text, at, end, index.strings[value], strong=True))
            at = low.find(value, end)
    return found


def _names(index: Index, present: set[str], codes: set[str]) -> dict[str, list[tuple[tuple[str, ...], list[Fact]]]]:
    """Names by first token, longest first; full names also by their last part."""
    found: dict[tuple[str, ...], list[Fact]] = {}
    for text, facts in index.strings.items():
        if len(text) > 60 or not _may_name(text, present):
            continue
        parts = _parts(text)
        if (
            not parts
            or not (parts[0] in present or parts[-1] in present)
            or len(parts) > _MAX_PARTS
            or not any(c.isalpha() for c in text)
            or (len(parts) == 1 and (len(text) < 2 or (text in STOP_WORDS and text not in codes)))
        ):
            continue
        if parts[0] in present:
            found.setdefault(parts, []).extend(facts)
        if 2 <= len(parts) <= 4 and parts[-1] in present and _is_person_like(facts[0]):
            found.setdefault(parts[-1:], []).extend(facts)
    names: dict[str, list[tuple[tuple[str, ...], list[Fact]]]] = {}
    for parts in sorted(found, key=len, reverse=True):
        names.setdefault(parts[0], []).append((parts, found[parts]))
    return names


def _may_name(text: str, present: set[str]) -> bool:
    """Whether the first or last token of a text is one of the answer's, told cheaply."""
    if text.isalnum():
        return text in present
    words = text.split()
    if not words:
        return False
    first, last = words[0], words[-1]
    return first in present or last in present or not (first.isalnum() and last.isalnum())


def _is_person_like(fact: Fact) -> bool:
    words = str(fact.value).split()
    return len(words) >= 2 and all(w[:1].isupper() for w in words) and words[-1].isalpha() and len(words[-1]) > 3
