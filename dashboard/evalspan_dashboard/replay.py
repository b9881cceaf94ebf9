"""Replay: sends OTLP files to a collector over gRPC, in order, and counts what was acknowledged."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from evalspan.errors import DecodeError, StoreUnreachableError
from evalspan_collector.decode import parse_request
from evalspan_collector.decode_json import parse_body
from evalspan_collector.formats import OtlpRequest, Problem, read_requests

__all__ = ["ReplayTotal", "replay_paths"]

_METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
#: Codes after which the same bytes may be sent again.
_RETRYABLE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED})
#: Seconds a busy collector is given before the replay gives up.
PATIENCE_S = 60.0
MAX_MESSAGE_BYTES = 64 << 20
_ID_KEYS = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"})


@dataclass(slots=True)
class ReplayTotal:
    """What was sent, and what was not taken."""

    requests: int = 0
    spans: int = 0
    logs: int = 0
    rejected: int = 0
    problems: list[str] = field(default_factory=list[str])

    def to_json(self) -> dict[str, Any]:
        """The line of `evalspan replay --json`."""
        return {
            "requests": self.requests,
            "spans": self.spans,
            "logs": self.logs,
            "rejected": self.rejected,
            "problems": self.problems,
        }


def replay_paths(paths: Iterable[Path], *, endpoint: str, api_key: str | None = None) -> ReplayTotal:
    """Send every request of every path, each acknowledged before the next.

    Raises:
        StoreUnreachableError: No collector answers at the endpoint.
    """
    total = ReplayTotal()
    metadata = [("authorization", f"Bearer {api_key}")] if api_key else []
    address = endpoint.removeprefix("http://")
    # Any: the stubs of grpc are generic over types that they leave unknown.
    opened: Any = grpc.insecure_channel(address, options=[("grpc.max_send_message_length", MAX_MESSAGE_BYTES)])
    with opened as channel:
        for path in paths:
            for item in read_requests(path):
                if isinstance(item, Problem):
                    total.problems.append(f"{item.place}: {item.message}")
                else:
                    _send(channel, item, metadata, total, address)
    return total


def _send(
    channel: Any, request: OtlpRequest, metadata: list[tuple[str, str]], total: ReplayTotal, address: str
) -> None:
    try:
        message = _message(request)
    except (DecodeError, json_format.ParseError, RecursionError) as error:
        reason = " ".join(str(error).split())
        total.problems.append(f"{request.place}: cannot be sent: {reason}")
        return
    call: Any = channel.unary_unary(
        _METHODS[request.signal], request_serializer=type(message).SerializeToString, response_deserializer=bytes
    )
    try:
        reply = _retrying()(call, message, timeout=PATIENCE_S, metadata=metadata)
    except grpc.RpcError as error:
        failed: Any = error  # what a call raises is an RpcError and a Call at once, which stubs cannot say
        if failed.code() == grpc.StatusCode.UNAVAILABLE:
            raise StoreUnreachableError(
                f"no collector answers at {address!r}: start one with `evalspan up`, or name it with --endpoint"
            ) from error
        total.problems.append(f"{request.place}: {failed.code().name}: {failed.details()}")
        return
    total.requests += 1
    if isinstance(message, ExportTraceServiceRequest):
        total.spans += sum(len(scope.spans) for resource in message.resource_spans for scope in resource.scope_spans)
        spans = ExportTraceServiceResponse.FromString(reply).partial_success
        total.rejected += spans.rejected_spans
        complaint = spans.error_message
    else:
        total.logs += sum(len(scope.log_records) for resource in message.resource_logs for scope in resource.scope_logs)
        records = ExportLogsServiceResponse.FromString(reply).partial_success
        total.rejected += records.rejected_log_records
        complaint = records.error_message
    if complaint:
        total.problems.append(f"{request.place}: {complaint}")


def _message(request: OtlpRequest) -> ExportTraceServiceRequest | ExportLogsServiceRequest:
    """The request as protobuf, read as leniently as a collector does.

    Raises:
        DecodeError: It is no OTLP.
        json_format.ParseError: Its JSON holds something that protobuf has no place for.
    """
    kind = ExportTraceServiceRequest if request.signal == "traces" else ExportLogsServiceRequest
    if request.json:
        # OTLP JSON writes ids in hex, protobuf's JSON reads them in base64: the one difference between the two.
        found = _with_base64_ids(parse_body(request.body, kind.__name__))
        return json_format.ParseDict(found, kind(), ignore_unknown_fields=True)
    message: ExportTraceServiceRequest | ExportLogsServiceRequest
    message = parse_request(kind, request.body, kind.__name__)
    return message


def _with_base64_ids(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_base64_ids(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    return {
        key: _base64(value) if key in _ID_KEYS and isinstance(value, str) else _with_base64_ids(value)
        for key, value in cast("dict[str, Any]", node).items()
    }


def _base64(text: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(text)).decode()
    except ValueError:
        return text  # no hex: the collector will name it as a bad id


def _retryable(error: BaseException) -> bool:
    failed: Any = error
    return isinstance(error, grpc.RpcError) and failed.code() in _RETRYABLE


def _retrying() -> Retrying:
    return Retrying(
        retry=retry_if_exception(_retryable),
        wait=wait_random_exponential(multiplier=0.2, max=3.0),
        stop=stop_after_delay(5.0),
        reraise=True,
    )
