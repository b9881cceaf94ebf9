"""Index: every value of the sources with its record, key and JSON path."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from evalspan_evaluators.grounding import moment as moments
from evalspan_evaluators.grounding import quantity as quantities
from evalspan_evaluators.grounding.claim import is_id
from evalspan_evaluators.grounding.fact import Fact, Record, path_part
from evalspan_evaluators.grounding.markup import read_markup
from evalspan_evaluators.grounding.moment import Day, Moment
from evalspan_evaluators.grounding.relevance import Relevance
from evalspan_evaluators.grounding.source import Source, Texts
from evalspan_evaluators.grounding.table import Columns, columns_of, read_literal, read_tables
from evalspan_evaluators.grounding.text import fold, sentences
from evalspan_evaluators.jsonvalue import is_list, is_object

__all__ = ["Index"]

_PLAIN_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,10})?")
_ISO = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?:[T ]([01]\d"
    r"|2[0-3]):([0-5]\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
)
_ISO_DURATION = re.compile(r"P(?=[\dT])(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d+)?S)?)?")
_SCALARS = frozenset((str, int, float, bool, type(None)))
_POSITIONS = (".", "[", "$", "")
_HAS_DIGIT = re.compile(r"\d").search
_DECLARED: dict[float, re.Pattern[str]] = {
    1e3: re.compile(
        r"\bthousands?\b|[$€£]\s?'?000\b|\('?000s?\)|\b000s\b" r"|[$€£]k\b|\btausend|\bmiles de\b|\bmilliers\b|千",
        re.IGNORECASE,
    ),
    1e6: re.compile(
        r"\bmillions?\b|\bmillionen\b|\bmillones\b" r"|\bmilhões\b|[$€£]\s?m(?:illion|n)?\b|\bmio\b|百万", re.IGNORECASE
    ),
    1e9: re.compile(r"\bbillions?\b|\bmilliarden?\b|\bmilliards?\b|[$€£]\s?bn\b|\bmrd\b|十億|十亿", re.IGNORECASE),
    1e12: re.compile(r"\btrillions?\b", re.IGNORECASE),
}
#: Texts beyond these, of one source and of all together, are searched for ids and names only.
_MAX_TEXT = 60_000
_MAX_TEXTS = 150_000
_MAX_FACTS = 6_000
_HUGE = 1e300
#: Places of one token looked at.
_MOST_PLACES = 2000
#: A list or object of more records than these is read only where it names something of the answer, if so asked.
_MANY = 5
_SHORT = 80
#: Letters of all texts that are parsed as JSON.
_MAX_JSON = 1_500_000
#: JSON inside a text of JSON is read so many times over.
_MAX_NESTED = 3
#: Items of one list looked at.
_MAX_ITEMS = 20_000


@lru_cache(maxsize=4096)
def _may_be_value(key: str) -> bool:
    """Whether a key is a name or holds a digit, and is no position in a list."""
    if key[:1] in _POSITIONS:
        return False
    return (len(key) > 2 and not key.islower()) or _HAS_DIGIT(key) is not None


class _Stamp(NamedTuple):
    """A date in the usual form of JSON, with the minute of its day where it has a time."""

    moment: Moment
    minute: int | None


@lru_cache(maxsize=16384)
def _form(value: str) -> tuple[str, float | _Stamp | str | None]:
    """A short text in plain lower case, and what it is: a number, a date with or without a time, or a text to scan.

    Told once for the many places of one value.
    """
    text = fold(value)
    low = text.lower()
    if _HAS_DIGIT(text) is None:
        return low, None
    if _PLAIN_NUMBER.fullmatch(text):
        return low, float(text)
    iso = _ISO.fullmatch(text)
    if iso is not None:
        # The usual forms of dates in JSON, without the general parser.
        day = Day(int(iso[1]), int(iso[2]), int(iso[3]))
        return low, _Stamp(Moment("date", 0, 10, iso[0], (day,)), int(iso[4]) * 60 + int(iso[5]) if iso[4] else None)
    if (lasting := _ISO_DURATION.fullmatch(text)) is not None:
        return low, _lasting(lasting)
    if " " not in text and (text[0].isalpha() or is_id(text)):
        return low, None
    return low, text


def _lasting(match: re.Match[str]) -> str:
    """A duration such as `PT9H35M` in its smallest unit."""
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    if match[4]:
        return f"{((days * 24 + hours) * 60 + minutes) * 60 + seconds} seconds"
    return f"{(days * 24 + hours) * 60 + minutes} minutes" if match[2] or match[3] else f"{days} days"


def _parsed(text: str) -> Any:
    """JSON, a Python literal or XML as objects; None for a text."""
    return read_markup(text) if text.lstrip()[:1] == "<" else read_literal(text)


def _size(source: Source) -> int:
    return len(source.content) if isinstance(source.content, str) else 0


class Index:
    """Values of all sources, found by number, day, time, text and record."""

    def __init__(self, texts: Texts, relevance: Relevance | None = None) -> None:
        """Read the sources.

        Args:
            texts: The sources.
            relevance: Read only the sources, and of long lists only the records, that it finds relevant.
        """
        self._texts = texts
        self._relevance = relevance
        read = texts.sources if relevance is None else relevance.likely(texts)
        self.sources = read
        #: Something was left out as not relevant.
        self.pruned = len(read) < len(texts.sources)
        self.records: list[Record] = []
        self.strings: dict[str, list[Fact]] = {}
        self.days: dict[Day, list[Fact]] = {}
        self.minutes: dict[int, list[Fact]] = {}
        self.numbers: list[tuple[float, Fact]] = []
        self.flags: list[Fact] = []
        #: Some values were left out of the index; the texts are complete.
        self.cut = False
        #: Lists by their length, for counts.
        self.lengths: dict[int, list[Fact]] = {}
        #: Groups of facts to calculate with, by the words that chose them; kept for the claims of one answer.
        self.groups: dict[frozenset[str], list[list[Fact]]] = {}
        #: Numbers by record and by key, once something is calculated.
        self.grid: tuple[list[list[Fact]], list[list[Fact]]] | None = None
        self._scales: dict[int, frozenset[float]] = {}
        self._sorted: list[float] | None = None
        self._facts = 0
        self._letters = 0
        self._parsed = 0
        self._nested = 0
        # What the run itself brought last is read first, should there be more than can be read.
        last = next((s for s in reversed(read) if s.kind == "tool_result"), None)
        for source in read if sum(map(_size, read)) < _MAX_TEXTS else reversed(read):
            # The last result says what the last call did, also where the answer speaks of something else.
            self._relevance = None if source is last else relevance
            self._add(source)
        self.numbers.sort(key=itemgetter(0))
        self.cut = self.cut or texts.cut

    @property
    def blob(self) -> str:
        """All sources as lower-case text, for ids, quotes and names."""
        return self._texts.blob

    def _add(self, source: Source) -> None:
        content = source.content
        if isinstance(content, str):
            self._parsed += len(content)
            literal = self._parsed <= _MAX_JSON and content.lstrip()[:1] in ("[", "{", "<")
            parsed = _parsed(fold(content)) if literal else None
        else:
            parsed = content
        if isinstance(parsed, (dict, list)):
            self._walk(source, parsed)
        elif parsed is not None and not isinstance(parsed, str):
            record = self._record(source, None, "$")
            self._leaf(record, "", parsed, -1)
        else:
            self._text(source, None, fold(self._texts.of(source)[: _MAX_TEXT + 1]))

    def _record(self, source: Source, parent: Record | None, key: str | int, prose: str | None = None) -> Record:
        record = Record(source, parent, key, prose)
        self.records.append(record)
        if prose is None and _may_be_value(str(key)):
            self._named(record, str(key))
        return record

    def _named(self, record: Record, key: str) -> None:
        """A key that is a value itself: an id, a date or a name over its object."""
        fact = Fact(record, "", key)
        self.strings.setdefault(key.lower(), []).append(fact)
        if key[0].isdigit():
            for found in moments.scan(key):
                fact.moment = found
                for day in found.days:
                    self.days.setdefault(day, []).append(fact)

    def _walk(self, source: Source, content: Any, parent: Record | None = None, key: str = "$") -> None:
        root = self._record(source, parent, key)
        stack: list[tuple[Record, str, Any]] = [(root, "", content)]
        while stack:
            if self._facts > _MAX_FACTS:
                self.cut = True
                return
            record, key, value = stack.pop()
            if is_object(value):
                if (table := columns_of(value)) is not None:
                    home = record if key == "" and record is root else self._record(source, record, key)
                    self._table(home, table, stack)
                    continue
                target = (
                    record if key == "" and record is root and not record.facts else self._record(source, record, key)
                )
                kept = self._kept(value.items(), len(value))
                for place, (raw_name, item) in reversed(list(enumerate(value.items()))):
                    if kept is not None and place not in kept:
                        continue
                    name = str(raw_name)
                    if is_object(item) or is_list(item):
                        stack.append((target, name, item))
                    else:
                        self._leaf(target, name, item, -1)
            elif is_list(value):
                self._list(source, record, key, value, stack)
            else:
                self._leaf(record, key, value, -1)

    def _table(self, record: Record, table: Columns, stack: list[tuple[Record, str, Any]]) -> None:
        """Rows without names beside the names of their columns."""
        rows = self._record(record.source, record, table.key)
        self.count(rows, table.key, len(table.rows))
        for name, value in table.others:
            stack.append((record, name, value))
        for place, row in enumerate(table.rows[:_MAX_ITEMS]):
            if self._facts > _MAX_FACTS:
                self.cut = True
                return
            inner = self._record(record.source, rows, f"[{place}]")
            for at, (name, value) in enumerate(zip(table.names, row, strict=True)):
                if type(value) in _SCALARS:
                    self._leaf(inner, name, value, at)
            inner.by_place = True

    def count(self, record: Record, key: str, length: int) -> None:
        """Note the length of a list or a table."""
        if length > 1:
            self.lengths.setdefault(length, []).append(Fact(record, key, length))

    def _list(
        self, source: Source, record: Record, key: str, items: Sequence[Any], stack: list[tuple[Record, str, Any]]
    ) -> None:
        if len(items) > _MAX_ITEMS:
            self.cut = True
            items = items[:_MAX_ITEMS]
        self.count(record, key, len(items))
        kept = self._kept(enumerate(items), len(items))
        for place, item in enumerate(items):
            if kept is not None and place not in kept:
                continue
            if self._facts > _MAX_FACTS:
                self.cut = True
                return
            if is_object(item):
                inner = self._record(source, record, f"{path_part(key) if key else ''}[{place}]")
                for name, value in item.items():
                    if type(value) not in _SCALARS and (is_object(value) or is_list(value)):
                        stack.append((inner, str(name), value))
                    else:
                        self._leaf(inner, str(name), value, -1)
            elif is_list(item):
                inner = self._record(source, record, f"{path_part(key) if key else ''}[{place}]")
                stack.append((inner, "", item))
            else:
                self._leaf(record, key, item, place)

    def _kept(self, items: Iterable[tuple[Any, Any]], size: int) -> set[int] | None:
        """Positions of the records to read; None for all."""
        if self._relevance is None or size <= _MANY:
            return None
        kept = self._relevance.kept(list(items))
        self.pruned = self.pruned or len(kept) < size
        return kept

    def _leaf(self, record: Record, key: str, value: Any, place: int) -> None:
        if self._facts > _MAX_FACTS:
            self.cut = True
            return
        if value is None or value == "":
            return
        self._facts += 1
        if isinstance(value, str):
            if value[:1] in ("{", "[", "<") and (inner := self._embedded(value)) is not None:
                self._nested += 1
                self._walk(record.source, inner, record, key or f"[{place}]")
                self._nested -= 1
                return
            if len(value) > _SHORT or "\n" in value:
                self._text(record.source, record, fold(value), key)
                return
        fact = Fact(record, key, value, place)
        record.facts.append(fact)
        if isinstance(value, str):
            self._string(fact, value)
        elif value is True or value is False:
            self.flags.append(fact)
        elif isinstance(value, (int, float)) and -_HUGE < value < _HUGE:
            self.numbers.append((abs(float(value)), fact))

    def _embedded(self, text: str) -> Any:
        """JSON written as a text inside of JSON, as tools' text parts often are; None when it is something else."""
        if self._nested >= _MAX_NESTED or text.rstrip()[-1:] not in ("}", "]", ">"):
            return None
        self._parsed += len(text)
        return _parsed(text) if self._parsed <= _MAX_JSON else None

    def _string(self, fact: Fact, value: str) -> None:
        low, form = _form(value)
        self.strings.setdefault(low, []).append(fact)
        if form is None:
            return
        if isinstance(form, _Stamp):
            fact.moment = form.moment
            self.days.setdefault(form.moment.days[0], []).append(fact)
            if form.minute is not None:
                self.minutes.setdefault(form.minute, []).append(fact)
        elif isinstance(form, str):
            self._scan(fact.record, fact.key, form, fact.place, fact)
        else:
            self.numbers.append((abs(form), fact))

    def _scan(self, record: Record, key: str, text: str, place: int, whole: Fact | None) -> None:
        """Dates, times and quantities inside a text."""
        taken = bytearray(len(text))
        for moment in moments.scan(text):
            if self._facts > _MAX_FACTS:
                self.cut = True
                return
            fact = self._part(record, key, text, place, whole)
            fact.moment = moment
            taken[moment.start : moment.end] = b"\1" * (moment.end - moment.start)
            for day in moment.days:
                self.days.setdefault(day, []).append(fact)
            for minute in moment.minutes:
                self.minutes.setdefault(minute, []).append(fact)
            if moment.kind == "date" and len(moment.text) == 4:
                taken[moment.start : moment.end] = b"\0" * 4  # a bare year may also be a number
        for found in quantities.scan(text):
            if any(taken[found.start : found.end]):
                continue
            if self._facts > _MAX_FACTS:
                self.cut = True
                return
            fact = self._part(record, key, text, place, whole)
            fact.quantity = found
            for value in found.values:
                self.numbers.append((abs(value * found.scale), fact))

    def _part(self, record: Record, key: str, text: str, place: int, whole: Fact | None) -> Fact:
        self._facts += 1
        if whole is not None and whole.moment is None and whole.quantity is None:
            return whole
        fact = Fact(record, key, text, place)
        record.facts.append(fact)
        return fact

    def _text(self, source: Source, parent: Record | None, text: str, key: str = "") -> None:
        """Prose by sentence; lines that form a table or `key: value` pairs become records."""
        record = self._record(source, parent, key or "$")
        room = min(_MAX_TEXT, _MAX_TEXTS - self._letters)
        self.cut = self.cut or len(text) > room
        text = text[:room]
        self._letters += len(text)
        rest = read_tables(text, record, self)
        for start, end in sentences(rest):
            if self._facts > _MAX_FACTS:
                self.cut = True
                return
            sentence = rest[start:end]
            inner = self._record(source, record, "", sentence)
            if _HAS_DIGIT(sentence) or quantities.has_words(sentence):
                self._scan(inner, key, sentence, -1, None)

    @property
    def size(self) -> int:
        """Values read."""
        return self._facts

    @property
    def full(self) -> bool:
        """No further value is taken."""
        return self._facts > _MAX_FACTS

    def add_record(self, parent: Record, key: str | int) -> Record:
        """A further record inside `parent`."""
        return self._record(parent.source, parent, key)

    def add_leaf(self, record: Record, key: str, value: Any) -> None:
        """A further value of a record."""
        self._leaf(record, key, value, -1)

    def scales(self, source: Source) -> frozenset[float]:
        """Scales a source declares for its plain numbers, such as `(in thousands)`."""
        known = self._scales.get(id(source))
        if known is None:
            text = self._texts.of(source)
            known = frozenset(scale for scale, pattern in _DECLARED.items() if pattern.search(text))
            self._scales[id(source)] = known
        return known

    def near(self, value: float, tolerance: float) -> list[Fact]:
        """Facts whose absolute value lies within the tolerance."""
        if self._sorted is None:
            self._sorted = [v for v, _ in self.numbers]
        low = bisect_left(self._sorted, abs(value) - tolerance)
        high = bisect_right(self._sorted, abs(value) + tolerance)
        return [fact for _, fact in self.numbers[low : min(high, low + _MOST_PLACES)]]

    def holds(self, text: str) -> int:
        """Offset in the joined text of all sources where this token stands alone, -1 when nowhere."""
        needle = text.lower()
        at = self.blob.find(needle)
        for _ in range(_MOST_PLACES):
            if at < 0:
                break
            end = at + len(needle)
            before = self.blob[at - 1 : at]
            after = self.blob[end : end + 1]
            if not (before.isalnum() and needle[0].isalnum()) and not (after.isalnum() and needle[-1].isalnum()):
                return at
            at = self.blob.find(needle, at + 1)
        return -1
