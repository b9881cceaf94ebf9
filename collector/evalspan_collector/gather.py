"""Gather: due traces with the other traces that belong to the same runs, loaded from the store."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from evalspan_collector.neighbourhood import Neighbourhood
from evalspan_collector.recent import KnownRun, RecentTraces
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.contract import Store
from evalspan_collector.store.current import Stamp

__all__ = ["Loaded", "gather"]


class Loaded:
    """Spans, log records and written runs of traces of one project, each trace loaded once.

    Args:
        store: Where everything is.
        recent: Where most of it still is; the store's counts say whether all of a trace is there.
        project: Their project.
        max_spans: A trace with more spans is not loaded beside others; None loads any.
    """

    def __init__(self, store: Store, recent: RecentTraces, project: str, *, max_spans: int | None = None) -> None:
        self._store = store
        self._recent = recent
        self._max_spans = max_spans
        self.project = project
        self._known: set[str] = set()
        self.spans: dict[str, list[Span]] = defaultdict(list)
        self.logs: dict[str, list[LogRecord]] = defaultdict(list)
        self._runs: dict[str, dict[str, KnownRun]] = defaultdict(dict)
        #: Due traces whose group is too large to be looked at now.
        self.heavy: set[str] = set()

    @property
    def store(self) -> Store:
        """Where it comes from."""
        return self._store

    def load_due(self, trace_ids: Iterable[str]) -> list[str]:
        """Load due traces; those that are too large are left to the line of the heavy ones."""
        due = list(trace_ids)
        if not self.load(due):
            self.heavy.update([trace_id for trace_id in due if not self.load([trace_id])])
        return [trace_id for trace_id in due if trace_id not in self.heavy]

    def load(self, trace_ids: Iterable[str]) -> bool:
        """Load those that are not loaded yet; False, and nothing is loaded, when one of them is too large."""
        wanted = [trace_id for trace_id in dict.fromkeys(trace_ids) if trace_id not in self._known]
        if not wanted:
            return True
        stamps = self._store.stamps(self.project, wanted)
        if self._max_spans is not None and any(stamp.spans > self._max_spans for stamp in stamps.values()):
            return False
        self._known.update(wanted)
        away = [trace_id for trace_id in wanted if not self._recall(trace_id, stamps.get(trace_id))]
        if away:
            self._read(away)
        return True

    def _recall(self, trace_id: str, stamp: Stamp | None) -> bool:
        """Take a trace from memory, if that holds all the store has."""
        found = self._recent.get(self.project, trace_id)
        if found is None or found.stamp != stamp:
            return False
        self.spans[trace_id] = found.spans
        self.logs[trace_id] = found.logs
        self._runs[trace_id] = {run.run_id: run for run in found.runs}
        return True

    def _read(self, trace_ids: Sequence[str]) -> None:
        for span in self._store.spans(self.project, trace_ids):
            self.spans[span.trace_id].append(span)
        for record in self._store.logs(self.project, trace_ids):
            self.logs[record.trace_id].append(record)
        for summary in self._store.runs_of_traces(self.project, trace_ids):
            of = summary.trace_ids or (summary.trace_id,)
            run = KnownRun(summary.run_id, of, summary.revision, summary.state, summary.fingerprint)
            for trace_id in of:
                self._runs[trace_id][run.run_id] = run

    def runs_within(self, group: Sequence[str]) -> list[KnownRun]:
        """Written runs that lie wholly in these traces."""
        inside = set(group)
        found = {run.run_id: run for trace_id in group for run in self.runs_of(trace_id)}
        return [run for run in found.values() if inside.issuperset(run.trace_ids)]

    def runs_of(self, trace_id: str) -> Iterable[KnownRun]:
        """Written runs that this trace is a part of."""
        return self._runs.get(trace_id, {}).values()


def gather(
    due: Iterable[str], loaded: Loaded, neighbourhood: Neighbourhood, *, max_traces: int, complete_since_ns: int
) -> Iterator[tuple[str, ...]]:
    """Groups of traces to assemble together; each due trace is in exactly one, or in `loaded.heavy`.

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
        if group is None:
            loaded.heavy.add(trace_id)
            continue
        done.update(group)
        yield group


def _grow(
    first: str, loaded: Loaded, neighbourhood: Neighbourhood, max_traces: int, complete_since_ns: int
) -> tuple[str, ...] | None:
    group: dict[str, None] = {first: None}
    fresh = [first]
    while fresh and len(group) < max_traces:
        found: dict[str, None] = {}
        for trace_id in fresh:
            found.update(dict.fromkeys(_beside(trace_id, loaded, neighbourhood, complete_since_ns)))
        fresh = [trace_id for trace_id in found if trace_id not in group][: max_traces - len(group)]
        if not loaded.load(fresh):
            return None
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
