"""Sink: a loopback OTLP receiver for one run of a command, and the variables that make its SDK send there."""

import gzip
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Protocol

from evalspan.errors import DecodeError
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span

if TYPE_CHECKING:
    from evalspan_collector.prices import Prices

__all__ = ["OtlpSink", "open_sink"]

_MOST_BYTES = 64 * 1024 * 1024


class OtlpSink(Protocol):
    """What a command sent."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the command."""
        ...

    def runs(self, prices: "Prices | None") -> tuple[Run, ...]:
        """The runs rebuilt from it."""
        ...


@contextmanager
def open_sink(protocol: str) -> Generator[OtlpSink]:
    """Receive OTLP on a free loopback port; `protocol` is `grpc` or `http/protobuf`."""
    if protocol == "grpc":
        from evalspan.testing import Sink

        with Sink(max_bytes=_MOST_BYTES) as sink:
            yield _GrpcSink(sink.endpoint, lambda: [r.SerializeToString() for r in sink.requests])
        return
    server = _HttpServer()
    thread = threading.Thread(target=server.serve_forever, name="evalspan-otlp-sink", daemon=True)
    thread.start()
    try:
        yield server.sink
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _environment(endpoint: str, protocol: str) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }


def _rebuilt(
    traces: list[tuple[bytes, bool]], logs: list[tuple[bytes, bool]], prices: "Prices | None"
) -> tuple[Run, ...]:
    from evalspan_collector.assemble import assemble
    from evalspan_collector.intake import read_logs, read_traces

    spans: list[Span] = []
    records: list[LogRecord] = []
    now = time.time_ns()
    for body, json in traces:
        try:
            spans.extend(read_traces(body, project="default", received_ns=now, json=json).spans)
        except DecodeError:
            continue
    for body, json in logs:
        try:
            records.extend(read_logs(body, project="default", received_ns=now, json=json).logs)
        except DecodeError:
            continue
    return assemble(spans, records, prices=prices)


class _GrpcSink:
    def __init__(self, endpoint: str, bodies: "_Bodies") -> None:
        self._bodies = bodies
        self.environment = _environment(endpoint, "grpc")

    def runs(self, prices: "Prices | None") -> tuple[Run, ...]:
        return _rebuilt([(body, False) for body in self._bodies()], [], prices)


class _Bodies(Protocol):
    """Gives the request bodies received so far."""

    def __call__(self) -> list[bytes]:
        """The bodies, in order."""
        ...


class _HttpSink:
    def __init__(self, endpoint: str) -> None:
        self.environment = _environment(endpoint, "http/protobuf")
        self._lock = threading.Lock()
        self._received: dict[str, list[tuple[bytes, bool]]] = {"/v1/traces": [], "/v1/logs": []}

    def add(self, path: str, body: bytes, *, json: bool) -> bool:
        with self._lock:
            if path not in self._received:
                return path == "/v1/metrics"
            self._received[path].append((body, json))
            return True

    def runs(self, prices: "Prices | None") -> tuple[Run, ...]:
        with self._lock:
            return _rebuilt(self._received["/v1/traces"], self._received["/v1/logs"], prices)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sink = _HttpSink(f"http://127.0.0.1:{self.server_address[1]}")


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        status = 413
        if 0 <= length <= _MOST_BYTES:
            body = self.rfile.read(length)
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            is_json = "json" in (self.headers.get("content-type") or "")
            server = self.server
            known = isinstance(server, _HttpServer) and server.sink.add(self.path, body, json=is_json)
            status = 200 if known else 404
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Say nothing: the report is on stdout."""
