"""Collector: OTLP in, spans and runs in the store; one process, or any number of them side by side."""

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

import structlog

from evalspan.errors import ConfigError, StoreError
from evalspan_collector.assembler import Assembler
from evalspan_collector.completion import Timing
from evalspan_collector.drain import BlockLimits, Drain
from evalspan_collector.key_copy import KeyCopy
from evalspan_collector.prices import Prices
from evalspan_collector.quarantine import Quarantine
from evalspan_collector.receiver.acceptance import Acceptance
from evalspan_collector.receiver.admission import Admission
from evalspan_collector.receiver.grpc_server import GrpcServer
from evalspan_collector.receiver.http_server import HttpServer
from evalspan_collector.receiver.keys import KeyFile, KeyRing
from evalspan_collector.receiver.tls import TlsFiles
from evalspan_collector.resends import Resends
from evalspan_collector.selfmetrics import MetricsEndpoint, SelfMetrics
from evalspan_collector.settings import Settings, is_loopback
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.spool import Spool
from evalspan_collector.store.clickhouse import ClickHouseStore
from evalspan_collector.store.client import ClickHouseError
from evalspan_collector.store.contract import Store
from evalspan_collector.store.opening import open_store

__all__ = ["Collector", "check_exposure", "run_collector"]

_log = structlog.get_logger(__name__)
#: How long a start waits for the store's keys; beyond this machine it may not start without.
_KEYS_WAIT_S, _KEYS_WAIT_EXPOSED_S = 2.0, 10.0
#: How often to see whether the store still has its tables; ClickHouse's codes for a table or database that is unknown.
_TABLES_CHECK_S, _NO_TABLES = 5.0, frozenset({60, 81})
#: A backlog above this means that intake is behind.
_BUSY_BYTES = 1 << 20
#: Threads that answer senders must not wait long behind one that decodes or assembles.
_SWITCH_INTERVAL_S = 0.001


def check_exposure(settings: Settings, keys: KeyRing) -> None:
    """Refuse to listen beyond this machine without TLS and keys, unless told otherwise.

    Raises:
        ConfigError: The bind would let strangers in.
    """
    if is_loopback(settings.host) or settings.insecure:
        return
    missing = [
        text
        for text, present in (
            ("a certificate (--tls-cert, --tls-key)", settings.uses_tls),
            ("an API key (`evalspan keys create --project NAME`)", keys.required),
        )
        if not present
    ]
    if missing:
        raise ConfigError(
            f"host {settings.host!r} is reachable from other machines and {' and '.join(missing)} is missing:"
            " add it, listen on 127.0.0.1, or pass --insecure"
        )


class Collector:
    """Receivers, spool, drain and assembler, wired.

    Args:
        settings: Where to listen, where to keep, how much to allow.
        store: Where spans and runs go, or what gives it once it answers; stays open when the collector stops.

    Raises:
        ConfigError: A port is taken, the data folder cannot be used, or the bind would let strangers in.
    """

    def __init__(self, settings: Settings, store: Store | Callable[[], Store]) -> None:
        stores = store if callable(store) else (lambda: store)
        folder = settings.data_dir.create()
        self._settings = settings
        self.metrics = SelfMetrics()
        self.metrics.queue_capacity.set(settings.spool_max_bytes)
        key_file = KeyFile(settings.key_path)
        self._keys = KeyRing(key_file, open_project=settings.project)
        self._key_copy = KeyCopy(stores, key_file, self._keys)
        self._key_copy.start(wait_s=_KEYS_WAIT_S if is_loopback(settings.host) else _KEYS_WAIT_EXPOSED_S)
        try:
            check_exposure(settings, self._keys)
        except ConfigError:
            self._key_copy.stop()
            raise
        self._spool = Spool(
            folder.spool,
            max_bytes=settings.spool_max_bytes,
            segment_bytes=settings.spool_segment_bytes,
            power_safe=settings.durability == "power",
        )
        self._drain = Drain(
            spool=self._spool,
            stores=stores,
            quarantine=Quarantine(folder.quarantine, max_bytes=settings.quarantine_max_bytes, metrics=self.metrics),
            metrics=self.metrics,
            limits=BlockLimits(
                spans=settings.block_spans, size_bytes=settings.block_bytes, wait_s=settings.block_wait_s
            ),
        )
        self._assembler = Assembler(
            stores=stores,
            metrics=self.metrics,
            timing=Timing(
                grace_s=settings.grace_s,
                quick_grace_s=settings.grace_complete_s,
                idle_s=settings.idle_s,
                cap_s=settings.max_open_s,
            ),
            shard=settings.shard,
            prices=Prices(settings.prices),
            watermark_ns=self._drain.watermark_ns,
            busy=lambda: self._spool.bytes_waiting > _BUSY_BYTES,
        )
        self._resends = Resends(self.metrics)
        self._drain.on_stored(self._spans_stored)
        self._acceptance = Acceptance(
            spool=self._spool,
            keys=self._keys,
            admission=Admission(
                max_inflight_bytes=settings.max_inflight_bytes,
                rate_requests_per_s=settings.rate_requests_per_s,
                rate_bytes_per_s=settings.rate_bytes_per_s,
            ),
            metrics=self.metrics,
            max_request_bytes=settings.max_request_bytes,
        )
        self._listen()

    def _spans_stored(self, spans: Sequence[Span], logs: Sequence[LogRecord], size_bytes: int) -> None:
        self._assembler.spans_stored(spans, logs, size_bytes)
        self._resends.note(spans, size_bytes=size_bytes)

    def _listen(self) -> None:
        settings = self._settings
        tls = TlsFiles.from_settings(settings)
        try:
            self._grpc = GrpcServer(
                self._acceptance, host=settings.host, port=settings.grpc_port, threads=settings.grpc_threads, tls=tls
            )
            self._http = HttpServer(self._acceptance, host=settings.host, port=settings.http_port, tls=tls)
            self._endpoint = MetricsEndpoint(self.metrics, host="127.0.0.1", port=settings.metrics_port)
        except ConfigError:
            self._key_copy.stop()
            self._spool.close()
            raise
        self.grpc_port = self._grpc.port
        self.http_port = self._http.port
        self.metrics_port = self._endpoint.port

    @property
    def backlog_bytes(self) -> int:
        """Acknowledged bytes that the store does not have yet."""
        return self._spool.bytes_waiting

    def start(self) -> None:
        """Accept requests; what an earlier process left in the spool goes first."""
        if self._spool.checkpoint_lost:
            _log.warning("spool_checkpoint_lost", action="everything in the spool is sent again; rows are idempotent")
        self._drain.start()
        self._assembler.start()
        self._grpc.start()
        self._http.start()

    def stop(self) -> bool:
        """Take nothing new, answer what is under way, drain; True when the spool is empty.

        Takes at most `stop_grace_s`; what is left is taken by the next process.
        """
        deadline = time.monotonic() + self._settings.stop_grace_s
        self._acceptance.stop()
        http = threading.Thread(target=self._http.stop, args=(self._settings.stop_grace_s / 2,))
        http.start()
        self._grpc.stop(self._settings.stop_grace_s / 2)
        http.join()
        empty = self._drain.stop(max(0.1, deadline - time.monotonic()))
        self._assembler.stop(max(0.1, deadline - time.monotonic()))
        self._endpoint.close()
        self._spool.close()
        self._key_copy.stop()
        return empty


class _LateStore:
    """Opens the store when it first answers, so that a collector starts and acknowledges without it."""

    def __init__(self, url: str, token: str | None, *, timeout_s: float) -> None:
        # A store that hangs must not hold a block for minutes.
        separator = "&" if "?" in url else "?"
        self._url = f"{url}{separator}send_receive_timeout={round(timeout_s)}" if url.startswith("http") else url
        self._token = token
        self._lock = threading.Lock()
        self._store: Store | None = None
        threading.Thread(target=self._watch, name="store-tables", daemon=True).start()

    def __call__(self) -> Store:
        with self._lock:
            if self._store is None:
                self._store = open_store(self._url, token=self._token)
            return self._store

    def _watch(self) -> None:
        """A store that came back empty is opened anew, which makes its tables."""
        while True:
            time.sleep(_TABLES_CHECK_S)
            store = self._store
            if not isinstance(store, ClickHouseStore):
                continue
            try:
                store.client.rows("SELECT max(number) FROM migrations")
            except ClickHouseError as error:
                if error.code not in _NO_TABLES:
                    continue
                _log.warning("store_is_empty", error=str(error), action="its tables are made anew")
                with self._lock:
                    self._store = None
            except StoreError:
                continue  # away: whoever needs it says so


def run_collector(settings: Settings, *, store_url: str, store_token: str | None = None) -> NoReturn:
    """Run a collector until SIGTERM or SIGINT, then end the process with 0.

    A second signal ends it at once; acknowledged spans are in the spool.

    Raises:
        ConfigError: It cannot start; the message says why and what to do.
    """
    _configure_logs()
    collector = Collector(settings, _LateStore(store_url, store_token, timeout_s=settings.insert_timeout_s))
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.freeze()  # what was imported is never garbage: leave it out of every collection
    gc.set_threshold(20_000, 20, 50)  # spans are many, short-lived and without cycles
    asked = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            os._exit(0)
        asked.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    collector.start()
    _log.info("collector_started", grpc=collector.grpc_port, http=collector.http_port, metrics=collector.metrics_port)
    while not asked.wait(0.5):
        pass
    empty = collector.stop()
    _log.info("collector_stopped", spool_empty=empty)
    sys.stderr.flush()
    # Threads of gRPC and of a hanging store call must not keep the process: everything acknowledged is on disk.
    os._exit(0)


def _configure_logs() -> None:
    """One JSON object per line on stderr."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
