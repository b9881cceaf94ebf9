"""Behaviour: loops, stalls, blind retries and redundant calls, told from the calls alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.names import listing, shown
from evalspan_evaluators.trajectory.outcome import call_failed, failure_text, fingerprint
from evalspan_evaluators.trajectory.verbs import changes_state

__all__ = ["IdenticalRetries", "Loops", "RedundantCalls", "Stalls", "ToolErrors"]

_MOST_EVIDENCE = 20


def _evidence(call: ToolCall, code: str, note: str) -> Evidence:
    return Evidence(
        verdict="mismatch",
        claim=f"{shown(call.name)}({short(call.arguments, 200)})" if call.arguments is not None else shown(call.name),
        tool=call.name,
        span_id=call.span_id,
        code=code,
        note=note,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Behaviour(MetricBase):
    requires: ClassVar[tuple[str, ...]] = ("tools",)
    default_threshold: ClassVar[float | None] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops(_Behaviour):
    """Share of the calls that are not part of a loop.

    A loop is the same call (tool and arguments) `min_repeats` times in a row, or a cycle of up to `max_period`
    different calls repeated as often.

    Attributes:
        min_repeats: Repetitions that make a loop.
        max_period: Longest cycle that is looked for.
    """

    name: ClassVar[str] = "loops"

    min_repeats: int = 3
    max_period: int = 4

    def __post_init__(self) -> None:
        if self.min_repeats < 2 or not 1 <= self.max_period <= 20:
            raise ValueError(
                f"min_repeats {self.min_repeats!r} must be at least 2 and max_period {self.max_period!r} from 1 to 20"
            )

    def evaluate(self, case: Case) -> Score:
        """Look for repetitions of every period, the shortest first."""
        calls = case.tools or ()
        if not calls:
            return self.skip("no tool was called")
        prints = [fingerprint(call) for call in calls]
        found = self._loops(prints) if len(set(prints)) < len(prints) else []
        if not found:
            return self.score(1.0, f"no loop in {len(calls)} calls")
        # The first round of a loop is work; the repetitions are the waste.
        wasted = len({i for start, period, end in found for i in range(start + period, end)})
        evidence = tuple(
            _evidence(
                calls[start],
                "LOOP",
                f"{listing(call.name for call in calls[start : start + period])} "
                f"{(end - start) // period} times from call {start + 1}",
            )
            for start, period, end in found[:_MOST_EVIDENCE]
        )
        value = (len(calls) - wasted) / len(calls)
        return self.score(value, f"loop: {evidence[0].note}", evidence=evidence, label="loop")

    def _loops(self, prints: Sequence[Any]) -> list[tuple[int, int, int]]:
        """(start, period, end) of each loop, none inside another."""
        found: list[tuple[int, int, int]] = []
        taken = [False] * len(prints)
        for period in range(1, self.max_period + 1):
            run = 0
            for index in range(period, len(prints) + 1):
                same = index < len(prints) and prints[index] == prints[index - period] and not taken[index]
                if same:
                    run += 1
                    continue
                if run >= period * (self.min_repeats - 1):
                    start = index - run - period
                    found.append((start, period, index))
                    taken[start:index] = [True] * (index - start)
                run = 0
        return sorted(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls(_Behaviour):
    """0.0 when the agent made `length` calls in a row that brought nothing new, else 1.0.

    A call brings something new when it uses a tool, arguments or gets a result not seen before in the run; with
    `by_tool` only a new tool counts (EvalView's stricter reading).

    Attributes:
        length: Calls in a row that make a stall.
        by_tool: Only a tool not called before counts as new.
    """

    name: ClassVar[str] = "stalls"

    length: int = 5
    by_tool: bool = False

    def evaluate(self, case: Case) -> Score:
        """Find the longest stretch without anything new."""
        calls = case.tools or ()
        if not calls:
            return self.skip("no tool was called")
        prints = () if self.by_tool else [fingerprint(call) for call in calls]
        often = Counter[Any](prints)
        seen: set[Any] = set()
        longest, end, stretch = 0, 0, 0
        for index, call in enumerate(calls):
            key: Any = call.name if self.by_tool else prints[index]
            if often.get(key, 0) > 1:  # only a repeated call can bring nothing new, and results cost most to compare
                key = (key, _result_key(call))
            stretch = stretch + 1 if key in seen else 0
            seen.add(key)
            if stretch > longest:
                longest, end = stretch, index
        measures = (("longest", float(longest)),)
        if longest < self.length:
            return self.score(1.0, f"at most {longest} calls in a row brought nothing new", extra=measures)
        first = calls[end - longest + 1]
        note = f"{longest} calls in a row brought nothing new, from call {end - longest + 2}"
        return self.score(0.0, note, evidence=(_evidence(first, "STALL", note),), extra=measures, label="stall")


def _result_key(call: ToolCall) -> Any:
    result = call.result
    return result if result is None or isinstance(result, str | int | float) else repr(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdenticalRetries(_Behaviour):
    """Share of the failed calls that were not simply sent again with the same arguments.

    One retry of a passing fault is fine, so the first identical retry is free.

    Attributes:
        free: Identical retries after an error that cost nothing.
    """

    name: ClassVar[str] = "identical_retries"

    free: int = 1

    def evaluate(self, case: Case) -> Score:
        """Count calls equal to an earlier one that failed, nothing else having succeeded with them since."""
        calls = case.tools or ()
        failed = sum(1 for call in calls if call_failed(call))
        if not failed:
            return self.skip("no call failed")
        retries: dict[Any, int] = {}
        blind: list[ToolCall] = []
        for call in calls:
            key = fingerprint(call)
            if key in retries:
                retries[key] += 1
                if retries[key] > self.free:
                    blind.append(call)
            if not call_failed(call):
                retries.pop(key, None)
            else:
                retries.setdefault(key, 0)
        if not blind:
            return self.score(1.0, f"{failed} calls failed, none was retried blindly")
        evidence = tuple(
            _evidence(call, "IDENTICAL_RETRY", "the same call had failed before, with the same arguments")
            for call in blind[:_MOST_EVIDENCE]
        )
        value = max(0.0, 1 - len(blind) / len(calls))
        names = listing(dict.fromkeys(call.name for call in blind))
        return self.score(value, f"{len(blind)} blind retries of failed calls: {names}", evidence=evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedundantCalls(_Behaviour):
    """Share of the calls that did not ask again for what the run already knew.

    A call is redundant when the same tool was called with the same arguments, succeeded, and nothing was changed
    since by a state-changing tool.

    Attributes:
        free: Repetitions of a call that cost nothing.
        writes: Names of state-changing tools; None tells them by their verb.
    """

    name: ClassVar[str] = "redundant_calls"

    free: int = 0
    writes: tuple[str, ...] | None = None

    def evaluate(self, case: Case) -> Score:
        """Look each call up among the successful ones since the last change."""
        calls = case.tools or ()
        if not calls:
            return self.skip("no tool was called")
        known: dict[Any, int] = {}
        redundant: list[ToolCall] = []
        for call in calls:
            if call_failed(call):
                continue
            key = fingerprint(call)
            times = known.get(key)
            if times is not None:
                if times >= self.free:
                    redundant.append(call)
                known[key] = times + 1
                continue
            if changes_state(call.name) if self.writes is None else call.name in self.writes:
                known.clear()
            known[key] = 0
        if not redundant:
            return self.score(1.0, f"none of {len(calls)} calls was redundant")
        evidence = tuple(
            _evidence(call, "REDUNDANT_CALL", "the run already had this answer") for call in redundant[:_MOST_EVIDENCE]
        )
        value = (len(calls) - len(redundant)) / len(calls)
        names = listing(dict.fromkeys(call.name for call in redundant))
        return self.score(value, f"{len(redundant)} of {len(calls)} calls were redundant: {names}", evidence=evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolErrors(_Behaviour):
    """Share of the calls that did not fail.

    Attributes:
        recovered: `count` every failure; `forgive` one that a later call of the same tool made good.
    """

    name: ClassVar[str] = "tool_errors"

    recovered: str = "count"

    def __post_init__(self) -> None:
        if self.recovered not in ("count", "forgive"):
            raise ValueError(f"recovered is {self.recovered!r}: count or forgive")

    def evaluate(self, case: Case) -> Score:
        """Count the failures."""
        calls = case.tools or ()
        if not calls:
            return self.skip("no tool was called")
        failed: list[tuple[int, ToolCall]] = []
        last_good: dict[str, int] = {}
        for index, call in enumerate(calls):
            if call_failed(call):
                failed.append((index, call))
            else:
                last_good[call.name] = index
        made_good = sum(1 for index, call in failed if last_good.get(call.name, -1) > index)
        counted = [
            (index, call)
            for index, call in failed
            if self.recovered == "count" or last_good.get(call.name, -1) <= index
        ]
        measures = (("failed", float(len(failed))), ("recovered", float(made_good)))
        if not counted:
            reason = (
                f"{len(failed)} calls failed and were made good" if failed else f"none of {len(calls)} calls failed"
            )
            return self.score(1.0, reason, extra=measures)
        evidence = tuple(
            _evidence(call, "TOOL_FAILED", short(failure_text(call), 200) or "the tool failed")
            for _, call in counted[:_MOST_EVIDENCE]
        )
        value = (len(calls) - len(counted)) / len(calls)
        names = listing(dict.fromkeys(call.name for _, call in counted))
        reason = f"{len(counted)} of {len(calls)} calls failed: {names}"
        return self.score(value, reason, evidence=evidence, extra=measures)
