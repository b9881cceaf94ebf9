"""Built-in metrics by name; importing this needs the standard library only."""

from importlib import import_module

from evalspan_evaluators.correctness import Correctness
from evalspan_evaluators.limits import MaxCost, MaxLatency, MaxSteps, MaxTokens, MaxToolCalls
from evalspan_evaluators.metric import JudgeMetric, Metric
from evalspan_evaluators.output.contains import Contains, NotContains
from evalspan_evaluators.trajectory.sequence import Sequence
from evalspan_evaluators.trajectory.tools import (
    AllowedTools,
    ForbiddenTools,
    ToolAccuracy,
    ToolCategories,
    ToolSelection,
)

__all__ = ["BUILTIN"]

_METRICS: tuple[type[Metric | JudgeMetric], ...] = (
    AllowedTools,
    Contains,
    Correctness,
    ForbiddenTools,
    MaxCost,
    MaxLatency,
    MaxSteps,
    MaxTokens,
    MaxToolCalls,
    NotContains,
    Sequence,
    ToolAccuracy,
    ToolCategories,
    ToolSelection,
)

#: Every metric that ships with evalspan.
BUILTIN: dict[str, type[Metric | JudgeMetric]] = {metric.name: metric for metric in _METRICS}

try:
    _grounding = import_module("evalspan_evaluators.grounding")
    BUILTIN["grounding"] = _grounding.Grounding
except (ImportError, AttributeError):  # until that package is complete
    pass
