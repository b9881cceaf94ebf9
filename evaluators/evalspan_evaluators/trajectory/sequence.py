"""Sequence: did the agent call its tools in the expected order?"""

from collections.abc import Sequence as Names
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.comparison import Comparison, compare, surplus
from evalspan_evaluators.trajectory.names import listing, near_name, shown

__all__ = ["Sequence", "SequenceMode"]

SequenceMode = Literal["exact", "subsequence", "unordered", "superset", "subset", "multiset"]

#: Most differences named as evidence; the counts in the reason are complete.
_MOST_EVIDENCE = 20
#: Modes in which a call nobody expected costs.
_STRICT = frozenset({"exact", "subset", "multiset"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence(MetricBase):
    """Tool names against an expected sequence; 1.0 is what the mode demands, less tells how much agrees.

    | mode | 1.0 when | value |
    |---|---|---|
    | exact | the same names at the same places | equal places / longer length |
    | subsequence | the expected names appear in order, others between them are free | found in order / expected |
    | unordered | every expected name was called as often as expected, others are free | shared / expected |
    | superset | the same as unordered, under the name other tools use | shared / expected |
    | subset | nothing was called beyond the expected names | shared / actual |
    | multiset | the same names equally often, in any order | shared / longer length |

    `extra` carries the other measures side by side: `progress` (equal places, names found in order, or shared
    names, over the expected length), `prefix`, `lcs` (longest common subsequence over the expected length),
    `lcs_f1`, and `precision`, `recall`, `f1` of the multisets.

    Attributes:
        expected: Tool names in order; None takes the case's `expected.sequence`.
        mode: One of the six above.
    """

    name: ClassVar[str] = "sequence"
    requires: ClassVar[tuple[str, ...]] = ("tools",)
    default_threshold: ClassVar[float | None] = 1.0

    expected: tuple[str, ...] | None = None
    mode: SequenceMode = "subsequence"

    def __post_init__(self) -> None:
        if self.mode not in get_args(SequenceMode):
            raise ValueError(f"mode {self.mode!r} is unknown: one of {', '.join(get_args(SequenceMode))}")

    def evaluate(self, case: Case) -> Score:
        """Compare the names of the case's tool calls with the expected ones."""
        expected = case.expected.sequence if self.expected is None else self.expected
        if expected is None:
            return self.skip("no sequence is expected: set the parameter expected or the case's expected.sequence")
        calls = case.tools or ()
        actual = [call.name for call in calls]
        parts = compare(tuple(expected), actual)
        value, progress = _value(self.mode, parts)
        extra = _measures(parts, progress)
        if value >= 1.0:
            return self.score(1.0, _good_reason(self.mode, expected, actual, parts), extra=extra)
        gap = _Gap(self.mode, expected, calls, actual, parts)
        evidence = gap.evidence()
        return self.score(value, gap.reason(evidence), evidence=evidence, extra=extra, label=gap.code)


def _value(mode: SequenceMode, parts: Comparison) -> tuple[float, float]:
    """The mode's value and the progress over the expected length, both 0 to 1."""
    if mode == "exact":
        longer = max(parts.expected, parts.actual)
        return (parts.positions / longer if longer else 1.0), _share(parts.positions, parts.expected)
    if mode == "subsequence":
        progress = _share(parts.prefix, parts.expected)
        return progress, progress
    progress = _share(parts.shared, parts.expected)
    if mode == "subset":
        return _share(parts.shared, parts.actual), progress
    if mode == "multiset":
        return _share(parts.shared, max(parts.expected, parts.actual)), progress
    return progress, progress


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _measures(parts: Comparison, progress: float) -> tuple[tuple[str, float], ...]:
    both = parts.expected + parts.actual
    return (
        ("progress", progress),
        ("prefix", _share(parts.prefix, parts.expected)),
        ("lcs", _share(parts.lcs, parts.expected)),
        ("lcs_f1", _share(2 * parts.lcs, both)),
        ("precision", _share(parts.shared, parts.actual)),
        ("recall", _share(parts.shared, parts.expected)),
        ("f1", _share(2 * parts.shared, both)),
    )


def _good_reason(mode: SequenceMode, expected: Names[str], actual: Names[str], parts: Comparison) -> str:
    if not expected:
        return "no tool call is expected" + (f", {len(actual)} made" if actual else " and none was made")
    if mode == "subset":
        return f"nothing beyond the expected tools was called: {listing(actual)}"
    order = " in order" if mode in ("exact", "subsequence") else ""
    extra = parts.actual - (parts.prefix if mode == "subsequence" else parts.shared)
    beside = f", {extra} other call{'s' if extra > 1 else ''} beside them" if extra else ""
    return f"all {len(expected)} expected tool calls were made{order}{beside}"


@dataclass(slots=True)
class _Gap:
    """What separates the calls made from the calls expected."""

    mode: SequenceMode
    expected: Names[str]
    calls: Names[ToolCall]
    actual: Names[str]
    parts: Comparison
    missing: list[str] = field(init=False)
    extra: list[str] = field(init=False)
    wanted_text: str = field(init=False)
    called_text: str = field(init=False)

    def __post_init__(self) -> None:
        shared = self.parts.shared  # the multiset differences are empty where everything is shared
        self.missing = surplus(self.expected, self.actual) if shared < self.parts.expected else []
        self.extra = surplus(self.actual, self.expected) if shared < self.parts.actual else []
        self.wanted_text = listing(self.expected)
        self.called_text = listing(self.actual)

    @property
    def code(self) -> str:
        """The reason code of the whole difference."""
        if self.mode == "exact" and len(self.expected) != len(self.actual):
            return "SEQUENCE_LENGTH_MISMATCH"
        if self.missing and self.mode != "subset":
            return "SEQUENCE_MISSING_TOOLS"
        if self.extra and self.mode in _STRICT:
            return "TOOL_UNEXPECTED"
        return "SEQUENCE_ORDER_VIOLATION"

    def reason(self, evidence: Names[Evidence]) -> str:
        """One sentence: what is missing, what is too many, where it first differs, and a remedy if one is near."""
        pieces: list[str] = []
        if self.missing and self.mode != "subset":
            pieces.append(f"missing tool{_s(self.missing)} {listing(self.missing)}")
        if self.extra and self.mode in _STRICT:
            pieces.append(f"extra tool{_s(self.extra)} {listing(self.extra)}")
        if self.mode == "exact":
            pieces.append(self._first_difference())
        elif self.mode == "subsequence":
            pieces.append(self._first_gap())
        hint = next((f"; {e.note}" for e in evidence if e.code == "TOOL_NAME_MISMATCH"), "")
        return f"{'; '.join(pieces)}. Expected {self.wanted_text}, called {self.called_text}{hint}"

    def _first_difference(self) -> str:
        pairs = enumerate(zip(self.expected, self.actual, strict=False))
        at = next((i for i, (e, a) in pairs if e != a), min(len(self.expected), len(self.actual)))
        wanted = f"'{shown(self.expected[at])}'" if at < len(self.expected) else "no further call"
        got = f"'{shown(self.actual[at])}'" if at < len(self.actual) else "no further call"
        return f"first difference at call {at + 1}: expected {wanted}, got {got}"

    def _first_gap(self) -> str:
        found = self.parts.prefix
        name = self.expected[found]
        after = f"after '{shown(self.expected[found - 1])}'" if found else "at the start"
        if name not in self.actual:
            return f"first difference: '{shown(name)}' expected {after}, never called"
        if name in self.missing:
            return f"first difference: '{shown(name)}' expected {after}, called too few times"
        return f"wrong order: '{shown(name)}' expected {after}, but it was only called before"

    def evidence(self) -> tuple[Evidence, ...]:
        """Each difference with its reason code and remedy."""
        found = [] if self.mode == "subset" else [self._missing(name) for name in self.missing[:_MOST_EVIDENCE]]
        code = self.code
        if self.mode in _STRICT:
            found.extend(self._unexpected()[: _MOST_EVIDENCE - len(found)])
        if code == "SEQUENCE_LENGTH_MISMATCH":
            found.append(
                Evidence(
                    verdict="mismatch",
                    claim="number of calls",
                    value=str(len(self.actual)),
                    expected=str(len(self.expected)),
                    code="SEQUENCE_LENGTH_MISMATCH",
                )
            )
        if code == "SEQUENCE_ORDER_VIOLATION":
            found.append(
                Evidence(
                    verdict="mismatch",
                    claim=self.wanted_text,
                    value=self.called_text,
                    expected=self.wanted_text,
                    code="SEQUENCE_ORDER_VIOLATION",
                    note="the tools were called in another order; mode unordered ignores the order",
                )
            )
        return tuple(found)

    def _missing(self, name: str) -> Evidence:
        near = near_name(name, self.extra) if self.extra else None
        if near:
            note = f"'{shown(near)}' was called: is it the same tool? Then change the expected name"
        else:
            note = f"let the agent call '{shown(name)}', or drop it from the expected sequence"
        return Evidence(
            verdict="mismatch",
            claim=name,
            source="expected",
            value=near,
            expected=name,
            code="TOOL_NAME_MISMATCH" if near else "TOOL_MISSING",
            note=note,
        )

    def _unexpected(self) -> list[Evidence]:
        over = list(self.extra)
        found: list[Evidence] = []
        for call in reversed(self.calls):
            # The multiset difference keeps the last calls of a name, so walk backwards.
            if over and call.name == over[-1]:
                over.pop()
                found.append(
                    Evidence(
                        verdict="mismatch",
                        claim=call.name,
                        value=call.name,
                        tool=call.name,
                        span_id=call.span_id,
                        code="TOOL_UNEXPECTED",
                        note="mode subsequence or unordered lets other tools run beside the expected ones",
                    )
                )
        return found[::-1]


def _s(names: Names[str]) -> str:
    return "s" if len(names) > 1 else ""
