"""Tool results: one value and one verdict out of every wrapping the libraries put around them."""

from collections.abc import Mapping
from typing import Any

from evalspan_collector.lenient_json import is_list, is_object, unwrap
from evalspan_collector.python_repr import CLASS, read_repr

__all__ = ["is_langchain", "langchain_fields", "tool_result", "word"]

_TEXT_TYPES = frozenset({"text", "output_text", "input_text"})
_VERCEL_OK = frozenset({"json", "text", "content"})
_VERCEL_ERROR = frozenset({"error-text", "error-json", "execution-denied"})
_BLOCK_KEYS = frozenset(
    {"type", "text", "annotations", "meta", "_meta", "citations", "cache_control", "id", "index", "extras", "__type"}
)
_MCP_KEYS = frozenset(
    {
        "content",
        "isError",
        "is_error",
        "structuredContent",
        "structured_content",
        "meta",
        "_meta",
        "data",
        "tool_use_id",
        "type",
    }
)


def tool_result(value: Any) -> tuple[Any, bool | None]:
    """Unwrap a tool's result until nothing is left to unwrap.

    Returns:
        The result as JSON value or text, and whether its wrapping says the tool failed (None: says nothing).
    """
    failed: bool | None = None
    while True:
        inner, says = _step(_opened(value))
        failed = says if says is not None else failed
        if inner is value or inner == value:
            return inner, failed
        value = inner


#: Beginnings of the reprs of LangChain's and llama-index's tool results.
_REPRS = (
    "content=",
    "ToolMessage(",
    "ToolOutput(",
    "ToolCallResult(",
    "CallToolResult(",
    "FunctionExecutionResult(",
    "Command(",
    "meta=None content=",
)


def _opened(value: Any) -> Any:
    """JSON in JSON, and the repr of a known result object, undone."""
    value = unwrap(value)
    if isinstance(value, str) and value.startswith(_REPRS):
        found = read_repr(value)
        if is_object(found):
            return found.get("tool_output", found)
    return value


def _step(value: Any) -> tuple[Any, bool | None]:
    """Take one wrapping off, if there is one."""
    if is_list(value):
        return _from_blocks(value)
    if not is_object(value):
        return value, None
    if is_langchain(value):
        fields = langchain_fields(value)
        return fields.get("content"), fields.get("status") == "error" or None
    wrapped = _enveloped(value)
    if wrapped is not None:
        return wrapped
    kind = word(value.get("type"))
    if kind in _VERCEL_OK and "value" in value and len(value) <= 3:
        return value["value"], None
    if kind in _VERCEL_ERROR and ("value" in value or "reason" in value):
        return value.get("value", value.get("reason")), True
    if "content" in value and ("isError" in value or "is_error" in value) and value.keys() <= _MCP_KEYS:
        failed = value.get("isError", value.get("is_error"))
        return value["content"], failed if isinstance(failed, bool) else None
    return value, None


def _enveloped(value: dict[str, Any]) -> tuple[Any, bool | None] | None:
    """Results that a framework put beside its own fields."""
    keys = value.keys()
    if "output" in keys and keys <= _CALLBACK_KEYS:  # LangChain callback, LangSmith
        output = value["output"]
        if "kwargs" in keys or (is_object(output) and is_langchain(output)):
            return output, None
    if keys >= {"raw_output", "is_error"}:  # llama-index ToolOutput
        failed = value["is_error"]
        raw = value["raw_output"]
        return raw if raw is not None else value.get("blocks", value.get("content")), failed if isinstance(
            failed, bool
        ) else None
    if "response" in keys and "name" in keys and keys <= _GEMINI_KEYS:
        return value["response"], None
    update = value.get("update")
    if is_object(update) and keys <= _COMMAND_KEYS:  # LangGraph Command
        listed = update.get("messages")
        answers = [m for m in listed if is_object(m) and is_langchain(m)] if is_list(listed) else []
        if answers:
            return answers[-1], None
    return None


_CALLBACK_KEYS = frozenset({"output", "kwargs", "tags", "run_id", "parent_run_id", "name"})
_GEMINI_KEYS = frozenset({"id", "name", "response", "will_continue", "scheduling", "parts"})
_COMMAND_KEYS = frozenset({"graph", "update", "resume", "goto", "lg_name", "type"})


def _from_blocks(blocks: list[Any]) -> tuple[Any, bool | None]:
    """A list of text blocks (Anthropic, MCP, Bedrock) is its text; one JSON block is its JSON."""
    texts: list[str] = []
    for block in blocks:
        if not is_object(block):
            return blocks, None
        text = block.get("text")
        if (
            isinstance(text, str)
            and (word(block.get("type")) in _TEXT_TYPES or block.keys() <= {"text"})
            and block.keys() <= _BLOCK_KEYS
        ):
            texts.append(text)
        elif len(blocks) == 1 and block.keys() == {"json"}:
            return block["json"], None
        elif len(blocks) == 1 and is_langchain(block) and "tool_call_id" in langchain_fields(block):
            return block, None
        elif (
            block.get("type") == "text"
            and isinstance(block.get("content"), str)
            and block.keys() <= {"type", "content"}
        ):
            texts.append(block["content"])
        else:
            return blocks, None
    return ("\n".join(texts), None) if texts else (blocks, None)


def word(value: Any) -> str:
    """The value when it is a text, else nothing: what vendors call a type may be anything."""
    return value if isinstance(value, str) else ""


def is_langchain(value: Mapping[str, Any]) -> bool:
    """True for a serialised LangChain message, constructor form or plain."""
    if value.get("type") == "constructor" and is_object(value.get("kwargs")) and is_list(value.get("id")):
        return True
    if word(value.get("type")) in {"tool", "ToolMessage"} and "content" in value and "tool_call_id" in value:
        return True
    data = value.get("data")
    if value.get("type") == "tool" and is_object(data) and "content" in data:
        return True
    return (
        "content" in value and "tool_call_id" in value and "role" not in value and ("status" in value or CLASS in value)
    )


def langchain_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a serialised LangChain message."""
    data = value.get("data")
    fields = (
        value["kwargs"]
        if value.get("type") == "constructor"
        else data
        if is_object(data) and "content" not in value
        else value
    )
    return {**fields}
