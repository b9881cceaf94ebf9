"""Reading: message fields of spans as messages, each text parsed once per assembly."""

from evalspan_collector.assemble.calls import Call
from evalspan_collector.message import Message, Part
from evalspan_collector.messages import loads

__all__ = ["Reader", "last_user_index"]


class Reader:
    """Parses message JSON, remembering what it parsed: histories travel again with every call."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[Message, ...]] = {}

    def messages(self, text: str | None) -> tuple[Message, ...]:
        """The messages of one field; empty when it is None or holds none."""
        if not text:
            return ()
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = loads(text)
        return known

    def input_of(self, call: Call) -> tuple[Message, ...]:
        """What a call was asked: the first description of it that carries messages with content."""
        return self._richest([n.span.input_messages for n in call.members])

    def output_of(self, call: Call) -> tuple[Message, ...]:
        """What a call answered, likewise."""
        return self._richest([n.span.output_messages for n in call.members])

    def _richest(self, texts: list[str | None]) -> tuple[Message, ...]:
        found: tuple[Message, ...] = ()
        for text in texts:
            messages = self.messages(text)
            if any(_has_content(p) for m in messages for p in m.parts):
                return messages
            if any(p.type in ("tool_call", "tool_call_response") for m in messages for p in m.parts):
                found = found or messages
        return found


def _has_content(part: Part) -> bool:
    return any(v not in (None, "", "[]", "{}") for v in (part.content, part.arguments, part.response))


def last_user_index(messages: tuple[Message, ...]) -> int | None:
    """Index of the last message in which a user speaks (and not a tool answers); None when none does."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and not message.tool_responses and (message.parts or message.text):
            return index
    return None
