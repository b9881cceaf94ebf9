"""Content: arguments, results, messages and verdicts out of the wrappings of their dialects."""

import re
from dataclasses import replace
from typing import Any

from evalspan_collector import evaluation_results
from evalspan_collector.converters import integer
from evalspan_collector.lenient_json import dump, is_list, is_object, parse_object, unwrap
from evalspan_collector.message import Message, Part
from evalspan_collector.messages import dumps, from_value, loads, tool_result
from evalspan_collector.repairs._draft import Draft
from evalspan_collector.span import SpanKind
from evalspan_collector.usage_objects import usage_of

__all__ = [
    "answer_of_livekit",
    "evaluations",
    "history_of_pydantic_ai",
    "input_of_logfire",
    "no_arguments_of_adk",
    "raw_request_of_litellm",
    "schema_is_no_arguments",
    "system_of_the_messages",
    "unwrapped_result",
    "vercel_answer",
    "verdict_of_an_evaluator",
    "wrapping_of_langsmith",
]


def unwrapped_result(draft: Draft) -> bool:
    """A tool result inside a serialised message, a list of text blocks or an MCP result; its status is the tool's."""
    result = draft.fields.get("tool_result")
    if not isinstance(result, str) or result[:1] not in '[{"':
        return _handled_error(draft, result)
    value = unwrap(result)
    inner, failed = tool_result(value)
    if failed:
        draft.fields["failed"] = True
    elif failed is False:
        draft.fields.setdefault("failed", False)
    if inner is value or inner == value:
        return _handled_error(draft, value)
    draft.fields["tool_result"] = inner if isinstance(inner, str) else dump(inner)
    return True


def _handled_error(draft: Draft, value: Any) -> bool:
    """A result object that says by itself that the tool failed."""
    if is_object(value) and (value.get("isError") is True or value.get("is_error") is True):
        draft.fields["failed"] = True
        return True
    return False


def wrapping_of_langsmith(draft: Draft) -> bool:
    """LangSmith puts a tool's arguments, often a Python repr, under `input` and its result under `output`."""
    fired = False
    for field, key in (("tool_arguments", "input"), ("tool_result", "output")):
        held = unwrap(draft.fields.get(field))
        if is_object(held) and held.keys() == {key}:
            inner = unwrap(held[key], python=True)
            draft.fields[field] = inner if isinstance(inner, str) else dump(inner)
            fired = True
    return fired


def answer_of_livekit(draft: Draft) -> bool:
    """LiveKit keeps the text and the tool calls of one answer in two attributes."""
    listed = unwrap(draft.raw.attributes.get("lk.response.function_calls"))
    calls = [c for c in listed if is_object(c)] if is_list(listed) else []
    if draft.kind is not SpanKind.LLM or not calls:
        return False
    said = draft.raw.attributes.get("lk.response.text")
    body = {"role": "assistant", "content": said if isinstance(said, str) else None, "tool_calls": calls}
    draft.fields["output_messages"] = dumps(from_value([body], "assistant"))
    return True


def no_arguments_of_adk(draft: Draft) -> bool:
    """ADK writes `{}` or `N/A` for arguments it did not capture."""
    if (
        draft.fields.get("tool_arguments") == "{}"
        and draft.raw.attributes.get("gcp.vertex.agent.tool_call_args") == "{}"
    ):
        del draft.fields["tool_arguments"]
        return True
    return False


def schema_is_no_arguments(draft: Draft) -> bool:
    """`tool.parameters` is the schema for some and the arguments for others: only the latter is taken."""
    stated = draft.raw.attributes.get("tool.parameters")
    if stated is None or draft.kind is not SpanKind.TOOL or "tool_arguments" in draft.fields:
        return False
    found = parse_object(stated)
    if found is None or "properties" in found or found.get("type") == "object":
        return False
    draft.fields["tool_arguments"] = dump(found)
    return True


_LITELLM_RAW = re.compile(
    r"^llm\.[a-z_0-9]+\.(messages|choices|content|usage|id|model|system|tools|input|output|contents|candidates|usageMetadata)$"
)


def raw_request_of_litellm(draft: Draft) -> bool:
    """LiteLLM's child span holds the provider's own request and answer: the same call once more, by response id."""
    if "gen_ai.request.model" in draft.raw.attributes:
        return False
    raw = {m[1]: unwrap(v, python=True) for k, v in draft.raw.attributes.items() if (m := _LITELLM_RAW.match(k))}
    fields = draft.fields
    if not raw:
        return False
    draft.kind = SpanKind.LLM
    fields["operation"] = "chat"
    asked = from_value({k: raw[k] for k in ("messages", "system", "input", "contents") if k in raw}, "user")
    if asked:
        fields.setdefault("input_messages", dumps(asked))
    answer = {k: raw[k] for k in ("choices", "output", "candidates") if k in raw}
    answered = from_value(answer or {"role": "assistant", "content": raw.get("content")}, "assistant")
    if any(m.parts for m in answered):
        fields.setdefault("output_messages", dumps(answered))
    for ours, theirs in (("model_response", "model"), ("response_id", "id")):
        if isinstance(raw.get(theirs), str):
            fields.setdefault(ours, raw[theirs])
    if is_object(raw.get("usage")):
        for ours, count in usage_of(raw["usage"]).items():
            fields.setdefault(ours, count)
    return True


def input_of_logfire(draft: Draft) -> bool:
    """Logfire's first version wraps the arguments of Anthropic's tool calls once more: `{"input": {...}}`."""
    if "response_data" not in draft.raw.attributes or "output_messages" not in draft.fields:
        return False
    fired = False
    found: list[Message] = []
    for held in loads(draft.fields["output_messages"], "assistant"):
        parts: list[Part] = []
        for part in held.parts:
            inner = part.arguments.get("input") if is_object(part.arguments) and len(part.arguments) == 1 else None
            fired = fired or is_object(inner)
            parts.append(replace(part, arguments=inner) if part.type == "tool_call" and is_object(inner) else part)
        found.append(replace(held, parts=tuple(parts)))
    if fired:
        draft.fields["output_messages"] = dumps(found)
    return fired


def history_of_pydantic_ai(draft: Draft) -> bool:
    """The agent span holds the whole history: this run's question and answer are behind `new_message_index`."""
    if "pydantic_ai.all_messages" not in draft.raw.attributes or "input_messages" not in draft.fields:
        return False
    history = loads(draft.fields["input_messages"])
    start = integer(draft.raw.attributes.get("pydantic_ai.new_message_index")) or 0
    fresh = history[start:] if start < len(history) else history
    asked = next((m.text for m in fresh if m.role == "user" and m.text), None)
    answered = next((m.text for m in reversed(fresh) if m.role == "assistant" and m.text), None)
    if asked:
        draft.fields.setdefault("run_input", asked)
    if answered:
        draft.fields.setdefault("run_output", answered)
    return bool(asked or answered)


def vercel_answer(draft: Draft) -> bool:
    """The AI SDK keeps text, reasoning and tool calls of one answer in three attributes."""
    attributes = draft.raw.attributes
    answer = attributes.get("ai.response.text", attributes.get("ai.result.text"))
    calls = attributes.get("ai.response.toolCalls", attributes.get("ai.result.toolCalls"))
    thought = attributes.get("ai.response.reasoning")
    made = attributes.get("ai.response.object", attributes.get("ai.result.object"))
    content: list[dict[str, Any]] = []
    if isinstance(thought, str) and thought:
        content.append({"type": "reasoning", "text": thought})
    if isinstance(answer, str) and answer:
        content.append({"type": "text", "text": answer})
    elif isinstance(made, str) and made:
        content.append({"type": "text", "text": made})
    listed = unwrap(calls)
    if is_list(listed):
        content.extend({"type": "tool-call", **c} for c in listed if is_object(c))
    if not content or "output_messages" in draft.fields:
        return False
    body: dict[str, Any] = {"role": "assistant", "content": content}
    reasons = draft.fields.get("finish_reasons")
    if reasons:
        body["finish_reason"] = reasons[0]
    draft.fields["output_messages"] = dumps(from_value([body], "assistant"))
    return True


def system_of_the_messages(draft: Draft) -> bool:
    """The system prompt is the first system message where nothing else states it."""
    if draft.kind is not SpanKind.LLM or "system_prompt" in draft.fields:
        return False
    stated = draft.fields.get("input_messages")
    if stated is None or '"system"' not in stated:
        return False
    found = next((m.text for m in loads(stated) if m.role == "system" and m.text), None)
    if found:
        draft.fields["system_prompt"] = found
    return found is not None


def evaluations(draft: Draft) -> bool:
    """Scores that travel on a span become received evaluations."""
    attributes = draft.raw.attributes
    found: list[dict[str, Any]] = []
    for prefix, scope in _EVALUATION_FAMILIES:
        flat = {k[len(prefix) :]: v for k, v in attributes.items() if k.startswith(prefix)}
        if flat:
            found.extend(evaluation_results.from_indexed(flat, scope))
    legacy = {k[5:]: v for k, v in attributes.items() if k.startswith("eval.")}
    found.extend(evaluation_results.from_legacy(legacy))
    if "guard.verdict" in attributes or "guard.classification" in attributes:
        guard = evaluation_results.from_guard(attributes)
        found.extend([guard] if guard else [])
    if not found:
        return False
    draft.fields["evaluations"] = dump(found)
    return True


_EVALUATION_FAMILIES = (
    ("evaluations.", "span"),
    ("annotations.", "span"),
    ("trace.evaluations.", "trace"),
    ("trace.annotations.", "trace"),
    ("session.evaluations.", "session"),
    ("session.annotations.", "session"),
)


def verdict_of_an_evaluator(draft: Draft) -> bool:
    """An EVALUATOR span without evaluation keys: its output is the verdict, its one link the target."""
    if "evaluations" in draft.fields:
        return False
    links = draft.raw.links
    target = links[0].span_id if len(links) == 1 else None
    verdict = evaluation_results.from_evaluator_span(draft.raw.name, draft.fields.get("output_value"), target)
    if verdict is None:
        return False
    draft.fields["evaluations"] = dump([verdict])
    return True
