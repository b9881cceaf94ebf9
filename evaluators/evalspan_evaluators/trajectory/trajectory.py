"""Trajectory: rules on the course of a run, in a small language, compiled to automata."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.automaton import Automaton, Verdict, automaton_of
from evalspan_evaluators.trajectory.flow import Flow
from evalspan_evaluators.trajectory.names import listing, near_name, shown

__all__ = ["Trajectory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory(MetricBase):
    """Share of the rules that the run keeps.

    A rule is a sequence (`lookup search{1,3} (email | sms)? refund`) or a constraint (`verify before refund`,
    `never delete after publish`, `log between open and close`, `at most 3 of search`). A call can have conditions
    (`refund[amount <= 100, order_id = from lookup]`). The whole language is in docs/metrics-trajectory.md.

    Attributes:
        rules: The rules; all must hold.
        strict: In sequences no further calls may stand between, before or behind the named ones.
    """

    name: ClassVar[str] = "trajectory"
    requires: ClassVar[tuple[str, ...]] = ("tools",)
    default_threshold: ClassVar[float | None] = 1.0

    rules: tuple[str, ...]
    strict: bool = False

    def __post_init__(self) -> None:
        if not self.rules:
            raise ValueError("rules is empty: give at least one rule")
        for rule in self.rules:
            automaton_of(rule, strict=self.strict)

    def evaluate(self, case: Case) -> Score:
        """Run every rule's automaton over the calls."""
        calls = case.tools or ()
        flow = Flow(calls)
        broken: list[tuple[str, Verdict]] = []
        for rule, automaton in zip(self.rules, _automata(self.rules, self.strict), strict=True):
            verdict = automaton.run(calls, flow)
            if not verdict.accepted:
                broken.append((rule, verdict))
        kept = len(self.rules) - len(broken)
        if not broken:
            return self.score(1.0, f"all {len(self.rules)} rules kept" if kept > 1 else f"kept: {self.rules[0]}")
        texts = [_why(rule, verdict, calls, strict=self.strict) for rule, verdict in broken]
        evidence = tuple(
            _evidence(rule, verdict, calls, why) for (rule, verdict), why in zip(broken, texts, strict=True)
        )
        progress = (kept + sum(v.progress for _, v in broken)) / len(self.rules)
        return self.score(
            kept / len(self.rules),
            f"{kept}/{len(self.rules)} rules kept; {'; '.join(texts[:3])}",
            evidence=evidence[:20],
            extra=(("progress", progress),),
        )


@lru_cache(maxsize=128)
def _automata(rules: tuple[str, ...], strict: bool) -> tuple[Automaton, ...]:  # noqa: FBT001  cached
    return tuple(automaton_of(rule, strict=strict) for rule in rules)


def _why(rule: str, verdict: Verdict, calls: Sequence[ToolCall], *, strict: bool) -> str:
    sequence = automaton_of(rule, strict=strict).rule.kind == "sequence"
    names = verdict.wanted if sequence else tuple(name for name in verdict.wanted if name != "any tool")
    wanted = f"expected {' or '.join(shown(name) for name in names[:5])}" if names else ""
    if not verdict.open:
        place = f"broken by call {verdict.at + 1} '{shown(calls[verdict.at].name)}'"
        return f"'{rule}' {place}" + (f", {wanted}" if wanted and sequence else "")
    place = f"after call {verdict.at + 1} '{shown(calls[verdict.at].name)}'" if verdict.at >= 0 else "from the start"
    near = near_name(names[0], [call.name for call in calls]) if names else None
    hint = f" (is '{shown(near)}' the same tool?)" if near and near != names[0] else ""
    return f"'{rule}' not completed: {wanted or 'more calls expected'} {place}{hint}"


def _evidence(rule: str, verdict: Verdict, calls: Sequence[ToolCall], why: str) -> Evidence:
    call = calls[verdict.at] if verdict.at >= 0 else None
    return Evidence(
        verdict="mismatch",
        claim=rule,
        value=call.name if call else None,
        expected=listing(verdict.wanted) if verdict.wanted else None,
        tool=call.name if call else None,
        span_id=call.span_id if call else None,
        code="RULE_NOT_COMPLETED" if verdict.open else "RULE_BROKEN",
        note=why,
    )
