"""Limits: cost, latency, tokens, steps and tool calls a run may use at most."""

import math
from dataclasses import dataclass
from typing import ClassVar

from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score

__all__ = ["MaxCost", "MaxLatency", "MaxSteps", "MaxTokens", "MaxToolCalls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit(MetricBase):
    default_threshold: ClassVar[float | None] = 1.0

    def _judge(self, used: float, limit: float, *, what: str, shown: tuple[str, str]) -> Score:
        """1.0 when used <= limit (equality passes), else 0.0."""
        if not math.isfinite(used) or used < 0:
            return self.fail(f"{what} is {used!r}: expected a number of 0 or more")
        within = used <= limit
        value_text, limit_text = shown
        evidence = Evidence(
            verdict="match" if within else "mismatch",
            claim=what,
            value=value_text,
            expected=f"at most {limit_text}",
            code=None if within else "LIMIT_PASSED",
        )
        return self.score(
            1.0 if within else 0.0,
            f"{what} {value_text} (limit {limit_text})",
            evidence=(evidence,),
            extra=((what.replace(" ", "_"), float(used)), ("limit", float(limit))),
        )


def _check_limit(name: str, limit: float) -> None:
    if not math.isfinite(limit) or limit < 0:
        raise ValueError(f"{name} is {limit!r}: a number of 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxCost(_Limit):
    """The model calls of the run cost at most this much; an unknown cost is not applicable, never a pass.

    Where only some calls have a known cost, the known part can already break the limit; it can never keep it.

    Attributes:
        limit_usd: US dollars; the limit itself passes.
    """

    name: ClassVar[str] = "max_cost"

    limit_usd: float

    def __post_init__(self) -> None:
        _check_limit("limit_usd", self.limit_usd)

    def evaluate(self, case: Case) -> Score:
        """Compare the case's cost with the limit."""
        cost = case.cost_usd
        if cost is None:
            return self.skip("the cost is unknown: add the model's price to the price overrides")
        if case.cost_unknown_calls and cost <= self.limit_usd:
            return self.skip(f"the cost of {case.cost_unknown_calls} model calls is unknown, the rest cost ${cost:.4f}")
        return self._judge(cost, self.limit_usd, what="cost", shown=(f"${cost:.4f}", f"${self.limit_usd:.2f}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxLatency(_Limit):
    """The run took at most this long; an unknown duration is not applicable.

    Attributes:
        limit_s: Seconds; the limit itself passes.
    """

    name: ClassVar[str] = "max_latency"

    limit_s: float

    def __post_init__(self) -> None:
        _check_limit("limit_s", self.limit_s)

    def evaluate(self, case: Case) -> Score:
        """Compare the case's duration with the limit."""
        took = case.duration_s
        if took is None:
            return self.skip("the duration is unknown")
        return self._judge(took, self.limit_s, what="latency", shown=(f"{took:.1f}s", f"{self.limit_s:g}s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTokens(_Limit):
    """The run used at most this many tokens, input and output together; unknown usage is not applicable.

    Attributes:
        limit: Tokens; the limit itself passes.
    """

    name: ClassVar[str] = "max_tokens"

    limit: int

    def __post_init__(self) -> None:
        _check_limit("limit", self.limit)

    def evaluate(self, case: Case) -> Score:
        """Compare the case's tokens with the limit."""
        usage = case.usage
        if not usage.known:
            return self.skip("the token usage is unknown")
        used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        unknown = usage.input_tokens is None or usage.output_tokens is None
        if unknown and used <= self.limit:
            return self.skip(f"only a part of the token usage is known ({used} tokens)")
        return self._judge(used, self.limit, what="tokens", shown=(str(used), str(self.limit)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxToolCalls(_Limit):
    """The run made at most this many tool calls.

    Attributes:
        limit: Calls; the limit itself passes.
        tool: Count only the calls of this tool.
    """

    name: ClassVar[str] = "max_tool_calls"
    requires: ClassVar[tuple[str, ...]] = ("tools",)

    limit: int
    tool: str | None = None

    def __post_init__(self) -> None:
        _check_limit("limit", self.limit)

    def evaluate(self, case: Case) -> Score:
        """Count the calls."""
        made = sum(1 for call in case.tools or () if self.tool is None or call.name == self.tool)
        what = "tool calls" if self.tool is None else f"{self.tool} calls"
        return self._judge(made, self.limit, what=what, shown=(str(made), str(self.limit)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxSteps(_Limit):
    """The run did at most this many steps: model calls, tool calls, retrievals and sub-agents.

    Attributes:
        limit: Steps; the limit itself passes.
    """

    name: ClassVar[str] = "max_steps"

    limit: int

    def __post_init__(self) -> None:
        _check_limit("limit", self.limit)

    def evaluate(self, case: Case) -> Score:
        """Count the steps of the run; of a case by hand, its model calls and tool calls."""
        if case.run is not None:
            steps = len(case.run.steps)
        elif case.tools is None and case.model_calls is None:
            return self.skip("it is unknown which steps the agent did")
        else:
            steps = len(case.tools or ()) + len(case.model_calls or ())
        return self._judge(steps, self.limit, what="steps", shown=(str(steps), str(self.limit)))
