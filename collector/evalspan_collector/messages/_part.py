"""Parts: one content block of any vendor to one `Part`, dispatched by its type or its only key."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from evalspan_collector.lenient_json import as_text, dump, is_list, is_object, unwrap
from evalspan_collector.message import Part
from evalspan_collector.messages._result import tool_result
from evalspan_collector.python_repr import CLASS

__all__ = ["looks_like_part", "part", "text_part", "tool_call", "tool_response"]

_Dict = Mapping[str, Any]
_SERVER_ID = ("srvtoolu_", "ws_", "fs_", "ci_", "mcp_call_")
REDACTED = frozenset({"__REDACTED__", "[REDACTED]", "<REDACTED>"})


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) and value else str(value) if isinstance(value, int | float) else None


def _first(block: _Dict, *keys: str) -> Any:
    """The first of the keys that holds something."""
    for key in keys:
        value = block.get(key)
        if value is not None:
            return value
    return None


def text_part(content: Any) -> Part:
    """A text part; redaction marks are the absence of content."""
    if not isinstance(content, str):
        content = None if content is None else as_text(content)
    return Part(type="text", content=None if content in REDACTED else content)


def tool_call(block: _Dict, *, server_side: bool = False) -> Part:
    """A request for a tool, in any spelling of its id, name and arguments."""
    function = block.get("function")
    inner: _Dict = function if is_object(function) else block
    name = _first(inner, "name", "toolName", "tool_name", "function_name") or (
        function if isinstance(function, str) else None
    )
    call_id = _str(_first(block, "call_id", "id", "toolCallId", "tool_call_id", "toolUseId", "ref", "callId"))
    arguments = unwrap(_first(inner, "arguments", "args", "input", "parameters", "arguments_json"), python=True)
    return Part(
        type="tool_call",
        id=call_id,
        name=_str(name),
        arguments=None if isinstance(arguments, str) and arguments in REDACTED else arguments,
        server_side=server_side or block.get("builtin") is True or bool(call_id and call_id.startswith(_SERVER_ID[0])),
    )


def tool_response(block: _Dict, *, server_side: bool = False) -> Part:
    """The answer of a tool, in any spelling."""
    call_id = _str(
        _first(block, "tool_use_id", "call_id", "tool_call_id", "toolCallId", "toolUseId", "id", "ref", "callId")
    )
    response, failed = tool_result(_first(block, "response", "result", "output", "content", "structuredContent"))
    stated = _first(block, "is_error", "isError")
    if not isinstance(stated, bool):
        stated = True if block.get("status") == "error" or block.get("outcome") == "failed" else None
    return Part(
        type="tool_call_response",
        id=call_id,
        name=_str(_first(block, "name", "toolName", "tool_name")),
        response=None if isinstance(response, str) and response in REDACTED else response,
        is_error=stated if stated is not None else failed,
        server_side=server_side or block.get("builtin") is True or bool(call_id and call_id.startswith(_SERVER_ID[0])),
    )


def _text(block: _Dict) -> Part:
    value = _first(block, "text", "content", "input_text", "output_text", "value")
    if is_object(value):  # OpenAI assistants: {"text": {"value": ...}}
        value = value.get("value", value.get("text"))
    if is_list(value):
        value = "\n".join(t for t in map(_plain_text, value) if t) or None
    return text_part(value)


def _reasoning(block: _Dict) -> Part:
    value = _first(block, "thinking", "reasoning", "text", "content", "summary", "reasoningText", "reasoning_text")
    if is_list(value):
        value = "\n".join(t for t in (_plain_text(v) for v in value) if t)
    elif is_object(value):
        value = _plain_text(value)
    content = value if isinstance(value, str) and value not in REDACTED else None
    return Part(type="reasoning", content=content)


def _plain_text(value: Any) -> str | None:
    if is_object(value):
        inner = _first(value, "text", "content", "reasoningText", "thinking")
        return _plain_text(inner)
    return value if isinstance(value, str) else None


def _server_call(block: _Dict) -> Part:
    """Semconv `server_tool_call`: the call is an inner object."""
    inner = block.get("server_tool_call")
    if not is_object(inner):
        return tool_call(block, server_side=True)
    arguments = _first(inner, "arguments", "input")
    if arguments is None:
        arguments = {k: v for k, v in inner.items() if k != "type"}
    return Part(
        type="tool_call",
        id=_str(block.get("id")),
        name=_str(_first(block, "name")) or _str(inner.get("name")) or _str(inner.get("type")),
        arguments=unwrap(arguments),
        server_side=True,
    )


def _server_response(block: _Dict) -> Part:
    inner = block.get("server_tool_call_response")
    if not is_object(inner):
        return tool_response(block, server_side=True)
    content = _first(inner, "content", "response", "result", "output")
    if content is None:
        content = {k: v for k, v in inner.items() if k != "type"}
    response, failed = tool_result(content)
    return Part(
        type="tool_call_response",
        id=_str(block.get("id")),
        name=_str(_first(block, "name")),
        response=response,
        is_error=failed,
        server_side=True,
    )


def _anthropic_server_call(block: _Dict) -> Part:
    return tool_call(block, server_side=True)


def _anthropic_server_result(block: _Dict) -> Part:
    name = str(block.get("type", "")).removesuffix("_tool_result") or None
    answered = tool_response(block, server_side=True)
    failed = is_object(answered.response) and str(answered.response.get("type", "")).endswith("_error")
    return Part(
        type="tool_call_response",
        id=answered.id,
        name=answered.name or name,
        response=answered.response,
        is_error=True if failed else answered.is_error,
        server_side=True,
    )


def _hosted_call(block: _Dict) -> Part:
    """OpenAI Responses: a tool that OpenAI ran (`web_search_call`, `mcp_call`, ...)."""
    kind = str(block.get("type", ""))
    known = {"id", "type", "status", "name", "arguments", "output", "error", "server_label"}
    arguments = _first(block, "arguments", "action", "queries", "code")
    if arguments is None:
        arguments = {k: v for k, v in block.items() if k not in known} or None
    return Part(
        type="tool_call",
        id=_str(block.get("id")),
        name=_str(block.get("name")) or kind.removesuffix("_call"),
        arguments=unwrap(arguments),
        server_side=True,
    )


def _media(block: _Dict) -> Part:
    """An image, audio or file: a reference, never the bytes."""
    source = _first(
        block,
        "source",
        "image_url",
        "image",
        "input_audio",
        "file",
        "inlineData",
        "inline_data",
        "media",
        "fileData",
        "file_data",
    )
    inner: _Dict = source if is_object(source) else block
    nested = inner.get("image")
    if is_object(nested):  # OpenInference: image.image.url
        inner = nested
    mime = _str(_first(inner, "media_type", "mime_type", "mimeType", "contentType", "mediaType", "format")) or _str(
        _first(block, "mime_type", "mimeType", "mediaType")
    )
    uri = source if isinstance(source, str) else _first(inner, "url", "uri", "file_uri", "fileUri", "image_url")
    if is_object(uri):
        uri = uri.get("url")
    file_id = _first(inner, "file_id", "fileId")
    if isinstance(uri, str) and uri.startswith("data:"):
        head, _, data = uri.partition(",")
        return Part(type="blob", content=_digest(data), mime_type=mime or head[5:].partition(";")[0] or None)
    if isinstance(uri, str) and uri:
        return Part(type="uri", content=uri, mime_type=mime)
    if file_id is not None:
        return Part(type="file", content=str(file_id), mime_type=mime)
    data = _first(inner, "data", "bytes", "content")
    return Part(type="blob", content=None if data is None else _digest(as_text(data)), mime_type=mime)


def _digest(data: str) -> str:
    """A reference to bytes that are not kept: their hash, by which equal images stay equal."""
    if data.startswith("sha256:"):
        return data
    return "sha256:" + hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()


def _uri(block: _Dict) -> Part:
    return Part(
        type="uri", content=_str(_first(block, "uri", "content", "url")), mime_type=_str(block.get("mime_type"))
    )


def _file(block: _Dict) -> Part:
    file_id = _first(block, "file_id", "fileId")
    if file_id is None:
        return _media(block)
    return Part(type="file", content=str(file_id), mime_type=_str(_first(block, "mime_type", "mediaType")))


def _blob(block: _Dict) -> Part:
    data = _first(block, "content", "data", "blob")
    return Part(
        type="blob",
        content=None if data is None else _digest(as_text(data)),
        mime_type=_str(_first(block, "mime_type", "mimeType")),
    )


def _other(block: _Dict) -> Part:
    content = (
        block.get("content")
        if block.keys() <= {"type", "content"} and isinstance(block.get("content"), str)
        else dump(block)
    )
    return Part(type="other", content=content)


_BY_TYPE: dict[str, Callable[[_Dict], Part]] = {
    **dict.fromkeys(("text", "input_text", "output_text", "refusal_text", "TextBlock", "textContent", "json"), _text),
    "refusal": lambda b: text_part(_first(b, "refusal", "content", "text")),
    **dict.fromkeys(
        ("reasoning", "thinking", "redacted_thinking", "redacted_reasoning", "redacted-reasoning", "thought"),
        _reasoning,
    ),
    **dict.fromkeys(
        (
            "tool_call",
            "tool_use",
            "toolCall",
            "tool-call",
            "function_call",
            "functionCall",
            "custom_tool_call",
            "tool-request",
            "function",
            "tool_call_chunk",
        ),
        tool_call,
    ),
    **dict.fromkeys(
        (
            "tool_call_response",
            "tool_result",
            "toolResult",
            "tool-result",
            "function_call_output",
            "custom_tool_call_output",
            "function_result",
            "function_response",
            "tool_response",
            "tool-response",
            "tool-error",
            "tool_return",
            "computer_call_output",
            "local_shell_call_output",
        ),
        tool_response,
    ),
    "server_tool_call": _server_call,
    "server_tool_call_response": _server_response,
    **dict.fromkeys(("server_tool_use", "mcp_tool_use"), _anthropic_server_call),
    **dict.fromkeys(
        (
            "web_search_tool_result",
            "web_fetch_tool_result",
            "code_execution_tool_result",
            "bash_code_execution_tool_result",
            "text_editor_code_execution_tool_result",
            "mcp_tool_result",
            "tool_search_tool_result",
        ),
        _anthropic_server_result,
    ),
    **dict.fromkeys(
        (
            "web_search_call",
            "file_search_call",
            "code_interpreter_call",
            "image_generation_call",
            "mcp_call",
            "computer_call",
            "local_shell_call",
        ),
        _hosted_call,
    ),
    **dict.fromkeys(
        (
            "image",
            "image_url",
            "input_image",
            "input_audio",
            "audio",
            "video",
            "document",
            "media",
            "image-url",
            "binary",
            "input_file",
        ),
        _media,
    ),
    "uri": _uri,
    "blob": _blob,
    "file": _file,
    "other": _other,
}

#: Blocks without a type, known by a key that only they have.
_BY_KEY: tuple[tuple[str, Callable[[Any, _Dict], Part]], ...] = (
    ("toolUse", lambda v, _: tool_call(v)),
    ("toolResult", lambda v, _: tool_response(v)),
    ("functionCall", lambda v, _: tool_call(v)),
    ("function_call", lambda v, _: tool_call(v)),
    ("functionResponse", lambda v, _: tool_response(v)),
    ("function_response", lambda v, _: tool_response(v)),
    ("toolRequest", lambda v, _: tool_call(v)),
    ("toolResponse", lambda v, _: tool_response(v)),
    ("tool_call_result", lambda v, _: _haystack_result(v)),
    ("tool_call", lambda v, _: tool_call(v)),
    ("reasoningContent", lambda v, _: _reasoning(v)),
    ("inlineData", lambda _, b: _media(b)),
    ("inline_data", lambda _, b: _media(b)),
    ("fileData", lambda _, b: _media(b)),
    ("file_data", lambda _, b: _media(b)),
    ("media", lambda _, b: _media(b)),
)


def _haystack_result(value: _Dict) -> Part:
    origin = value.get("origin")
    origin = origin if is_object(origin) else {}
    response, failed = tool_result(value.get("result"))
    stated = value.get("error")
    return Part(
        type="tool_call_response",
        id=_str(origin.get("id")),
        name=_str(_first(origin, "tool_name", "name")),
        response=response,
        is_error=stated if isinstance(stated, bool) and stated else failed,
    )


_WRAPPERS = ("message_content", "root", "data")
_TYPE_KEYS = ("type", "part_kind", "content_type", "block_type", "kind", CLASS)
_PART_KINDS = {
    "TextContent": "text",
    "TextPart": "text",
    "ThinkingBlock": "reasoning",
    "ThinkingPart": "reasoning",
    "ReasoningContent": "reasoning",
    "ToolUseBlock": "tool_call",
    "ToolCallBlock": "tool_call",
    "ToolCallPart": "tool_call",
    "FunctionCall": "tool_call",
    "ToolResultBlock": "tool_result",
    "ToolReturnPart": "tool_result",
    "FunctionExecutionResult": "tool_result",
    "tool-return": "tool_call_response",
    "retry-prompt": "tool_call_response",
    "user-prompt": "text",
    "system-prompt": "text",
    "builtin-tool-call": "server_tool_call",
    "builtin-tool-return": "server_tool_call_response",
}


def part(block: Any) -> Part:
    """One `Part` from one block of any vendor; what nobody knows becomes `other` with its JSON."""
    if isinstance(block, str):
        return text_part(block)
    if not is_object(block):
        return Part(type="other", content=dump(block))
    if len(block) == 1:
        for wrapper in _WRAPPERS:
            inner = block.get(wrapper)
            if is_object(inner):
                return part(inner)
    return _by_type(block) or _by_key(block) or _other(block)


def _by_type(block: _Dict) -> Part | None:
    """A block that names its type."""
    for key in _TYPE_KEYS:
        kind = block.get(key)
        if isinstance(kind, str):
            reader = _BY_TYPE.get(_PART_KINDS.get(kind, kind))
            if reader is not None:
                return reader(_inside(block))
    return None


def _by_key(block: _Dict) -> Part | None:
    """A block known by a key that only its kind has."""
    if "tool_name" in block and "arguments" in block:  # haystack's ToolCall
        return tool_call(block)
    if is_object(block.get("origin")) and "result" in block:  # haystack's ToolCallResult
        return _haystack_result(block)
    for key, build in _BY_KEY:
        value = block.get(key)
        if is_object(value):
            return build(value, block)
    if isinstance(block.get("text"), str):
        return _reasoning(block) if block.get("thought") is True else text_part(block["text"])
    return None


def _inside(block: _Dict) -> _Dict:
    """OpenInference content entries put the call beside the type, in a `tool_call` object."""
    inner = block.get("tool_call")
    return inner if is_object(inner) else block


def looks_like_part(block: Any) -> bool:
    """True for a dict that some vendor's content list may hold."""
    if not is_object(block) or "role" in block:
        return False
    if any(isinstance(block.get(k), str) and _PART_KINDS.get(block[k], block[k]) in _BY_TYPE for k in _TYPE_KEYS):
        return True
    if any(is_object(block.get(k)) for k, _ in _BY_KEY) or is_object(block.get("message_content")):
        return True
    return block.keys() <= {"text", "thought", "thoughtSignature", "thought_signature"} and isinstance(
        block.get("text"), str
    )
