"""Test kit: record what an agent emits, with counted ids and a stepping clock, in memory or over a real gRPC port."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from evalspan import _writer
from evalspan._cost import Pricer, with_cost
from evalspan._stamp import SessionStamp
from evalspan.attributes import SCOPE_NAME

_grpc: Any = grpc  # its stubs leave the handlers' types unknown

__all__ = ["CountedIds", "Recorder", "Sink", "StepClock", "record"]


class StepClock:
    """A clock that moves one step at every look.

    Args:
        start_ns: First answer, nanoseconds since the epoch.
        step_ns: Added after every answer.
    """

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000, step_ns: int = 1_000_000) -> None:
        self._next = start_ns
        self._step = step_ns
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """The time, and one step on."""
        with self._lock:
            now = self._next
            self._next += self._step
        return now


class CountedIds(IdGenerator):
    """Trace and span ids 1, 2, 3, ...: the same in every test run."""

    def __init__(self) -> None:
        self._traces = 0
        self._spans = 0
        self._lock = threading.Lock()

    def generate_trace_id(self) -> int:
        """The next trace id."""
        with self._lock:
            self._traces += 1
            return self._traces

    def generate_span_id(self) -> int:
        """The next span id."""
        with self._lock:
            self._spans += 1
            return self._spans


class _Priced(SpanExporter):
    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._pricer = Pricer()

    def export(self, spans: Any) -> SpanExportResult:
        return self._inner.export([with_cost(span, self._pricer) for span in spans])

    def shutdown(self) -> None:
        self._inner.shutdown()


@dataclass(frozen=True, slots=True)
class Recorder:
    """Spans recorded by `record`, in the order they ended.

    Attributes:
        provider: The tracer provider spans are made with; hand it to libraries that take one.
        memory: Where finished spans are.
    """

    provider: TracerProvider
    memory: InMemorySpanExporter

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Finished spans."""
        return self.memory.get_finished_spans()

    @property
    def anthropic(self) -> dict[str, Any]:
        """The `open_telemetry=` option that makes an anthropic client record here, with content."""
        return {"tracer_provider": self.provider, "traces": {"content_mode": "content"}}

    def span(self, name: str) -> ReadableSpan:
        """The one span of that name.

        Raises:
            LookupError: There is none, or more than one.
        """
        found = [span for span in self.spans if span.name == name]
        if len(found) != 1:
            raise LookupError(f"{len(found)} spans are named {name!r}; there are {[s.name for s in self.spans]}")
        return found[0]

    def attributes(self, name: str) -> dict[str, Any]:
        """Attributes of the one span of that name."""
        return dict(self.span(name).attributes or {})


@contextmanager
def record(
    *, clock: Callable[[], int] | None = None, capture_content: bool = True, ids: IdGenerator | None = None
) -> Generator[Recorder]:
    """Record what the decorators emit inside, whatever the process is set up to do with it.

    Args:
        clock: Times of the decorators' spans; by default a `StepClock`.
        capture_content: As in `evalspan.init`.
        ids: Makes trace and span ids; by default `CountedIds`.
    """
    memory = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource({"service.name": "test"}), id_generator=ids or CountedIds(), shutdown_on_exit=False
    )
    provider.add_span_processor(SessionStamp())
    provider.add_span_processor(SimpleSpanProcessor(_Priced(memory)))
    writer = replace(
        _writer.current(),
        tracer=provider.get_tracer(SCOPE_NAME, _writer.VERSION),
        clock=clock or StepClock(),
        capture_content=capture_content,
    )
    before = _writer.exchange(writer)
    try:
        yield Recorder(provider, memory)
    finally:
        _writer.exchange(before)
        provider.shutdown()


class Sink:
    """An OTLP/gRPC trace receiver on a free loopback port that keeps what it gets.

    Args:
        max_bytes: Messages above this are refused, as a real receiver would.
    """

    def __init__(self, max_bytes: int = 4 * 1024 * 1024) -> None:
        self._lock = threading.Lock()
        self._requests: list[ExportTraceServiceRequest] = []
        self._headers: list[dict[str, str]] = []
        self._sizes: list[int] = []
        self._server = _grpc.server(
            ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", max_bytes), ("grpc.so_reuseport", 0)]
        )
        handler = _grpc.method_handlers_generic_handler(
            "opentelemetry.proto.collector.trace.v1.TraceService",
            {
                "Export": _grpc.unary_unary_rpc_method_handler(
                    self._export, response_serializer=ExportTraceServiceResponse.SerializeToString
                )
            },
        )
        self._server.add_generic_rpc_handlers((handler,))
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")

    @property
    def endpoint(self) -> str:
        """Address to export to."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[ExportTraceServiceRequest]:
        """Requests in order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def headers(self) -> list[dict[str, str]]:
        """GRPC metadata of each request."""
        with self._lock:
            return list(self._headers)

    @property
    def sizes(self) -> list[int]:
        """Bytes of each request."""
        with self._lock:
            return list(self._sizes)

    @property
    def spans(self) -> list[OtlpSpan]:
        """All spans, by start time."""
        found = [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.stop(grace=1).wait()

    def _export(self, body: bytes, context: grpc.ServicerContext) -> ExportTraceServiceResponse:
        request = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            self._requests.append(request)
            self._sizes.append(len(body))
            self._headers.append({str(k): str(v) for k, v in context.invocation_metadata()})
        return ExportTraceServiceResponse()
