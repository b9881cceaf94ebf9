"""Reconstruct: OTLP bytes to runs, stage by stage against the floor of parsing alone, in one interleaved run.

    python bench/reconstruct.py [--quick] [--spans 20000] [--repeats 5] [--large 100000] [--json]

`parse`      protobuf (upb) parses the requests and nothing else: the floor.
`normalise`  bytes to typed spans (decode and normalise).
`assemble`   typed spans to runs, the spans of a trace at a time as the collector does it.
`whole`      bytes to runs.
`linear`     `whole` on one trace of `--large` spans against one of a tenth: time per span, as a ratio; and how much
             the memory of a process grows at most while it does that, as a multiple of the payload.

Figures are spans per second of process CPU; the best of the repeats is shown with their spread. The last line is JSON.
`--quick` takes less than a minute: fewer spans, fewer repeats, a large trace of 20,000 spans.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from gen import Gen, requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalspan_collector.assemble import assemble
from evalspan_collector.intake import read_traces
from evalspan_collector.span import Span

__all__ = ["main"]


def _parse(bodies: list[bytes]) -> object:
    return [ExportTraceServiceRequest.FromString(b) for b in bodies][-1]


def _normalise(bodies: Iterable[bytes]) -> list[Span]:
    return [s for b in bodies for s in read_traces(b, project="bench", received_ns=1).spans]


def _assemble(spans: Iterable[Span]) -> int:
    traces: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        traces[span.trace_id].append(span)
    return sum(len(assemble(found)) for found in traces.values())


def _whole(bodies: list[bytes]) -> int:
    return _assemble(_normalise(bodies))


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _interleaved(bodies: list[bytes], count: int, repeats: int) -> dict[str, list[float]]:
    """Spans per CPU-second of each stage; the stages take turns, so that a noisy neighbour hits all of them."""
    spans = _normalise(bodies)
    stages: dict[str, Callable[[], object]] = {
        "parse": lambda: _parse(bodies),
        "normalise": lambda: _normalise(bodies),
        "assemble": lambda: _assemble(spans),
        "whole": lambda: _whole(bodies),
    }
    rates: dict[str, list[float]] = defaultdict(list)
    for _ in range(repeats):
        for name, work in stages.items():
            rates[name].append(count / max(_cpu(work), 1e-9))
    return dict(rates)


def _one_trace(spans: int) -> bytes:
    return Gen(3).request(spans, one_trace=True).SerializeToString()


def _linear(large: int) -> tuple[float, float]:
    """Time per span of a large trace over that of a tenth of it, and the growth of memory in payloads."""
    small_body, large_body = _one_trace(large // 10), _one_trace(large)
    small = min(_cpu(lambda: _whole([small_body])) for _ in range(3))
    with tempfile.NamedTemporaryFile() as file:
        file.write(large_body)
        file.flush()
        size = len(large_body)
        del large_body
        told = subprocess.run(
            [sys.executable, __file__, "--grow", file.name], check=True, capture_output=True, text=True
        ).stdout
    big, growth = (float(word) for word in told.split())
    return (big / large) / (small / (large // 10)), growth / size


def _grow(path: Path) -> None:
    """Print the CPU seconds of one trace, and by how many bytes the peak memory of this process grew meanwhile."""
    body = path.read_bytes()
    _whole([_one_trace(200)])  # what is loaded once
    before = _kilobytes("VmRSS")
    seconds = _cpu(lambda: _whole([body]))
    print(seconds, (_kilobytes("VmHWM") - before) * 1024)


def _kilobytes(name: str) -> int:
    """Memory of this process as Linux counts it: `VmRSS` now, `VmHWM` at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def main() -> None:
    """Measure, print a table, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--large", type=int, default=100_000, help="spans of the one large trace, 0 to leave it out")
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    parser.add_argument("--quick", action="store_true", help="less than a minute")
    parser.add_argument("--grow", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.grow:
        _grow(given.grow)
        return
    if given.quick:
        given.spans, given.repeats, given.large = 4_000, 3, min(given.large, 20_000)
    made = requests(1, given.spans, 200)
    bodies = [body for body, _ in made]
    count = sum(n for _, n in made)
    rates = _interleaved(bodies, count, given.repeats)
    best = {name: max(values) for name, values in rates.items()}
    figures: dict[str, float | None] = {f"{name}_spans_per_cpu_s": round(rate) for name, rate in best.items()}
    figures["normalise_share_of_parse"] = round(best["normalise"] / best["parse"], 4)
    figures["whole_share_of_parse"] = round(best["whole"] / best["parse"], 4)
    figures["large_time_per_span_ratio"] = figures["large_peak_over_payload"] = None
    if given.large:
        ratio, peak = _linear(given.large)
        figures["large_time_per_span_ratio"], figures["large_peak_over_payload"] = round(ratio, 3), round(peak, 3)
    if not given.json:
        print(f"{count} spans in {len(bodies)} requests, {sum(map(len, bodies)) / count:.0f} bytes per span")
        for name, values in rates.items():
            print(f"{name:10s} {best[name]:12,.0f} spans per CPU-second (median {statistics.median(values):,.0f})")
        print(f"one trace of {given.large} spans: time per span {figures['large_time_per_span_ratio']} of a tenth's, "
              f"peak memory {figures['large_peak_over_payload']} payloads")  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
