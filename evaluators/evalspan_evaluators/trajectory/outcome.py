"""Outcome: whether a tool call failed, and when two calls are the same."""

import json
from typing import Any

from evalspan_collector.run import ToolCall
from evalspan_evaluators.jsonvalue import is_object

__all__ = ["call_failed", "failure_text", "fingerprint"]

_ERROR_KEYS = frozenset({"error", "isError", "is_error"})
#: An object with more members is a result that mentions an error, not an error message.
_MOST_MEMBERS = 4


def call_failed(call: ToolCall) -> bool:
    """Whether the tool failed: the run says so, or its result is an error message and nothing else."""
    if call.failed or call.error:
        return True
    result = call.result
    if isinstance(result, str):
        return result[:5].lower() == "error" and result[5:6] in (":", " ", "")
    if not is_object(result) or len(result) > _MOST_MEMBERS or _ERROR_KEYS.isdisjoint(result):
        return False
    return any(result.get(key) for key in _ERROR_KEYS) and result.get("ok") is not True


def failure_text(call: ToolCall) -> str:
    """What the tool said when it failed; empty when it said nothing."""
    if call.error:
        return call.error
    if is_object(call.result):
        said = call.result.get("error") or call.result.get("message")
        return said if isinstance(said, str) else json.dumps(dict(call.result), default=str)[:300]
    return call.result if isinstance(call.result, str) else ""


def fingerprint(call: ToolCall) -> tuple[str, Any]:
    """Equal for two calls of the same tool with the same arguments, whatever the order of their names."""
    arguments: Any = call.arguments
    if is_object(arguments):
        try:
            plain = frozenset(arguments.items())
        except TypeError:
            return call.name, json.dumps(dict(arguments), sort_keys=True, default=repr)
        return call.name, plain
    if arguments is None or isinstance(arguments, str | int | float):
        return call.name, arguments
    return call.name, json.dumps(arguments, sort_keys=True, default=repr)
