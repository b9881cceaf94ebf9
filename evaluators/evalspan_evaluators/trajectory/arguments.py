"""Arguments: were the tools called with the arguments they should get?"""

from collections.abc import Mapping
from collections.abc import Sequence as Names
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import is_object, loaded, short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.acceptable import acceptable_differences
from evalspan_evaluators.trajectory.names import listing, shown
from evalspan_evaluators.trajectory.outcome import call_failed
from evalspan_evaluators.trajectory.values import Difference, TextRule, ValueRule, differences, strictly_equal
from evalspan_evaluators.trajectory.verbs import changes_state

__all__ = ["ArgumentMode", "ToolArguments", "Writes"]

ArgumentMode = Literal["exact", "ignore", "subset", "superset"]

_MOST_EVIDENCE = 20
#: Calls an expected call is compared with in search of its partner.
_MOST_MATES = 100


@dataclass(frozen=True, slots=True)
class _Pairing:
    """An expected call and the call that meets it best; `share` 0 to 1 says how well."""

    expected: Mapping[str, Any]
    call: ToolCall | None
    share: float
    differences: tuple[Difference, ...] = ()


@dataclass(slots=True)
class _Pairs:
    """Expected calls and the calls that meet them.

    Attributes:
        met: Calls that meet an expected call in full.
        unmet: Expected calls that none meets in full, each with the best one, in the order expected.
    """

    met: list[ToolCall]
    unmet: list[_Pairing]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallMetric(MetricBase):
    """Shared by the metrics that pair expected calls with calls made."""

    requires: ClassVar[tuple[str, ...]] = ("tools",)
    default_threshold: ClassVar[float | None] = 1.0

    expected: tuple[Mapping[str, Any], ...] | None = None
    mode: ArgumentMode = "exact"
    text: TextRule = "exact"
    tolerance: float = 0.0
    any_order: bool = False
    declared_types: bool = False
    matchers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def __post_init__(self) -> None:
        for key, matcher in self.matchers.items():
            unknown = sorted(set(matcher) - _RULE_FIELDS)
            if unknown:
                known = ", ".join(sorted(_RULE_FIELDS))
                raise ValueError(f"matcher {key!r} has no {unknown[0]!r}: one of {known}")
        for call in self.expected or ():
            _check_call(call)

    def _rule(self, tool: str) -> ValueRule:
        if not self.matchers:
            return _plain_rule(self.text, self.tolerance, self.any_order, self.mode)
        by_path: dict[str, ValueRule] = {}
        for key, matcher in self.matchers.items():
            owner, _, argument = key.rpartition(".") if not key.startswith("$") else ("", "", key)
            if not owner or owner == tool:
                by_path[argument if argument.startswith("$") else f"$.{argument}"] = _rule_of(matcher)
        return replace(_plain_rule(self.text, self.tolerance, self.any_order, self.mode), by_path=by_path)

    def _differences(self, wanted: Mapping[str, Any], call: ToolCall, case: Case) -> list[Difference]:
        if self.mode == "ignore":
            return []
        arguments = loaded(call.arguments)
        acceptable = wanted.get("acceptable")
        if acceptable is not None:
            schema = _schema(call.name, case) if self.declared_types else None
            return acceptable_differences(acceptable, arguments if is_object(arguments) else {}, schema)
        expected: Any = wanted.get("arguments") or {}
        if arguments is None:
            return [Difference("$", expected, None, "ARGUMENTS_NOT_CAPTURED")] if expected else []
        if strictly_equal(expected, arguments):
            return []
        return differences(expected, arguments, self._rule(call.name))

    def _pair(self, expected: Names[Mapping[str, Any]], calls: Names[ToolCall], case: Case) -> _Pairs:
        """Each expected call with the call that meets it: equal calls first, then full matches, then the best."""
        free: dict[str, list[ToolCall]] = {}
        for call in calls:
            name = _dotless(call.name)
            if name in free:
                free[name].append(call)
            else:
                free[name] = [call]
        met: list[ToolCall] = []
        rest: list[int] = []
        for index, wanted in enumerate(expected):
            mates = free.get(_dotless(str(wanted["name"])))
            equal = _pop_equal(mates, wanted.get("arguments")) if mates else None
            if equal is None:
                rest.append(index)
            else:
                met.append(equal)
        return self._pair_rest(expected, rest, free, case, met) if rest else _Pairs(met, [])

    def _pair_rest(
        self,
        expected: Names[Mapping[str, Any]],
        rest: Names[int],
        free: Mapping[str, list[ToolCall]],
        case: Case,
        met: list[ToolCall],
    ) -> _Pairs:
        """The expected calls at these places, none of which has an equal call, among the calls still free."""
        found: dict[int, _Pairing] = {}
        known: dict[tuple[int, int], list[Difference]] = {}
        for full in (True, False):
            for index in rest:
                if index not in found:
                    mates = free.get(_dotless(str(expected[index]["name"])), [])
                    pairing = self._best(index, expected[index], mates, case, known)
                    if pairing.share >= 1.0 or not full:
                        found[index] = pairing
                        if pairing.call is not None:
                            mates.remove(pairing.call)
        pairings = [found[index] for index in rest]
        met.extend(pair.call for pair in pairings if pair.call is not None and pair.share >= 1.0)
        return _Pairs(met, [pair for pair in pairings if pair.share < 1.0])

    def _best(
        self,
        index: int,
        wanted: Mapping[str, Any],
        mates: Names[ToolCall],
        case: Case,
        known: dict[tuple[int, int], list[Difference]],
    ) -> _Pairing:
        """The call that meets the expected one best, each pair compared once."""
        best = _Pairing(wanted, None, 0.0)
        for call in mates[:_MOST_MATES]:
            gaps = known.get((index, id(call)))
            if gaps is None:
                gaps = known[index, id(call)] = self._differences(wanted, call, case)
            share = _share(wanted, call, gaps)
            if best.call is None or share > best.share:
                best = _Pairing(wanted, call, share, tuple(gaps))
            if share >= 1.0:
                break
        return best

    def _expected_calls(self, case: Case) -> tuple[Mapping[str, Any], ...] | None:
        if self.expected is not None:
            return self.expected  # checked when the metric was made
        for call in case.expected.calls or ():
            if "name" not in call:
                _check_call(call)
        return case.expected.calls


def _pop_equal(mates: list[ToolCall], arguments: Any) -> ToolCall | None:
    """Take out the first call with exactly these arguments; None when the first equal one differs in kinds."""
    if arguments is None:
        return None
    for index, call in enumerate(mates):
        if call.arguments == arguments:
            return mates.pop(index) if strictly_equal(arguments, call.arguments) else None
    return None


@lru_cache(maxsize=64)
def _plain_rule(text: TextRule, tolerance: float, any_order: bool, mode: ArgumentMode) -> ValueRule:  # noqa: FBT001  cached
    return ValueRule(
        text=text, tolerance=tolerance, any_order=any_order, extra=mode == "superset", missing=mode == "subset"
    )


def _rule_of(matcher: Mapping[str, Any]) -> ValueRule:
    return ValueRule(**matcher)


_RULE_FIELDS = frozenset(f.name for f in fields(ValueRule)) - {"by_path"}


def _check_call(call: Mapping[str, Any]) -> None:
    if "name" not in call:
        raise ValueError(f"expected call {short(dict(call))} has no name")


def _dotless(name: str) -> str:
    # Some model APIs allow no dots in tool names, so clients send `math.sqrt` as `math_sqrt`.
    return name.replace(".", "_")


def _schema(tool: str, case: Case) -> Mapping[str, Any] | None:
    for definition in case.tool_definitions or ():
        if _dotless(definition.name) == _dotless(tool):
            return definition.parameters
    return None


def _share(wanted: Mapping[str, Any], call: ToolCall, gaps: Names[Difference]) -> float:
    """Share of the arguments (expected or sent) that are as expected; below 1 whenever there is a gap."""
    if not gaps:
        return 1.0
    expected: Mapping[str, Any] = wanted.get("acceptable") or wanted.get("arguments") or {}
    names = set(expected)
    sent = loaded(call.arguments)
    if is_object(sent):
        names |= set(sent)
    wrong = {gap.path.split(".")[1].split("[")[0] if "." in gap.path else gap.path for gap in gaps}
    total = max(len(names), len(wrong), 1)
    return (total - len(wrong)) / total


def _gap_evidence(pairing: _Pairing) -> list[Evidence]:
    name = str(pairing.expected["name"])
    call = pairing.call
    if call is None:
        wanted = pairing.expected.get("arguments", pairing.expected.get("acceptable"))
        return [
            Evidence(
                verdict="mismatch",
                claim=f"{shown(name)}({short(wanted, 200)})",
                source="expected",
                expected=short(wanted, 200),
                code="CALL_MISSING",
                note=f"no call of '{shown(name)}' is left that could be this one",
            )
        ]
    return [
        Evidence(
            verdict="mismatch",
            claim=f"{shown(name)} {gap.path}",
            value=None if gap.actual is None else short(gap.actual),
            expected=None if gap.expected is None else short(gap.expected),
            source="tool_arguments",
            tool=call.name,
            span_id=call.span_id,
            path=gap.path,
            code=gap.code,
        )
        for gap in pairing.differences[:5]
    ]


def _gap_text(pairing: _Pairing) -> str:
    name = shown(str(pairing.expected["name"]))
    if pairing.call is None:
        return f"'{name}' was not called as expected"
    gap = pairing.differences[0]
    if gap.code == "ARGUMENT_MISSING":
        return f"'{name}' lacks {gap.path} (expected {short(gap.expected)})"
    if gap.code == "ARGUMENT_UNEXPECTED":
        return f"'{name}' got {gap.path} = {short(gap.actual)}, which is not expected"
    return f"'{name}' {gap.path} is {short(gap.actual)}, expected {short(gap.expected)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolArguments(_CallMetric):
    """Expected calls with their arguments: the mean over the expected calls of the share of right arguments.

    An expected call is `{"name": ..., "arguments": {...}}`, or `{"name": ..., "acceptable": {argument: [values]}}`
    with several acceptable values each. A value may be an operator (see `differences`).

    Attributes:
        expected: Expected calls; None takes the case's `expected.calls`.
        mode: `exact` all arguments and no others; `superset` further arguments are free; `subset` arguments may be
            missing; `ignore` only the names count.
        text: How texts are compared: `exact`, `caseless`, `loose` (as the Berkeley leaderboard does).
        tolerance: Largest absolute difference of two numbers.
        any_order: Compare arrays as multisets.
        declared_types: Acceptable values also need the type the tool's definition declares.
        matchers: A rule of its own for an argument (`amount`), a tool's argument (`refund.amount`) or a JSON path
            (`$.items[*].price`): any of text, tolerance, relative, any_order, extra, missing, ignore.
        extra_calls: Whether calls nobody expected cost: `ignore`, or `fail` (they enter the mean as 0).
    """

    name: ClassVar[str] = "tool_arguments"

    extra_calls: Literal["ignore", "fail"] = "ignore"

    def evaluate(self, case: Case) -> Score:
        """Pair the expected calls with the calls made and compare the arguments."""
        expected = self._expected_calls(case)
        if expected is None:
            return self.skip("no calls are expected: set the parameter expected or the case's expected.calls")
        calls = case.tools or ()
        pairs = self._pair(expected, calls, case)
        bad, full = pairs.unmet, len(pairs.met)
        extra = len(calls) - full - sum(1 for pair in bad if pair.call is not None)
        total = len(expected) + (extra if self.extra_calls == "fail" else 0)
        if not total:
            return self.skip("no calls are expected and none was made")
        value = (full + sum(pair.share for pair in bad)) / total
        reason = f"{full}/{len(expected)} expected calls made with the right arguments"
        if bad:
            reason += f": {_gap_text(bad[0])}"
        if extra and self.extra_calls == "fail":
            reason += f"; {extra} calls are not expected"
        evidence = tuple(item for pair in bad for item in _gap_evidence(pair))[:_MOST_EVIDENCE]
        measures = (("calls_matched", full / len(expected) if expected else 1.0), ("further_calls", float(extra)))
        return self.score(value, reason, evidence=evidence, extra=measures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes(_CallMetric):
    """The state-changing calls, in any order, arguments included; reads are free.

    Of all ways to match calls this predicts success best: what counts is what the agent did to the world. The value
    is F1 over the multisets of calls, with a failed call (it changed nothing) left out; 1.0 also when nothing should
    be written and nothing was.

    Attributes:
        expected: Expected calls; None takes the case's `expected.calls`. Reads among them are left out.
        tools: Names of the state-changing tools; None tells them by their verb.
        mode: As of `tool_arguments`.
        text: As of `tool_arguments`.
        tolerance: Largest absolute difference of two numbers.
        any_order: Compare arrays as multisets.
        declared_types: As of `tool_arguments`.
        matchers: As of `tool_arguments`.
    """

    name: ClassVar[str] = "writes"

    tools: tuple[str, ...] | None = None

    def evaluate(self, case: Case) -> Score:
        """Compare the multisets of state-changing calls."""
        given = self._expected_calls(case)
        if given is None:
            return self.skip("no calls are expected: set the parameter expected or the case's expected.calls")
        writes = changes_state if self.tools is None else self.tools.__contains__
        expected = [call for call in given if writes(str(call["name"]))]
        made = [call for call in case.tools or () if writes(call.name) and not call_failed(call)]
        if not expected and not made:
            return self.score(1.0, "nothing was to be changed and nothing was")
        pairs = self._pair(expected, made, case)
        value = 2 * len(pairs.met) / (len(expected) + len(made))
        reason = f"{len(pairs.met)}/{len(expected)} expected changes made"
        if not pairs.unmet and len(pairs.met) == len(made):
            return self.score(value, reason)
        matched = {id(call) for call in pairs.met}
        further = [call for call in made if id(call) not in matched]
        evidence = [item for pair in pairs.unmet for item in _gap_evidence(pair)]
        evidence.extend(
            Evidence(
                verdict="mismatch",
                claim=f"{shown(call.name)}({short(call.arguments, 200)})",
                value=short(call.arguments, 200),
                source="tool_arguments",
                tool=call.name,
                span_id=call.span_id,
                code="WRITE_UNEXPECTED",
            )
            for call in further
        )
        if further:
            reason += f"; changes nobody expected: {listing(call.name for call in further)}"
        if pairs.unmet:
            reason += f"; {_gap_text(pairs.unmet[0])}"
        return self.score(value, reason, evidence=tuple(evidence[:_MOST_EVIDENCE]))
