"""Failure: whether a tool's result says that the tool failed, where its span's status does not."""

import json
import re
from collections.abc import Iterable
from typing import Any, cast

from evalspan_collector.lenient_json import parse

__all__ = ["as_list", "as_object", "parsed", "says_failed"]

#: How frameworks word a caught exception; anchored, so that a tool may speak about errors.
_FAILED_TEXT = re.compile(
    r"^\W{0,3}(?:(?:tool )?error\b\s*(?::|executing|running|calling|invoking|in tool|while|occurred|details)"
    r"|errors? encountered|an? (?:\w+ )?error occurred (?:while|when)|exception\s*:|traceback \(most recent"
    r"|tool (?:execution|call|\S+) (?:failed|errored)|execution error in"
    r"|failed to (?:execute|run|call) (?:the )?(?:tool|function)"
    r"|error: function failed|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b\s*[:(\-])",
    re.IGNORECASE,
)
_CLASS_STYLE = re.compile(r"^\W{0,3}(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b\s*[:(\-]")
_TRUE = (True, "true", "True", 1)
_BAD = frozenset({"error", "failed", "failure"})


def parsed(value: Any) -> Any:
    """The value with JSON text (up to three levels of it) read; other text as it is."""
    for _ in range(3):
        if not isinstance(value, str):
            break
        text = value.lstrip()
        if not text or (text[0] not in '{["' and not _SCALAR.match(text)):
            break
        read = parse(value)
        if isinstance(read, str) and read == value:
            break
        value = read
    return value


_SCALAR = re.compile(r"^(?:-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)\s*$")


def as_object(value: Any) -> dict[str, Any] | None:
    """The value where it is a JSON object, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: Any) -> list[Any]:
    """The value where it is a JSON list, else an empty one."""
    return [*cast("Iterable[Any]", value)] if isinstance(value, list) else []


def says_failed(result: Any) -> str | None:
    """The message of a failure that a result states, None when it states none.

    A result states failure by the fields of a tool message (`is_error`, `isError`, `status: error`, a lone
    `error`), or by text that begins as frameworks begin the text of a caught exception.
    """
    value = parsed(result)
    fields = as_object(value)
    if fields is not None:
        return _of_object(fields)
    items = as_list(value)
    if len(items) == 1:
        return says_failed(items[0])
    if isinstance(value, str):
        text = value.strip()
        if _CLASS_STYLE.match(text) or (_FAILED_TEXT.match(text) and not text[:1].isdigit()):
            return text
    return None


def _of_object(value: dict[str, Any]) -> str | None:
    if any(value.get(k) in _TRUE for k in ("is_error", "isError")):
        return _message(value)
    if str(value.get("status")).lower() in _BAD and any(k in value for k in _CONTENT):
        return _message(value)
    error = value.get("error")
    if error and len(value) <= 3 and (len(value) == 1 or _mostly_error(value)):
        return _message(value)
    if value.get("type") == "text" and isinstance(value.get("text"), str):
        return says_failed(value["text"])
    lone = next(iter(value.values())) if len(value) == 1 else None
    return says_failed(lone) if isinstance(lone, str) and next(iter(value)) in _CONTENT else None


_CONTENT = ("content", "message", "error", "output", "result", "response", "text")
_ERROR_WORDS = frozenset({"error", "type", "code", "message", "status", "details", "success", "ok", "error_type"})


def _mostly_error(value: dict[str, Any]) -> bool:
    return set(value) <= _ERROR_WORDS and value.get("success") is not True and value.get("ok") is not True


def _message(value: dict[str, Any]) -> str:
    for key in ("error", "message", *_CONTENT):
        text = value.get(key)
        if isinstance(text, str) and text:
            return text
    return json.dumps(value, ensure_ascii=False)[:500]
