"""Arrivals: what a block of spans or log records brought for each trace."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from evalspan_collector.span import LogRecord, Span

__all__ = ["ARRIVAL_COLUMNS", "Arrival", "Arrivals", "arrival_rows", "log_arrivals", "note_spans"]

#: Columns of the arrivals table.
ARRIVAL_COLUMNS: Final = (
    "noted_ns", "project", "trace_id", "run_id", "first_received_ns", "last_received_ns", "spans", "settled_ns", "open",
    "start_ns", "end_ns", "processes", "session_ids",
)  # fmt: skip


@dataclass(slots=True)
class Arrival:
    """What one block brought for one trace."""

    first_ns: int
    last_ns: int
    start_ns: int
    end_ns: int
    count: int = 0
    processes: set[str] = field(default_factory=set[str])
    session_ids: set[str] = field(default_factory=set[str])


#: By project and trace id.
Arrivals = dict[tuple[str, str], Arrival]


def note_spans(found: Arrivals, spans: Iterable[Span]) -> None:
    """Add spans to what is found so far."""
    for span in spans:
        received, start, end = span.received_ns, span.start_ns, span.end_ns
        key = (span.project, span.trace_id)
        arrival = found.get(key)
        if arrival is None:
            arrival = found[key] = Arrival(received, received, start, end)
        else:  # `min` and `max` would be most of the time
            if received < arrival.first_ns:
                arrival.first_ns = received
            elif received > arrival.last_ns:
                arrival.last_ns = received
            if start < arrival.start_ns:  # noqa: PLR1730  # as said above
                arrival.start_ns = start
            if end > arrival.end_ns:  # noqa: PLR1730  # as said above
                arrival.end_ns = end
        arrival.count += 1
        if span.service_name:
            arrival.processes.add(span.service_name)
        if span.service_instance_id:
            arrival.processes.add(span.service_instance_id)
        if span.session_id:
            arrival.session_ids.add(span.session_id)


def log_arrivals(logs: Iterable[LogRecord]) -> Arrivals:
    """The same for log records."""
    found: Arrivals = {}
    for log in logs:
        time_ns = min(max(log.time_ns, 0), 2**64 - 1)
        key = (log.project, log.trace_id)
        arrival = found.setdefault(key, Arrival(log.received_ns, log.received_ns, time_ns, time_ns))
        arrival.count += 1
        arrival.first_ns = min(arrival.first_ns, log.received_ns)
        arrival.last_ns = max(arrival.last_ns, log.received_ns)
    return found


def arrival_rows(arrivals: Mapping[tuple[str, str], Arrival], now_ns: int) -> list[tuple[Any, ...]]:
    """Rows of the arrivals table; what names no trace is left out."""
    known = {key: found for key, found in arrivals.items() if key[1]}
    if not known:
        return []
    noted_ns = max(now_ns, *(found.last_ns for found in known.values()))
    return [
        (
            noted_ns, project, trace_id, "", found.first_ns, found.last_ns, found.count, 0, 0, found.start_ns,
            found.end_ns, sorted(found.processes), sorted(found.session_ids),
        )
        for (project, trace_id), found in known.items()
    ]  # fmt: skip
