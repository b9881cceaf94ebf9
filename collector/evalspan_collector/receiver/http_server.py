"""HttpServer: OTLP over HTTP, protobuf and JSON on one port, inflated as a stream under the size limit."""

import asyncio
import contextlib
import socket
import ssl
import threading
import zlib
from collections.abc import Generator
from typing import Literal, NamedTuple

import anyio.to_thread
import uvicorn
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc import code_pb2, status_pb2  # type: ignore[import-untyped]  # ships no stubs
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from evalspan.errors import ConfigError
from evalspan_collector.receiver.acceptance import Acceptance, Accepted, Credentials
from evalspan_collector.receiver.admission import Reason, RefusedError
from evalspan_collector.receiver.patience import PatientProtocol
from evalspan_collector.receiver.tls import TlsFiles
from evalspan_collector.spool import Signal

__all__ = ["HttpServer", "Inflater"]

_TRANSPORT = "http"
_PROTOBUF = "application/x-protobuf"
_JSON = "application/json"
_BACKLOG = 2048
_TLS_CHECK_S = 2.0
#: Of a refused request, so much of the body is read and forgotten, in multiples of the size limit and in seconds.
_REST_FACTOR, _REST_S = 2, 10.0
#: Seconds for a whole body, and how many of the largest may be under way at once.
_BODY_S, _READING_FACTOR, _READING_LEAST = 60.0, 4, 64 << 20


class _Code(NamedTuple):
    http: int
    rpc: int


_CODES = {
    Reason.MALFORMED: _Code(400, code_pb2.INVALID_ARGUMENT),
    Reason.TOO_LARGE: _Code(413, code_pb2.INVALID_ARGUMENT),
    Reason.BAD_KEY: _Code(401, code_pb2.UNAUTHENTICATED),
    Reason.BAD_TYPE: _Code(415, code_pb2.INVALID_ARGUMENT),
    Reason.RATE: _Code(429, code_pb2.UNAVAILABLE),
}
_UNAVAILABLE = _Code(503, code_pb2.UNAVAILABLE)


class Inflater:
    """Inflates a gzip stream piece by piece and stops at a limit, so that a bomb never unfolds in memory.

    Args:
        limit: Bytes it may give in total.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._zlib = zlib.decompressobj(wbits=31)
        self.size = 0

    def feed(self, data: bytes) -> bytes:
        """Inflated bytes; more than the limit in total shows in `size`, at most one byte beyond.

        Raises:
            RefusedError: The bytes are no gzip.
        """
        pieces: list[bytes] = []
        try:
            while data and self.size <= self._limit:
                piece = self._zlib.decompress(data, self._limit + 1 - self.size)
                pieces.append(piece)
                self.size += len(piece)
                data = self._zlib.unconsumed_tail
                if self._zlib.eof:  # a gzip file may have several members
                    data = self._zlib.unused_data
                    if data:
                        self._zlib = zlib.decompressobj(wbits=31)
        except zlib.error as error:
            raise RefusedError(Reason.MALFORMED, f"the body is no gzip: {error}") from error
        return b"".join(pieces)

    def finish(self) -> None:
        """Check that the stream was whole.

        Raises:
            RefusedError: It was cut off.
        """
        if not self._zlib.eof:
            raise RefusedError(Reason.MALFORMED, "the gzip body is cut off")


class HttpServer:
    """The listener on the HTTP port.

    Raises:
        ConfigError: The port is taken, or the certificate cannot be used.
    """

    def __init__(self, acceptance: Acceptance, *, host: str, port: int, tls: TlsFiles | None = None) -> None:
        self._app = _App(acceptance)
        self._tls = tls
        self._socket = _bind(host, port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._app.starlette,
            http=PatientProtocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=65,
            backlog=_BACKLOG,
            ssl_certfile=tls.cert if tls else None,
            ssl_keyfile=tls.key if tls else None,
            ssl_ca_certs=str(tls.client_ca) if tls and tls.client_ca else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_ca else ssl.CERT_NONE,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            self._socket.close()
            raise ConfigError(f"the certificate files cannot be used: {error}") from error
        self._config = config
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, name="otlp-http", daemon=True)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Accept requests."""
        self._thread.start()
        if self._tls is not None:
            threading.Thread(target=self._follow_certificate, name="otlp-http-tls", daemon=True).start()

    def stop(self, grace_s: float) -> None:
        """Accept nothing new, answer what is under way, at most for `grace_s` seconds."""
        self._stopped.set()
        self._server.should_exit = True
        self._thread.join(grace_s)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(1.0)

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def _follow_certificate(self) -> None:
        """Serve a renewed certificate to new connections without a restart."""
        tls, context = self._tls, self._config.ssl
        if tls is None or context is None:
            return
        stamp = tls.stamp()
        while not self._stopped.wait(_TLS_CHECK_S):
            if tls.stamp() == stamp:
                continue
            try:
                context.load_cert_chain(tls.cert, tls.key)
            except (OSError, ssl.SSLError):
                continue  # half-way through a renewal: the old one serves on
            stamp = tls.stamp()


class _Server(uvicorn.Server):
    """Signals belong to the process, not to a server in a thread."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Install no handler."""
        yield


class _App:
    """The routes."""

    def __init__(self, acceptance: Acceptance) -> None:
        self._acceptance = acceptance
        #: Bytes of bodies that are being read, inflated.
        self._reading = 0
        self.starlette = Starlette(
            routes=[
                Route("/v1/traces", self._traces, methods=["POST"]),
                Route("/v1/logs", self._logs, methods=["POST"]),
                Route("/v1/metrics", self._metrics, methods=["POST"]),
                Route("/healthz", self._healthz),
                Route("/readyz", self._readyz),
            ]
        )

    async def _traces(self, request: Request) -> Response:
        return await self._export(request, Signal.TRACES)

    async def _logs(self, request: Request) -> Response:
        return await self._export(request, Signal.LOGS)

    async def _export(self, request: Request, signal: Signal) -> Response:
        encoding = _encoding_of(request)
        if encoding is None:
            bad_type = RefusedError(Reason.BAD_TYPE, f"content-type must be {_PROTOBUF} or {_JSON}")
            await self._read_rest(request)
            return self._refuse(bad_type, encoding)
        try:
            project = self._acceptance.project_of(_credentials_of(request))
            body = await self._read(request)
            accepted = await anyio.to_thread.run_sync(
                lambda: self._acceptance.accept(signal, project, body, transport=_TRANSPORT, json=encoding == "json")
            )
        except RefusedError as refusal:
            await self._read_rest(request)
            return self._refuse(refusal, encoding)
        except ClientDisconnect:
            return Response(status_code=400)
        return _encode(_answer(signal, accepted), encoding)

    async def _metrics(self, request: Request) -> Response:
        encoding = _encoding_of(request)
        try:
            self._acceptance.project_of(_credentials_of(request))
            await self._read(request)
        except RefusedError as refusal:
            await self._read_rest(request)
            return self._refuse(refusal, encoding)
        except ClientDisconnect:
            return Response(status_code=400)
        self._acceptance.drop_metrics(_TRANSPORT)
        return _encode(ExportMetricsServiceResponse(), encoding)

    async def _read(self, request: Request) -> bytes:
        """The body, inflated; stops reading as soon as it is too large."""
        coding = request.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("identity", "gzip", ""):
            raise RefusedError(Reason.BAD_TYPE, f"content-encoding {coding!r} is not known: send gzip or none")
        self._acceptance.check_size(_announced(request))
        inflater = Inflater(self._acceptance.max_request_bytes) if coding == "gzip" else None
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(_BODY_S):
                async for chunk in request.stream():
                    piece = inflater.feed(chunk) if inflater is not None else chunk
                    size += len(piece)
                    self._reading += len(piece)
                    self._acceptance.check_size(size)
                    self._check_reading()
                    pieces.append(piece)
        except TimeoutError:
            message = f"the body did not come within {_BODY_S:g} s: send less at a time, or compress it"
            raise RefusedError(Reason.OVERLOAD, message, retry_after_s=1.0) from None
        finally:
            self._reading -= size
        if inflater is not None and inflater.size:
            inflater.finish()
        return b"".join(pieces)

    def _check_reading(self) -> None:
        """Bodies that are still coming are bounded together, not only each."""
        if self._reading > max(_READING_FACTOR * self._acceptance.max_request_bytes, _READING_LEAST):
            message = "too much is being received at once: send again a little later"
            raise RefusedError(Reason.OVERLOAD, message, retry_after_s=1.0)

    async def _read_rest(self, request: Request) -> None:
        """Read and forget what is still coming, within bounds: who is still writing sees a reset, not the answer."""
        left = _REST_FACTOR * self._acceptance.max_request_bytes
        waits = request.headers.get("expect", "").lower() == "100-continue"  # sends no body before it is asked to
        if waits or _announced(request) > left:
            return
        try:
            async with asyncio.timeout(_REST_S):
                async for chunk in request.stream():
                    left -= len(chunk)
                    if left < 0:
                        return
        except (TimeoutError, ClientDisconnect, RuntimeError):  # the last: all of it had been read
            return

    def _refuse(self, refusal: RefusedError, encoding: Literal["protobuf", "json"] | None) -> Response:
        self._acceptance.count_refused(_TRANSPORT, refusal.reason)
        code = _CODES.get(refusal.reason, _UNAVAILABLE)
        response = _encode(status_pb2.Status(code=code.rpc, message=refusal.message), encoding, code.http)
        if refusal.retry_after_s is not None:
            response.headers["retry-after"] = str(max(1, round(refusal.retry_after_s)))
        if refusal.reason in (Reason.TOO_LARGE, Reason.BAD_KEY, Reason.OVERLOAD):
            response.headers["connection"] = "close"  # the rest of the body may not have been read
        return response

    async def _healthz(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, _request: Request) -> Response:
        if self._acceptance.stopping:
            return PlainTextResponse("stopping\n", status_code=503)
        return PlainTextResponse("ready\n")


def _encoding_of(request: Request) -> Literal["protobuf", "json"] | None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == _PROTOBUF:
        return "protobuf"
    return "json" if media_type == _JSON else None


def _announced(request: Request) -> int:
    """Bytes of the body as its sender announced them; 0 when it did not."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _credentials_of(request: Request) -> Credentials:
    return Credentials(request.headers.get("authorization"), request.headers.get("x-api-key"))


def _answer(signal: Signal, accepted: Accepted) -> Message:
    if signal is Signal.TRACES:
        traces = ExportTraceServiceResponse()
        if accepted.rejected or accepted.message:
            traces.partial_success.rejected_spans = accepted.rejected
            traces.partial_success.error_message = accepted.message
        return traces
    logs = ExportLogsServiceResponse()
    if accepted.rejected or accepted.message:
        logs.partial_success.rejected_log_records = accepted.rejected
        logs.partial_success.error_message = accepted.message
    return logs


def _encode(message: Message, encoding: Literal["protobuf", "json"] | None, status: int = 200) -> Response:
    if encoding == "json":
        return Response(MessageToJson(message, indent=None), status_code=status, media_type=_JSON)
    return Response(message.SerializeToString(), status_code=status, media_type=_PROTOBUF)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"port {port} on {host} is taken ({error.strerror}): stop its owner, or pass another with --http-port or"
            " EVALSPAN_HTTP_PORT"
        ) from error
    return listener
