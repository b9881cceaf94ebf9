"""Export: batches by bytes, bounded memory, a broken span alone, one log line per outage."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from evalspan._cost import Pricer
from evalspan._export import BoundedProcessor, SplittingExporter, batches, span_size
from evalspan.testing import Sink


def make_spans(count: int, **attributes: Any) -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "s" * 50}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    for n in range(count):
        with provider.get_tracer("t" * 40, "1.2.3").start_as_current_span(f"span {n}", attributes=attributes) as span:
            span.add_event("event", {"k": "v"})
    return list(memory.get_finished_spans())


class Fake(SpanExporter):
    """An exporter whose answers the test decides."""

    def __init__(self, answer: Callable[[Sequence[ReadableSpan]], SpanExportResult] | None = None) -> None:
        self.batches: list[list[str]] = []
        self.stopped = threading.Event()
        self._answer = answer

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.SUCCESS if self._answer is None else self._answer(spans)
        self.batches.append([span.name for span in spans])
        return result

    def shutdown(self) -> None:
        self.stopped.set()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def exporter(fake: Fake, limit: int = 1_000_000) -> SplittingExporter:
    return SplittingExporter(lambda: fake, where="the test", pricer=Pricer(), max_batch_bytes=limit)


values = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=200),
    st.integers(min_value=-(2**63), max_value=2**63 - 1),
    st.floats(),
    st.booleans(),
    st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=20), max_size=5),
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=30), values, max_size=10))
def test_the_size_of_a_span_is_never_underestimated(attributes: dict[str, Any]) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with provider.get_tracer("scope", "1").start_as_current_span("näme", attributes=attributes):
        pass
    (span,) = memory.get_finished_spans()
    assert span_size(span) >= encode_spans([span]).ByteSize()


def test_every_batch_fits_and_order_and_number_are_kept() -> None:
    spans = make_spans(200, text="é" * 1000)
    parts = list(batches(spans, 50_000))
    assert [span.name for part in parts for span in part] == [span.name for span in spans]
    assert len(parts) > 5
    assert all(encode_spans(part).ByteSize() <= 50_000 for part in parts)


def test_a_span_larger_than_the_limit_goes_alone() -> None:
    small, large = make_spans(2, text="x"), make_spans(1, text="y" * 5000)
    assert [len(part) for part in batches([small[0], *large, small[1]], 3000)] == [1, 1, 1]


def test_five_hundred_large_spans_arrive_at_a_receiver_with_the_default_limit() -> None:
    with Sink() as sink:
        provider = TracerProvider(shutdown_on_exit=False)
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(
            BoundedProcessor(
                SplittingExporter(lambda: OTLPSpanExporter(endpoint=sink.endpoint), where="sink", pricer=Pricer())
            )
        )
        tracer = provider.get_tracer("t")
        for _ in range(500):
            tracer.start_span("big", attributes={"gen_ai.input.messages": "m" * 20_000}).end()
        provider.shutdown()
        assert len(sink.spans) == 500
        assert max(sink.sizes) < 4 * 1024 * 1024
        assert sum(sink.sizes) > 9_000_000


def test_a_span_that_cannot_be_encoded_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if any(span.name == "span 3" for span in spans):
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return SpanExportResult.SUCCESS

    fake = Fake(refuse)
    with caplog.at_level(logging.WARNING, logger="evalspan"):
        assert exporter(fake).export(make_spans(8)) is SpanExportResult.FAILURE
    assert sorted(name for batch in fake.batches for name in batch) == sorted(f"span {n}" for n in range(8) if n != 3)
    assert "span 3" in caplog.text


def test_an_outage_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([SpanExportResult.FAILURE] * 3 + [SpanExportResult.SUCCESS] * 2)
    splitting = exporter(Fake(lambda _: next(answers)))
    with caplog.at_level(logging.WARNING, logger="evalspan"):
        for _ in range(5):
            splitting.export(make_spans(2))
    assert [("cannot export" in r.message, "6 spans were lost" in r.message) for r in caplog.records] == [
        (True, False),
        (False, True),
    ]


def test_memory_is_bounded_by_bytes_and_room_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    gate = threading.Event()

    def wait(_: Sequence[ReadableSpan]) -> SpanExportResult:
        gate.wait(30)
        return SpanExportResult.SUCCESS

    fake = Fake(wait)
    processor = BoundedProcessor(exporter(fake), max_held_bytes=20_000)
    spans = make_spans(30, text="x" * 1000)
    with caplog.at_level(logging.WARNING, logger="evalspan"):
        for span in spans:
            processor.on_end(span)
    kept = 20_000 // span_size(spans[0])
    assert processor.dropped == 30 - kept
    assert len([r for r in caplog.records if "drops spans" in r.message]) == 1
    gate.set()
    assert processor.force_flush(10_000)
    for span in spans[:kept]:
        processor.on_end(span)
    assert processor.dropped == 30 - kept
    processor.shutdown()
    assert sum(len(batch) for batch in fake.batches) == 2 * kept


def test_memory_is_bounded_by_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    gate = threading.Event()

    def wait(_: Sequence[ReadableSpan]) -> SpanExportResult:
        gate.wait(30)
        return SpanExportResult.SUCCESS

    processor = BoundedProcessor(exporter(Fake(wait)))
    for span in make_spans(25):
        processor.on_end(span)
    assert processor.dropped == 15
    gate.set()
    processor.shutdown()


def test_the_end_waits_no_longer_than_allowed_for_an_exporter_that_hangs() -> None:
    hanging = threading.Event()
    fake = Fake(lambda _: SpanExportResult.SUCCESS if hanging.wait(30) else SpanExportResult.FAILURE)
    processor = BoundedProcessor(exporter(fake), flush_seconds=0.3)
    processor.on_end(make_spans(1)[0])
    started = time.monotonic()
    processor.shutdown()
    processor.shutdown()
    assert time.monotonic() - started < 20  # the exporter hangs for 30
    assert fake.stopped.is_set()
    hanging.set()


def test_a_flush_that_takes_too_long_says_so() -> None:
    hanging = threading.Event()
    processor = BoundedProcessor(
        exporter(Fake(lambda _: SpanExportResult.SUCCESS if hanging.wait(30) else SpanExportResult.FAILURE))
    )
    processor.on_end(make_spans(1)[0])
    assert processor.force_flush(100) is False
    hanging.set()
    processor.shutdown()


def test_an_unsampled_span_is_not_kept() -> None:
    fake = Fake()
    processor = BoundedProcessor(exporter(fake))
    (span,) = make_spans(1)
    from opentelemetry.trace import SpanContext, TraceFlags

    processor.on_end(ReadableSpan("x", context=SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(0))))
    processor.on_end(span)
    processor.shutdown()
    assert fake.batches == [["span 0"]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_its_own_exporter() -> None:
    made: list[int] = []

    def make() -> SpanExporter:
        made.append(os.getpid())
        return Fake()

    splitting = SplittingExporter(make, where="x", pricer=Pricer())
    splitting._pid = -1  # what a child sees: the pid of somebody else
    splitting.export(make_spans(1))
    splitting.export(make_spans(1))
    assert len(made) == 2
