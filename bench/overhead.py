"""Overhead: CPU that tracing adds to a model call and to a tool call, as ratios against the bare call.

Variants run as processes of their own, interleaved, each with the real anthropic SDK on a transport that
answers from memory. CPU counts every thread, the exporting one included. A null exporter takes the spans
unless the variant exports over gRPC to a sink in this process.

    python bench/overhead.py [--json] [--repeats 3] [--calls 300]

Variants: `bare` no tracing; `sdk` the anthropic SDK's own spans without content, a plain batch processor;
`sdk-content` the same with content: what the SDK itself takes to record a conversation;
`evalspan` what `import evalspan.auto` does, content and cost included, into a null exporter;
`evalspan-grpc` the same over gRPC; `peer` OpenInference's instrumentor where it is installed.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx2

from evalspan.testing import Sink

__all__ = ["main"]

REPLY = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "text", "text": "The order ships on Monday. " * 20},
        {"type": "tool_use", "id": "toolu_1", "name": "get_order", "input": {"order_id": "A-1", "limit": 3}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 512,
        "output_tokens": 128,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    },
}
MESSAGES = [
    {"role": "user", "content": "Where is my order? " * 60},
    {"role": "assistant", "content": "Let me look. " * 20},
    {"role": "user", "content": "Please do. " * 40},
]
TOOLS = [{"name": "get_order", "description": "fetch an order", "input_schema": {"type": "object"}}]
WARM_UP = 100


def set_up(variant: str) -> None:
    """Turn on what the variant stands for."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Null(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - takes all
            return SpanExportResult.SUCCESS

        def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - keeps nothing
            return True

    if variant == "sdk-content":
        os.environ["ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE"] = "content"
    if variant in {"sdk", "sdk-content", "peer"}:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Null()))
        trace.set_tracer_provider(provider)
    if variant == "peer":
        os.environ["ANTHROPIC_OPEN_TELEMETRY"] = "false"
        peer: Any = importlib.import_module("openinference.instrumentation.anthropic")
        peer.AnthropicInstrumentor().instrument()
    if variant == "evalspan":
        from evalspan import _setup

        def otlp(options: _setup.Options) -> tuple[Callable[[], SpanExporter], str]:  # noqa: ARG001 - asks nobody
            return Null, "nowhere"

        _setup._otlp = otlp  # noqa: SLF001 - everything as in production but the wire
    if variant.startswith("evalspan"):
        importlib.import_module("evalspan.auto")


def model_call() -> Callable[[], object]:
    """A model call of 3 messages and 1 tool, answered from memory with 1.1 KB."""
    import anthropic

    body = json.dumps(REPLY).encode()

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body, headers={"content-type": "application/json", "request-id": "r"})

    client = anthropic.Anthropic(
        api_key="x",
        base_url="http://127.0.0.1:9",
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )
    create: Any = client.messages.create  # its overloads do not fit plain dicts
    return lambda: create(
        model="claude-sonnet-4-5", max_tokens=256, system="You help customers.", messages=MESSAGES, tools=TOOLS
    )


def tool_call(variant: str) -> Callable[[], object]:
    """A tool call with three arguments and a result of 300 bytes."""

    def get_order(order_id: str, limit: int, verbose: bool = False) -> dict[str, object]:  # noqa: FBT001, FBT002 - a user's
        return {
            "order_id": order_id,
            "lines": [{"sku": f"S-{n}", "price": 9.5, "verbose": verbose} for n in range(limit)],
        }

    if variant.startswith("evalspan"):
        import evalspan

        get_order = evalspan.tool(get_order)
    return lambda: get_order("A-1", limit=5, verbose=True)


def measure(call: Callable[[], object], calls: int) -> float:
    """Microseconds of CPU per call, export of what the calls left included, warm-up and first imports not."""
    for _ in range(WARM_UP):
        call()
    flush()
    started = time.process_time_ns()
    for _ in range(calls):
        call()
    flush()
    return (time.process_time_ns() - started) / calls / 1000


def flush() -> None:
    """Export everything now, where something exports."""
    from opentelemetry import trace

    force_flush: Callable[[], object] | None = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force_flush is not None:
        force_flush()


def inner(variant: str, calls: int) -> dict[str, float]:
    """Measure one variant in this process."""
    set_up(variant)
    model = measure(model_call(), calls)
    return {"model_us": model, "tool_us": measure(tool_call(variant), calls)}


def has_peer() -> bool:
    """Whether the peer's instrumentor is installed."""
    try:
        return importlib.util.find_spec("openinference.instrumentation.anthropic") is not None
    except ModuleNotFoundError:
        return False


def run(variant: str, calls: int, endpoint: str) -> dict[str, float]:
    """Measure one variant in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ANTHROPIC_"))}
    environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    command = [sys.executable, __file__, "--inner", variant, "--calls", str(calls)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure all variants, interleaved, and print medians with their ratio to bare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--inner", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.inner:
        print(json.dumps(inner(wanted.inner, wanted.calls)))
        return
    variants = ["bare", "sdk", "sdk-content", "evalspan", "evalspan-grpc"]
    if has_peer():
        variants.append("peer")
    with Sink() as sink:
        rounds = [{name: run(name, wanted.calls, sink.endpoint) for name in variants} for _ in range(wanted.repeats)]
    medians = {
        name: {what: statistics.median(r[name][what] for r in rounds) for what in ("model_us", "tool_us")}
        for name in variants
    }
    bare = medians["bare"]
    for found in medians.values():
        found["model_added_us"] = found["model_us"] - bare["model_us"]
        found["model_ratio"] = found["model_us"] / bare["model_us"]
        found["tool_added_us"] = found["tool_us"] - bare["tool_us"]
    if wanted.json:
        print(json.dumps({"calls": wanted.calls, "repeats": wanted.repeats, "variants": medians}))
        return
    print(f"{'variant':<15}{'model us':>10}{'added':>8}{'ratio':>7}{'tool us':>10}{'added':>8}")
    for name, found in medians.items():
        print(
            f"{name:<15}{found['model_us']:>10.0f}{found['model_added_us']:>8.0f}{found['model_ratio']:>7.2f}"
            f"{found['tool_us']:>10.1f}{found['tool_added_us']:>8.1f}"
        )


if __name__ == "__main__":
    main()
