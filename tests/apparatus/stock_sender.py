"""A program with the OpenTelemetry SDK as it comes: spans in batches, and a ledger of what the exporter called a success.

Run as `python stock_sender.py ADDRESS LEDGER SPANS SECONDS`. The ledger gets one line per batch, written before
the next one goes: the word and the span ids.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class Noting(SpanExporter):
    """The stock exporter, with what it said written down."""

    def __init__(self, exporter: SpanExporter, path: str) -> None:
        self._exporter = exporter
        self._ledger = Path(path).open("a", buffering=1)  # noqa: SIM115  closed in `shutdown`

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        ids = [f"{span.context.span_id:016x}" for span in spans if span.context is not None]
        self._ledger.write(f"{result.name} {' '.join(ids)}\n")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()
        self._ledger.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)  # pyright: ignore[reportUnknownMemberType]  # SDK's own


def main(address: str, ledger: str, spans: int, seconds: float) -> None:
    """Runs of three spans each, spread over the time."""
    exporter = Noting(OTLPSpanExporter(endpoint=address, insecure=True, timeout=60), ledger)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100, max_export_batch_size=32))
    tracer = provider.get_tracer("stock")
    for _ in range(spans // 3):
        with tracer.start_as_current_span("invoke_agent a", attributes={"gen_ai.operation.name": "invoke_agent"}):
            for name in ("one", "two"):
                attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
                with tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes):
                    pass
        time.sleep(seconds * 3 / spans)
    provider.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
