"""Reading: message fields of spans as messages, each text parsed once per assembly."""

from hashlib import blake2b
from typing import Any

import orjson

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.failure import as_list, as_object
from evalspan_collector.message import Message, Part
from evalspan_collector.messages import from_value, loads

__all__ = ["Reader", "last_user_index"]


class Reader:
    """Parses message JSON, remembering what it parsed: histories travel again with every call."""

    __slots__ = ("_inputs", "_known", "_outputs", "_single")

    def __init__(self) -> None:
        self._inputs: dict[Call, tuple[Message, ...]] = {}
        self._outputs: dict[Call, tuple[Message, ...]] = {}
        self._single: dict[bytes, tuple[Message, ...]] = {}
        self._known: dict[str, tuple[Message, ...]] = {}

    def messages(self, text: str | None) -> tuple[Message, ...]:
        """The messages of one field; empty when it is None or holds none."""
        if not text:
            return ()
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._read(text)
        return known

    def _read(self, text: str) -> tuple[Message, ...]:
        """Messages in normal form one by one: a history repeats the same ones in every call."""
        try:
            items: Any = orjson.loads(text) if text[:1] == "[" else None
        except ValueError:
            items = None
        found = as_list(items)
        if not found or not all(map(_is_normal, found)):
            return loads(text)
        return tuple(m for item in found for m in self._one(item))

    def _one(self, item: dict[str, Any]) -> tuple[Message, ...]:
        plain = _plain_text(item)
        if plain is not None:
            return (plain,)
        key = blake2b(orjson.dumps(item), digest_size=16).digest()
        known = self._single.get(key)
        if known is None:
            known = self._single[key] = from_value([item], "user")
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
            messages = self._read(text) if text else ()
            parts = [p for m in messages for p in m.parts]
            said = (sum(map(_has_content, parts)), sum(1 for p in parts if p.id and p.type in _TOOL_PARTS))
            if said > most:
                best, most = messages, said
        return best


def _is_normal(item: Any) -> bool:
    """True for a message that stands by itself: a role and a list of parts."""
    fields = as_object(item)
    return fields is not None and isinstance(fields.get("role"), str) and isinstance(fields.get("parts"), list)


def _plain_text(item: dict[str, Any]) -> Message | None:
    """The message where it holds nothing but prose and needs no reading, else None."""
    if item["role"] not in _ROLES or not item.keys() <= _PLAIN_KEYS:
        return None
    parts: list[Part] = []
    for value in item["parts"]:
        part = as_object(value)
        content = part.get("content") if part is not None and len(part) == 2 and part.get("type") == "text" else None
        if not isinstance(content, str) or not content.lstrip(" ")[:1].isalpha():
            return None
        parts.append(Part(type="text", content=content))
    finish = item.get("finish_reason")
    if not parts or (finish is not None and not isinstance(finish, str)):
        return None
    return Message(role=item["role"], parts=tuple(parts), finish_reason=finish or None)


_ROLES = frozenset({"system", "user", "assistant"})
_PLAIN_KEYS = frozenset({"role", "parts", "finish_reason"})
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
