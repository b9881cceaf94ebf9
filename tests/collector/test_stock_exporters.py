"""The exporters of the OpenTelemetry SDK, unchanged, against the receivers: what they call a success is stored."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from apparatus.stores import FaultyStore
from apparatus.waiting import until
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from evalspan_collector.collector import Collector
from evalspan_collector.settings import load_settings


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[tuple[Collector, FaultyStore]]:
    store = FaultyStore()
    settings = load_settings({
        "data": tmp_path, "grpc_port": 0, "http_port": 0, "metrics_port": 0, "spool_max_bytes": 60_000,
        "spool_segment_bytes": 20_000, "block_wait_s": 0.02,
    })  # fmt: skip
    made = Collector(settings, store)
    made.start()
    yield made, store
    made.stop()


def spans(count: int) -> Sequence[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("stock")
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        for _ in range(count - 1):
            with tracer.start_as_current_span("execute_tool", attributes={"gen_ai.tool.call.result": "x" * 2_000}):
                pass
    return memory.get_finished_spans()


def exporter_to(collector: Collector, transport: str) -> SpanExporter:
    if transport == "grpc":
        return GrpcExporter(endpoint=f"127.0.0.1:{collector.grpc_port}", insecure=True)
    return HttpExporter(endpoint=f"http://127.0.0.1:{collector.http_port}/v1/traces")


def wait_stored(store: FaultyStore, batch: Sequence[ReadableSpan]) -> None:
    context = batch[0].context
    assert context is not None
    trace_id = f"{context.trace_id:032x}"
    until(lambda: len(store.spans("default", [trace_id])) == len(batch))


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_what_the_exporter_calls_a_success_is_stored(collector: tuple[Collector, FaultyStore], transport: str) -> None:
    made, store = collector
    exporter = exporter_to(made, transport)
    batch = spans(5)
    assert exporter.export(batch) is SpanExportResult.SUCCESS
    exporter.shutdown()
    wait_stored(store, batch)


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_the_exporter_waits_out_a_full_spool_by_itself(
    collector: tuple[Collector, FaultyStore], transport: str
) -> None:
    made, store = collector
    exporter = exporter_to(made, transport)
    store.stuck.clear()
    sent = [spans(10) for _ in range(2)]
    results = [exporter.export(batch) for batch in sent]
    assert results == [SpanExportResult.SUCCESS] * 2
    last = spans(12)
    release = threading.Timer(1.5, store.stuck.set)
    release.start()
    assert exporter.export(last) is SpanExportResult.SUCCESS
    release.join()
    exporter.shutdown()
    metric = made.metrics.registry.get_sample_value(
        "evalspan_receiver_refused_requests_total", {"transport": transport, "reason": "spool_full"}
    )
    assert metric
    for batch in (*sent, last):
        wait_stored(store, batch)
