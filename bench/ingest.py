"""Ingest: OTLP bytes on the wire to rows that can be queried, against a floor and against peers, interleaved.

    python bench/ingest.py [--quick] [--json] [--spans 200000] [--repeats 3] [--clients 4] [--without-runs]

`ours`   a collector process and an embedded store process; 4 gRPC clients, 100 spans of about 2 kB per request.
`floor`  the rows of `ours`, already encoded in ClickHouse's own format, inserted into a fresh store in blocks.
`phoenix`, `mlflow`  where `make bench-peers` has installed them; null otherwise.

The load is made before the clock starts. CPU is that of all processes of the system under test, the load
generator's excluded; it shares the cores, so wall-clock rates depend on what else the machine does, and spans per
CPU-second are the steadier figure. `queryable` ends when the last span is counted by a query. Runs are assembled
beside it all the time; `with_runs` ends when every run is closed and written. The last line is JSON.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import clickhouse_connect
import psutil
from apparatus.load import Client, GrpcClient, HttpClient, Ledger, percentile, send_all
from apparatus.processes import Stack
from apparatus.workload import SentRequest, Workload
from peers import Peer, installed_peers

from evalspan_collector.store.client import Address, connect

__all__ = ["main"]

_BLOCK = 10_000


@dataclass(slots=True)
class Figures:
    """One measurement; None where a system has no such thing."""

    queryable_spans_per_s: float
    spans_per_cpu_s: float
    ack_p50_ms: float | None = None
    ack_p99_ms: float | None = None
    rss_mb: float | None = None
    disk_bytes_per_span: float | None = None
    wire_bytes_per_span: float | None = None
    sent: int = 0
    acknowledged: int = 0
    stored: int = 0
    accepted_spans_per_s: float | None = None
    collector_rss_mb: float | None = None
    runs: int | None = None
    spans_per_cpu_s_with_runs: float | None = None


class Meter:
    """CPU and peak memory of process trees, sampled beside the measurement."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._roots = [psutil.Process(pid) for pid in pids]
        self._cpu: dict[int, float] = {}
        self._stop = threading.Event()
        self.peaks = dict.fromkeys(pids, 0)
        self._sample()
        self._base = sum(self._cpu.values())
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._stop.wait(0.2):
            self._sample()

    def _sample(self) -> None:
        for root in self._roots:
            resident = 0
            for process in self._tree(root):
                try:
                    times = process.cpu_times()
                    self._cpu[process.pid] = times.user + times.system
                    resident += process.memory_info().rss
                except psutil.Error:
                    continue  # it has just ended; its last sample counts
            self.peaks[root.pid] = max(self.peaks[root.pid], resident)

    @staticmethod
    def _tree(root: psutil.Process) -> list[psutil.Process]:
        try:
            return [root, *root.children(recursive=True)]
        except psutil.Error:
            return []

    def cpu_s(self) -> float:
        """CPU seconds since the start."""
        self._sample()
        return sum(self._cpu.values()) - self._base

    def close(self) -> None:
        """Stop sampling."""
        self._stop.set()
        self._thread.join()


def wait_for(count: Callable[[], int], wanted: int, *, within_s: float, every_s: float = 0.1) -> int:
    """Poll until `count()` reaches `wanted` or stops growing for `within_s`; the last count."""
    last, changed = -1, time.monotonic()
    while True:
        now = count()
        if now >= wanted:
            return now
        if now != last:
            last, changed = now, time.monotonic()
        elif time.monotonic() - changed > within_s:
            return now
        time.sleep(every_s)


#: Makes no run due while the benchmark lasts.
_WITHOUT_RUNS = {"EVALSPAN_GRACE_S": "3600", "EVALSPAN_GRACE_COMPLETE_S": "3600"}


def measure_ours(
    requests: Sequence[SentRequest], clients: int, keep: Callable[[Stack], None], *, with_runs: bool
) -> Figures:
    """Our collector and our embedded store."""
    with tempfile.TemporaryDirectory(prefix="evalspan-bench-") as folder:
        stack = Stack(Path(folder), env={} if with_runs else _WITHOUT_RUNS)
        try:
            stack.start()
            warm_up = Workload(1).requests(200)
            send_all(warm_up, lambda: GrpcClient(stack.address), Ledger(), clients=1)
            wait_for(lambda: stack.number("SELECT count() FROM spans"), 200, within_s=60)
            meter = Meter([stack.store.pid, stack.collector.pid])
            ledger = Ledger()
            began = time.monotonic()
            sending_s = send_all(requests, lambda: GrpcClient(stack.address), ledger, clients=clients, deadline_s=300)
            wanted = len(ledger.acknowledged) + 200
            # The collector's own count is cheap to ask for; the query that counts rows is asked at the end.
            wait_for(lambda: int(stack.metric("otelcol_exporter_sent_spans_total")), wanted, within_s=60)
            stored = wait_for(lambda: stack.number("SELECT count() FROM spans"), wanted, within_s=60) - 200
            queryable_s, cpu_s = time.monotonic() - began, meter.cpu_s()
            traces = len({span.trace_id for span in ledger.acknowledged.values()})
            closed = "SELECT uniqExact(trace_id) FROM runs FINAL WHERE state IN ('closed', 'amended')"
            runs = wait_for(lambda: stack.number(closed), traces, within_s=20, every_s=1.0) if with_runs else None
            cpu_with_runs_s = meter.cpu_s()
            meter.close()
            keep(stack)
            stack.rows("OPTIMIZE TABLE spans FINAL")
            disk = stack.number(
                "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()"
                " AND table IN ('spans', 'logs', 'arrivals')"
            )
            return Figures(
                queryable_spans_per_s=stored / queryable_s,
                spans_per_cpu_s=stored / cpu_s,
                ack_p50_ms=percentile(ledger.latencies_s, 0.5) * 1000,
                ack_p99_ms=percentile(ledger.latencies_s, 0.99) * 1000,
                rss_mb=sum(meter.peaks.values()) / 2**20,
                disk_bytes_per_span=disk / (stored + 200),
                wire_bytes_per_span=ledger.wire_bytes / len(ledger.acknowledged),
                sent=len(ledger.sent),
                acknowledged=len(ledger.acknowledged),
                stored=stored,
                accepted_spans_per_s=len(ledger.acknowledged) / sending_s,
                collector_rss_mb=meter.peaks[stack.collector.pid] / 2**20,
                runs=runs,
                spans_per_cpu_s_with_runs=stored / cpu_with_runs_s if with_runs else None,
            )
        finally:
            stack.close()


def encoded_blocks(stack: Stack) -> list[bytes]:
    """The rows of the spans table as ClickHouse sends them, in blocks."""
    store = connect(Address.of(stack.url, token=stack.token))
    try:
        total = stack.number("SELECT count() FROM spans")
        return [
            store.raw(
                "SELECT * FROM spans ORDER BY received_ns, trace_id, span_id"
                " LIMIT {limit:UInt32} OFFSET {offset:UInt64}",
                "Native",
                {"limit": _BLOCK, "offset": offset},
            )
            for offset in range(0, total, _BLOCK)
        ]
    finally:
        store.close()


def measure_floor(blocks: Sequence[bytes], spans: int) -> Figures:
    """The same rows, encoded before the clock starts, into a fresh store."""
    with tempfile.TemporaryDirectory(prefix="evalspan-bench-") as folder:
        stack = Stack(Path(folder))
        try:
            stack.start_store()
            address = Address.of(stack.url)
            driver = clickhouse_connect.get_client(  # pyright: ignore[reportUnknownMemberType]  # stub
                host=address.host, port=address.port, database=address.database, access_token=stack.token
            )
            meter = Meter([stack.store.pid])
            began = time.monotonic()
            for block in blocks:
                driver.raw_insert("spans", insert_block=block, fmt="Native", settings={"async_insert": 0})  # pyright: ignore[reportUnknownMemberType]  # stub
            stored = stack.number("SELECT count() FROM spans")
            seconds, cpu_s = time.monotonic() - began, meter.cpu_s()
            meter.close()
            driver.close()
            return Figures(
                queryable_spans_per_s=stored / seconds,
                spans_per_cpu_s=stored / cpu_s,
                rss_mb=meter.peaks[stack.store.pid] / 2**20,
                sent=spans,
                acknowledged=stored,
                stored=stored,
            )
        finally:
            stack.close()


def measure_peer(peer: Peer, requests: Sequence[SentRequest], clients: int) -> Figures:
    """A peer with its defaults and its own store."""
    with tempfile.TemporaryDirectory(prefix="evalspan-bench-") as folder, peer.running(Path(folder)) as served:

        def client() -> Client:
            if served.url:
                return HttpClient(served.url, headers=served.headers, timeout_s=60)
            return GrpcClient(served.address, timeout_s=60)

        send_all(requests[:1], client, Ledger(), clients=1)
        base = wait_for(served.count, len(requests[0].spans), within_s=60)
        meter = Meter([served.pid])
        ledger = Ledger()
        began = time.monotonic()
        sending_s = send_all(requests[1:], client, ledger, clients=clients, deadline_s=100)
        stored = wait_for(lambda: served.count() - base, len(ledger.acknowledged), within_s=30)
        seconds, cpu_s = time.monotonic() - began, meter.cpu_s()
        meter.close()
        return Figures(
            queryable_spans_per_s=stored / seconds,
            spans_per_cpu_s=stored / cpu_s,
            ack_p50_ms=percentile(ledger.latencies_s, 0.5) * 1000,
            ack_p99_ms=percentile(ledger.latencies_s, 0.99) * 1000,
            rss_mb=meter.peaks[served.pid] / 2**20,
            disk_bytes_per_span=served.disk() / max(1, stored + base),
            wire_bytes_per_span=ledger.wire_bytes / max(1, len(ledger.acknowledged)),
            sent=len(ledger.sent),
            acknowledged=len(ledger.acknowledged),
            stored=stored,
            accepted_spans_per_s=len(ledger.acknowledged) / sending_s,
        )


def median_of(measured: Sequence[Figures]) -> dict[str, Any] | None:
    """Each figure's median over the repeats; None without any."""
    if not measured:
        return None
    rows = [asdict(figures) for figures in measured]
    merged: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows if row[name] is not None]
        merged[name] = round(statistics.median(values), 1) if values else None
    return merged


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round, under two minutes")
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    parser.add_argument("--spans", type=int, default=0, help="spans per round")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--per-request", type=int, default=100)
    parser.add_argument("--without-runs", action="store_true", help="intake alone: no run is assembled meanwhile")
    arguments = parser.parse_args()
    spans = arguments.spans or (40_000 if arguments.quick else 200_000)
    repeats = arguments.repeats or (1 if arguments.quick else 3)
    measured: dict[str, list[Figures]] = {"ours": [], "floor": [], "phoenix": [], "mlflow": []}
    for number in range(repeats):
        seed = time.time_ns() % 10**9 + number
        requests = Workload(seed, start_ns=time.time_ns() - 600 * 10**9).requests(
            spans, per_request=arguments.per_request
        )
        blocks: list[bytes] = []
        measured["ours"].append(
            measure_ours(
                requests,
                arguments.clients,
                lambda stack: blocks.extend(encoded_blocks(stack)),  # noqa: B023  # used within this round
                with_runs=not arguments.without_runs,
            )
        )
        measured["floor"].append(measure_floor(blocks, spans))
        for peer in installed_peers():
            share = requests[: (11 if arguments.quick else 31)]
            measured[peer.name].append(measure_peer(peer, share, arguments.clients))
        if not arguments.json:
            for name, figures in measured.items():
                if figures:
                    print(f"round {number + 1} {name}: {asdict(figures[-1])}", flush=True)
    print(json.dumps({name: median_of(figures) for name, figures in measured.items()}))


if __name__ == "__main__":
    main()
