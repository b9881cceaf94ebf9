"""Drain: takes requests from the spool in order, decodes them and puts them into the store in large blocks.

One thread decodes the next block while another waits for the store to confirm the last one. Block boundaries are
recorded before the insert, so that after a crash the same blocks are sent under the same tokens.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from evalspan.errors import StoreUnreachableError
from evalspan_collector import intake
from evalspan_collector.quarantine import Quarantine
from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.spool import Block, Damage, Position, Signal, Spool, SpoolRecord
from evalspan_collector.store.client import ClickHouseError
from evalspan_collector.store.contract import Store
from evalspan_collector.store.span_block import SpanBlock

__all__ = ["BlockLimits", "Drain"]

_log = structlog.get_logger(__name__)
#: ClickHouse's codes for a table or database that is unknown, files that cannot be opened, read or written, a disk
#: that is full or read-only, and too many parts.
_STORE_CODES = frozenset({60, 74, 75, 76, 81, 107, 164, 225, 242, 243, 252})
_FIRST_DELAY_S = 0.2
_LAST_DELAY_S = 5.0
#: Failed inserts of a whole block before its requests are tried one by one.
_WHOLE_TRIES = 3

#: Told of spans and log records that the store has, and of the bytes they took on the wire.
Stored = Callable[[Sequence[Span], Sequence[LogRecord], int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLimits:
    """When a block is large enough to go: spans, bytes on the wire, or seconds since its first record."""

    spans: int = 10_000
    size_bytes: int = 24 << 20
    wait_s: float = 0.3


@dataclass(slots=True, eq=False)
class _Request:
    """One decoded request: what can be told apart from its neighbours."""

    record: SpoolRecord
    spans: tuple[Span, ...]
    logs: tuple[LogRecord, ...]


@dataclass(slots=True, eq=False)
class _Batch:
    """A block under construction or on its way."""

    start: Position
    end: Position
    began: float
    requests: list[_Request] = field(default_factory=list[_Request])
    block: SpanBlock = field(default_factory=SpanBlock)
    logs: list[LogRecord] = field(default_factory=list[LogRecord])
    size_bytes: int = 0
    received_ns: int = 0

    @property
    def items(self) -> int:
        return len(self.block) + len(self.logs)

    def take(self, request: _Request) -> None:
        """Add a request's spans, encoded at once, and its log records."""
        self.block.add(request.spans)
        self.logs.extend(request.logs)
        self.requests.append(request)
        self.size_bytes += len(request.record.payload)

    def leave_out(self, refused: list[_Request]) -> None:
        """Form it again without requests that the store cannot take."""
        kept = [request for request in self.requests if request not in refused]
        self.requests, self.block, self.logs, self.size_bytes = [], SpanBlock(), [], 0
        for request in kept:
            self.take(request)


class Drain:
    """The way from spool to store.

    Args:
        stores: Gives the store; raises StoreUnreachableError while nobody answers.
        clock_ns: Nanoseconds since the epoch.
    """

    def __init__(
        self,
        *,
        spool: Spool,
        stores: Callable[[], Store],
        quarantine: Quarantine,
        metrics: SelfMetrics,
        limits: BlockLimits | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._spool = spool
        self._stores = stores
        self._quarantine = quarantine
        self._metrics = metrics
        self._limits = limits or BlockLimits()
        self._stored: Stored | None = None
        self._clock_ns = clock_ns
        self._ready: queue.Queue[_Batch | None] = queue.Queue(maxsize=1)
        self._finish = threading.Event()
        self._abandon = threading.Event()
        self._received_ns = 0
        self._threads = [
            threading.Thread(target=self._decode_loop, name="drain-decode", daemon=True),
            threading.Thread(target=self._insert_loop, name="drain-insert", daemon=True),
        ]

    def on_stored(self, stored: Stored) -> None:
        """Name who is told of every block the store has confirmed; call before `start`."""
        self._stored = stored

    def start(self) -> None:
        """Begin with what an earlier process left."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Drain what is there, at most for `timeout_s` seconds; True when the spool is empty.

        What is left stays in the spool and is taken by the next process.
        """
        deadline = time.monotonic() + timeout_s
        self._finish.set()
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._abandon.set()
        for thread in self._threads:
            thread.join(1.0)
        return not self._spool.bytes_waiting

    def watermark_ns(self) -> int:
        """Everything received before this time is in the store: now, unless the spool holds a backlog."""
        now = self._clock_ns()
        return self._received_ns if self._spool.bytes_waiting else now

    # decoding

    def _decode_loop(self) -> None:
        position = self._spool.checkpoint.done
        for block in self._spool.checkpoint.pending:
            position = self._replay(block)
        while not self._abandon.is_set():
            batch = self._collect(position)
            if batch is None:
                break
            position = batch.end
        self._put(None)

    def _replay(self, block: Block) -> Position:
        """Form a block again exactly as it was recorded."""
        batch = _Batch(block.start, block.end, time.monotonic())
        for item in self._spool.read(block.start, until=block.end):
            self._take(batch, item)
        batch.end = block.end
        self._put(batch)
        return block.end

    def _collect(self, start: Position) -> _Batch | None:
        """Gather the next block and hand it over; None when stopping and nothing is left."""
        batch: _Batch | None = None
        position = start
        while not self._abandon.is_set():
            for item in self._spool.read(position):
                batch = batch or _Batch(start, start, time.monotonic())
                self._take(batch, item)
                position = batch.end
                if self._is_full(batch):
                    return batch if self._put(batch) else None
            if batch is not None and (self._is_due(batch) or self._finish.is_set()) and self._put_now(batch):
                return batch
            if batch is None and self._finish.is_set():
                return None
            self._spool.wait_beyond(position, 0.05 if batch is not None else 0.25)
        return None

    def _is_full(self, batch: _Batch) -> bool:
        limits = self._limits
        return batch.items >= limits.spans or batch.size_bytes >= limits.size_bytes or batch.block.is_wide

    def _is_due(self, batch: _Batch) -> bool:
        return time.monotonic() - batch.began >= self._limits.wait_s

    def _put(self, batch: _Batch | None) -> bool:
        while not self._abandon.is_set():
            try:
                self._ready.put(batch, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def _put_now(self, batch: _Batch) -> bool:
        """False while the inserter is busy: the block grows meanwhile."""
        try:
            self._ready.put_nowait(batch)
        except queue.Full:
            return False
        return True

    def _take(self, batch: _Batch, item: SpoolRecord | Damage) -> None:
        """Add one stretch of the spool to a block."""
        batch.end = item.end
        if isinstance(item, Damage):
            _log.error("spool_damage", reason=item.reason, start=item.start, end=item.end)
            self._quarantine.put(
                f"spool_{item.reason}", item.data, error="damaged on disk", origin=f"{item.start}-{item.end}"
            )
            return
        batch.received_ns = max(batch.received_ns, item.received_ns)
        request = self._decode(item)
        if request is None:
            return
        try:
            batch.take(request)
        except Exception as error:  # noqa: BLE001  # likewise
            self._put_aside(item, "unstorable", error)

    def _decode(self, record: SpoolRecord) -> _Request | None:
        read = intake.read_traces if record.signal is Signal.TRACES else intake.read_logs
        try:
            found = read(record.payload, project=record.project, received_ns=record.received_ns, json=record.json)
        except Exception as error:  # noqa: BLE001  # a poisoned request must never stop its neighbours
            self._put_aside(record, "undecodable", error)
            return None
        return _Request(record, found.spans, found.logs)

    def _put_aside(self, record: SpoolRecord, reason: str, error: Exception) -> None:
        message = f"{type(error).__name__}: {error}"
        _log.error("request_quarantined", reason=reason, project=record.project, start=record.start, error=message)
        self._quarantine.put(
            reason, record.payload, error=message, project=record.project, origin=f"{record.start}-{record.end}"
        )

    # inserting

    def _insert_loop(self) -> None:
        while not self._abandon.is_set():
            try:
                batch = self._ready.get(timeout=0.2)
            except queue.Empty:
                self._show_queue()
                continue
            if batch is None or not self._deliver(batch):
                return
            self._show_queue()

    def _deliver(self, batch: _Batch) -> bool:
        """Try until the store has the block; False when told to stop first."""
        delay = _FIRST_DELAY_S
        failures = 0
        while not self._abandon.is_set():
            try:
                self._spool.begin_blocks(Block(batch.start, batch.end))
                if failures < _WHOLE_TRIES:
                    self._insert(batch.block, batch.logs, batch.start, batch.end)
                else:
                    self._insert_apart(batch)
                self._spool.finish_block(batch.end)
            except Exception as error:  # noqa: BLE001  # whatever the store says, the block waits and is tried again
                failures += not _is_about_store(error)
                self._metrics.store_up.set(0)
                self._metrics.insert_failures.inc(batch.items)
                self._show_queue()
                _log.warning("insert_failed", error=f"{type(error).__name__}: {error}", retry_in_s=delay)
                self._abandon.wait(delay)
                delay = min(delay * 2, _LAST_DELAY_S)
                continue
            self._confirm(batch)
            return True
        return False

    def _insert(self, block: SpanBlock, logs: Sequence[LogRecord], start: Position, end: Position) -> None:
        began = time.perf_counter()
        token = f"{self._spool.spool_id}:{start.segment}.{start.offset}-{end.segment}.{end.offset}"
        store = self._stores()
        if len(block):
            store.insert_block(block, token=f"{token}:spans")
        if logs:
            store.insert_logs(logs, token=f"{token}:logs")
        self._metrics.insert_seconds.observe(time.perf_counter() - began)

    def _insert_apart(self, batch: _Batch) -> None:
        """Insert request by request, to find the one that the store cannot take.

        A request is put aside only when it is refused again after a neighbour went in, or when the error is about its
        data and not about the store: a sick store must never empty the spool into the quarantine.
        """
        refused = self._refused(batch.requests)
        if len(refused) < len(batch.requests):
            # Once more: the store may have recovered in between.
            refused = self._refused([request for request, _ in refused])
        elif not all(_is_about_data(reason) for _, reason in refused):
            raise refused[0][1]
        for request, reason in refused:
            self._put_aside(request.record, "unstorable", reason)
        if refused:
            batch.leave_out([request for request, _ in refused])

    def _refused(self, requests: Sequence[_Request]) -> list[tuple[_Request, Exception]]:
        """Insert each request by itself; those that the store cannot take, and why."""
        refused: list[tuple[_Request, Exception]] = []
        for request in requests:
            try:
                self._insert_one(request)
            except Exception as error:
                if _is_about_store(error):
                    raise
                refused.append((request, error))
        return refused

    def _insert_one(self, request: _Request) -> None:
        block = SpanBlock()
        block.add(request.spans)
        self._insert(block, request.logs, request.record.start, request.record.end)

    def _confirm(self, batch: _Batch) -> None:
        spans, logs = batch.block.spans, batch.logs
        self._received_ns = max(self._received_ns, batch.received_ns)
        self._metrics.store_up.set(1)
        self._metrics.sent_spans.inc(len(spans))
        self._metrics.sent_logs.inc(len(logs))
        if batch.received_ns:
            self._metrics.spool_lag_seconds.set(max(0, self._clock_ns() - batch.received_ns) / 1e9)
        if self._stored is not None:
            try:
                self._stored(spans, logs, batch.size_bytes)
            except Exception:  # noqa: BLE001  # whatever a listener raises
                # The block is in the store: what was to follow must not stop those behind it.
                _log.exception("stored_block_not_told", spans=len(spans), logs=len(logs))

    def _show_queue(self) -> None:
        self._metrics.queue_size.set(self._spool.bytes_waiting)


def _is_about_store(error: Exception) -> bool:
    """True for errors that say nothing about the rows: the store is away, full, or has lost its files or tables."""
    return isinstance(error, StoreUnreachableError) or (
        isinstance(error, ClickHouseError) and error.code in _STORE_CODES
    )


def _is_about_data(error: Exception) -> bool:
    """True for errors raised while turning values into columns, before any store was asked."""
    return isinstance(error, TypeError | ValueError | OverflowError | AttributeError)
