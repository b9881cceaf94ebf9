"""Built-in metrics by name; importing this needs the standard library only."""

from importlib import import_module

from evalspan_evaluators.correctness import Correctness
from evalspan_evaluators.limits import MaxCost, MaxLatency, MaxSteps, MaxTokens, MaxToolCalls
from evalspan_evaluators.metric import JudgeMetric, Metric
from evalspan_evaluators.output.contains import Contains, NotContains
from evalspan_evaluators.trajectory.acknowledged import ErrorAcknowledged
from evalspan_evaluators.trajectory.arguments import ToolArguments, Writes
from evalspan_evaluators.trajectory.behaviour import IdenticalRetries, Loops, RedundantCalls, Stalls, ToolErrors
from evalspan_evaluators.trajectory.provenance import ArgumentProvenance
from evalspan_evaluators.trajectory.schema import ToolSchema
from evalspan_evaluators.trajectory.sequence import Sequence
from evalspan_evaluators.trajectory.tools import (
    AllowedTools,
    ForbiddenTools,
    ToolAccuracy,
    ToolCategories,
    ToolSelection,
)
from evalspan_evaluators.trajectory.trajectory import Trajectory

__all__ = ["BUILTIN"]

_METRICS: tuple[type[Metric | JudgeMetric], ...] = (
    AllowedTools,
    ArgumentProvenance,
    Contains,
    Correctness,
    ErrorAcknowledged,
    ForbiddenTools,
    IdenticalRetries,
    Loops,
    MaxCost,
    MaxLatency,
    MaxSteps,
    MaxTokens,
    MaxToolCalls,
    NotContains,
    RedundantCalls,
    Sequence,
    Stalls,
    ToolAccuracy,
    ToolArguments,
    ToolCategories,
    ToolErrors,
    ToolSchema,
    ToolSelection,
    Trajectory,
    Writes,
)

#: Every metric that ships with evalspan.
BUILTIN: dict[str, type[Metric | JudgeMetric]] = {metric.name: metric for metric in _METRICS}

try:
    _grounding = import_module("evalspan_evaluators.grounding")
    BUILTIN["grounding"] = _grounding.Grounding
except (ImportError, AttributeError):  # until that package is complete
    pass
