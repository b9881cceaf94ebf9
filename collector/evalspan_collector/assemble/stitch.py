"""Stitch: runs that were recorded as several traces, put together with a stated confidence."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.node import Node, ancestors
from evalspan_collector.assemble.reading import Reader, last_user_index
from evalspan_collector.assemble.roots import Draft
from evalspan_collector.message import Message
from evalspan_collector.span import Span, SpanKind

__all__ = [
    "BLIND_GAP_NS",
    "CALL_GAP_NS",
    "TOOL_FINISH",
    "previous_response",
    "process_of",
    "queue_team",
    "since_user",
    "stitch",
    "turn_of",
]

#: A model call that answers a tool request comes within this time, else it is another run.
CALL_GAP_NS = 600_000_000_000
#: Without content only time speaks, so it must be near.
BLIND_GAP_NS = 30_000_000_000
_TEAM_GAP_NS = 60_000_000_000
_CONFIDENCE = {
    "link": 0.95,
    "call_id": 0.95,
    "previous_response": 0.95,
    "team": 0.9,
    "history": 0.8,
    "order": 0.6,
    "time": 0.5,
}
#: Finish reasons of a call that asks for a tool.
TOOL_FINISH = re.compile(r"tool|function_call", re.IGNORECASE)
_TEAM = re.compile(r"_([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


def process_of(span: Span) -> tuple[str, str]:
    """What runs in one process shares this: the project and the service instance (or the service)."""
    return (span.project, span.service_instance_id or span.service_name)


def queue_team(span: Span) -> str | None:
    """The id that all queue hops of one AutoGen team carry in their names, None elsewhere."""
    if not span.name.startswith("autogen ") and "autogen" not in span.scope_name:
        return None
    texts = (span.name, span.attributes.get("messaging.destination", ""), span.agent_id or "")
    match = next((m for t in texts if (m := _TEAM.search(t))), None)
    return match[1] if match else None


@dataclass(eq=False, slots=True)
class _Piece:
    """A draft with what stitching asks of it."""

    draft: Draft
    calls: list[Call]
    joined: list[tuple["_Piece", str]] = field(default_factory=list["tuple[_Piece, str]"])
    up: "_Piece | None" = None

    @property
    def start(self) -> int:
        return self.draft.root.start

    @property
    def end(self) -> int:
        return self.draft.root.end

    @property
    def order(self) -> tuple[int, int, str, str]:
        return self.draft.root.key

    def top(self) -> "_Piece":
        at = self
        while at.up is not None:
            at = at.up
        return at

    def join(self, other: "_Piece", why: str) -> None:
        one, two = sorted((self.top(), other.top()), key=lambda p: p.order)
        if one is not two:
            two.up = one
            one.joined.append((two, why))


def stitch(drafts: list[Draft], calls: dict[Node, list[Call]], loose_tops: list[Node], reader: Reader) -> list[Draft]:
    """Put drafts together that are one run.

    Args:
        drafts: Runs as found in each trace by itself.
        calls: Model calls by the root of the draft that holds their lead.
        loose_tops: Roots of traces that are no run, but may be a part of one (a lone retrieval).
        reader: Reads messages.

    Returns:
        The runs, in order of start; drafts that only described other drafts' calls are gone.
    """
    pieces = [_Piece(d, calls.get(d.root, [])) for d in drafts]
    pieces = [p for p in pieces if p.calls or not p.draft.bare]
    pieces.sort(key=lambda p: p.order)
    _join_calls(pieces, reader)
    _join_teams(pieces)
    tops = [p for p in pieces if p.up is None]
    merged = [_merged(p) for p in tops]
    _attach_loose(merged, loose_tops)
    return merged


def _merged(piece: _Piece) -> Draft:
    pieces, reasons, stack = [piece], set[str](), [piece]
    while stack:
        for other, why in stack.pop().joined:
            pieces.append(other)
            reasons.add(why)
            stack.append(other)
    if len(pieces) == 1:
        return piece.draft
    pieces.sort(key=lambda p: p.order)
    return Draft(
        [r for p in pieces for r in p.draft.roots],
        anchored=any(p.draft.anchored for p in pieces),
        bare=all(p.draft.bare for p in pieces),
        complete=all(p.draft.complete for p in pieces),
        confidence=min(_CONFIDENCE[r] for r in reasons),
        flags={"stitched"}.union(*(p.draft.flags for p in pieces)),
    )


class _Open:
    """Runs of bare calls of one process that may go on."""

    def __init__(self) -> None:
        self.asked: dict[str, _Piece] = {}
        self.responses: dict[str, _Piece] = {}
        self.turns: dict[str, _Piece] = {}
        self.waiting: list[_Piece] = []


def _join_calls(pieces: list[_Piece], reader: Reader) -> None:
    """Chain bare model calls: each answers what the one before it asked for."""
    processes: dict[tuple[str, str], _Open] = defaultdict(_Open)
    for piece in pieces:
        if not piece.draft.bare:
            continue
        at = processes[process_of(piece.draft.root.span)]
        before, why = _continues(piece, at, reader)
        if before is not None and piece.start - before.end <= CALL_GAP_NS:
            before.join(piece, why)
            at.waiting = [w for w in at.waiting if w is not before]
        _remember(piece, at, reader)


def _continues(piece: _Piece, at: _Open, reader: Reader) -> tuple[_Piece | None, str]:
    call = piece.calls[0]
    messages = reader.input_of(call)
    previous = next((p for n in call.members if (p := previous_response(n.span))), None)
    if previous and previous in at.responses:
        return at.responses[previous], "previous_response"
    since = since_user(messages)
    answered = [p.id for m in since for p in m.tool_responses if p.id]
    for call_id in reversed([*(p.id for m in since for p in m.tool_calls), *answered]):
        if call_id in at.asked:
            return at.asked[call_id], "call_id"
    if answered:  # ids that nobody asked for: the library renames them, so order decides
        return _blind(piece, at), "order"
    if messages and any(m.parts for m in messages):
        # The same turn again: further along (ids were not carried), or a retry of a call that failed.
        same_turn = at.turns.get(turn_of(messages))
        further = any(m.role in ("assistant", "tool") for m in since)
        if same_turn is not None and (further or same_turn.calls[-1].failed):
            return same_turn, "history"
        return None, ""
    return _blind(piece, at), "time"


def _blind(piece: _Piece, at: _Open) -> _Piece | None:
    """Without content: the one call before it that ended asking for a tool and was not continued."""
    at.waiting = [w for w in at.waiting if piece.start - w.end <= BLIND_GAP_NS]
    fits = [w for w in at.waiting if w.end <= piece.start and _model(w) == _model(piece)]
    if not fits:
        return None
    return fits[0]


def _model(piece: _Piece) -> object:
    return piece.calls[0].first("model_request")


def previous_response(span: Span) -> str | None:
    """The id of the response that a call says it goes on from."""
    for key in ("gen_ai.request.previous_response.id", "gen_ai.openai.request.previous_response_id"):
        if key in span.attributes:
            return span.attributes[key]
    return None


def since_user(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The last thing a user said and what followed."""
    return messages[(last_user_index(messages) or 0) :]


def turn_of(messages: tuple[Message, ...]) -> str:
    """All that was said until a user spoke last: the same for every call of one turn."""
    index = last_user_index(messages)
    return repr([(m.role, m.text) for m in messages[: (index or 0) + 1]])


def _remember(piece: _Piece, at: _Open, reader: Reader) -> None:
    for call in piece.calls:
        response_id = call.first("response_id")
        if isinstance(response_id, str):
            at.responses[response_id] = piece
        asked = [p for m in reader.output_of(call) for p in m.tool_calls if not p.server_side]
        at.asked.update({p.id: piece for p in asked if p.id})
        messages = reader.input_of(call)
        if messages:
            at.turns[turn_of(messages)] = piece
        if asked or any(TOOL_FINISH.search(r) for n in call.members for r in n.span.finish_reasons):
            at.waiting.append(piece)


def _join_teams(pieces: list[_Piece]) -> None:
    """Join the hops of one AutoGen team; its agents run one after another, each in a trace of its own."""
    last: dict[tuple[tuple[str, str], str], _Piece] = {}
    for piece in pieces:
        root = piece.draft.root
        team = next((t for n in (root, *islice(ancestors(root), 16)) if (t := queue_team(n.span))), None)
        if team is None:
            continue
        key = (process_of(root.span), team)
        before = last.get(key)
        if before is not None and piece.start - before.end <= _TEAM_GAP_NS:
            before.join(piece, "team")
        last[key] = piece


def _attach_loose(drafts: list[Draft], tops: list[Node]) -> None:
    """Give a lone retrieval or embedding to the run of its process that starts next (or is running)."""
    starts: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for index, draft in enumerate(drafts):
        starts[process_of(draft.root.span)].append((draft.root.start, index))
    for top in tops:
        if not any(n.kind in {SpanKind.RETRIEVER, SpanKind.RERANKER} for n in _family(top)):
            continue
        known = starts.get(process_of(top.span), [])
        at = bisect_left(known, (top.start, -1))
        until = bisect_right(known, (top.end + BLIND_GAP_NS, len(drafts)))
        if at < until:
            draft = drafts[known[at][1]]
            draft.roots.append(top)
            draft.flags.add("stitched")
            draft.confidence = min(draft.confidence or 1.0, _CONFIDENCE["time"])


def _family(top: Node) -> list[Node]:
    return [top, *top.children]
