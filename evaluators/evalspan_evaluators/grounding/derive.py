"""Derive: sums, differences, ratios, percent changes, averages and counts that lead to a number, with the formula."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import key_stems
from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.hint import Hints
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.reach import may_reach
from evalspan_evaluators.grounding.text import STOP_WORDS, kept_if_short, key_words, stem, words
from evalspan_evaluators.grounding.unit import convert, dimension, measure
from evalspan_evaluators.grounding.unit import units as units_of

__all__ = ["Derivation", "derive"]

#: Words of a sentence that speaks of two of several values.
_SOME = frozenset(
    ("two", "both", "and", "between", "beide", "beiden", "zwei", "und", "deux", "et", "dos", "y", "dois", "duas", "e")
)
_DOLLARS = frozenset(["USD", "CAD", "AUD", "NZD", "SGD", "HKD", "MXN"])
_MAX_GROUP = 40
_MAX_ROWS = 60
_FEW_MEASURES = 12
_FEW_RECORDS = 3
_MAX_OWN = 30
_MAX_CELL = 80
_MAX_COLUMN = 500
_FEW_ROWS = 6
_MAX_TRIES = 6000


@dataclass(frozen=True, slots=True)
class Derivation:
    """A formula over values of the sources, and one of them."""

    formula: str
    fact: Fact | None


class _Target:
    """The value looked for, in every reading, with its rounding."""

    def __init__(self, q: Quantity, *, plain: bool = True) -> None:
        self.percent = q.percent
        self.long = len(q.digits.replace(",", "").replace(".", "")) >= 5
        self.scaled = q.scale != 1 or q.currency is not None
        self.values: list[tuple[float, float]] = []
        for position, value in enumerate(q.values):
            step = 0.5 * 10.0**-q.decimals if position == 0 else 0.0005
            if plain or q.scale == 1:
                self.values.append((abs(value), step))
            if q.scale != 1:
                self.values.append((abs(value) * q.scale, step * q.scale))

        # Every reading lies between these.
        self.low = min(v - 1.02 * step - 1e-9 * v for v, step in self.values) if self.values else 1.0
        self.high = max(v + 1.02 * step + 1e-9 * v for v, step in self.values) if self.values else 0.0

    def hit(self, value: float) -> bool:
        value = abs(value)
        return any(abs(value - target) <= step * 1.02 + 1e-9 * target for target, step in self.values)


def _text(value: float) -> str:
    return f"{value:.10g}"


def _pairs(target: _Target, a: float, b: float, hints: Hints) -> str | None:
    """The first operation on two numbers that gives the target."""
    if not _may_pair(target, a, b, hints):
        return None
    steps = _percent_steps if target.percent else _plain_steps
    return next((formula for value, formula in steps(target, a, b, hints) if target.hit(value)), None)


def _may_pair(target: _Target, a: float, b: float, hints: Hints) -> bool:
    """Whether any operation gives the target; as cheap as can be, for it is asked for thousands of pairs."""
    found: list[float] = []
    if hints.difference:
        found.append(a - b)
    if hints.total or hints.average:
        found += (a + b, (a + b) / 2)
    if target.percent:
        if b:
            found += ((a - b) / b * 100, a / b * 100)
        if a:
            found += ((b - a) / a * 100, b / a * 100)
    else:
        if hints.priced:
            found.append(a * b)
        if hints.ratio and a and b:
            found += (a / b, b / a)
    low, high = target.low, target.high
    return any(low <= value <= high or -high <= value <= -low for value in found)


def _percent_steps(target: _Target, a: float, b: float, hints: Hints) -> Iterator[tuple[float, str]]:
    for x, y in ((a, b), (b, a)):
        if y:
            if hints.difference and not hints.share:
                yield (x - y) / abs(y) * 100, f"({_text(x)} - {_text(y)}) / {_text(y)}"
            if hints.ratio:
                yield x / y * 100, f"{_text(x)} / {_text(y)}"
    if hints.difference:
        yield a - b, f"{_text(a)} - {_text(b)} percentage points"
    yield from _sums(target, a, b, hints)


def _plain_steps(target: _Target, a: float, b: float, hints: Hints) -> Iterator[tuple[float, str]]:
    if hints.difference:
        yield a - b, f"{_text(max(a, b))} - {_text(min(a, b))}"
    yield from _sums(target, a, b, hints)
    if hints.priced and target.long and abs(a) != 1 and abs(b) != 1:
        yield a * b, f"{_text(a)} * {_text(b)}"
    if hints.ratio and (not target.scaled or "per" in hints.words):
        for x, y in ((a, b), (b, a)):
            if y and abs(x) != abs(y) and y != 1:
                yield x / y, f"{_text(x)} / {_text(y)}"


def _sums(target: _Target, a: float, b: float, hints: Hints) -> Iterator[tuple[float, str]]:
    if hints.average and (target.long or not _SOME.isdisjoint(hints.words)):
        yield (a + b) / 2, f"({_text(a)} + {_text(b)}) / 2"
    if hints.total:
        yield a + b, f"{_text(a)} + {_text(b)}"


def _several(target: _Target, values: Sequence[float], hints: Hints) -> str | None:
    """Sum or average of a whole group."""
    if len(values) < 2:
        return None
    total = sum(values)
    if (hints.total or hints.difference) and target.hit(total):
        return _shown(values)
    if hints.total and min(values) < 0 < max(values):
        # Payments and receipts are told apart.
        for some in ([v for v in values if v < 0], [v for v in values if v > 0]):
            if len(some) > 1 and target.hit(sum(some)):
                return _shown(some)
    if hints.share and target.percent and total:
        # `65% of the total`: one value of the sum of all.
        part = next((v for v in values if target.hit(v / total * 100)), None)
        return f"{_text(part)} / ({_shown(values)})" if part is not None else None
    if hints.average and target.hit(total / len(values)):
        return f"({_shown(values)}) / {len(values)}"
    return None


def _shown(values: Sequence[float]) -> str:
    return " + ".join(_text(v) for v in values[:6]) + (" + ..." if len(values) > 6 else "")


def derive(claim: Claim, hints: Hints, index: Index, others: Sequence[Claim]) -> Derivation | None:
    """A small formula that gives the claimed number: over the answer's other numbers, one record, or one column.

    Bounded: rows the words name first, at most a few thousand tries.
    """
    if claim.quantity is None:
        return None
    target = _Target(claim.quantity)
    found = _from_answer(claim, target, hints, others)
    if found is not None:
        return Derivation(found, None)
    if not (hints.total or hints.difference or hints.average or hints.ratio or target.percent):
        return None
    # A plain table number may stand for thousands only where its source says so.
    strict = _Target(claim.quantity, plain=False)
    scale = claim.quantity.scale
    if hints.words not in index.groups:
        index.groups[hints.words] = list(_groups(index, hints))
    per = hints.ratio and "per" in hints.words
    kind = "" if claim.kind == "duration" or per else measure((claim.quantity.unit,))
    tries = _MAX_TRIES
    for group in index.groups[hints.words]:
        if claim.quantity.currency is not None:
            group = [f for f in group if _may_be_in(claim.quantity.currency, f)]  # noqa: PLW2901  # without the others
        values = _values(group, timed=claim.kind == "duration", kind=kind)
        if values and tries > 0:
            plain = scale == 1 or scale in index.scales(group[0].record.source)
            derived = _from_group(target if plain else strict, values, hints)
            tries -= len(values) * (len(values) - 1) // 2
            if derived is not None:
                return derived
    return None


def _may_be_in(currency: str, fact: Fact) -> bool:
    """Whether an amount may be in a currency; `$` is that of many countries."""
    own = fact.quantity.currency if fact.quantity is not None else None
    return own is None or own == currency or ("USD" in (own, currency) and {own, currency} <= _DOLLARS)


def _values(group: list[Fact], *, timed: bool, kind: str) -> list[tuple[float, Fact]]:
    if kind:
        # Degrees are no difference of heart beats.
        group = [f for f in group if measure((f.quantity.unit if f.quantity else "", *key_stems(f.key))) in ("", kind)]
    if timed:
        group = [f for f in group if f.quantity is not None and dimension(f.quantity.unit) == "time"]
    return [(v, f) for f in group if (v := number_of(f)) is not None]


def _from_group(target: _Target, values: list[tuple[float, Fact]], hints: Hints) -> Derivation | None:
    numbers = [v for v, _ in values]
    formula = _several(target, numbers, hints)
    if formula:
        return Derivation(formula, values[0][1])
    if not may_reach(
        numbers,
        target.low,
        target.high,
        difference=hints.difference,
        total=hints.total or hints.average,
        product=hints.priced and not target.percent,
        ratio=hints.ratio and not target.percent,
        percent=target.percent,
    ):
        return None
    for (a, fact), (b, _) in combinations(values, 2):
        formula = _pairs(target, a, b, hints)
        if formula:
            return Derivation(formula, fact)
    return None


def _from_answer(claim: Claim, target: _Target, hints: Hints, others: Sequence[Claim]) -> str | None:
    """The answer's own arithmetic: `725 - 503 = 222`, `2 bags for each of 2 passengers`."""
    own = claim.quantity
    assert own is not None
    numbers = [c.quantity for c in others if c.quantity is not None and c is not claim][:_MAX_OWN]
    for qa, qb in combinations(numbers, 2):
        formula = _share_of(target, qa, qb) if qa.percent != qb.percent and not own.percent else None
        if formula is None and (qa.percent == qb.percent or own.percent):
            formula = _pairs(target, qa.value, qb.value, hints) or _product(target, qa.value, qb.value, hints)
        if formula:
            return formula
    money = [
        q.value
        for q in numbers
        if (q.currency is not None) == (own.currency is not None) and q.value < abs(own.value) * 1.0001
    ]
    return _sum_of_some(target, money[-8:]) if hints.total and 2 < len(money) <= 12 else None


def _share_of(target: _Target, qa: Quantity, qb: Quantity) -> str | None:
    part, base = (qa, qb.value) if qa.percent else (qb, qa.value)
    return f"{part.text} of {_text(base)}" if target.hit(part.value / 100 * base) else None


def _product(target: _Target, a: float, b: float, hints: Hints) -> str | None:
    if target.percent or not hints.each or 1 in (a, b) or not target.hit(a * b):
        return None
    return f"{_text(a)} * {_text(b)}"


def _sum_of_some(target: _Target, values: list[float]) -> str | None:
    for size in {3, 4, len(values)}:
        for group in combinations(values, min(size, len(values))):
            if target.hit(sum(group)):
                return " + ".join(map(_text, group))
    return None


def _groups(index: Index, hints: Hints) -> Iterator[list[Fact]]:
    """Numbers that may be calculated with: of one record, then of one key over sibling records."""
    if index.grid is None:
        index.grid = _grid(index)
    rows, columns = index.grid
    overlap = _Overlap(index, hints.words)
    named = [(n, group) for group in rows if len(group) > 1 and (n := overlap.of(group[0].record))]
    if len(rows) <= _FEW_RECORDS:  # of so few records an answer speaks without naming them
        known = {id(group) for _, group in named}
        named += [(0, group) for group in rows if len(group) > 1 and id(group) not in known]
    named.sort(key=lambda pair: -pair[0])
    if hints.share:
        yield from _across(rows, overlap)
    for _, group in named[:_MAX_ROWS]:
        yield _in_order(group)[:_MAX_GROUP]
    if hints.difference:
        yield from _of_one_measure(rows, overlap)
    yield from (list(dict.fromkeys(column))[:_MAX_GROUP] for column in _related_columns(columns, overlap))


def _across(rows: Iterable[list[Fact]], overlap: "_Overlap") -> Iterator[list[Fact]]:
    """Numbers of one result that the words name by their key or the name of their object, outside of lists."""
    results: dict[int, list[Fact]] = {}
    for group in rows:
        record = group[0].record
        if record.prose is None and not any(map(_is_row, record.chain())):
            around = overlap.key(record.named_key) if record.parent is not None else 0
            results.setdefault(id(record.source), []).extend(f for f in group if around or overlap.key(f.key))
    yield from (group for group in results.values() if 2 <= len(group) <= _MAX_GROUP)


def _of_one_measure(rows: Iterable[list[Fact]], overlap: "_Overlap") -> Iterator[list[Fact]]:
    """Measures of one unit in the texts that the words speak of: `120 metres taller`."""
    units: dict[str, list[Fact]] = {}
    for group in rows:
        if overlap.of(group[0].record):
            for fact in group:
                if fact.quantity is not None and (kind := dimension(fact.quantity.unit)):
                    units.setdefault(f"{kind} {convert(1.0, fact.quantity.unit, units_of(kind)[0]):g}", []).append(fact)
    yield from (group for group in units.values() if 2 <= len(group) <= _FEW_MEASURES)


def _is_row(record: Record) -> bool:
    """Whether a record is one of several of a list."""
    return str(record.key)[:1] in ".[" and record.parent is not None and len(record.parent.children) > 1


def _grid(index: Index) -> tuple[list[list[Fact]], list[list[Fact]]]:
    """The numbers of the sources by record, and by key over sibling records."""
    rows: dict[int, list[Fact]] = {}
    columns: dict[tuple[int, str], list[Fact]] = {}
    for _, fact in index.numbers:
        record = fact.record
        if record.source.kind in ("system_prompt", "user") and record.prose is not None:
            continue
        rows.setdefault(id(record), []).append(fact)
        if record.prose is None:
            home = record.parent
            if home is not None and not fact.key and home.parent is not None:
                home = home.parent
            columns.setdefault((id(home) if home is not None else id(record), fact.key), []).append(fact)
            if home is not None and record.children:  # a total beside the list that it is of
                columns.setdefault((id(record), fact.key), []).append(fact)
    return list(rows.values()), list(columns.values())


def _in_order(group: list[Fact]) -> list[Fact]:
    order = {id(f): i for i, f in enumerate(group[0].record.facts)}
    return sorted(dict.fromkeys(group), key=lambda f: order.get(id(f), 0))


class _Overlap:
    """How many of the wanted words each record holds, counted over unique strings once."""

    def __init__(self, index: Index, wanted: frozenset[str]) -> None:
        self.stems = frozenset(stem(w.removesuffix("'s")) for w in wanted if w not in STOP_WORDS)
        self._keys: dict[str, int] = {}
        self._records: dict[int, int] = {}
        self._found: dict[int, int] = {}
        for text, facts in index.strings.items():
            if len(text) < _MAX_CELL and (count := len(self.stems.intersection(_text_stems(text)))):
                for fact in facts:
                    self._records[id(fact.record)] = self._records.get(id(fact.record), 0) + count

    def of(self, record: Record) -> int:
        """The number of wanted words in a record's values and keys, or in a sentence."""
        found = self._found.get(id(record))
        if found is None:
            found = self._found[id(record)] = self._of(record)
        return found

    def _of(self, record: Record) -> int:
        if record.prose is not None:
            return len(self.stems.intersection(_text_stems(record.prose)))
        found = self._records.get(id(record), 0) + self.key(record.named_key)
        counts = self._keys
        for fact in record.facts[:30]:
            found += counts[fact.key] if fact.key in counts else self.key(fact.key)
        return found

    def key(self, key: str) -> int:
        """The number of wanted words in a key."""
        count = self._keys.get(key)
        if count is None:
            count = self._keys[key] = len(self.stems.intersection(stem(w) for w in key_words(key)))
        return count


@kept_if_short(8192)
def _text_stems(text: str) -> frozenset[str]:
    return frozenset(stem(w) for w in words(text))


def _related_columns(columns: Iterable[list[Fact]], overlap: _Overlap) -> Iterator[list[Fact]]:
    """Whole columns, then columns cut to the rows the words name."""
    for column in columns:
        if len(column) < 2:
            continue
        yield column
        if len(column) > _FEW_ROWS:
            best = sorted(
                ((overlap.of(f.record), i, f) for i, f in enumerate(column[:_MAX_COLUMN])), key=lambda t: (-t[0], t[1])
            )
            if best[0][0]:
                yield [f for _, _, f in best[:_FEW_ROWS]]
