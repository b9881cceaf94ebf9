"""Content: Python values of an agent as the text that span attributes carry."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

__all__ = ["cut", "input_messages", "output_messages", "to_text"]

_DEPTH = 24  # nesting beyond this is shown by its repr: nobody's tool result is deeper, cycles are endless
_ROWS = 1_000  # of a data frame
_PLAIN = (str, int, float, bool, type(None))
_DATA = (*_PLAIN, Mapping, list, tuple, AbstractSet, datetime, date, time, Decimal, Enum, UUID, PurePath, bytes)

Message = dict[str, object]


def cut(text: str, limit: int) -> tuple[str, bool]:
    """Text that fits `limit` UTF-8 bytes, and whether something was cut off.

    Lone surrogates, which no protobuf string may hold, become `?`.
    """
    if text.isascii():
        return (text, False) if len(text) <= limit else (text[:limit], True)
    raw = text.encode("utf-8", "replace")
    return raw[:limit].decode("utf-8", "ignore"), len(raw) > limit


def to_text(value: object) -> str:
    """The value as text: a string is itself, anything else is JSON text. Never raises on odd values."""
    if isinstance(value, str):
        return str(value)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_default)
    except Exception:  # noqa: BLE001 - odd keys, NaN, cycles, properties that raise: take the careful way
        return json.dumps(_careful(value, _DEPTH), ensure_ascii=False)


def input_messages(arguments: Mapping[str, object], limit: int) -> tuple[str, bool]:
    """JSON text of the messages an agent was called with, and whether they were cut.

    One text argument is the user's message; a list of chat messages is the chat before it, or all of it;
    anything else is one user message that holds the arguments as JSON. Clients, handles and other objects
    that are no data are left out.
    """
    data = {name: value for name, value in arguments.items() if value is not None and _is_data(value)}
    chats = [chat for value in data.values() if (chat := _chat(value))]
    others = [value for value in data.values() if not _chat(value) and not _is_empty_list(value)]
    if len(chats) <= 1 and (not others or (len(others) == 1 and isinstance(others[0], str))):
        said = [("user", str(other)) for other in others]
        return _dump([*(chats[0] if chats else []), *said], limit)
    return _dump([("user", to_text(data))], limit)


def output_messages(value: object, limit: int) -> tuple[str, bool]:
    """JSON text of the one message an agent answered with, and whether it was cut."""
    text = _message_text(value)
    return _dump([("assistant", to_text(value) if text is None else text)], limit, finish_reason="stop")


def _dump(chat: Sequence[tuple[str, str]], limit: int, **more: object) -> tuple[str, bool]:
    messages: list[Message] = []
    truncated = False
    for role, content in reversed(chat):  # when it is too much, the newest message is the one to keep
        text, was_cut = cut(content, limit)
        truncated |= was_cut
        limit -= min(len(text.encode()), limit)
        messages.append({"role": role, "parts": [{"type": "text", "content": text}], **more})
    return json.dumps(messages[::-1], ensure_ascii=False), truncated


def _chat(value: object) -> list[tuple[str, str]]:
    """Role and text of chat messages as the model APIs take them; empty when `value` is no such list."""
    if not isinstance(value, list | tuple):
        return []
    chat: list[tuple[str, str]] = []
    for item in cast("Sequence[object]", value):
        if not isinstance(item, Mapping):
            return []
        message = cast("Mapping[str, object]", item)
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or content is None:
            return []
        chat.append((role, content if isinstance(content, str) else _blocks_text(content)))
    return chat


def _blocks_text(content: object) -> str:
    text = _join_text(content)
    return to_text(content) if text is None else text


def _message_text(value: object) -> str | None:
    """Text of a model API's reply object (its text blocks), None when it is no such object."""
    if isinstance(value, str):
        return str(value)
    if getattr(value, "role", None) != "assistant":
        return None
    content = getattr(value, "content", None)
    return content if isinstance(content, str) else _join_text(content)


def _join_text(blocks: object) -> str | None:
    if not isinstance(blocks, list | tuple):
        return None
    found: list[str] = []
    for block in cast("Sequence[object]", blocks):
        if isinstance(block, Mapping):
            text = cast("Mapping[str, object]", block).get("text")
        else:
            text = getattr(block, "text", None)
        if isinstance(text, str):
            found.append(text)
    return "".join(found) if found else None


def _is_empty_list(value: object) -> bool:
    return isinstance(value, list | tuple) and not value


def _is_data(value: object) -> bool:
    return isinstance(value, _DATA) or dataclasses.is_dataclass(value) or hasattr(value, "model_dump")


def _default(value: object) -> object:
    return _plain(value, _DEPTH)


def _careful(value: object, depth: int) -> object:
    try:
        return _plain(value, depth)
    except Exception:  # noqa: BLE001 - a value whose own methods raise is shown by its type
        return f"<{type(value).__qualname__}>"


def _plain(value: object, depth: int) -> object:
    """The value in JSON's own types."""
    if isinstance(value, Enum):
        return _careful(value.value, depth - 1)
    if isinstance(value, _PLAIN):
        return _number(value) if isinstance(value, float) else value
    if depth <= 0:
        return _show(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _careful(item, depth - 1) for key, item in items}
    if isinstance(value, list | tuple | AbstractSet):
        return [_careful(item, depth - 1) for item in cast("Sequence[object]", value)]
    if isinstance(value, Decimal):
        return _decimal(value)
    return _object(value, depth)


def _object(value: object, depth: int) -> object:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | PurePath | timedelta):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _careful(getattr(value, f.name, None), depth - 1) for f in dataclasses.fields(value)}
    anything = cast("Any", value)
    if callable(getattr(value, "model_dump", None)):  # pydantic, and with it every reply of the anthropic SDK
        return _careful(anything.model_dump(mode="json"), depth - 1)
    if type(value).__module__.partition(".")[0] == "pandas" and callable(getattr(value, "to_dict", None)):
        rows = anything.head(_ROWS)
        return _careful(rows.to_dict("records") if hasattr(rows, "columns") else rows.to_dict(), depth - 1)
    if hasattr(value, "dtype") and callable(getattr(value, "tolist", None)):  # numpy scalars and arrays
        return _careful(anything.tolist(), depth - 1)
    return _show(value)


def _number(value: float) -> float | str:
    return value if value - value == 0 else str(value)  # JSON has no NaN and no infinity


def _decimal(value: Decimal) -> float | int | str:
    if not value.is_finite():
        return str(value)
    number = int(value) if value == value.to_integral_value() else float(value)
    return number if Decimal(str(number)) == value else str(value)


def _show(value: object) -> str:
    if type(value).__repr__ is object.__repr__:  # its address says nothing and differs in every run
        return f"<{type(value).__module__}.{type(value).__qualname__}>"
    return repr(value)
