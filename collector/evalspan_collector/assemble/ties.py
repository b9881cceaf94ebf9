"""Ties: what one trace by itself says of the runs it may be a part of; traces that `stitch` joins share a tie.

Where a process makes many calls, loading every trace beside one is too much; ties tell the few that matter.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evalspan_collector.assemble.calls import CallFacts, call_facts
from evalspan_collector.assemble.reading import Reader
from evalspan_collector.assemble.stitch import (
    TOOL_FINISH,
    previous_response,
    process_of,
    queue_team,
    since_user,
    turn_of,
)
from evalspan_collector.join import join_logs
from evalspan_collector.message import Message
from evalspan_collector.span import LogRecord, Span, SpanKind

__all__ = ["CallSpot", "Tie", "Ties", "ties_of"]

#: Kind of a fact, the process it is known in (empty: everywhere), and its value.
Tie = tuple[str, str, str]
_NO_TIES = frozenset[Tie]()
_AGENTIC = frozenset({SpanKind.AGENT, SpanKind.WORKFLOW})
_WORK = _AGENTIC | {SpanKind.LLM, SpanKind.TOOL}
_RETRIEVING = frozenset({SpanKind.RETRIEVER, SpanKind.RERANKER})


class CallSpot(NamedTuple):
    """A span of a model call: when and where it ran, and what it goes on from.

    `waits`: it ended asking for a tool. `blind`: it tells nothing of what it goes on from, so only time can.
    `answers`: it brings results of these calls, which may have had other ids.
    """

    start_ns: int
    end_ns: int
    process: str
    instance: str
    scope: str
    model: str | None
    facts: CallFacts
    waits: bool
    blind: bool
    answers: frozenset[Tie]


@dataclass(frozen=True, slots=True)
class Ties:
    """Facts of one trace.

    Attributes:
        offers: What another trace may name to go on from this one.
        wants: What this one names of others.
        calls: Its model calls.
        begins: When the trace begins and when its first work does; empty when it holds no work.
        retrievals: Start, end and process of the tops of a trace that only retrieves.
    """

    offers: frozenset[Tie]
    wants: frozenset[Tie]
    calls: tuple[CallSpot, ...]
    begins: tuple[int, ...]
    retrievals: tuple[tuple[int, int, str], ...]


def ties_of(spans: Sequence[Span], logs: Iterable[LogRecord] = ()) -> Ties:
    """The ties of one trace, from its spans and the log records with their content."""
    joined = join_logs(spans, logs)
    offers: set[Tie] = {("trace", "", span.trace_id) for span in joined[:1]}
    wants: set[Tie] = set()
    for span in joined:
        team = queue_team(span)
        if team is not None:
            offers.add(("team", process_of(span)[1], team))
            wants.add(("team", process_of(span)[1], team))
        if span.evaluations and len(span.links) == 1:
            wants.add(("trace", "", span.links[0].trace_id))
    kinds = {span.kind for span in joined}
    # Calls below an agent are the agent's: no trace goes on from them.
    bare = kinds.isdisjoint(_AGENTIC)
    reader = Reader()
    models = [span for span in joined if span.kind is SpanKind.LLM]
    calls = [_bare_call(span, reader, offers, wants) if bare else _spot(span) for span in models]
    work = [span.start_ns for span in joined if span.kind in _WORK]
    return Ties(
        offers=frozenset(offers) or _NO_TIES,
        wants=frozenset(wants) or _NO_TIES,
        calls=tuple(calls),
        begins=(min(span.start_ns for span in joined), min(work)) if work else (),
        retrievals=() if work or kinds.isdisjoint(_RETRIEVING) else _tops(joined),
    )


def _spot(span: Span, *, waits: bool = False, blind: bool = False, answers: frozenset[Tie] = frozenset()) -> CallSpot:
    return CallSpot(
        span.start_ns, span.end_ns, process_of(span)[1], span.service_instance_id, span.scope_name,
        span.model_request or None, call_facts(span), waits, blind, answers,
    )  # fmt: skip


def _bare_call(span: Span, reader: Reader, offers: set[Tie], wants: set[Tie]) -> CallSpot:
    """The call, and what it adds to `offers` and `wants`."""
    process = process_of(span)[1]
    asked_of, answered_by = reader.messages(span.input_messages), reader.messages(span.output_messages)
    previous = previous_response(span)
    if previous:
        wants.add(("response", process, previous))
    if span.response_id:
        offers.add(("response", process, span.response_id))
    since = since_user(asked_of)
    answers = frozenset(("call", process, p.id) for m in since for p in m.tool_responses if p.id)
    wants |= answers
    wants.update(("call", process, p.id) for m in since for p in m.tool_calls if p.id)
    asked = [p for m in answered_by for p in m.tool_calls if not p.server_side]
    offers.update(("call", process, p.id) for p in asked if p.id)
    said = any(m.parts for m in asked_of)
    if said:
        turn = ("turn", process, turn_of(asked_of))
        offers.add(turn)
        if span.is_error or _is_further(since):
            wants.add(turn)
    return _spot(
        span,
        waits=bool(asked) or any(TOOL_FINISH.search(reason) for reason in span.finish_reasons),
        blind=not said,
        answers=answers,
    )


def _is_further(since: tuple[Message, ...]) -> bool:
    return any(message.role in ("assistant", "tool") for message in since)


def _tops(spans: Sequence[Span]) -> tuple[tuple[int, int, str], ...]:
    here = {span.span_id for span in spans}
    return tuple(
        (span.start_ns, span.end_ns, process_of(span)[1])
        for span in spans
        if not span.parent_id or span.parent_id not in here
    )
