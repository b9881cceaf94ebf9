"""Reading: message fields of spans as messages, each text parsed once per assembly."""

from evalspan_collector.assemble.calls import Call
from evalspan_collector.message import Message, Part
from evalspan_collector.messages import loads

__all__ = ["Reader", "last_user_index"]


class Reader:
    """Parses message JSON, remembering what it parsed: histories travel again with every call."""

    __slots__ = ("_inputs", "_known", "_outputs")

    def __init__(self) -> None:
        self._inputs: dict[Call, tuple[Message, ...]] = {}
        self._outputs: dict[Call, tuple[Message, ...]] = {}
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
        """What a call was asked: the description of it that says most, the outer one of equals."""
        found = self._inputs.get(call)
        if found is None:
            found = self._inputs[call] = self._richest([n.span.input_messages for n in call.members])
        return found

    def output_of(self, call: Call) -> tuple[Message, ...]:
        """What a call answered, likewise."""
        found = self._outputs.get(call)
        if found is None:
            found = self._outputs[call] = self._richest([n.span.output_messages for n in call.members])
        return found

    def _richest(self, texts: list[str | None]) -> tuple[Message, ...]:
        best: tuple[Message, ...] = ()
        most = (0, 0)
        for text in texts:
            messages = self.messages(text)
            parts = [p for m in messages for p in m.parts]
            said = (sum(map(_has_content, parts)), sum(1 for p in parts if p.id and p.type in _TOOL_PARTS))
            if said > most:
                best, most = messages, said
        return best


_TOOL_PARTS = ("tool_call", "tool_call_response")


def _has_content(part: Part) -> bool:
    return any(v not in (None, "", "[]", "{}") for v in (part.content, part.arguments, part.response))


def last_user_index(messages: tuple[Message, ...]) -> int | None:
    """Index of the last message in which a user speaks (and not a tool answers); None when none does."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and not message.tool_responses and (message.parts or message.text):
            return index
    return None
