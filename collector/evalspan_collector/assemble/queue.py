"""Queue: model calls and tool results that only the messages of an agent queue (AutoGen) tell of."""

import json
from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from typing import Any

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.failure import as_list, as_object, parsed
from evalspan_collector.assemble.node import Node, ancestors
from evalspan_collector.assemble.roots import Draft
from evalspan_collector.assemble.stitch import process_of, queue_team
from evalspan_collector.message import Message, Part, Role
from evalspan_collector.messages import dumps
from evalspan_collector.span import Span, SpanKind, Usage

__all__ = ["queue_calls", "queue_spans"]

_Team = tuple[tuple[str, str], str]


def queue_spans(spans: Iterable[Span]) -> dict[_Team, list[Span]]:
    """The spans of each team's queue by process and team, in order of start."""
    teams: dict[_Team, list[Span]] = defaultdict(list)
    for span in spans:
        team = queue_team(span)
        if team is not None:
            teams[(process_of(span), team)].append(span)
    for found in teams.values():
        found.sort(key=lambda s: (s.start_ns, s.span_id))
    return teams


def queue_calls(draft: Draft, teams: dict[_Team, list[Span]], since_ns: int) -> tuple[list[Call], list[Span]]:
    """The model calls that a team's messages tell of, for a run whose spans have none.

    Args:
        draft: The run.
        teams: Spans of every team.
        since_ns: End of the run before this one of the same team: messages before it are not this run's.

    Returns:
        The calls, each with a node below the agent that made it, and the spans they were read from.
    """
    root = draft.root
    team = next((t for n in (root, *islice(ancestors(root), 16)) if (t := queue_team(n.span))), None)
    if team is None:
        return [], []
    until = max(r.end for r in draft.roots) + 1_000_000_000
    spans = [s for s in teams.get((process_of(root.span), team), []) if since_ns < s.start_ns <= until]
    agents = [n for n in draft.nodes() if n.kind is SpanKind.AGENT]
    return _calls(_events(spans), agents), spans


def _events(spans: list[Span]) -> list[tuple[dict[str, Any], Span]]:
    """Each message of the queue once, with the first span that carried it."""
    found: dict[str, tuple[dict[str, Any], Span]] = {}
    for span in spans:
        stack = [parsed(span.input_value)]
        while stack:
            value = stack.pop(0)
            stack.extend(as_list(value))
            event = as_object(value)
            if event is not None:
                if isinstance(event.get("type"), str) and "source" in event:
                    key = str(event.get("id") or json.dumps(event, sort_keys=True))
                    found.setdefault(key, (event, span))
                else:
                    stack.extend(event.values())
    return list(found.values())


def _calls(events: list[tuple[dict[str, Any], Span]], agents: list[Node]) -> list[Call]:
    calls: list[Call] = []
    heard: list[Message] = []
    for event, span in events:
        message = _message(event)
        if event.get("models_usage") and message is not None:
            calls.append(_call(event, span, heard, message, agents))
        if message is not None:
            heard.append(message)
    return calls


def _message(event: dict[str, Any]) -> Message | None:
    content = event.get("content")
    if isinstance(content, str):
        role: Role = "user" if event.get("source") == "user" else "assistant"
        return Message(role=role, parts=(Part(type="text", content=content),), name=str(event.get("source")))
    items = [fields for i in as_list(content) if (fields := as_object(i)) is not None]
    answers = tuple(
        Part(type="tool_call_response", id=i["call_id"], name=i.get("name"), response=parsed(i.get("content")),
             is_error=bool(i.get("is_error")))
        for i in items
        if "call_id" in i
    )  # fmt: skip
    if answers:
        return Message(role="tool", parts=answers)
    asked = tuple(
        Part(type="tool_call", id=i.get("id"), name=i["name"], arguments=parsed(i.get("arguments")))
        for i in items
        if "name" in i
    )
    return Message(role="assistant", parts=asked) if asked else None


def _call(event: dict[str, Any], span: Span, heard: list[Message], message: Message, agents: list[Node]) -> Call:
    usage = as_object(event["models_usage"]) or {}
    told = Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        name="model call",
        project=span.project,
        start_ns=span.start_ns,
        end_ns=span.start_ns,
        received_ns=span.received_ns,
        service_name=span.service_name,
        service_instance_id=span.service_instance_id,
        dialect=span.dialect,
        kind=SpanKind.LLM,
        usage=Usage(input_tokens=usage.get("prompt_tokens"), output_tokens=usage.get("completion_tokens")),
        content="captured",
        input_messages=dumps(heard),
        output_messages=dumps([message]),
    )
    node = Node(told)
    named = [a for a in agents if a.span.agent_name == event.get("source")]
    holder = max((a for a in named if a.start <= span.start_ns), key=lambda a: a.start, default=None)
    if holder is not None:
        node.parent = node.above_rank = holder
    return Call(node, [node])
