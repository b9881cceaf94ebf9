"""GrpcServer: OTLP over gRPC, on raw bytes so that malformed requests get the right code."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # ships no stubs
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from evalspan.errors import ConfigError
from evalspan_collector.receiver.acceptance import Acceptance, Accepted, Credentials
from evalspan_collector.receiver.admission import Reason, RefusedError
from evalspan_collector.receiver.tls import TlsFiles
from evalspan_collector.spool import Signal

__all__ = ["GrpcServer"]

_TRANSPORT = "grpc"
_TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
_METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_CODES = {
    Reason.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    # Stock exporters retry RESOURCE_EXHAUSTED even without RetryInfo; this one is hopeless.
    Reason.TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.BAD_TYPE: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.BAD_KEY: grpc.StatusCode.UNAUTHENTICATED,
}
#: Room above our own limit, so that a request over it gets our answer, which names the limit and what to do, and is
#: counted. What is larger still gets gRPC's own RESOURCE_EXHAUSTED before any of our code sees it.
_HEADROOM = 0.25

Handler = Callable[[bytes, grpc.ServicerContext], bytes]


class GrpcServer:
    """The listener on the gRPC port.

    Args:
        acceptance: What decides about each request.
        threads: Requests worked on at a time; further ones wait in their connections.

    Raises:
        ConfigError: The port is taken, or the certificate cannot be used.
    """

    def __init__(
        self, acceptance: Acceptance, *, host: str, port: int, threads: int, tls: TlsFiles | None = None
    ) -> None:
        self._acceptance = acceptance
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="otlp-grpc")
        self._server: grpc.Server = grpc.server(  # pyright: ignore[reportUnknownMemberType]  # generic in stubs only
            self._pool,
            handlers=[_Handlers(acceptance)],
            options=[
                ("grpc.max_receive_message_length", int(acceptance.max_request_bytes * (1 + _HEADROOM))),
                ("grpc.so_reuseport", 0),
                ("grpc.max_concurrent_streams", 100),
            ],
        )
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if tls is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, _credentials(tls))
        except RuntimeError as error:
            self._pool.shutdown(wait=False)
            raise ConfigError(
                f"port {port} on {host} is taken: stop its owner, or pass another with --grpc-port or"
                " EVALSPAN_GRPC_PORT"
            ) from error

    def start(self) -> None:
        """Accept requests."""
        self._server.start()
        for service in ("", "opentelemetry.proto.collector.trace.v1.TraceService"):
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)  # pyright: ignore[reportUnknownMemberType]  # untyped enum

    def stop(self, grace_s: float) -> None:
        """Accept nothing new at once, answer what is under way, at most for `grace_s` seconds."""
        self._health.enter_graceful_shutdown()
        self._server.stop(grace_s).wait(grace_s + 1)
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs only
    """Routes method names to functions of bytes."""

    def __init__(self, acceptance: Acceptance) -> None:
        self._acceptance = acceptance
        routes: dict[str, Handler] = {
            _TRACES: self._export(Signal.TRACES, _trace_answer),
            _LOGS: self._export(Signal.LOGS, _log_answer),
            _METRICS: self._drop_metrics,
        }
        self._methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(route)  # pyright: ignore[reportUnknownMemberType]  # stub
            for name, route in routes.items()
        }

    # Quoted: the stubs make these generic, the classes are not.
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return self._methods.get(handler_call_details.method)

    def _export(self, signal: Signal, answer: Callable[[Accepted], bytes]) -> Handler:
        def handle(body: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                project = self._acceptance.project_of(_credentials_of(context))
                return answer(self._acceptance.accept(signal, project, body, transport=_TRANSPORT))
            except RefusedError as refusal:
                self._refuse(context, refusal)

        return handle

    def _drop_metrics(self, _body: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            self._acceptance.project_of(_credentials_of(context))
        except RefusedError as refusal:
            self._refuse(context, refusal)
        self._acceptance.drop_metrics(_TRANSPORT)
        return ExportMetricsServiceResponse().SerializeToString()

    def _refuse(self, context: grpc.ServicerContext, refusal: RefusedError) -> NoReturn:
        self._acceptance.count_refused(_TRANSPORT, refusal.reason)
        context.abort_with_status(_status(refusal))
        raise AssertionError("abort_with_status raises")  # its stub says so too, by returning NoReturn


@dataclass(frozen=True, slots=True)
class _Status(grpc.Status):
    """What `abort_with_status` reads."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, bytes], ...]  # pyright: ignore[reportIncompatibleVariableOverride]  # frozen


def _status(refusal: RefusedError) -> _Status:
    """The code, and for what may be retried a RetryInfo in both places where exporters look for it."""
    code = grpc.StatusCode.UNAVAILABLE if refusal.retry_after_s is not None else _CODES[refusal.reason]
    rich = status_pb2.Status(code=code.value[0], message=refusal.message)
    trailers: list[tuple[str, bytes]] = []
    if refusal.retry_after_s is not None:
        delay = Duration()
        delay.FromNanoseconds(int(refusal.retry_after_s * 1e9))
        info = error_details_pb2.RetryInfo(retry_delay=delay)
        detail = AnyMessage()
        detail.Pack(info)
        rich.details.append(detail)
        trailers.append(("google.rpc.retryinfo-bin", info.SerializeToString()))
    trailers.append(("grpc-status-details-bin", rich.SerializeToString()))
    return _Status(code, refusal.message, tuple(trailers))


def _trace_answer(accepted: Accepted) -> bytes:
    response = ExportTraceServiceResponse()
    if accepted.rejected or accepted.message:
        response.partial_success.rejected_spans = accepted.rejected
        response.partial_success.error_message = accepted.message
    return response.SerializeToString()


def _log_answer(accepted: Accepted) -> bytes:
    response = ExportLogsServiceResponse()
    if accepted.rejected or accepted.message:
        response.partial_success.rejected_log_records = accepted.rejected
        response.partial_success.error_message = accepted.message
    return response.SerializeToString()


def _credentials_of(context: grpc.ServicerContext) -> Credentials:
    authorization = api_key = None
    for key, value in context.invocation_metadata():
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if key == "authorization":
            authorization = text
        elif key == "x-api-key":
            api_key = text
    return Credentials(authorization, api_key)


def _credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    """Credentials that follow the files: a renewed certificate is served without a restart."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration(
            [(tls.key.read_bytes(), tls.cert.read_bytes())],
            root_certificates=tls.client_ca.read_bytes() if tls.client_ca else None,
        )

    state = {"stamp": tls.stamp()}

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        stamp = tls.stamp()
        if stamp == state["stamp"]:
            return None
        try:
            fresh = configuration()
        except OSError:
            return None  # half-way through a renewal: the old one serves on
        state["stamp"] = stamp
        return fresh

    try:
        return grpc.dynamic_ssl_server_credentials(
            configuration(),
            renewed,  # type: ignore[arg-type]  # None means "as before", which the stub does not know
            require_client_authentication=tls.client_ca is not None,
        )
    except OSError as error:
        raise ConfigError(f"the certificate files cannot be read: {error}") from error
