"""HTTP: ClickHouse's HTTP interface over sockets, in front of something that runs statements."""

import base64
import hmac
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Protocol, cast
from urllib.parse import parse_qsl, urlsplit

from evalspan_collector.store._embedded import Engine, EngineError, EngineResult
from evalspan_collector.store._statement import Statement, form_fields
from evalspan_collector.store._wire import Headers, WireError, compress, decompress, http_status, read_body

__all__ = ["Backend", "HttpServer", "Limits"]

log = logging.getLogger(__name__)


class Limits(Protocol):
    """What the server asks of its options."""

    @property
    def max_body(self) -> int:
        """Largest request in bytes."""
        ...

    @property
    def query_timeout_s(self) -> float:
        """Seconds of a statement that sets none."""
        ...

    @property
    def connections(self) -> int:
        """Open connections at once."""
        ...


class Backend(Protocol):
    """What the server asks of its owner."""

    engine: Engine

    @property
    def options(self) -> Limits:
        """Limits of the server."""
        ...

    def ping(self) -> bool:
        """True when the engine lives."""
        ...

    def run(self, work: Callable[[], EngineResult], timeout_s: float) -> EngineResult:
        """Runs work on a thread that has an engine handle."""
        ...


class HttpServer(ThreadingHTTPServer):
    """A thread per connection; statements run elsewhere, so an idle connection costs a stack only."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], backend: Backend, *, token: str | None) -> None:
        self.backend = backend
        self._token = token
        self._open = threading.BoundedSemaphore(backend.options.connections)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def authorised(self, headers: Headers, parameters: Mapping[str, str]) -> bool:
        """Compares the presented token (bearer, basic, X-ClickHouse-Key, password) in constant time."""
        if self._token is None:
            return True
        expected = self._token.encode()
        found = False
        for given in _presented(headers, parameters):
            found |= hmac.compare_digest(given.encode(), expected)
        return found

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuses a connection above the limit at once instead of queueing it."""
        if not self._open.acquire(blocking=False):
            request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Gives the connection's place back when it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # the base class calls it so
        """A connection that broke is no news of ours."""
        log.debug("connection of %s ended badly: %s", client_address, sys.exc_info()[1])


def _presented(headers: Headers, parameters: Mapping[str, str]) -> list[str]:
    found = [headers.get("X-ClickHouse-Key") or "", parameters.get("password", "")]
    scheme, _, rest = (headers.get("Authorization") or "").partition(" ")
    if scheme.lower() == "bearer":
        found.append(rest.strip())
    elif scheme.lower() == "basic":
        try:
            found.append(base64.b64decode(rest, validate=True).decode().partition(":")[2])
        except ValueError:
            pass  # no token in it
    return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "evalspan-store"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    timeout: ClassVar[float | None] = 900.0  # idle keep-alive, in seconds

    @property
    def _server(self) -> HttpServer:
        return cast("HttpServer", self.server)

    @property
    def _headers(self) -> Headers:
        return cast("Headers", self.headers)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class names it so
        log.debug(format, *args)

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url = urlsplit(self.path)
        try:
            if url.path == "/ping":
                alive = self._server.backend.ping()
                self._send(200 if alive else 503, b"Ok.\n" if alive else b"the engine does not answer\n")
                return
            self._statement(dict(parse_qsl(url.query, keep_blank_values=True)))
        except WireError as error:
            self.close_connection = True  # the body may be unread
            self._error(error.status, error.code, f"Code: {error.code}. DB::Exception: {error}")
        except EngineError as error:
            self._error(http_status(error.code), error.code, str(error))
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        except Exception as error:  # the next request must find a living server
            log.exception("a request failed")
            self.close_connection = True
            self._error(500, 1002, f"Code: 1002. DB::Exception: {type(error).__name__}: {error}")

    def _statement(self, parameters: dict[str, str]) -> None:
        backend = self._server.backend
        if not self._server.authorised(self._headers, parameters):
            raise WireError(
                "Authentication failed: the token is wrong or missing (AUTHENTICATION_FAILED)", status=403, code=516
            )
        if parameters.get("compress") == "1" or parameters.get("decompress") == "1":
            raise WireError("compress and decompress are not supported: use Accept-Encoding (NOT_IMPLEMENTED)", code=48)
        limit = backend.options.max_body
        body = read_body(cast("Any", self.rfile), self._headers, limit)
        body = decompress(body, self._headers.get("Content-Encoding") or "", limit)
        content_type = self._headers.get("Content-Type") or ""
        if "multipart/form-data" in content_type:
            body, parameters = b"", {**parameters, **form_fields(body, content_type)}
        statement = Statement.of(body, parameters, self._headers, backend.options.query_timeout_s)
        del body
        began = time.perf_counter()
        result = backend.run(lambda: statement.execute(backend.engine), statement.timeout_s + 10.0)
        self._send_result(result, parameters, time.perf_counter() - began, statement.fmt)

    def _send_result(self, result: EngineResult, parameters: Mapping[str, str], elapsed_s: float, fmt: str) -> None:
        summary = {
            "read_rows": result.read_rows,
            "read_bytes": result.read_bytes,
            "written_rows": result.written_rows,
            "written_bytes": result.written_bytes,
            "total_rows_to_read": 0,
            "result_rows": 0,
            "result_bytes": len(result.data),
            "elapsed_ns": int(elapsed_s * 1e9),
        }
        headers = {
            "X-ClickHouse-Summary": json.dumps({k: str(v) for k, v in summary.items()}),
            "X-ClickHouse-Query-Id": parameters.get("query_id", ""),
            "X-ClickHouse-Server-Display-Name": "evalspan-store",
            "X-ClickHouse-Timezone": "UTC",
        }
        data = result.data
        if data or fmt == "Native":
            headers["X-ClickHouse-Format"] = fmt
        if len(data) > 4096 and parameters.get("enable_http_compression") == "1":
            data, encoding = compress(data, self._headers.get("Accept-Encoding") or "")
            if encoding is not None:
                headers["Content-Encoding"] = encoding
        self._send(200, data, headers)

    def _error(self, status: int, code: int, message: str) -> None:
        headers = {"X-ClickHouse-Exception-Code": str(code)}
        if status == 503:
            headers["Retry-After"] = "1"
        try:
            self._send(status, f"{message} (version evalspan embedded)\n".encode(errors="replace"), headers)
        except OSError:
            self.close_connection = True

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if status == 200 else "text/plain; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value.replace("\r", " ").replace("\n", " "))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()
