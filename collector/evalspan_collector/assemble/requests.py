"""Requests: what models asked tools for, and the answers that later messages carry."""

import json
from collections import defaultdict
from typing import Any

import orjson

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.execution import Request, owner
from evalspan_collector.assemble.failure import parsed
from evalspan_collector.assemble.node import Node
from evalspan_collector.assemble.reading import Reader
from evalspan_collector.message import Message, Part

__all__ = ["canonical", "mark_followed", "requests_of"]


def requests_of(calls: list[Call], reader: Reader) -> list[Request]:
    """What the models asked for, each with its answer from the messages that later calls were given."""
    requests: list[Request] = []
    known: set[str] = set()
    for call in calls:
        parts = [p for m in reader.output_of(call) for p in m.tool_calls]
        for index, part in enumerate(parts):
            if part.id and part.id in known:
                continue
            known.add(part.id or "")
            requests.append(Request(part, call, index, owner(call.lead)))
    by_id, unnamed = _answers(calls, reader)
    for request in requests:
        part = request.part
        if part.id and part.id in by_id:
            request.response = by_id[part.id]
        elif answers := unnamed.get(_signature(part)):
            request.response = answers.pop(0)
    _answer_in_order(requests, calls, reader)
    return requests


def _answer_in_order(requests: list[Request], calls: list[Call], reader: Reader) -> None:
    """Pair answers whose ids nobody asked for with open requests in order: some libraries rename the ids."""
    asked = {r.part.id for r in requests}
    stray: dict[str, Part] = {}
    for call in calls:
        messages = reader.input_of(call)
        known = {p.id for m in messages for p in m.tool_calls}
        for part in (p for m in messages for p in m.tool_responses):
            if part.id and part.id not in asked and part.id not in known:
                stray.setdefault(part.id, part)
    waiting = [r for r in requests if r.response is None and not r.part.server_side]
    if len(stray) > len(waiting):
        return
    for request, part in zip(waiting, stray.values(), strict=False):
        request.response = part


def mark_followed(requests: list[Request], calls: list[Call]) -> None:
    """A request was followed when the same agent asked its model again: it had the tool's answer by then."""
    last: dict[Node | None, int] = {}
    for call in calls:
        top = owner(call.lead)
        last[top] = max(last.get(top, 0), call.lead.start)
    for request in requests:
        request.followed = last.get(request.owner, 0) >= request.call.lead.end


def _signature(part: Part) -> str:
    return f"{part.name}\0{canonical(part.arguments)}"


def _answers(calls: list[Call], reader: Reader) -> tuple[dict[str, Part], dict[str, list[Part]]]:
    """Tool responses by call id, and those without an id by what was called, in order."""
    by_id: dict[str, Part] = {}
    longest: dict[str, list[Part]] = {}
    seen: set[int] = set()
    for call in calls:
        for messages in (reader.input_of(call), reader.output_of(call)):
            for message in messages:
                for part in message.tool_responses:
                    if part.id:
                        by_id.setdefault(part.id, part)
            if id(messages) in seen:
                continue
            seen.add(id(messages))
            for signature, parts in _paired(messages).items():
                if len(parts) > len(longest.get(signature, [])):
                    longest[signature] = parts
    return by_id, longest


def _paired(messages: tuple[Message, ...]) -> dict[str, list[Part]]:
    """Responses that carry no id, paired with the calls before them by name, else by order."""
    pairs: dict[str, list[Part]] = defaultdict(list)
    waiting: list[Part] = []
    for message in messages:
        waiting.extend(p for p in message.tool_calls)
        for response in message.tool_responses:
            if response.id or not waiting:
                continue
            named = next((p for p in waiting if response.name and p.name == response.name), waiting[0])
            waiting.remove(named)
            pairs[_signature(named)].append(response)
    return pairs


def canonical(value: Any) -> str:
    """Equal text for equal JSON, whatever the order of keys and the depth of JSON in JSON."""
    value = parsed(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # lone surrogates, integers over 64 bits
        return json.dumps(value, sort_keys=True, default=str)
