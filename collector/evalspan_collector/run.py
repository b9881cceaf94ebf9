"""Run: one invocation of a top-level agent, and the steps it did."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from evalspan_collector.message import Message
from evalspan_collector.span import Usage

__all__ = [
    "Document",
    "ModelCall",
    "ReceivedEvaluation",
    "Retrieval",
    "Run",
    "RunState",
    "Step",
    "StepKind",
    "ToolCall",
    "ToolDefinition",
    "iso_time",
]

RunState = Literal["open", "closed", "amended", "withdrawn"]
StepKind = Literal["model_call", "tool_call", "retrieval", "agent", "other"]


def iso_time(time_ns: int) -> str:
    """UTC time in ISO 8601 with microseconds and a Z, clamped to the years datetime can hold."""
    seconds = min(max(time_ns, 0) / 1e9, 253402300799.0)
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One execution of a tool.

    Attributes:
        arguments: Parsed JSON, or the raw text where it is no JSON; None when not captured.
        result: Parsed JSON, or text; None when not captured.
        failed: The tool failed, even where the span's status hides it.
        observed: `span` when a span showed the execution, `message` when only messages did.
        pseudo: A framework's own device (final_answer, transfer_to_*, finish): never counted.
        attempt: 1 for the first try of the same call, 2 for its retry, ...
    """

    name: str
    call_id: str | None = None
    arguments: Any = None
    result: Any = None
    failed: bool = False
    error: str | None = None
    started_ns: int = 0
    duration_s: float | None = None
    observed: Literal["span", "message"] = "span"
    agent: str | None = None
    span_id: str | None = None
    tool_type: str | None = None
    pseudo: bool = False
    attempt: int = 1
    content_captured: bool = True

    def to_json(self) -> dict[str, Any]:
        """The stable JSON form of `evalspan runs show`."""
        return {
            "name": self.name,
            "call_id": self.call_id,
            "arguments": self.arguments,
            "result": self.result,
            "failed": self.failed,
            "error": self.error,
            "started_at": iso_time(self.started_ns),
            "duration_s": self.duration_s,
            "observed": self.observed,
            "agent": self.agent,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call of a model, counted once however many spans describe it.

    Attributes:
        cost_usd: US dollars, carried by the span if it said so, else computed; None when unknown.
        cost_source: `carried`, `genai-prices VERSION` or `override`; None when unknown.
    """

    model: str | None = None
    provider: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    cost_source: str | None = None
    failed: bool = False
    error: str | None = None
    started_ns: int = 0
    duration_s: float | None = None
    time_to_first_token_s: float | None = None
    response_id: str | None = None
    agent: str | None = None
    span_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    input_messages: tuple[Message, ...] = ()
    output_messages: tuple[Message, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The stable JSON form of `evalspan runs show`."""
        return {
            "model": self.model,
            "provider": self.provider,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cache_read_tokens": self.usage.cache_read_tokens,
            "cache_write_tokens": self.usage.cache_write_tokens,
            "reasoning_tokens": self.usage.reasoning_tokens,
            "cost_usd": self.cost_usd,
            "failed": self.failed,
            "duration_s": self.duration_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One retrieved document; None where the span did not say."""

    id: str | None = None
    content: str | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """One search and what it found."""

    query: str | None = None
    documents: tuple[Document, ...] = ()
    started_ns: int = 0
    duration_s: float | None = None
    span_id: str | None = None
    agent: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The stable JSON form of `evalspan runs show`."""
        return {
            "query": self.query,
            "documents": [{"id": d.id, "content": d.content, "score": d.score} for d in self.documents],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool the model was offered; `parameters` is its JSON schema where known."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvaluation:
    """A score that somebody else's evaluator put on a span of this run."""

    name: str
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    source: str = ""
    span_id: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing a run did, in order.

    Attributes:
        index: Position in the run, from 0.
        parent_index: Index of the sub-agent step this one belongs to, None at the top.
        depth: Sub-agents above it.
        tool: Set when kind is `tool_call`; likewise `model_call` and `retrieval`.
    """

    index: int
    kind: StepKind
    name: str
    span_id: str | None = None
    trace_id: str | None = None
    parent_index: int | None = None
    depth: int = 0
    agent: str | None = None
    started_ns: int = 0
    duration_s: float | None = None
    failed: bool = False
    error: str | None = None
    observed: Literal["span", "message"] = "span"
    tool: ToolCall | None = None
    model_call: ModelCall | None = None
    retrieval: Retrieval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One invocation of a top-level agent, rebuilt from its spans.

    Attributes:
        run_id: Derived from the trace id and the root span's id; stable under re-assembly.
        trace_ids: Every trace the run was stitched from, `trace_id` first.
        revision: Grows with each re-assembly that changed the run after it closed.
        last_received_ns: When the newest span of the run reached the collector.
        flags: Facts a reader must know: `incomplete`, `orphans`, `truncated`, `clock_skew`,
            `usage_repaired`, `content_not_captured`, `stitched`, ...
        cost_usd: Sum over the model calls with a known cost; None when none is known.
        cost_unknown_calls: Model calls left out of `cost_usd`.
        stitch_confidence: 0 to 1, None when the run lies in one trace.
        first_received_ns: When the oldest span of the run reached the collector.
        embedding_tokens: Input of embeddings and rerankers, kept apart from `usage`; their cost is in `cost_usd`.
        waiting_calls: Tool calls of the last model answer that have no result yet.
        provenance: Field or rule name to where the value came from or what fired, for `inspect --explain`.
        fingerprint: Hash of the content, set when the run is written: tells whether a later assembly changed it.
    """

    run_id: str
    trace_id: str
    project: str = "default"
    trace_ids: tuple[str, ...] = ()
    root_span_id: str | None = None
    revision: int = 1
    state: RunState = "open"
    agent: str | None = None
    agents: tuple[str, ...] = ()
    session_id: str | None = None
    user_id: str | None = None
    service: str | None = None
    environment: str | None = None
    service_version: str | None = None
    agent_version: str | None = None
    started_ns: int = 0
    duration_s: float | None = None
    last_received_ns: int = 0
    status: Literal["ok", "error"] = "ok"
    error: str | None = None
    input: str | None = None
    output: str | None = None
    flags: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    steps: tuple[Step, ...] = ()
    usage: Usage = Usage()
    cost_usd: float | None = None
    cost_unknown_calls: int = 0
    models: tuple[str, ...] = ()
    system_prompt: str | None = None
    tool_definitions: tuple[ToolDefinition, ...] = ()
    conversation: tuple[Message, ...] = ()
    evaluations: tuple[ReceivedEvaluation, ...] = ()
    stitch_confidence: float | None = None
    dialects: tuple[str, ...] = ()
    fingerprint: str = ""
    first_received_ns: int = 0
    embedding_tokens: int | None = None
    waiting_calls: int = 0
    provenance: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def tools(self) -> tuple[ToolCall, ...]:
        """Executions of real tools, in order; pseudo-tools are left out."""
        return tuple(s.tool for s in self.steps if s.tool is not None and not s.tool.pseudo)

    @property
    def model_calls(self) -> tuple[ModelCall, ...]:
        """Calls of models, in order, each once."""
        return tuple(s.model_call for s in self.steps if s.model_call is not None)

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        """Searches, in order."""
        return tuple(s.retrieval for s in self.steps if s.retrieval is not None)

    def summary_json(self) -> dict[str, Any]:
        """One line of `evalspan runs list --json`."""
        return {
            "run_id": self.run_id,
            "trace_id": self.trace_id,
            "project": self.project,
            "revision": self.revision,
            "state": self.state,
            "agent": self.agent,
            "agents": list(self.agents),
            "session_id": self.session_id,
            "user_id": self.user_id,
            "service": self.service,
            "environment": self.environment,
            "started_at": iso_time(self.started_ns),
            "duration_s": self.duration_s,
            "status": self.status,
            "error": self.error,
            "input": self.input,
            "output": self.output,
            "flags": list(self.flags),
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "cache_read_tokens": self.usage.cache_read_tokens,
                "cache_write_tokens": self.usage.cache_write_tokens,
                "reasoning_tokens": self.usage.reasoning_tokens,
            },
            "cost_usd": self.cost_usd,
            "cost_unknown_calls": self.cost_unknown_calls,
            "models": list(self.models),
        }

    def to_json(self) -> dict[str, Any]:
        """The stable JSON form of `evalspan runs show`, without scores."""
        return {
            **self.summary_json(),
            "tools": [t.to_json() for t in self.tools],
            "model_calls": [m.to_json() for m in self.model_calls],
            "retrievals": [r.to_json() for r in self.retrievals],
        }
