"""Messages: one message object of any vendor to one `Message`."""

from collections.abc import Mapping
from typing import Any

from evalspan_collector.lenient_json import as_text, is_list, is_object, parse, unwrap
from evalspan_collector.message import Message, Part, Role
from evalspan_collector.messages._part import looks_like_part, part, text_part, tool_call, tool_response
from evalspan_collector.messages._result import is_langchain, langchain_fields, word
from evalspan_collector.python_repr import CLASS

__all__ = ["content_parts", "is_role", "looks_like_message", "message", "role_of"]

_Dict = Mapping[str, Any]

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("system", "developer", "systemmessage", "systemmessagechunk"), "system"),
    **dict.fromkeys(("user", "human", "humanmessage", "humanmessagechunk", "usermessage", "input"), "user"),
    **dict.fromkeys(
        (
            "assistant",
            "model",
            "ai",
            "aimessage",
            "aimessagechunk",
            "assistantmessage",
            "tool-call",
            "chatbot",
            "bot",
            "agent",
            "planner",
        ),
        "assistant",
    ),
    **dict.fromkeys(
        (
            "tool",
            "function",
            "toolmessage",
            "functionmessage",
            "tool-response",
            "tool_result",
            "tool_response",
            "ipython",
            "functionexecutionresultmessage",
            "toolresult",
            "environment",
        ),
        "tool",
    ),
}

#: Message types of OpenAI Responses items and of pydantic-ai, LangChain and AutoGen objects.
_CALL_ITEMS = frozenset({"function_call", "custom_tool_call", "tool_call"})
_OUTPUT_ITEMS = frozenset(
    {"function_call_output", "custom_tool_call_output", "computer_call_output", "local_shell_call_output"}
)
_HOSTED_ITEMS = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "computer_call",
        "local_shell_call",
    }
)
_TYPED_ROLES = frozenset(
    {
        "human",
        "ai",
        "tool",
        "system",
        "function",
        "humanmessage",
        "aimessage",
        "systemmessage",
        "toolmessage",
        "aimessagechunk",
        "usermessage",
        "assistantmessage",
        "functionexecutionresultmessage",
        "user",
        "assistant",
    }
)
_EVENT_ROLES: dict[str, Role] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
#: A text content is read as a JSON list of blocks only up to this size.
_MAX_BLOCKS_CHARS = 4_194_304


def role_of(value: Any, default: Role) -> Role:
    """The role that a free string means; `MessageRole.USER`, `{"label": "user"}` and `human` are all `user`."""
    if is_object(value):
        value = value.get("label", value.get("value"))
    if not isinstance(value, str):
        return default
    return _ROLES.get(value.rpartition(".")[2].lower(), default)


def is_role(value: Any) -> bool:
    """True for a word that names a role."""
    return isinstance(value, str) and value.lower() in _ROLES


_CONTENT_KEYS = ("content", "parts", "tool_calls", "items", "blocks", "contents")


def looks_like_message(value: Any) -> bool:
    """True for a dict that is a message of some vendor by itself."""
    if not is_object(value):
        return False
    if "role" in value and (any(k in value for k in _CONTENT_KEYS) or (CLASS in value and "args" not in value)):
        return True
    if "_role" in value or is_langchain(value) or word(value.get("event.name")) in _EVENT_ROLES:
        return True
    inner = value.get("message")
    return (
        _typed(value)
        or (is_object(inner) and looks_like_message(inner))
        or (word(value.get("kind")) in {"request", "response"} and is_list(value.get("parts")))
    )


def _typed(value: _Dict) -> bool:
    """True when the type alone says that it is a message."""
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    if kind.lower() in _TYPED_ROLES and ("content" in value or "data" in value or "message" in value):
        return True
    if (
        kind in _CALL_ITEMS
        or kind in _OUTPUT_ITEMS
        or kind in _HOSTED_ITEMS
        or (kind == "message" and "content" in value)
    ):
        return True
    return kind == "reasoning" and ("summary" in value or "encrypted_content" in value)


def message(value: _Dict, default: Role, depth: int = 0) -> Message | None:
    """One message, or None where nothing in it is one.

    Args:
        value: The message object of any vendor.
        default: The role when it states none.
        depth: Wrappers taken off so far.
    """
    if depth > 6:
        return None
    inner = _unwrapped(value)
    if inner is not None:
        found = message(inner, default, depth + 1)
        if found is None:
            return None
        return _with(found, finish=_finish(value) or found.finish_reason)
    if is_langchain(value) and value.get("type") == "constructor":
        fields = langchain_fields(value)
        named = str(value["id"][-1]) if value["id"] else ""
        return message({"type": named, **fields} if "type" not in fields else fields, default, depth + 1)
    if isinstance(value.get(CLASS), str) and not value.keys() & {"type", "role", "_role"}:
        value = {**value, "type": value[CLASS]}
    kind = value.get("type")
    if isinstance(kind, str):
        item = _response_item(kind, value)
        if item is not None:
            return item
    if word(value.get("kind")) in {"request", "response"} and is_list(value.get("parts")):
        return _pydantic_ai(value)
    return _plain(value, _role(value, default))


def _unwrapped(value: _Dict) -> _Dict | None:
    """The message inside `{"message": {...}}`, `{"data": {...}, "type": "human"}` or `{"event.name": ...}`."""
    inner = value.get("message")
    if isinstance(inner, str) and value.get("event.name") == "gen_ai.choice":
        inner = unwrap(inner)
    if is_object(inner) and "content" not in value:
        return (
            {"role": _EVENT_ROLES.get(str(value.get("event.name")), "assistant"), **inner}
            if "role" not in inner and "event.name" in value
            else inner
        )
    if len(value) == 1:  # OpenInference: prompts.0.prompt.text, choices.0.completion.text
        for key in ("prompt", "completion"):
            text = value.get(key)
            if is_object(text) and "text" in text:
                return text
    data = value.get("data")
    if is_object(data) and isinstance(value.get("type"), str) and "content" in data and "content" not in value:
        return {**data, "type": value["type"]}
    return None


def _role(value: _Dict, default: Role) -> Role:
    stated = value.get("role", value.get("_role"))
    if stated is None:
        event = value.get("event.name")
        if isinstance(event, str):
            return _EVENT_ROLES.get(event, default)
        kind = value.get("type")
        stated = kind if isinstance(kind, str) and kind.lower() in _ROLES else None
    return role_of(stated, default)


def _finish(value: _Dict) -> str | None:
    for key in ("finish_reason", "finishReason", "stop_reason", "stopReason"):
        reason = value.get(key)
        if isinstance(reason, str) and reason:
            return reason
    return None


def _with(found: Message, *, finish: str | None) -> Message:
    return Message(role=found.role, parts=found.parts, name=found.name, finish_reason=finish)


def _response_item(kind: str, value: _Dict) -> Message | None:
    """An item of the OpenAI Responses API that is a message by its type alone."""
    if kind in _CALL_ITEMS and ("name" in value or "arguments" in value):
        return Message(role="assistant", parts=(tool_call(value),))
    if kind in _OUTPUT_ITEMS:
        return Message(role="tool", parts=(tool_response(value),))
    if kind in _HOSTED_ITEMS:
        parts = [part(value)]
        output = value.get("output", value.get("results", value.get("outputs")))
        if output is not None or value.get("error") is not None:
            failed = value.get("error") is not None
            parts.append(
                tool_response(
                    {
                        "id": value.get("id"),
                        "name": parts[0].name,
                        "output": output if output is not None else value.get("error"),
                        "is_error": failed or None,
                    },
                    server_side=True,
                )
            )
        return Message(role="assistant", parts=tuple(parts))
    if kind == "reasoning" and "role" not in value:
        return Message(role="assistant", parts=(part(value),))
    return None


def _pydantic_ai(value: _Dict) -> Message:
    """pydantic-ai's own history: a request holds user, system and tool parts, a response the model's."""
    parts = tuple(part(p) for p in value["parts"])
    if value["kind"] == "response":
        return Message(role="assistant", parts=parts, finish_reason=_finish(value))
    kinds = {p.get("part_kind") for p in value["parts"] if is_object(p)}
    role: Role = (
        "system"
        if kinds == {"system-prompt"}
        else "tool"
        if kinds and kinds <= {"tool-return", "retry-prompt"}
        else "user"
    )
    return Message(role=role, parts=parts)


def _plain(value: _Dict, role: Role) -> Message:
    """Role, content and tool calls side by side: OpenAI, Anthropic, Bedrock, Gemini, Vercel and their kin."""
    parts = _contents(value, role)
    seen: dict[tuple[str | None, str | None], int] = {
        (p.id, p.name): n for n, p in enumerate(parts) if p.type == "tool_call" and p.id
    }
    for call in _calls(value):
        place = seen.get((call.id, call.name))
        if place is None:
            parts.append(call)
        elif parts[place].arguments is None:  # the same call, told twice: keep the fuller
            parts[place] = call
    name = value.get("name")
    return Message(
        role=_settled_role(role, parts),
        parts=tuple(parts),
        name=name
        if isinstance(name, str) and name and not any(p.type == "tool_call_response" and p.name == name for p in parts)
        else None,
        finish_reason=_finish(value),
    )


def _settled_role(role: Role, parts: list[Part]) -> Role:
    """A message that holds only tool results is a tool message, whoever is said to have sent it."""
    return "tool" if parts and role == "user" and all(p.type == "tool_call_response" for p in parts) else role


def _contents(value: _Dict, role: Role) -> list[Part]:
    """The parts that the content field holds, whatever it is called."""
    content: Any = None
    for key in ("parts", "contents", "items", "blocks", "content", "_content", "text"):
        content = value.get(key)
        if content is not None and content != []:
            break
    single = role == "tool" and ("parts" not in value or "tool_call_id" in value)
    answered = _tool_answer(value, content) if single else None
    parts = [answered] if answered is not None else content_parts(content)
    thinking = value.get("reasoning_content")
    if isinstance(thinking, str) and thinking and not any(p.type == "reasoning" for p in parts):
        parts.insert(0, Part(type="reasoning", content=thinking))
    refusal = value.get("refusal")
    if isinstance(refusal, str) and refusal:
        parts.append(text_part(refusal))
    return parts


def _tool_answer(value: _Dict, content: Any) -> Part | None:
    """The whole message as one tool result, unless its content is a list of results with ids of their own."""
    parsed = unwrap(content)
    if is_list(parsed):
        inner = [p for block in parsed for p in _entry(block)]
        if any(p.type == "tool_call_response" and (p.id or p.name) for p in inner):
            return None
    call_id = value.get("tool_call_id", value.get("call_id"))
    if call_id is None and isinstance(value.get("id"), str):
        call_id = value["id"]
    merged = {
        **value,
        "id": call_id,
        "tool_call_id": call_id,
        "response": content if content is not None else value.get("response", value.get("output")),
    }
    merged.pop("result", None)
    return tool_response(merged)


def content_parts(content: Any) -> list[Part]:
    """Parts of a content field: text, a list of blocks, one block, or JSON text of those."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        blocks = _blocks_in_text(content)
        return [text_part(content)] if blocks is None else [part(b) for b in blocks]
    if is_list(content):
        return [p for b in content for p in _entry(b)]
    if is_object(content):
        return [part(content)]
    return [text_part(as_text(content))]


def _entry(block: Any) -> list[Part]:
    """One entry of a content list; haystack nests lists and AutoGen puts bare calls there."""
    if is_object(block) and not looks_like_part(block):
        if {"id", "name", "arguments"} <= block.keys():
            return [tool_call(block)]
        if {"call_id", "content"} <= block.keys():
            return [tool_response(block)]
        if {"role", "content"} <= block.keys():
            return content_parts(block["content"])
    return [part(block)]


def _blocks_in_text(content: str) -> list[Any] | None:
    """The blocks when a content text is really a JSON list of them."""
    head = content[:2]
    if head not in {"[{", "[ "} and content[:3] not in {"[\n ", "[\n{"}:
        return None
    parsed = parse(content, python=True) if len(content) <= _MAX_BLOCKS_CHARS else content
    if is_list(parsed) and parsed and all(looks_like_part(b) for b in parsed):
        return parsed
    return None


def _calls(value: _Dict) -> list[Part]:
    """Tool calls beside the content."""
    extra = value.get("additional_kwargs")
    found: list[Part] = []
    for holder in (value, extra if is_object(extra) else {}):
        calls = holder.get("tool_calls", holder.get("toolCalls", holder.get("function_calls")))
        calls = unwrap(calls, python=True)
        if is_object(calls):
            calls = (
                list(calls.values()) if all(is_object(c) for c in calls.values()) and "name" not in calls else [calls]
            )
        if is_list(calls):
            found = [tool_call(_call_body(c)) for c in calls if is_object(c)]
        single = holder.get("function_call")
        if not found and is_object(single) and single.get("name"):
            found = [tool_call(single)]
        if found:
            break
    return found


def _call_body(call: _Dict) -> _Dict:
    """OpenInference wraps each call in `tool_call`, smolagents and llama-index in `function` objects."""
    inner = call.get("tool_call")
    return inner if is_object(inner) else call
