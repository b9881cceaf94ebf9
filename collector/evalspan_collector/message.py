"""Message: one turn of a conversation with a model, in the normal form (semconv parts)."""

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Message", "Part", "PartType", "Role"]

Role = Literal["system", "user", "assistant", "tool"]
PartType = Literal["text", "reasoning", "tool_call", "tool_call_response", "uri", "blob", "file", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a message; the fields in use depend on `type`.

    Attributes:
        content: Text of `text` and `reasoning`; reference of `uri`, `file` and `blob`.
        id: Tool call id of `tool_call` and `tool_call_response`.
        name: Tool name, where known.
        arguments: Parsed JSON of a `tool_call`, or the raw text where it is no JSON.
        response: Parsed JSON of a `tool_call_response`, or text.
        is_error: The response says the tool failed; None when it says nothing.
        server_side: The provider ran the tool itself; no span will come.
        mime_type: Of media parts.
    """

    type: PartType
    content: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    response: Any = None
    is_error: bool | None = None
    server_side: bool = False
    mime_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A role and its parts."""

    role: Role
    parts: tuple[Part, ...] = ()
    name: str | None = None
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """The text parts, joined by newlines."""
        return "\n".join(p.content for p in self.parts if p.type == "text" and p.content)

    @property
    def tool_calls(self) -> tuple[Part, ...]:
        """The calls this message asks for."""
        return tuple(p for p in self.parts if p.type == "tool_call")

    @property
    def tool_responses(self) -> tuple[Part, ...]:
        """The tool results this message carries."""
        return tuple(p for p in self.parts if p.type == "tool_call_response")
