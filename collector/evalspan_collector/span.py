"""Span: one OTLP span as received, normalised into typed fields."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

__all__ = ["Content", "LogRecord", "Span", "SpanEvent", "SpanKind", "SpanLink", "Status", "Usage"]

Status = Literal["unset", "ok", "error"]
#: Whether the content (messages, arguments, results) of a span travelled with it.
Content = Literal["captured", "not_captured", "redacted", "truncated"]


class SpanKind(StrEnum):
    """What a span stands for in a run, whatever dialect said so."""

    AGENT = "agent"
    WORKFLOW = "workflow"
    LLM = "llm"
    TOOL = "tool"
    RETRIEVER = "retriever"
    EMBEDDING = "embedding"
    RERANKER = "reranker"
    CHAIN = "chain"
    GUARDRAIL = "guardrail"
    EVALUATOR = "evaluator"
    MEMORY = "memory"
    PLAN = "plan"
    MCP = "mcp"
    PROMPT = "prompt"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call or of a whole run; unknown is None, never 0.

    Attributes:
        input_tokens: Prompt tokens, cache reads and writes included.
        output_tokens: Completion tokens, reasoning included.
        cache_read_tokens: The part of the input that was read from a cache.
        cache_write_tokens: The part of the input that was written to a cache.
        reasoning_tokens: The part of the output that was reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def known(self) -> bool:
        """True when at least the input or the output was counted by someone."""
        return self.input_tokens is not None or self.output_tokens is not None


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """A span event; `attributes` values are text, nested ones JSON text."""

    name: str
    time_ns: int
    attributes: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A pointer to another span; `attributes` values are text, nested ones JSON text."""

    trace_id: str
    span_id: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One OTLP log record that belongs to a span (GenAI content often travels this way).

    Attributes:
        body: JSON text of the body; a plain string body is its JSON string.
        attributes: Values as text, nested ones as JSON text.
    """

    project: str
    trace_id: str
    span_id: str
    event_name: str
    time_ns: int
    received_ns: int
    body: str | None = None
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    scope_name: str = ""
    service_name: str = ""
    service_instance_id: str = ""
    #: Position among the records of its request: ties in time keep this order.
    sequence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span in the vocabulary of evalspan.

    Times are nanoseconds since the epoch. JSON fields hold JSON text so that a span is cheap to
    make and to store; `evalspan_collector.messages` reads the message fields.

    Attributes:
        parent_id: Span id of the parent, None for a root.
        otel_kind: SpanKind of OTLP (0 unspecified ... 5 consumer).
        span_flags: OTLP flags; bit 8 = remote known, bit 9 = parent is remote.
        received_ns: When the collector got it: the only clock completion trusts.
        dialect: Convention the span follows most (`otel`, `openinference`, `traceloop`, ...).
        operation: The dialect's own word for the operation (`chat`, `invoke_agent`, ...).
        usage: Own usage as the span states it, inclusive form (see `Usage`); on spans that are no
            model call it is an aggregate, a check value only.
        cost_carried: US dollars as stated by the span itself.
        input_messages: JSON text, list of messages in normal form, the model call's input.
        output_messages: The same for its output.
        system_prompt: Text of the system instructions.
        tool_definitions: JSON text, list of {type, name, description, parameters}.
        input_value: Generic input of a span (text or JSON text), where no message field fits.
        output_value: Generic output, likewise.
        tool_arguments: JSON text, or the raw text where it is no JSON.
        tool_result: JSON text, or the raw text where it is no JSON.
        documents: JSON text, list of {id, content, score, metadata}.
        evaluations: JSON text, list of {name, score, label, explanation, annotator, scope, target}.
        failed: True when the span says it failed, even where its status hides it; None when unsaid.
        flags: Facts found while normalising: `usage_repaired`, `parse_error`, `truncated`, ...
        attributes: Everything that no field took, as text, nested values as JSON text.
        sources: Field name to the source it came from, filled only when asked (`--explain`).
    """

    trace_id: str
    span_id: str
    name: str
    start_ns: int
    end_ns: int
    project: str = "default"
    parent_id: str | None = None
    otel_kind: int = 0
    span_flags: int = 0
    received_ns: int = 0
    status: Status = "unset"
    status_message: str = ""
    scope_name: str = ""
    scope_version: str = ""
    service_name: str = ""
    service_version: str = ""
    service_instance_id: str = ""
    environment: str | None = None
    dialect: str = "unknown"
    kind: SpanKind = SpanKind.UNKNOWN
    operation: str = ""
    # agent
    agent_name: str | None = None
    agent_id: str | None = None
    agent_version: str | None = None
    agent_description: str | None = None
    parent_agent: str | None = None
    handoff_to: str | None = None
    # tool
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_type: str | None = None
    tool_description: str | None = None
    tool_arguments: str | None = None
    tool_result: str | None = None
    # errors
    failed: bool | None = None
    error_type: str | None = None
    error_message: str | None = None
    # model
    model_request: str | None = None
    model_response: str | None = None
    provider: str | None = None
    request_params: str | None = None
    response_id: str | None = None
    service_tier: str | None = None
    finish_reasons: tuple[str, ...] = ()
    time_to_first_token_s: float | None = None
    usage: Usage = Usage()
    cost_carried: float | None = None
    # content
    content: Content = "not_captured"
    input_messages: str | None = None
    output_messages: str | None = None
    system_prompt: str | None = None
    tool_definitions: str | None = None
    input_value: str | None = None
    output_value: str | None = None
    run_input: str | None = None
    run_output: str | None = None
    # retrieval
    retrieval_query: str | None = None
    documents: str | None = None
    # grouping
    session_id: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: str | None = None
    evaluations: str | None = None
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    flags: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    sources: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_error(self) -> bool:
        """True when the status or any repaired fact says the span failed."""
        return self.status == "error" or self.failed is True

    @property
    def duration_s(self) -> float:
        """Seconds by the span's own clock, never negative."""
        return max(0, self.end_ns - self.start_ns) / 1e9
