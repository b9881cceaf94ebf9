"""Neighbours: which other traces must be looked at together with one, so that runs can be stitched."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from evalspan_collector.assemble.stitch import CALL_GAP_NS, process_of, queue_team
from evalspan_collector.span import Span, SpanKind

__all__ = ["NEAR_NS", "NeighbourQuery", "is_loose", "neighbour_query"]

_HOLDERS = frozenset({SpanKind.AGENT, SpanKind.WORKFLOW, SpanKind.CHAIN, SpanKind.TOOL})
#: An anchored run only takes in what happened while it ran, and lone retrievals shortly before.
NEAR_NS = 30_000_000_000


@dataclass(frozen=True, slots=True)
class NeighbourQuery:
    """What to load beside a trace.

    Attributes:
        processes: Values of `service_instance_id`, or of `service_name` where there is none.
        session_ids: Conversations the trace belongs to.
        start_ns: Spans that end before this moment are of no interest.
        end_ns: Nor those that start after this one.
        loose_only: Only traces for which `is_loose` is true are of interest.
    """

    project: str
    processes: frozenset[str]
    session_ids: frozenset[str]
    start_ns: int
    end_ns: int
    loose_only: bool


def is_loose(spans: Iterable[Span]) -> bool:
    """True when a trace may be a part of a run in other traces.

    That is: it holds model calls, retrievals or queue hops, and no agent that would hold them.
    """
    spans = list(spans)
    if any(queue_team(s) for s in spans):
        return True
    held = any(s.kind in _HOLDERS and s.operation != "create_agent" for s in spans)
    named = any(s.parent_id is None and s.kind is SpanKind.UNKNOWN and s.otel_kind in (0, 1) for s in spans)
    return not held and not named


def neighbour_query(spans: Iterable[Span]) -> NeighbourQuery:
    """What to load beside the spans of one trace before `assemble` sees them.

    Raises:
        ValueError: There are no spans.
    """
    spans = list(spans)
    if not spans:
        raise ValueError("a neighbour query needs at least one span")
    loose = is_loose(spans)
    reach = CALL_GAP_NS if loose else NEAR_NS
    return NeighbourQuery(
        project=spans[0].project,
        processes=_names(frozenset(process_of(s)[1] for s in spans)),
        session_ids=_names(frozenset(s.session_id for s in spans if s.session_id)),
        start_ns=min(s.start_ns for s in spans) - reach,
        end_ns=max(s.end_ns for s in spans) + reach,
        loose_only=not loose,
    )


@lru_cache(maxsize=4096)
def _names(names: frozenset[str]) -> frozenset[str]:
    """The same names as one object: queries of many traces are remembered, of few processes."""
    return names
