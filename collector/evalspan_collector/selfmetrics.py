"""SelfMetrics: numbers the collector tells about itself, under the OTel Collector's names where one exists."""

import resource
import threading
import time
from collections.abc import Callable
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from evalspan.errors import ConfigError

__all__ = ["MetricsEndpoint", "SelfMetrics"]

_INSERT_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_ACK_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 1.0, 3.0)


class SelfMetrics:
    """Every counter of one collector, in a registry of its own.

    Attributes:
        registry: What `/metrics` shows.
    """

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        transport = ("transport",)
        self.accepted_requests = Counter(
            "evalspan_receiver_accepted_requests", "Requests answered OK", ("transport", "signal"), registry=registry
        )
        self.refused_requests = Counter(
            "evalspan_receiver_refused_requests", "Requests refused", ("transport", "reason"), registry=registry
        )
        self.rejected_items = Counter(
            "evalspan_receiver_rejected_items", "Spans or log records left out by partial success", ("signal",),
            registry=registry,
        )  # fmt: skip
        self.accepted_spans = Counter(
            "otelcol_receiver_accepted_spans", "Spans that are durable and acknowledged", transport, registry=registry
        )
        self.refused_spans = Counter(
            "otelcol_receiver_refused_spans", "Spans rejected in requests that were accepted", transport,
            registry=registry,
        )  # fmt: skip
        self.accepted_logs = Counter(
            "otelcol_receiver_accepted_log_records", "Log records that are durable and acknowledged", transport,
            registry=registry,
        )  # fmt: skip
        self.dropped_metric_requests = Counter(
            "evalspan_receiver_dropped_metric_requests", "Metric requests accepted and dropped", transport,
            registry=registry,
        )  # fmt: skip
        self.ack_seconds = Histogram(
            "evalspan_receiver_ack_seconds", "Seconds from request to answer", transport, registry=registry,
            buckets=_ACK_BUCKETS,
        )  # fmt: skip
        self._add_store(registry)
        self._add_process(registry)

    def _add_store(self, registry: CollectorRegistry) -> None:
        """Counters of the way into the store and of what is made there."""
        self.sent_spans = Counter("otelcol_exporter_sent_spans", "Spans the store confirmed", registry=registry)
        self.sent_logs = Counter(
            "otelcol_exporter_sent_log_records", "Log records the store confirmed", registry=registry
        )
        self.resent_spans = Counter(
            "evalspan_resent_spans", "Spans that came again, by whether they said the same or something other",
            ("content",), registry=registry,
        )  # fmt: skip
        self.insert_failures = Counter(
            "otelcol_exporter_send_failed_spans", "Spans whose insert failed and is tried again", registry=registry
        )
        self.insert_seconds = Histogram(
            "evalspan_insert_seconds", "Seconds per block insert", registry=registry, buckets=_INSERT_BUCKETS
        )
        self.queue_size = Gauge("otelcol_exporter_queue_size", "Bytes waiting in the spool", registry=registry)
        self.queue_capacity = Gauge("otelcol_exporter_queue_capacity", "Size cap of the spool", registry=registry)
        self.spool_lag_seconds = Gauge(
            "evalspan_spool_lag_seconds", "Age of the newest record that reached the store", registry=registry
        )
        self.store_up = Gauge("evalspan_store_up", "1 when the last insert was confirmed", registry=registry)
        self.quarantined = Counter(
            "evalspan_quarantined", "Requests and damaged records put aside", ("reason",), registry=registry
        )
        self.runs_written = Counter("evalspan_runs_written", "Run revisions written", ("state",), registry=registry)
        self.open_traces = Gauge("evalspan_open_traces", "Traces waiting for assembly", registry=registry)
        self.assembly_errors = Counter(
            "evalspan_assembly_errors", "Traces that could not be assembled", registry=registry
        )

    def _add_process(self, registry: CollectorRegistry) -> None:
        started = time.monotonic()
        self._live_gauge("otelcol_process_uptime", "Seconds since start", lambda: time.monotonic() - started, registry)
        self._live_gauge("otelcol_process_memory_rss", "Resident bytes", _resident_bytes, registry)
        self._live_gauge("otelcol_process_cpu_seconds", "CPU seconds used", time.process_time, registry)

    @staticmethod
    def _live_gauge(name: str, text: str, read: Callable[[], float], registry: CollectorRegistry) -> None:
        Gauge(name, text, registry=registry).set_function(read)


def _resident_bytes() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # read at every scrape: the short way
            return float(int(file.read().split()[1]) * resource.getpagesize())
    except OSError:
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


class MetricsEndpoint:
    """The HTTP listener of `/metrics`."""

    def __init__(self, metrics: SelfMetrics, *, host: str, port: int) -> None:
        try:
            server, thread = start_http_server(port, addr=host, registry=metrics.registry)
        except OSError as error:
            raise ConfigError(
                f"port {port} on {host} is taken ({error.strerror}): stop its owner, or pass another with"
                " --metrics-port or EVALSPAN_METRICS_PORT"
            ) from error
        self._server: WSGIServer = server
        self._thread: threading.Thread = thread
        self.port: int = server.server_port

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)
