"""Events: the facts that travel in span events and log records, by one handler per event name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from evalspan_collector import evaluation_results
from evalspan_collector.converters import number, text, tools
from evalspan_collector.lenient_json import dump, is_list, is_object, unwrap
from evalspan_collector.message import Message, Role
from evalspan_collector.messages import dumps, from_value, system_text, tool_result
from evalspan_collector.python_repr import read_repr
from evalspan_collector.raw import RawEvent
from evalspan_collector.span import SpanKind
from evalspan_collector.usage_objects import usage_of

__all__ = ["KERNEL_USAGE", "KNOWN_EVENTS", "event_facts"]


#: Name given to Semantic Kernel's nameless log records about usage.
KERNEL_USAGE = "semantic_kernel.usage"


class _Gathered:
    """What the events of one span say, put together."""

    __slots__ = ("documents", "evaluations", "facts", "inputs", "is_tool", "outputs", "start_ns")

    def __init__(self, kind: SpanKind, start_ns: int) -> None:
        self.is_tool = kind is SpanKind.TOOL
        self.start_ns = start_ns
        self.inputs: list[Message] = []
        self.outputs: list[Message] = []
        self.documents: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}

    def first(self, field: str, value: Any) -> None:
        """Keep the first value of a field."""
        if value is not None and value != "":
            self.facts.setdefault(field, value)


def event_facts(events: Iterable[RawEvent], kind: SpanKind, start_ns: int) -> dict[str, Any]:
    """Fields of a span that its events give, in whatever order the events came.

    Args:
        events: Span events or log records of one span.
        kind: What the span is: on a tool span the message events are its arguments and result.
        start_ns: Start of the span, for the time to the first token.

    Returns:
        Span field names to values, only those that the events give.
    """
    gathered = _Gathered(kind, start_ns)
    for event in sorted(events, key=lambda e: (e.time_ns, e.sequence)):
        handler = KNOWN_EVENTS.get(event.name)
        if handler is not None:
            handler(gathered, event)
    facts = gathered.facts
    if gathered.inputs:
        facts["input_messages"] = dumps(gathered.inputs)
        if "system_prompt" not in facts:
            gathered.first("system_prompt", "\n".join(m.text for m in gathered.inputs if m.role == "system" and m.text))
    if gathered.outputs:
        facts["output_messages"] = dumps(gathered.outputs)
    if gathered.documents:
        facts["documents"] = dump(gathered.documents)
    if gathered.evaluations:
        facts["evaluations"] = dump(gathered.evaluations)
    return facts


def _holder(event: RawEvent) -> Mapping[str, Any]:
    """Body and attributes as one map; a body that is JSON text (Semantic Kernel) is read."""
    body = unwrap(event.body)
    if is_object(body):
        return {**event.attributes, **body}
    return event.attributes if body is None else {**event.attributes, "content": body}


def _details(gathered: _Gathered, event: RawEvent) -> None:
    """`gen_ai.client.inference.operation.details`: whole messages in attributes; several add up."""
    held = _holder(event)
    inputs = from_value(unwrap(held.get("gen_ai.input.messages")), "user")
    outputs = from_value(unwrap(held.get("gen_ai.output.messages")), "assistant")
    if gathered.is_tool:
        _tool_details(gathered, inputs, outputs)
        return
    gathered.inputs.extend(m for m in inputs if m.parts)
    gathered.outputs.extend(m for m in outputs if m.parts)
    gathered.first("system_prompt", system_text(unwrap(held.get("gen_ai.system_instructions"))))
    gathered.first("tool_definitions", tools(held.get("gen_ai.tool.definitions")))


def _tool_details(gathered: _Gathered, inputs: Iterable[Message], outputs: Iterable[Message]) -> None:
    """On a tool span the messages hold one call and one response."""
    for found in inputs:
        for part in found.tool_calls:
            gathered.first("tool_arguments", _content(part.arguments))
            gathered.first("tool_call_id", part.id)
    for found in outputs:
        for part in found.tool_responses:
            gathered.first("tool_result", _content(part.response))
            gathered.first("failed", part.is_error)
        gathered.first("tool_result", found.text or None)


def _content(value: Any) -> str | None:
    """JSON text, or the raw text."""
    return None if value is None else value if isinstance(value, str) else dump(value)


def _message(role: Role) -> Callable[[_Gathered, RawEvent], None]:
    """A `gen_ai.<role>.message` event: one message of the input."""

    def handle(gathered: _Gathered, event: RawEvent) -> None:
        held = _holder(event)
        content = held.get("content")
        if gathered.is_tool and role == "tool":
            gathered.first("tool_arguments", _content(unwrap(content, python=True)))
            gathered.first("tool_call_id", text(held.get("id")))
            return
        if role == "user" and _is_tool_list(content):
            gathered.first("tool_definitions", tools(content))
            return
        gathered.inputs.extend(m for m in _built(held, role) if m.parts)

    return handle


def _is_tool_list(content: Any) -> bool:
    """OpenLLMetry sends the tool definitions as a user message."""
    value = unwrap(content)
    value = value if is_list(value) else [value]
    return bool(value) and all(
        is_object(v)
        and (
            "input_schema" in v
            or ("parameters" in v and "name" in v)
            or (is_object(v.get("function")) and "parameters" in v["function"])
        )
        for v in value
    )


def _built(held: Mapping[str, Any], role: Role) -> tuple[Message, ...]:
    """A message from the keys of an event."""
    wanted = (
        "content",
        "tool_calls",
        "tool_call_id",
        "id",
        "name",
        "finish_reason",
        "parts",
        "status",
        "is_error",
        "role",
    )
    body = {k: held[k] for k in wanted if held.get(k) is not None}
    content = (
        unwrap(body["content"])
        if isinstance(body.get("content"), str) and body["content"][:1] in "[{"
        else body.get("content")
    )
    if is_object(content) and ("content" in content or "tool_calls" in content):
        body = {**body, **content}
    body.setdefault("role", role)
    if not isinstance(body["role"], str) or role == "tool":
        body["role"] = role
    return from_value([body], role)


def _choice(gathered: _Gathered, event: RawEvent) -> None:
    """`gen_ai.choice`: one answer of the model; on a tool span, the tool's result."""
    held = _holder(event)
    message = unwrap(held.get("message"))
    if gathered.is_tool:
        value, failed = tool_result(message if message is not None else held.get("content"))
        gathered.first("tool_result", _content(value))
        gathered.first("failed", failed)
        gathered.first("tool_call_id", text(held.get("id")))
        return
    if not is_object(message):
        message = {"content": message if message is not None else held.get("content")}
    body: dict[str, Any] = {"role": "assistant", **message}
    for key in ("finish_reason", "tool_calls"):
        if held.get(key) is not None and body.get(key) is None:
            body[key] = unwrap(held[key])
    gathered.outputs.extend(m for m in from_value([body], "assistant") if m.parts)
    reason = text(held.get("finish_reason"))
    if reason:
        gathered.facts["finish_reasons"] = (*gathered.facts.get("finish_reasons", ()), reason)


def _prompt(gathered: _Gathered, event: RawEvent) -> None:
    """Semantic conventions 1.26: the whole prompt as one JSON string."""
    held = _holder(event)
    value = held.get("gen_ai.prompt", held.get("prompt"))
    if gathered.is_tool:
        gathered.first("tool_arguments", _content(unwrap(value, python=True)))
        return
    gathered.inputs.extend(m for m in from_value(value, "user") if m.parts)


def _completion(gathered: _Gathered, event: RawEvent) -> None:
    held = _holder(event)
    value = held.get("gen_ai.completion", held.get("completion"))
    if gathered.is_tool:
        gathered.first("tool_result", _content(unwrap(value)))
        return
    gathered.outputs.extend(m for m in from_value(value, "assistant") if m.parts)


def _exception(gathered: _Gathered, event: RawEvent) -> None:
    held = event.attributes
    gathered.first("error_type", text(held.get("exception.type")))
    gathered.first("error_message", text(held.get("exception.message")))


def _evaluation(gathered: _Gathered, event: RawEvent) -> None:
    result = evaluation_results.from_event(_holder(event))
    if result is not None and result not in gathered.evaluations:
        gathered.evaluations.append(result)


def _found_document(gathered: _Gathered, event: RawEvent) -> None:
    """Vector stores of OpenLLMetry: one event per hit; a distance is no score."""
    held = event.attributes
    prefix = event.name + "."
    document = held.get(prefix + "document", held.get(prefix + "entity"))
    out: dict[str, Any] = {
        "id": text(held.get(prefix + "id")),
        "content": _content(document),
        "score": number(held.get(prefix + "score")),
    }
    extra = {k: held[prefix + k] for k in ("distance", "metadata") if held.get(prefix + k) is not None}
    if extra:
        out["metadata"] = extra
    gathered.documents.append(out)


def _tool_output(gathered: _Gathered, event: RawEvent) -> None:
    """Claude Code: the tool's output as an event of the tool span."""
    held = _holder(event)
    for key in ("output", "content", "diff"):
        value, failed = tool_result(held.get(key))
        if value is not None:
            gathered.first("tool_result", _content(value))
            gathered.first("failed", failed)


def _kernel_usage(gathered: _Gathered, event: RawEvent) -> None:
    """Semantic Kernel logs the provider's usage as text: the only place of cache and reasoning counts."""
    body = event.body
    found = read_repr(body.partition(": ")[2]) if isinstance(body, str) else None
    if is_object(found):
        for field, count in usage_of(found).items():
            gathered.first(field, count)


def _first_token(gathered: _Gathered, event: RawEvent) -> None:
    if event.time_ns > gathered.start_ns > 0:
        gathered.first("time_to_first_token_s", (event.time_ns - gathered.start_ns) / 1e9)


#: Event name to handler; other events are kept as they are.
KNOWN_EVENTS: dict[str, Callable[[_Gathered, RawEvent], None]] = {
    "gen_ai.client.inference.operation.details": _details,
    "gen_ai.system.message": _message("system"),
    "gen_ai.user.message": _message("user"),
    "gen_ai.assistant.message": _message("assistant"),
    "gen_ai.tool.message": _message("tool"),
    "gen_ai.choice": _choice,
    "gen_ai.content.prompt": _prompt,
    "gen_ai.content.completion": _completion,
    "exception": _exception,
    "gen_ai.client.operation.exception": _exception,
    "gen_ai.evaluation.result": _evaluation,
    "db.query.result": _found_document,
    "db.search.result": _found_document,
    "tool.output": _tool_output,
    KERNEL_USAGE: _kernel_usage,
    "ai.stream.firstChunk": _first_token,
    "First Token Stream Event": _first_token,
    "gen_ai.content.completion.chunk": _first_token,
    "llm.content.completion.chunk": _first_token,
}
