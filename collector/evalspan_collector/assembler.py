"""Assembler: the live loop that turns the spans of the store into runs, and closes them when they are quiet.

Assembly is a pure function of the spans at hand, so doing it again is always safe: after a restart, for a late span,
or because another collector did the same.
"""

import hashlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import structlog

from evalspan_collector.assemble import assemble
from evalspan_collector.completion import Timing, closes_at_ns, facts_of, revise, run_fingerprint
from evalspan_collector.pending import PendingTrace, PendingTraces, TraceKey, in_shard
from evalspan_collector.prices import Prices
from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run, RunState
from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.contract import Store

__all__ = ["Assembler"]

_Item = TypeVar("_Item", Span, LogRecord)
_log = structlog.get_logger(__name__)
_SECOND = 1_000_000_000
_TICK_S = 0.25
#: Spans loaded from the store at a time.
_BATCH_SPANS = 8_000
#: A run that closes sooner than this is written once, closed; a longer one shows as open meanwhile.
_SHOW_OPEN_NS = 15 * _SECOND
#: How often traces are asked for that other collectors took in.
_POLL_S = 2.0
#: After a failed store call or assembly.
_RETRY_NS = 2 * _SECOND
_GIVE_UP_AFTER = 3


@dataclass(slots=True)
class _Outcome:
    """What assembling one trace led to."""

    trace: PendingTrace
    changes: int
    runs: list[Run]
    gone: list[str]
    next_ns: int | None


class Assembler:
    """Watches traces with new spans and writes their runs.

    Args:
        stores: Gives the store; raises StoreUnreachableError while nobody answers.
        watermark_ns: Everything received before this time is in the store; timers run on it, so that a backlog in
            the spool closes no run early.
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
    ) -> None:
        self._stores = stores
        self._metrics = metrics
        self._timing = timing or Timing()
        self._shard = shard
        self._prices = prices
        self._watermark_ns = watermark_ns
        self._pending = PendingTraces(
            quiet_ns=int(min(self._timing.quick_grace_s, self._timing.grace_s) * _SECOND),
            patience_ns=int(max(5.0, self._timing.quick_grace_s) * _SECOND),
        )
        self._failures: dict[TraceKey, int] = {}
        self._stop = threading.Event()
        self._polled_ns = 0
        self._recovered = False
        self._thread = threading.Thread(target=self._loop, name="assembler", daemon=True)

    def start(self) -> None:
        """Rebuild the pending set from the store and begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Finish the trace at hand; what is pending is found in the store by the next process."""
        self._stop.set()
        self._thread.join(timeout_s)

    def spans_stored(self, spans: Sequence[Span], logs: Sequence[LogRecord]) -> None:
        """New spans and log records are in the store."""
        touched: dict[TraceKey, list[int]] = {}
        items: tuple[Span | LogRecord, ...] = (*spans, *logs)
        for item in items:
            if not item.trace_id:
                continue
            seen = touched.get((item.project, item.trace_id))
            if seen is None:
                touched[item.project, item.trace_id] = [item.received_ns, item.received_ns, 1]
            else:
                seen[0] = min(seen[0], item.received_ns)
                seen[1] = max(seen[1], item.received_ns)
                seen[2] += 1
        self._pending.touch(
            (key, first, last, count) for key, (first, last, count) in touched.items() if in_shard(key[1], self._shard)
        )

    def _loop(self) -> None:
        last_poll = 0.0
        while not self._stop.wait(_TICK_S):
            try:
                if not self._recovered or (self._shard[1] > 1 and time.monotonic() - last_poll > _POLL_S):
                    self.poll_store()
                    last_poll = time.monotonic()
                while self.tick() and not self._stop.is_set():
                    pass
            except Exception as error:  # noqa: BLE001  # the loop outlives any store
                _log.warning("assembly_failed", error=f"{type(error).__name__}: {error}")
                self._stop.wait(1.0)
            self._metrics.open_traces.set(len(self._pending))

    def poll_store(self) -> None:
        """Take up traces that an earlier process or another collector left."""
        for found in self._stores().open_traces(since_received_ns=self._polled_ns):
            if in_shard(found.trace_id, self._shard):
                key = (found.project, found.trace_id)
                self._pending.touch([(key, found.first_received_ns, found.last_received_ns, found.spans)])
            # A little overlap: blocks of other collectors may land out of order.
            self._polled_ns = max(self._polled_ns, found.last_received_ns - 60 * _SECOND)
        self._recovered = True

    def tick(self) -> int:
        """Assemble what is due now; returns how many traces that was."""
        now_ns = self._watermark_ns()
        due = self._pending.take_due(now_ns, max_spans=_BATCH_SPANS)
        projects: dict[str, list[PendingTrace]] = defaultdict(list)
        for trace in due:
            projects[trace.key[0]].append(trace)
        for project, traces in projects.items():
            changes = {trace.key: trace.changes for trace in traces}
            try:
                self._assemble(project, traces, now_ns)
            except Exception:
                for trace in traces:
                    self._pending.settle(trace.key, changes=changes[trace.key], next_ns=now_ns + _RETRY_NS)
                raise
        return len(due)

    def _assemble(self, project: str, traces: list[PendingTrace], now_ns: int) -> None:
        changes = {trace.key: trace.changes for trace in traces}
        ids = [trace.key[1] for trace in traces]
        spans = _by_trace(self._stores().spans(project, ids))
        logs = _by_trace(self._stores().logs(project, ids))
        prior: dict[str, list[RunSummary]] = defaultdict(list)
        for summary in self._stores().runs_of_traces(project, ids):
            prior[summary.trace_id].append(summary)
        outcomes: list[_Outcome] = []
        for trace in traces:
            trace_id = trace.key[1]
            try:
                runs = assemble(spans.get(trace_id, ()), logs.get(trace_id, ()), prices=self._prices)
            except Exception as error:  # noqa: BLE001  # one hostile trace must not stop the others
                outcomes.append(self._failed(trace, changes[trace.key], now_ns, error))
                continue
            outcomes.append(self._judge(trace, changes[trace.key], runs, prior[trace_id], now_ns))
        self._write(project, outcomes, now_ns)
        for outcome in outcomes:
            self._pending.settle(outcome.trace.key, changes=outcome.changes, next_ns=outcome.next_ns)

    def _failed(self, trace: PendingTrace, changes: int, now_ns: int, error: Exception) -> _Outcome:
        """Try again a few times, then leave the trace until new spans come."""
        failures = self._failures.get(trace.key, 0) + 1
        self._metrics.assembly_errors.inc()
        _log.error("trace_not_assembled", trace=trace.key, attempt=failures, error=f"{type(error).__name__}: {error}")
        if failures >= _GIVE_UP_AFTER:
            self._failures.pop(trace.key, None)
            return _Outcome(trace, changes, [], [], None)
        self._failures[trace.key] = failures
        return _Outcome(trace, changes, [], [], now_ns + _RETRY_NS)

    def _judge(
        self, trace: PendingTrace, changes: int, runs: Iterable[Run], prior: Sequence[RunSummary], now_ns: int
    ) -> _Outcome:
        """Which runs are to be written, which old ones are gone, and when to look again."""
        earlier = {summary.run_id: summary for summary in prior if summary.state != "withdrawn"}
        outcome = _Outcome(trace, changes, [], [], None)
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
        outcome.gone.extend(earlier)
        return outcome

    def _write(self, project: str, outcomes: Sequence[_Outcome], now_ns: int) -> None:
        gone = [run_id for outcome in outcomes for run_id in outcome.gone]
        if gone:
            self._stores().withdraw_runs(project, gone, now_ns=now_ns)
        runs = [run for outcome in outcomes for run in outcome.runs]
        if not runs:
            return
        digest = hashlib.sha256()
        for run in runs:
            digest.update(f"{run.run_id} {run.revision} {run.state} {run.fingerprint}\n".encode())
        self._stores().write_runs(runs, token=f"runs:{project}:{digest.hexdigest()[:32]}")
        for run in runs:
            self._metrics.runs_written.labels(run.state).inc()


def _as_stored(known: RunSummary, run: Run) -> Run:
    """A run that stands for the stored one: of that, only revision, state and fingerprint are known here."""
    return replace(run, revision=known.revision, state=cast("RunState", known.state), fingerprint=known.fingerprint)


def _differs(old: Run, new: Run) -> bool:
    return (old.revision, old.state, old.fingerprint) != (new.revision, new.state, new.fingerprint)


def _by_trace(items: Iterable[_Item]) -> dict[str, list[_Item]]:
    groups: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        groups[item.trace_id].append(item)
    return groups
