"""Containers: find the messages in whole requests, responses and lists of any vendor."""

from collections.abc import Callable, Mapping
from typing import Any

from evalspan_collector.lenient_json import is_list, is_object, parse, unwrap
from evalspan_collector.message import Message, Role
from evalspan_collector.messages._message import content_parts, is_role, looks_like_message, message
from evalspan_collector.messages._part import looks_like_part, part, text_part
from evalspan_collector.python_repr import CLASS, looks_like_repr, read_repr

__all__ = ["MAX_DEPTH", "from_value"]

_Dict = Mapping[str, Any]
#: Wrappers around a list of messages that are taken off.
MAX_DEPTH = 8


def from_value(value: Any, role: Role, depth: int = 0) -> tuple[Message, ...]:
    """Messages from any JSON value.

    Args:
        value: A text, a message, a list of them, or a whole request or response of any vendor.
        role: The role of text that states none: `user` for an input, `assistant` for an output.
        depth: Wrappers taken off so far.

    Returns:
        The messages in order; empty when there are none to be seen.
    """
    if value is None or depth > MAX_DEPTH:
        return ()
    if isinstance(value, str):
        return _from_text(value, role, depth)
    if is_list(value):
        return _from_list(value, role, depth)
    if is_object(value):
        return _from_dict(value, role, depth)
    return ()


def _from_text(value: str, role: Role, depth: int) -> tuple[Message, ...]:
    if not value.strip():
        return ()
    parsed = unwrap(value, python=True)
    if isinstance(parsed, str) and looks_like_repr(parsed):
        parsed = read_repr(parsed) or parsed
    if parsed == []:
        return ()
    if is_object(parsed) or is_list(parsed):
        found = from_value(parsed, role, depth + 1)
        if found:
            return found
        return (Message(role=role, parts=(text_part(value),)),)
    return (Message(role=role, parts=(text_part(parsed),)),)


def _from_list(values: list[Any], role: Role, depth: int) -> tuple[Message, ...]:
    if values and all(looks_like_part(v) and not looks_like_message(v) for v in values):
        return _collected([part(v) for v in values], role)
    if len(values) == 2 and all(isinstance(v, str) for v in values) and is_role(values[0]):
        return tuple(_one({"role": values[0], "content": values[1]}, role))  # LangChain's ("user", "text")
    if values and all(is_object(v) and str(v.get(CLASS, "")).endswith("Delta") for v in values):
        return _streamed(values, role)
    found: list[Message] = []
    for value in values:
        if isinstance(value, str):
            inner = parse(value) if value[:1] == "{" else read_repr(value) if looks_like_repr(value) else value
            if is_object(inner) and looks_like_message(inner):
                found.extend(_one(inner, role))
            else:
                found.append(Message(role=role, parts=(text_part(value),)))
        elif is_object(value) and looks_like_message(value):
            found.extend(_one(value, role))
        elif isinstance(value, list | dict):
            found.extend(from_value(value, role, depth + 1))
    return tuple(found)


def _streamed(deltas: list[Any], role: Role) -> tuple[Message, ...]:
    """Deltas of one streamed answer, put together."""
    pieces = [d["content"] for d in deltas if isinstance(d.get("content"), str)]
    calls: dict[Any, dict[str, Any]] = {}
    for delta in deltas:
        for call in delta.get("tool_calls") or ():
            if not is_object(call):
                continue
            function = call.get("function")
            held = calls.setdefault(call.get("index"), {"id": None, "name": "", "arguments": ""})
            held["id"] = held["id"] or call.get("id")
            if is_object(function):
                held["name"] += function.get("name") or ""
                held["arguments"] += str(function.get("arguments") or "")
    return tuple(_one({"role": role, "content": "".join(pieces), "tool_calls": list(calls.values())}, role))


def _collected(parts: list[Any], role: Role) -> tuple[Message, ...]:
    """A bare list of blocks is one message."""
    if all(p.type == "tool_call_response" for p in parts):
        role = "tool"
    return (Message(role=role, parts=tuple(parts)),)


def _one(value: _Dict, role: Role) -> list[Message]:
    found = message(value, role)
    return [] if found is None else [found]


def _from_dict(value: _Dict, role: Role, depth: int) -> tuple[Message, ...]:
    for key, reader in _CONTAINERS:
        inner = value.get(key)
        if inner is not None and inner not in ("", [], {}):
            found = reader(value, inner, role, depth + 1)
            if found:
                return found
    if looks_like_message(value):
        return tuple(_one(value, role))
    if looks_like_part(value):
        return _collected([part(value)], role)
    return ()


def _system(value: _Dict) -> tuple[Message, ...]:
    """The system prompt that a request keeps beside its messages."""
    config = value.get("config")
    holders = (value, config) if is_object(config) else (value,)
    for holder in holders:
        for key in ("system", "instructions", "system_instruction", "systemInstruction", "system_instructions"):
            stated = holder.get(key)
            if is_object(stated) and "parts" in stated:
                stated = stated["parts"]
            parts = content_parts(stated) if isinstance(stated, str | list) else []
            if parts:
                return (Message(role="system", parts=tuple(parts)),)
    return ()


def _messages(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    found = from_value(unwrap(inner, python=True), role, depth)
    if not found:
        return ()
    system = () if found[0].role == "system" else _system(value)
    return system + found


def _input(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    """The `input` of OpenAI Responses: text or items; elsewhere any wrapped input."""
    if looks_like_message(value) or looks_like_part(value):
        return ()
    return _messages(value, inner, role, depth)


def _choices(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    del value, role, depth
    found: list[Message] = []
    for choice in inner if is_list(inner) else []:
        if not is_object(choice):
            continue
        body = choice.get("message", choice.get("delta"))
        if not is_object(body) and isinstance(choice.get("text"), str):
            body = {"role": "assistant", "content": choice["text"]}
        if is_object(body):
            finish = {k: choice[k] for k in ("finish_reason", "finishReason") if isinstance(choice.get(k), str)}
            found.extend(_one({"role": "assistant", **body, **finish}, "assistant"))
    return tuple(found)


def _candidates(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    """Gemini and Genkit: candidates with a content or a message."""
    del value, role, depth
    found: list[Message] = []
    for candidate in inner if is_list(inner) else []:
        body = candidate.get("content", candidate.get("message")) if is_object(candidate) else None
        if is_object(body):
            finish = candidate.get("finish_reason", candidate.get("finishReason"))
            found.extend(_one({**body, "finish_reason": finish}, "assistant"))
    return tuple(found)


def _generations(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    """LangChain: generations[[{text, message}]]; the message says more than the text."""
    del value, role
    flat: list[Any] = []
    for row in inner if is_list(inner) else []:
        flat.extend(row if is_list(row) else [row])
    found: list[Message] = []
    for generation in flat:
        if not is_object(generation):
            continue
        body = generation.get("message")
        if is_object(body):
            found.extend(from_value(body, "assistant", depth))
        elif isinstance(generation.get("text"), str):
            found.append(Message(role="assistant", parts=(text_part(generation["text"]),)))
    return tuple(found)


def _response_output(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    """The `output` of OpenAI Responses (a list of items) or any wrapped output."""
    if looks_like_message(value) or looks_like_part(value):
        return ()
    if is_list(inner) and inner and not any(is_object(i) for i in inner):
        return ()
    return from_value(unwrap(inner), role, depth)


def _update(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    """LangGraph commands and states: {"update": {"messages": ...}}, {"inputs": ...}, {"outputs": ...}."""
    if looks_like_message(value) or not isinstance(inner, dict | list | str):
        return ()
    if isinstance(inner, str):
        return ()
    return from_value(inner, role, depth)


def _bedrock(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    """A `message` beside the usage (Bedrock, Genkit, Cohere, Ollama, Vercel)."""
    if not is_object(inner):
        return ()
    body = {
        **inner,
        **{
            k: value[k]
            for k in ("finishReason", "stopReason", "finish_reason", "done_reason")
            if isinstance(value.get(k), str)
        },
    }
    return tuple(_one(body, role)) if looks_like_message(inner) else from_value(inner, role, depth)


def _adk(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    """ADK's LlmResponse and Event: content {role, parts} beside a finish reason."""
    del depth
    if not is_object(inner) or "parts" not in inner or "role" in value:
        return ()
    return tuple(_one({**inner, "finish_reason": value.get("finish_reason", value.get("finishReason"))}, role))


def _prompt(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    if looks_like_message(value) or not isinstance(inner, str | list):
        return ()
    found = from_value(inner, role, depth)
    return _system(value) + found if found else ()


def _items(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    """LiveKit's chat context: messages, calls and their outputs side by side."""
    if not is_list(inner) or not all(is_object(i) and isinstance(i.get("type"), str) for i in inner):
        return ()
    return _update(value, inner, role, depth)


def _repr_text(value: _Dict, inner: Any, role: Role, depth: int) -> tuple[Message, ...]:
    """llama-index: the event that a step got, as its repr."""
    del value
    found = read_repr(inner) if isinstance(inner, str) else None
    return from_value(found, role, depth) if isinstance(found, dict | list) else ()


_Reader = Callable[[_Dict, Any, Role, int], tuple[Message, ...]]
#: Keys that hold messages, best first.
_CONTAINERS: tuple[tuple[str, _Reader], ...] = (
    ("messages", _messages),
    ("chat_history", _messages),
    ("contents", lambda v, i, r, d: () if "role" in v else _messages(v, i, r, d)),
    ("choices", _choices),
    ("candidates", _candidates),
    ("generations", _generations),
    ("content", _adk),
    ("message", _bedrock),
    ("input", _input),
    ("prompt", _prompt),
    ("output", _response_output),
    ("result", _update),
    ("request", _update),
    ("response", _update),
    ("update", _update),
    ("inputs", _update),
    ("outputs", _update),
    ("kwargs", _update),
    ("replies", _response_output),
    ("combined_chunk_content", _prompt),
    ("new_messages", _messages),
    ("new_message", _update),
    ("items", _items),
    ("ev", _repr_text),
    ("user_msg", _prompt),
)
