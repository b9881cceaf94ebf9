"""Gather: due traces with the other traces that belong to the same runs, loaded from the store."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from evalspan_collector.assemble import NEAR_NS, NeighbourQuery, run_id_of
from evalspan_collector.neighbourhood import Neighbourhood
from evalspan_collector.recent import KnownRun, RecentTraces
from evalspan_collector.records import RunSummary
from evalspan_collector.span import LogRecord, Span, SpanKind
from evalspan_collector.store.contract import Store
from evalspan_collector.store.current import Stamp

__all__ = ["Loaded", "gather"]

#: Ids of a crowd that the store is asked for at a time, and how many of these traces are read, in groups.
_FILL_IDS, _FILL_GROUPS = 10_000, 4
#: Kinds whose span may have been the root of a run, wherever in its trace it is now.
_ROOT_KINDS = frozenset({SpanKind.AGENT, SpanKind.WORKFLOW, SpanKind.CHAIN})


class Loaded:
    """Spans, log records and written runs of traces of one project, each trace loaded once.

    Args:
        store: Where everything is.
        recent: Where most of it still is; the store's counts say whether all of a trace is there.
        project: Their project.
        max_spans: A trace with more spans is not loaded beside others; None loads any.
        shared: Others assemble traces of this store, so only the store knows which runs were written.
    """

    def __init__(
        self, store: Store, recent: RecentTraces, project: str, *, max_spans: int | None = None, shared: bool = False
    ) -> None:
        self._store = store
        self.shared = shared
        self._recent = recent
        self._max_spans = max_spans
        self.project = project
        self._known: set[str] = set()
        self.spans: dict[str, list[Span]] = defaultdict(list)
        self.logs: dict[str, list[LogRecord]] = defaultdict(list)
        self._runs: dict[str, dict[str, KnownRun]] = defaultdict(dict)
        #: When memory first heard of the recalled traces whose runs it may not know.
        self._first_ns: dict[str, int] = {}
        #: Newest rows of the run ids that were asked for; None where there is no row.
        self._last: dict[str, KnownRun | None] = {}
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
        self._read_runs([*away, *self._written_before(set(wanted).difference(away))])
        return True

    def _recall(self, trace_id: str, stamp: Stamp | None) -> bool:
        """Take a trace from memory, if that holds all the store has."""
        found = self._recent.get(self.project, trace_id)
        if found is None or found.stamp != stamp:
            return False
        self.spans[trace_id] = found.spans
        self.logs[trace_id] = found.logs
        self._runs[trace_id] = {run.run_id: run for run in found.runs}
        if not found.runs_known:
            self._first_ns[trace_id] = found.first_ns
        return True

    def _written_before(self, trace_ids: Iterable[str]) -> list[str]:
        """Those of the recalled traces about which something may be written that memory does not know.

        A trace that was sent again looks whole. It was here before when the store noted it earlier than memory did:
        another process took it in, or this one before a restart, or before it had to forget it.
        """
        if self.shared:
            return sorted(trace_ids)
        asked = [trace_id for trace_id in trace_ids if trace_id in self._first_ns]
        spans = [span for trace_id in asked for span in self.spans[trace_id]]
        if not spans:
            return []
        window = {"start_ns": min(s.start_ns for s in spans), "end_ns": max(s.end_ns for s in spans)}
        arrived = self._store.first_arrivals(self.project, asked, **window)
        before = {t for t in asked if arrived.get(t, self._first_ns[t]) < self._first_ns[t]}
        # What came at other times, or longer ago than arrivals are kept, is found by the ids its runs had.
        before |= self._with_runs([t for t in asked if t not in before])
        self._recent.know_runs(self.project, set(asked).difference(before))
        return sorted(before)

    def _with_runs(self, trace_ids: Iterable[str]) -> set[str]:
        """Those of which a span is, or was, the root of a written run."""
        trace_of: dict[str, str] = {}
        for trace_id in trace_ids:
            spans = self.spans[trace_id]
            here = {span.span_id for span in spans}
            for span in spans:
                if span.parent_id not in here or span.kind in _ROOT_KINDS:
                    trace_of[run_id_of(self.project, trace_id, span.span_id)] = trace_id
        return {trace_of[run_id] for run_id in self.last_revisions(trace_of)}

    def last_revisions(self, run_ids: Iterable[str]) -> dict[str, KnownRun]:
        """The newest row of each of these runs that was ever written, of withdrawn ones too; each asked for once."""
        wanted = list(dict.fromkeys(run_ids))
        new = [run_id for run_id in wanted if run_id not in self._last]
        if new:
            self._last.update(dict.fromkeys(new))
            rows = self._store.last_revisions(self.project, new)
            self._last.update((row.run_id, _known_run(row)) for row in rows)
        found = {run_id: self._last[run_id] for run_id in wanted}
        return {run_id: run for run_id, run in found.items() if run is not None}

    def _read(self, trace_ids: Sequence[str]) -> None:
        for span in self._store.spans(self.project, trace_ids):
            self.spans[span.trace_id].append(span)
        for record in self._store.logs(self.project, trace_ids):
            self.logs[record.trace_id].append(record)

    def _read_runs(self, trace_ids: Sequence[str]) -> None:
        if not trace_ids:
            return
        for summary in self._store.runs_of_traces(self.project, trace_ids):
            run = _known_run(summary)
            for trace_id in run.trace_ids:
                self._runs[trace_id][run.run_id] = run
        known = {run.run_id: run for trace_id in trace_ids for run in self.runs_of(trace_id)}
        self._recent.know_runs(self.project, trace_ids, known.values())

    def runs_in(self, group: Sequence[str]) -> list[KnownRun]:
        """Written runs that these traces are a part of."""
        return list({run.run_id: run for trace_id in group for run in self.runs_of(trace_id)}.values())

    def runs_of(self, trace_id: str) -> Iterable[KnownRun]:
        """Written runs that this trace is a part of."""
        return self._runs.get(trace_id, {}).values()


def _known_run(row: RunSummary) -> KnownRun:
    return KnownRun(row.run_id, row.trace_ids or (row.trace_id,), row.revision, row.state, row.fingerprint)


def gather(
    due: Iterable[str],
    loaded: Loaded,
    neighbourhood: Neighbourhood,
    *,
    max_traces: int,
    complete_since_ns: int,
    waits: Callable[[str], bool] = lambda _trace_id: False,
) -> Iterator[tuple[str, ...]]:
    """Groups of traces to assemble together; each due trace is in exactly one, or in `loaded.heavy`.

    No trace is in two groups. Traces beside each other that are at most `max_traces` are one group, whichever of them
    is due; more are a crowd, of which only those with a fact in common stay together.

    Args:
        due: Loaded traces.
        loaded: Gets the neighbours' spans.
        neighbourhood: Learns of every trace it sees.
        max_traces: A group holds no more, but for what an earlier run of its traces holds.
        complete_since_ns: The neighbourhood knows every trace that started since; for earlier ones the store is asked.
        waits: True for a trace that will be due by itself.
    """
    yield from _Gathering(loaded, neighbourhood, max_traces, complete_since_ns, waits).groups(due)


class _Gathering:
    """One pass over what is due."""

    def __init__(
        self,
        loaded: Loaded,
        neighbourhood: Neighbourhood,
        max_traces: int,
        complete_since_ns: int,
        waits: Callable[[str], bool],
    ) -> None:
        self._waits = waits
        self._loaded = loaded
        self._neighbourhood = neighbourhood
        self._max_traces = max_traces
        self._complete_since_ns = complete_since_ns
        self._done: set[str] = set()
        self._crowd: dict[str, NeighbourQuery] = {}

    def groups(self, due: Iterable[str]) -> Iterator[tuple[str, ...]]:
        crowded: set[tuple[frozenset[str], frozenset[str]]] = set()
        due = list(due)
        for trace_id in sorted(due, key=lambda t: (min((s.start_ns for s in self._spans(t)), default=0), t)):
            if trace_id in self._done:
                continue
            query = self._note(trace_id)
            if query is None:
                self._done.add(trace_id)
                yield (trace_id,)
                continue
            names = (query.processes, query.session_ids)
            if names in crowded:
                self._crowd[trace_id] = query
                continue
            group = self._grow(trace_id)
            if group is None:
                crowded.add(names)
                self._crowd[trace_id] = query
            elif group:
                self._done.update(group)
                yield group
        if self._crowd:
            yield from self._of_crowd()

    def _spans(self, trace_id: str) -> Sequence[Span]:
        return self._loaded.spans.get(trace_id, ())

    def _note(self, trace_id: str) -> NeighbourQuery | None:
        spans = self._spans(trace_id)
        if not spans:
            return None
        return self._neighbourhood.note(trace_id, spans, self._loaded.logs.get(trace_id, ()))

    def _grow(self, first: str) -> tuple[str, ...] | None:
        """All that is beside `first`, directly or by way of others; None for a crowd, empty when too large to load."""
        group: dict[str, None] = {first: None}
        fresh = [first]
        while fresh:
            found: dict[str, None] = {}
            for trace_id in fresh:
                beside = self._beside(trace_id)
                if beside is None:
                    return None
                found.update(dict.fromkeys(beside))
            fresh = [trace_id for trace_id in found if trace_id not in group and trace_id not in self._done]
            if len(group) + len(fresh) > self._max_traces:
                return None
            if not self._loaded.load(fresh):
                self._loaded.heavy.add(first)
                return ()
            group.update(dict.fromkeys(fresh))
        return tuple(group)

    def _beside(self, trace_id: str) -> list[str] | None:
        """Traces that may share a run with this one; None when they are too many."""
        found = [other for run in self._loaded.runs_of(trace_id) for other in run.trace_ids]
        query = self._note(trace_id)
        if query is None:
            return found
        near = self._neighbourhood.near(trace_id, query, limit=self._max_traces)
        if near is None:
            return None
        found.extend(near)
        if self._is_older(query):
            asked = self._ask(query, (query.start_ns, query.end_ns), self._max_traces + 1)
            if len(asked) > self._max_traces:
                return None
            found.extend(asked)
        return found

    def _is_older(self, query: NeighbourQuery) -> bool:
        """True when the neighbourhood may not know all that the query asks for."""
        return not query.loose_only and query.start_ns < self._complete_since_ns

    def _ask(self, query: NeighbourQuery, window: tuple[int, int], limit: int) -> list[str]:
        return self._loaded.store.neighbour_traces(
            self._loaded.project,
            processes=sorted(query.processes),
            session_ids=sorted(query.session_ids),
            start_ns=window[0],
            end_ns=window[1],
            limit=limit,
        )

    def _of_crowd(self) -> Iterator[tuple[str, ...]]:
        self._fill()
        parts = self._neighbourhood.groups(self._loaded.project, self._crowd, limit=self._max_traces)
        parts = [[t for t in part if t not in self._done] for part in parts]
        claimed = {trace_id for part in parts for trace_id in part} | self._done
        self._loaded.load(trace_id for part in parts for trace_id in part)
        for part in parts:
            # Read together above, or, when one trace is too large for that, group by group.
            if not self._loaded.load(part):
                self._loaded.heavy.update(trace_id for trace_id in part if trace_id in self._crowd)
                continue
            mates = dict.fromkeys(t for p in part for run in self._loaded.runs_of(p) for t in run.trace_ids)
            fresh = [t for t in mates if t not in claimed][: self._max_traces]
            if self._loaded.load(fresh):
                claimed.update(fresh)
                part = [*part, *fresh]  # noqa: PLW2901 - the same group with what its runs hold
            yield tuple(part)

    def _fill(self) -> None:
        """Ask the store once for what ran at the same time as those whose neighbours are not all remembered."""
        windows: dict[tuple[frozenset[str], frozenset[str]], tuple[NeighbourQuery, int, int]] = {}
        for trace_id, query in self._crowd.items():
            if self._is_older(query):
                spans = self._spans(trace_id)
                start_ns, end_ns = min(s.start_ns for s in spans) - NEAR_NS, max(s.end_ns for s in spans) + NEAR_NS
                names = (query.processes, query.session_ids)
                _, first_ns, last_ns = windows.get(names, (query, start_ns, end_ns))
                windows[names] = (query, min(first_ns, start_ns), max(last_ns, end_ns))
        for query, start_ns, end_ns in windows.values():
            found = self._ask(query, (start_ns, end_ns), _FILL_IDS)
            if not self._loaded.shared:  # what this process remembers it also keeps up to date
                found = [t for t in found if not self._neighbourhood.knows(self._loaded.project, t)]
            if len(found) > _FILL_GROUPS * self._max_traces:  # then rather those that do not come by themselves
                found = [t for t in found if not self._waits(t)]
            newest = found[-_FILL_GROUPS * self._max_traces :]
            if self._loaded.load(newest):
                for trace_id in newest:
                    self._note(trace_id)
