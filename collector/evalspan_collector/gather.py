"""Gather: due traces with the other traces that belong to the same runs, loaded from the store."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from evalspan_collector.neighbourhood import Neighbourhood
from evalspan_collector.records import RunSummary
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.contract import Store

__all__ = ["Loaded", "gather"]


class Loaded:
    """Spans, log records and stored runs of traces of one project, each trace loaded once."""

    def __init__(self, store: Store, project: str) -> None:
        self._store = store
        self.project = project
        self._known: set[str] = set()
        self.spans: dict[str, list[Span]] = defaultdict(list)
        self.logs: dict[str, list[LogRecord]] = defaultdict(list)
        self._runs: dict[str, dict[str, RunSummary]] = defaultdict(dict)

    @property
    def store(self) -> Store:
        """Where it comes from."""
        return self._store

    def load(self, trace_ids: Iterable[str]) -> None:
        """Load those that are not loaded yet, in three reads."""
        wanted = [trace_id for trace_id in dict.fromkeys(trace_ids) if trace_id not in self._known]
        if not wanted:
            return
        self._known.update(wanted)
        for span in self._store.spans(self.project, wanted):
            self.spans[span.trace_id].append(span)
        for record in self._store.logs(self.project, wanted):
            self.logs[record.trace_id].append(record)
        for summary in self._store.runs_of_traces(self.project, wanted):
            for trace_id in summary.trace_ids or (summary.trace_id,):
                self._runs[trace_id][summary.run_id] = summary

    def runs_within(self, group: Sequence[str]) -> list[RunSummary]:
        """Stored runs that lie wholly in these traces."""
        inside = set(group)
        found = {run.run_id: run for trace_id in group for run in self.runs_of(trace_id)}
        return [run for run in found.values() if inside.issuperset(run.trace_ids or (run.trace_id,))]

    def runs_of(self, trace_id: str) -> Iterable[RunSummary]:
        """Stored runs that this trace is a part of."""
        return self._runs.get(trace_id, {}).values()


def gather(
    due: Iterable[str], loaded: Loaded, neighbourhood: Neighbourhood, *, max_traces: int, complete_since_ns: int
) -> Iterator[tuple[str, ...]]:
    """Groups of traces to assemble together; each due trace is in exactly one.

    Args:
        due: Loaded traces.
        loaded: Gets the neighbours' spans.
        neighbourhood: Learns of every trace it sees.
        max_traces: A group that grows beyond takes in no more.
        complete_since_ns: The neighbourhood knows every trace that started since; for earlier ones the store is asked.
    """
    done: set[str] = set()
    for trace_id in list(due):
        if trace_id in done:
            continue
        group = _grow(trace_id, loaded, neighbourhood, max_traces, complete_since_ns)
        done.update(group)
        yield group


def _grow(
    first: str, loaded: Loaded, neighbourhood: Neighbourhood, max_traces: int, complete_since_ns: int
) -> tuple[str, ...]:
    group: dict[str, None] = {first: None}
    fresh = [first]
    while fresh and len(group) < max_traces:
        found: dict[str, None] = {}
        for trace_id in fresh:
            found.update(dict.fromkeys(_beside(trace_id, loaded, neighbourhood, complete_since_ns)))
        fresh = [trace_id for trace_id in found if trace_id not in group][: max_traces - len(group)]
        loaded.load(fresh)
        group.update(dict.fromkeys(fresh))
    return tuple(group)


def _beside(trace_id: str, loaded: Loaded, neighbourhood: Neighbourhood, complete_since_ns: int) -> Iterator[str]:
    """Traces that may share a run with this one."""
    for run in loaded.runs_of(trace_id):
        yield from run.trace_ids
    spans = loaded.spans.get(trace_id)
    if not spans:
        return
    query = neighbourhood.note(trace_id, spans)
    yield from sorted(neighbourhood.near(trace_id, query))
    if not query.loose_only and query.start_ns < complete_since_ns:
        yield from loaded.store.neighbour_traces(
            loaded.project,
            processes=sorted(query.processes),
            session_ids=sorted(query.session_ids),
            start_ns=query.start_ns,
            end_ns=query.end_ns,
        )
