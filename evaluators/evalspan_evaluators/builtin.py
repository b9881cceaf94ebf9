"""Built-in metrics by name; importing this needs the standard library only."""

from evalspan_evaluators.correctness import Correctness
from evalspan_evaluators.grounding import Grounding
from evalspan_evaluators.limits import MaxCost, MaxLatency, MaxSteps, MaxTokens, MaxToolCalls
from evalspan_evaluators.metric import JudgeMetric, Metric
from evalspan_evaluators.output.contains import Contains, NotContains
from evalspan_evaluators.output.embedding import BertScore, EmbeddingSimilarity
from evalspan_evaluators.output.language import Language
from evalspan_evaluators.output.match import Equals, Regex
from evalspan_evaluators.output.private import Pii, Secrets
from evalspan_evaluators.output.shape import Citations, Length
from evalspan_evaluators.output.similarity import Bleu, Chrf, ChunkOverlap, Cosine, EditSimilarity, Rouge
from evalspan_evaluators.output.sql import Sql
from evalspan_evaluators.output.structured import CodeParses, JsonSchema, JsonValid
from evalspan_evaluators.output.tone import Frustration, Toxicity
from evalspan_evaluators.overall import MinScore, OutputQuality, Overall
from evalspan_evaluators.statements import AnswerRelevancy, Faithfulness
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
    AnswerRelevancy,
    ArgumentProvenance,
    BertScore,
    Bleu,
    Chrf,
    ChunkOverlap,
    Citations,
    CodeParses,
    Contains,
    Correctness,
    Cosine,
    EditSimilarity,
    EmbeddingSimilarity,
    Equals,
    ErrorAcknowledged,
    Faithfulness,
    ForbiddenTools,
    Frustration,
    Grounding,
    IdenticalRetries,
    JsonSchema,
    JsonValid,
    Language,
    Length,
    Loops,
    MaxCost,
    MaxLatency,
    MaxSteps,
    MaxTokens,
    MaxToolCalls,
    MinScore,
    NotContains,
    OutputQuality,
    Overall,
    Pii,
    RedundantCalls,
    Regex,
    Rouge,
    Secrets,
    Sequence,
    Sql,
    Stalls,
    ToolAccuracy,
    ToolArguments,
    ToolCategories,
    ToolErrors,
    ToolSchema,
    ToolSelection,
    Toxicity,
    Trajectory,
    Writes,
)

#: Every metric that ships with evalspan.
BUILTIN: dict[str, type[Metric | JudgeMetric]] = {metric.name: metric for metric in _METRICS}
