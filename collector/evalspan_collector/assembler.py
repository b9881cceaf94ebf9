"""Assembler: the live loop that turns the spans of the store into runs, and closes them when they are quiet.

Assembly is a pure function of the spans at hand, so doing it again is always safe: after a restart, for a late span,
or because another collector did the same.
"""

import hashlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import structlog

from evalspan_collector.assemble import assemble
from evalspan_collector.completion import Timing, closes_at_ns, facts_of, revise, run_fingerprint
from evalspan_collector.gather import Loaded, gather
from evalspan_collector.neighbourhood import Neighbourhood
from evalspan_collector.pending import PendingTrace, PendingTraces, TraceKey, in_shard
from evalspan_collector.prices import Prices
from evalspan_collector.recent import KnownRun, RecentTraces
from evalspan_collector.run import Run, RunState
from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.contract import OpenTrace, Store

__all__ = ["Assembler"]

_log = structlog.get_logger(__name__)
_SECOND = 1_000_000_000
_TICK_S = 0.25
#: Spans assembled at a time.
_BATCH_SPANS = 4_000
#: A trace with more spans is assembled beside the others, so that it delays none of them.
_HEAVY_SPANS = 5_000
#: Runs and steps written in one insert.
_WRITE_RUNS, _WRITE_STEPS = 1_000, 20_000
#: Bytes on the wire of the newest blocks whose spans are kept in memory until they are assembled.
_RECENT_BYTES = 48 << 20
#: While intake is busy, pauses last this many times as long as the work before them, but no longer than this.
_PAUSE_FACTOR = 4.0
_MAX_PAUSE_S = 5.0
#: A run that closes sooner than this is written once, closed; a longer one shows as open meanwhile.
_SHOW_OPEN_NS = 15 * _SECOND
#: How often traces are asked for that other collectors took in.
_POLL_S = 2.0
#: After a failed store call or assembly.
_RETRY_NS = 2 * _SECOND
_GIVE_UP_AFTER = 3
#: Traces that are looked at together at most.
_GROUP_TRACES = 64


@dataclass(slots=True)
class _Outcome:
    """What assembling a group of traces led to.

    Attributes:
        runs: To be written.
        gone: Ids of runs that are no more.
        next_ns: When to look again; None when everything is closed.
    """

    group: Sequence[str]
    runs: list[Run] = field(default_factory=list[Run])
    gone: list[str] = field(default_factory=list[str])
    next_ns: int | None = None


class Assembler:
    """Watches traces with new spans and writes their runs.

    Args:
        stores: Gives the store; raises StoreUnreachableError while nobody answers.
        watermark_ns: Everything received before this time is in the store; timers run on it, so that a backlog in
            the spool closes no run early.
        busy: True while intake needs the processor more than assembly does.
        traces_per_page: How many pending traces are asked for at a time.
        shard: (i, n): this loop assembles the traces of shard i of n.
        prices: For the cost of model calls that carry none.
    """

    def __init__(
        self,
        *,
        stores: Callable[[], Store],
        metrics: SelfMetrics,
        timing: Timing | None = None,
        shard: tuple[int, int] = (0, 1),
        prices: Prices | None = None,
        watermark_ns: Callable[[], int] = time.time_ns,
        busy: Callable[[], bool] = lambda: False,
        traces_per_page: int = 10_000,
    ) -> None:
        self._stores = stores
        self._metrics = metrics
        self._timing = timing or Timing()
        self._shard = shard
        self._prices = prices
        self._watermark_ns = watermark_ns
        self._busy = busy
        self._traces_per_page = traces_per_page
        self._pending = PendingTraces(
            quiet_ns=int(min(self._timing.quick_grace_s, self._timing.grace_s) * _SECOND),
            patience_ns=int(max(5.0, self._timing.quick_grace_s) * _SECOND),
            heavy_spans=_HEAVY_SPANS,
        )
        self._recent = RecentTraces(max_bytes=_RECENT_BYTES)
        self._failures: dict[str, int] = {}
        self._neighbourhood = Neighbourhood()
        # With one shard this process sees every trace from now on; with several it never does.
        self._complete_since_ns = time.time_ns() if shard[1] == 1 else 2**63
        self._stop = threading.Event()
        self._polled_ns = 0
        self._recovered = False
        self._threads = [
            threading.Thread(target=self._loop, kwargs={"heavy": heavy}, name=name, daemon=True)
            for heavy, name in ((False, "assembler"), (True, "assembler-heavy"))
        ]

    def start(self) -> None:
        """Rebuild the pending set from the store and begin."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> None:
        """Finish the traces at hand; what is pending is found in the store by the next process."""
        deadline = time.monotonic() + timeout_s
        self._stop.set()
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def spans_stored(self, spans: Sequence[Span], logs: Sequence[LogRecord], size_bytes: int = 0) -> None:
        """New spans and log records are in the store; `size_bytes` is what they took on the wire."""
        if self._shard[1] > 1:
            spans = [span for span in spans if in_shard(span.trace_id, self._shard)]
            logs = [record for record in logs if in_shard(record.trace_id, self._shard)]
        self._recent.add(spans, logs, size_bytes=size_bytes)
        touched: dict[TraceKey, list[int]] = {}
        items: tuple[Span | LogRecord, ...] = (*spans, *logs)
        for item in items:
            received_ns = item.received_ns
            seen = touched.get((item.project, item.trace_id))
            if seen is None:
                touched[item.project, item.trace_id] = [received_ns, received_ns, 1]
                continue
            seen[2] += 1
            if received_ns > seen[1]:
                seen[1] = received_ns
            elif received_ns < seen[0]:
                seen[0] = received_ns
        self._pending.touch((key, first, last, count) for key, (first, last, count) in touched.items() if key[1])

    def _loop(self, *, heavy: bool) -> None:
        last_poll = 0.0
        while not self._stop.wait(_TICK_S):
            try:
                if not heavy and (
                    not self._recovered or (self._shard[1] > 1 and time.monotonic() - last_poll > _POLL_S)
                ):
                    self.poll_store()
                    last_poll = time.monotonic()
                self._catch_up(heavy=heavy)
            except Exception as error:  # noqa: BLE001  # the loop outlives any store
                _log.warning("assembly_failed", error=f"{type(error).__name__}: {error}")
                self._stop.wait(1.0)
            self._metrics.open_traces.set(len(self._pending))

    def _catch_up(self, *, heavy: bool) -> None:
        """Assemble everything that is due; slower while senders are ahead of the store: runs can wait, spans cannot."""
        while not self._stop.is_set():
            began = time.monotonic()
            if not self._tick(heavy=heavy):
                return
            if self._busy():
                self._stop.wait(min(_MAX_PAUSE_S, _PAUSE_FACTOR * (time.monotonic() - began)))

    def poll_store(self) -> None:
        """Take up traces that an earlier process or another collector left."""
        store, since_ns = self._stores(), self._polled_ns
        page: list[OpenTrace] = []
        while not self._stop.is_set():
            page = store.open_traces(
                since_received_ns=since_ns, after=page[-1] if page else None, limit=self._traces_per_page
            )
            for found in page:
                self._take_up(found)
            if len(page) < self._traces_per_page:
                self._recovered = True
                return

    def _take_up(self, found: OpenTrace) -> None:
        key = (found.project, found.trace_id)
        if in_shard(found.trace_id, self._shard) and not self._pending.knows(key, found.last_received_ns):
            self._pending.touch([(key, found.first_received_ns, found.last_received_ns, found.spans)])
        # A little overlap: blocks of other collectors may land out of order.
        self._polled_ns = max(self._polled_ns, found.last_received_ns - 60 * _SECOND)

    def tick(self) -> int:
        """Assemble what is due now; returns how many traces that was."""
        return self._tick(heavy=False) + self._tick(heavy=True)

    def _tick(self, *, heavy: bool) -> int:
        now_ns = self._watermark_ns()
        due = self._pending.take_due(
            now_ns, max_spans=_BATCH_SPANS, heavy=heavy, recalled=None if heavy else self._recent.holds
        )
        projects: dict[str, list[PendingTrace]] = defaultdict(list)
        for trace in due:
            projects[trace.key[0]].append(trace)
        for project, traces in projects.items():
            changes = {trace.key: trace.changes for trace in traces}
            loaded = Loaded(
                self._stores(),
                self._recent,
                project,
                max_spans=None if heavy else _HEAVY_SPANS,
                shared=self._shard[1] > 1,
            )
            try:
                self._assemble(loaded, traces, now_ns)
            except Exception:
                for trace in traces:
                    self._pending.settle(trace.key, changes=changes[trace.key], next_ns=now_ns + _RETRY_NS)
                raise
        return len(due)

    def _assemble(self, loaded: Loaded, traces: list[PendingTrace], now_ns: int) -> None:
        project = loaded.project
        due = {trace.key[1]: trace for trace in traces}
        changes = {trace.key: trace.changes for trace in traces}
        light = loaded.load_due(due)
        assembled = [
            self._assemble_group(group, loaded, now_ns)
            for group in gather(
                light,
                loaded,
                self._neighbourhood,
                max_traces=_GROUP_TRACES,
                complete_since_ns=self._complete_since_ns,
                waits=lambda trace_id: self._pending.knows((project, trace_id)),
            )
        ]
        outcomes = self._judge_all(assembled, loaded, due, now_ns)
        self._write(project, outcomes, now_ns)
        self._settle(project, outcomes, due)
        next_ns = {trace_id: outcome.next_ns for outcome in outcomes for trace_id in outcome.group}
        for trace_id, trace in due.items():
            if trace_id in loaded.heavy:
                self._pending.make_heavy(trace.key)
            else:
                self._pending.settle(trace.key, changes=changes[trace.key], next_ns=next_ns.get(trace_id))

    def _assemble_group(
        self, group: Sequence[str], loaded: Loaded, now_ns: int
    ) -> tuple[_Outcome, Sequence[Run] | None]:
        """Assemble traces that belong together, mostly one; None for the runs where that failed."""
        outcome = _Outcome(group)
        spans = [span for trace_id in group for span in loaded.spans.get(trace_id, ())]
        logs = [record for trace_id in group for record in loaded.logs.get(trace_id, ())]
        try:
            runs = assemble(spans, logs, prices=self._prices)
        except Exception as error:  # noqa: BLE001  # one hostile trace must not stop the others
            self._fail(outcome, now_ns, error)
            return outcome, None
        return outcome, runs

    def _judge_all(
        self,
        assembled: Sequence[tuple[_Outcome, Sequence[Run] | None]],
        loaded: Loaded,
        due: Container[str],
        now_ns: int,
    ) -> list[_Outcome]:
        """What is to be written of each group; what memory may be wrong about is looked up by its id first.

        A run that seems new may have been written before: withdrawn since, or of spans that came again with other
        times. It goes on with the next revision, or its new scores would be hidden behind the old ones. And one that
        was closed and of which something came may be gone: its data was deleted.
        """
        prior = {id(outcome): loaded.runs_in(outcome.group) for outcome, _ in assembled}
        known = {run.run_id: run.state for runs in prior.values() for run in runs if run.state != "withdrawn"}
        now = [run for _, runs in assembled for run in runs or ()]
        unsure = [r for r in now if known.get(r.run_id) != "open" and any(t in due for t in r.trace_ids)]
        written = loaded.last_revisions(run.run_id for run in (*unsure, *(r for r in now if r.run_id not in known)))
        for outcome, runs in assembled:
            if runs is not None:
                stored = [written[run.run_id] for run in runs if run.run_id in written]
                # Memory may be ahead of a store of several replicas, but not where a run was withdrawn.
                before = [run for run in stored if run.run_id not in known or run.state == "withdrawn"]
                self._judge(outcome, runs, [*prior[id(outcome)], *before], now_ns)
        return [outcome for outcome, _ in assembled]

    def _fail(self, outcome: _Outcome, now_ns: int, error: Exception) -> None:
        """Try again a few times, then leave the traces until new spans come."""
        key = outcome.group[0]
        failures = self._failures.pop(key, 0) + 1
        self._metrics.assembly_errors.inc()
        _log.error("trace_not_assembled", trace=key, attempt=failures, error=f"{type(error).__name__}: {error}")
        if failures < _GIVE_UP_AFTER:
            self._failures[key] = failures
            outcome.next_ns = now_ns + _RETRY_NS

    def _judge(self, outcome: _Outcome, runs: Iterable[Run], prior: Sequence[KnownRun], now_ns: int) -> None:
        """Which runs are to be written, which old ones are gone, and when to look again."""
        inside = set(outcome.group)
        earlier = {known.run_id: known for known in prior}
        for run in runs:
            closes_ns = closes_at_ns(facts_of(run), self._timing)
            closed = now_ns >= closes_ns
            if not closed:
                outcome.next_ns = min(outcome.next_ns or closes_ns, closes_ns)
            known = earlier.pop(run.run_id, None)
            if not closed and closes_ns - now_ns < _SHOW_OPEN_NS:
                continue  # soon closed: written once, then
            printed = replace(run, fingerprint=run_fingerprint(run))
            old = None if known is None else _as_stored(known, printed)
            revised = revise(old, printed, closed=closed)
            if old is None or _differs(old, revised):
                outcome.runs.append(revised)
        # A run that reaches beyond this group is not gone because its root is not here.
        outcome.gone.extend(
            known.run_id
            for known in earlier.values()
            if known.state != "withdrawn" and inside.issuperset(known.trace_ids)
        )

    def _settle(self, project: str, outcomes: Iterable[_Outcome], due: Mapping[str, PendingTrace]) -> None:
        """Mark what is finished and what the written runs do not mark, so that no restart looks at it again."""
        settled: list[tuple[str, int]] = []
        for outcome in outcomes:
            if outcome.next_ns is not None:
                continue
            marked = {trace_id: run.last_received_ns for run in outcome.runs for trace_id in run.trace_ids}
            settled.extend(
                (trace_id, due[trace_id].last_ns)
                for trace_id in outcome.group
                if trace_id in due and marked.get(trace_id, 0) < due[trace_id].last_ns
            )
        if settled:
            self._stores().settle_traces(project, settled)

    def _write(self, project: str, outcomes: Sequence[_Outcome], now_ns: int) -> None:
        gone = [run_id for outcome in outcomes for run_id in outcome.gone]
        if gone:
            self._stores().withdraw_runs(project, gone, now_ns=now_ns)
            self._recent.forget_runs(project, (trace for o in outcomes if o.gone for trace in o.group), gone)
        for runs in _portions(run for outcome in outcomes for run in outcome.runs):
            digest = hashlib.sha256()
            for run in runs:
                digest.update(f"{run.run_id} {run.revision} {run.state} {run.fingerprint}\n".encode())
            self._stores().write_runs(runs, token=f"runs:{project}:{digest.hexdigest()[:32]}")
            self._recent.note_runs(runs)
            for run in runs:
                self._metrics.runs_written.labels(run.state).inc()


def _portions(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """Runs in inserts of bounded size: one trace may hold tens of thousands."""
    portion: list[Run] = []
    steps = 0
    for run in runs:
        portion.append(run)
        steps += len(run.steps)
        if len(portion) >= _WRITE_RUNS or steps >= _WRITE_STEPS:
            yield portion
            portion, steps = [], 0
    if portion:
        yield portion


def _as_stored(known: KnownRun, run: Run) -> Run:
    """A run that stands for the stored one: of that, only revision, state and fingerprint are known here."""
    return replace(run, revision=known.revision, state=cast("RunState", known.state), fingerprint=known.fingerprint)


def _differs(old: Run, new: Run) -> bool:
    return (old.revision, old.state, old.fingerprint) != (new.revision, new.state, new.fingerprint)
