"""Messages of every generation and vendor, read to one normal form and written back."""

from collections.abc import Iterable, Mapping
from typing import Any

from evalspan_collector.lenient_json import dump, is_list, is_object
from evalspan_collector.message import Message, Part, Role
from evalspan_collector.messages._container import from_value
from evalspan_collector.messages._indexed import unflatten
from evalspan_collector.messages._message import message
from evalspan_collector.messages._result import tool_result

__all__ = ["dumps", "from_flat", "from_value", "last_text", "loads", "system_text", "tool_result", "unflatten"]


def loads(text: str | None, role: Role = "user") -> tuple[Message, ...]:
    """Read messages from text in the normal form or in any vendor's shape.

    Args:
        text: JSON, a Python repr, or plain text, which becomes one message.
        role: The role of what states none: `user` for an input, `assistant` for an output.

    Returns:
        The messages in order; empty when the text is None or blank. `loads(dumps(x)) == x`.
    """
    return from_value(text, role)


def from_flat(flat: Mapping[str, Any], role: Role) -> tuple[Message, ...]:
    """Messages from indexed attributes, given as {rest of key: value}; a missing role is `role`."""
    listed = unflatten(flat)
    found = (message(m, role) for m in (listed if is_list(listed) else [listed]) if is_object(m))
    return tuple(m for m in found if m is not None)


def dumps(messages: Iterable[Message]) -> str:
    """Write messages as JSON text of the normal form (semantic conventions parts)."""
    return dump([_message_json(m) for m in messages])


def _message_json(found: Message) -> dict[str, Any]:
    out: dict[str, Any] = {"role": found.role, "parts": [_part_json(p) for p in found.parts]}
    if found.name is not None:
        out["name"] = found.name
    if found.finish_reason is not None:
        out["finish_reason"] = found.finish_reason
    return out


#: Where the reference of a media part goes.
_CONTENT_KEY = {"uri": "uri", "file": "file_id"}


def _part_json(found: Part) -> dict[str, Any]:
    out: dict[str, Any] = {"type": found.type}
    if found.content is not None:
        out[_CONTENT_KEY.get(found.type, "content")] = found.content
    for key in ("id", "name", "arguments", "response", "is_error", "mime_type"):
        value = getattr(found, key)
        if value is not None:
            out[key] = value
    if found.server_side:
        out["builtin"] = True
    return out


def system_text(value: Any) -> str | None:
    """The text of system instructions: plain text, a list of parts, or a system message, as text or parsed."""
    if isinstance(value, str) and value[:1] not in "[{":
        return value or None
    found = from_value(value, "system")
    return "\n".join(m.text for m in found if m.text) or None


def last_text(text: str | None, role: Role) -> str | None:
    """The text of the last message of a role in any input or output; None when there is none."""
    for found in reversed(loads(text, role)):
        if found.role == role and found.text:
            return found.text
    return None
