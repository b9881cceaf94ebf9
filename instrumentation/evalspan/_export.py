"""Export: batches cut by bytes, memory bounded by bytes, an end that comes in time, and one line of log per outage."""

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from evalspan._cost import Pricer, with_cost

__all__ = ["BoundedProcessor", "SplittingExporter", "batches", "span_size"]

_log = logging.getLogger("evalspan")

#: Bytes of one export. gRPC servers refuse 4 MiB by default, the OpenTelemetry Collector among them.
MAX_BATCH_BYTES = 3_500_000
#: Bytes of finished spans kept while they wait for export.
MAX_HELD_BYTES = 64 * 1024 * 1024
#: Seconds the process may be held up at its end, and when the endpoint is known to be away.
FLUSH_SECONDS = 4.0
FLUSH_SECONDS_AWAY = 1.0

# Upper bounds of what protobuf adds around values: ids, times, tags, lengths, status.
_SPAN_BYTES = 192
_ITEM_BYTES = 24
_SCOPE_BYTES = 256
_NUMBERS = frozenset({bool, float, int})


def span_size(span: ReadableSpan) -> int:
    """An upper bound of the span's bytes in an OTLP request, its resource left out."""
    size = _SPAN_BYTES + _SCOPE_BYTES + _text(span.name) + _text(span.status.description or "")
    size += _attributes(span.attributes)
    for event in span.events:
        size += 2 * _ITEM_BYTES + _text(event.name) + _attributes(event.attributes)
    for link in span.links:
        size += 4 * _ITEM_BYTES + _attributes(link.attributes)
    return size


def _attributes(values: Mapping[str, object] | None) -> int:
    size = 0
    for name, value in (values or {}).items():
        size += 2 * _ITEM_BYTES + _text(name)
        if type(value) is str:  # by far the most, and this runs on the agent's thread
            size += len(value) if value.isascii() else _text(value)
        elif type(value) not in _NUMBERS:
            size += _value(value)
    return size


def _value(value: object) -> int:
    if isinstance(value, str):
        return _ITEM_BYTES + _text(value)
    if isinstance(value, bytes):
        return _ITEM_BYTES + len(value)
    if isinstance(value, Mapping):
        return _ITEM_BYTES + _attributes(cast("Mapping[str, object]", value))
    if isinstance(value, Sequence):
        return _ITEM_BYTES + sum(_value(item) for item in cast("Sequence[object]", value))
    return _ITEM_BYTES


def _text(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def batches(
    spans: Sequence[ReadableSpan], limit: int, size_of: Callable[[ReadableSpan], int] = span_size
) -> Iterator[Sequence[ReadableSpan]]:
    """Cut a batch so that no part passes `limit` bytes; a single span larger than that goes alone."""
    part: list[ReadableSpan] = []
    held = 0
    resources: set[int] = set()
    for span in spans:
        size = size_of(span)
        new = id(span.resource) not in resources
        size_with_resource = size + (_resource(span.resource) if new else 0)
        if part and held + size_with_resource > limit:
            yield part
            part, held = [], 0
            resources.clear()
            size_with_resource = size + _resource(span.resource)
        part.append(span)
        held += size_with_resource
        resources.add(id(span.resource))
    if part:
        yield part


def _resource(resource: Resource) -> int:
    return _ITEM_BYTES + _attributes(resource.attributes)


class SplittingExporter(SpanExporter):
    """Prices the model calls, cuts batches by bytes, and hands them to the real exporter.

    A batch the real exporter cannot encode is cut in halves until the span at fault is alone, so one broken
    span costs no other. After a fork the real exporter is made anew: a gRPC channel does not survive one.

    Args:
        make: Makes the real exporter.
        where: Its address, for messages.
        pricer: Knows what model calls cost.
        max_batch_bytes: Bytes of one export.
    """

    def __init__(
        self, make: Callable[[], SpanExporter], *, where: str, pricer: Pricer, max_batch_bytes: int = MAX_BATCH_BYTES
    ) -> None:
        self._make = make
        self._where = where
        self._pricer = pricer
        self._limit = max_batch_bytes
        self._inner = make()  # now, on the caller's thread: its imports do not work while the process ends
        self._pid = os.getpid()
        self._closed = False
        self._sending = 0
        #: How large a span is; the processor, which looked already, puts its own answer here.
        self.size_of: Callable[[ReadableSpan], int] = span_size
        self.lost = 0
        #: Whether the last export arrived; None before the first.
        self.reachable: bool | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export in parts; FAILURE when any part failed."""
        if self._pid != os.getpid():
            self._pid, self._inner, self.reachable = os.getpid(), self._make(), None
        results = [self._send([with_cost(span, self._pricer) for span in part]) for part in batches(spans, self._limit)]
        return SpanExportResult.SUCCESS if all(results) else SpanExportResult.FAILURE

    def _send(self, part: Sequence[ReadableSpan]) -> bool:
        if self._closed:
            return False
        self._sending = len(part)
        try:
            with _quiet_otlp_logs:
                arrived = self._inner.export(part) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 - a span no protobuf can hold: find it, keep the others
            if len(part) > 1:
                middle = len(part) // 2
                return self._send(part[:middle]) & self._send(part[middle:])
            _log.warning("evalspan dropped span %r that cannot be encoded: %s", part[0].name, error)
            return False
        finally:
            self._sending = 0
        self._note(arrived, len(part))
        return arrived

    def _note(self, arrived: bool, count: int) -> None:  # noqa: FBT001 - a private step of _send
        if arrived and self.reachable is False:
            _log.warning("evalspan reaches %s again; %d spans were lost meanwhile", self._where, self.lost)
            self.lost = 0
        if not arrived:
            self.lost += count
            if self.reachable is not False:
                _log.warning(
                    "evalspan cannot export spans to %s; the agent goes on, spans are dropped until it answers. "
                    "Is the collector running (`evalspan up`), is OTEL_EXPORTER_OTLP_ENDPOINT right, and does it "
                    "ask for a key (OTEL_EXPORTER_OTLP_HEADERS)?",
                    self._where,
                )
        self.reachable = arrived

    def shutdown(self) -> None:
        """Stop; an export under way is cancelled."""
        if not self._closed:
            self._closed = True
            if self._sending:  # its thread may not live long enough to say so itself
                self._note(False, self._sending)
            with _quiet_otlp_logs:
                self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is kept here."""
        return self._inner.force_flush(timeout_millis)


class BoundedProcessor(BatchSpanProcessor):
    """The SDK's batch processor with its memory bounded in bytes too, and an end that comes in time.

    The count limit, batch size and delay are the SDK's own (`OTEL_BSP_*`). A span that does not fit is dropped
    and counted.

    Args:
        exporter: Where batches go.
        max_held_bytes: Bytes of finished spans that wait.
        flush_seconds: Seconds `shutdown` may take.
    """

    def __init__(
        self,
        exporter: SplittingExporter,
        *,
        max_held_bytes: int = MAX_HELD_BYTES,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        self._exporter = exporter
        self._max_held = max_held_bytes
        self._flush_seconds = flush_seconds
        self._lock = threading.Lock()
        self._held = 0
        self._sizes: dict[int, int] = {}  # by identity, of the spans that wait: looking once is enough
        self._closed = False
        self.dropped = 0
        exporter.size_of = self._size_of
        super().__init__(_Releasing(exporter, self._release))
        # Counted here as well, because the SDK's queue drops its oldest span without telling whose bytes are free.
        self._max_count = self._batch_processor._max_queue_size  # noqa: SLF001 - what OTEL_BSP_MAX_QUEUE_SIZE came to
        if hasattr(os, "register_at_fork"):
            again = weakref.WeakMethod(self._after_fork)
            os.register_at_fork(after_in_child=lambda: (known := again()) and known())

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a finished span, unless it is not sampled or does not fit."""
        if self._closed or not (span.context and span.context.trace_flags.sampled):
            return
        size = span_size(span)
        with self._lock:
            fits = self._held + size <= self._max_held and len(self._sizes) < self._max_count
            if fits:
                self._held += size
                self._sizes[id(span)] = size
            else:
                self.dropped += 1
        if fits:
            super().on_end(span)
        elif self.dropped == 1:
            _log.warning(
                "evalspan drops spans: %d spans, %d bytes wait for export already (said once)",
                len(self._sizes),
                self._held,
            )

    def shutdown(self) -> None:
        """Send what waits, but hold up the end of the process no longer than the limit."""
        if self._closed:
            return
        self._closed = True
        seconds = FLUSH_SECONDS_AWAY if self._exporter.reachable is False else self._flush_seconds
        # The SDK's public shutdown waits 30 s; its batch processor takes the time to wait.
        self._batch_processor.shutdown(timeout_millis=int(seconds * 1000))

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Send what waits now; False when that took longer than `timeout_millis`."""
        if timeout_millis is None:
            return super().force_flush()
        worker = threading.Thread(target=super().force_flush, daemon=True, name="evalspan-flush")
        worker.start()
        worker.join(timeout_millis / 1000)
        return not worker.is_alive()

    def _release(self, spans: Sequence[ReadableSpan]) -> None:
        with self._lock:
            self._held -= sum(self._sizes.pop(id(span), 0) for span in spans)

    def _size_of(self, span: ReadableSpan) -> int:
        return self._sizes.get(id(span)) or span_size(span)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._held = 0
        self._sizes.clear()  # the SDK empties the child's queue: those spans are the parent's to send


class _Releasing(SpanExporter):
    """Gives back the room of a batch once it is dealt with, sent or not."""

    def __init__(self, inner: SpanExporter, release: Callable[[Sequence[ReadableSpan]], None]) -> None:
        self._inner = inner
        self._release = release

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            return self._inner.export(spans)
        finally:
            self._release(spans)

    def shutdown(self) -> None:
        self._inner.shutdown()


class _QuietOtlpLogs(logging.Filter):
    """Silences the OTLP exporters' own log on our export's thread: they write a line per try, we one per outage."""

    _loggers = (
        "opentelemetry.exporter.otlp.proto.grpc.exporter",
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        "opentelemetry.exporter.otlp.common.http",
    )

    def __init__(self) -> None:
        super().__init__()
        self._here = threading.local()
        for name in self._loggers:
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - who asks decides, not what is said
        return not getattr(self._here, "active", False)

    def __enter__(self) -> None:
        self._here.active = True

    def __exit__(self, *_: object) -> None:
        self._here.active = False


_quiet_otlp_logs = _QuietOtlpLogs()
