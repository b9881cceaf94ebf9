"""Ingest: bytes on the wire to rows that a query finds, for us, for a floor, and for installed peers; interleaved.

    python bench/ingest.py [--quick] [--json] [--spans 200000] [--repeats 3] [--clients 4] [--without-runs]

`ours`   a store process and a collector process on loopback as `evalspan up` starts them, gRPC, 100 spans of about
         2 kB per request. Runs are assembled meanwhile, as always; `spans_per_cpu_s` ends when the last span is counted
         by a query, `with_runs` when every run is closed and written.
`floor`  the rows of `ours`, already encoded in ClickHouse's own format, inserted into a fresh store in blocks: what
         nobody can beat who keeps these columns.
`phoenix`, `mlflow`  where `make bench-peers` has installed them; null otherwise.

The load is made before the clock starts. CPU is that of all processes of the system under test, the load
generator's excluded; it shares the cores, so wall-clock rates depend on what else the machine does, and spans per
CPU-second are the steadier figure. `disk_bytes_per_span` is taken once everything is merged. `--quick` fits the number
of spans to the machine and ends within two minutes where no peer is installed; `--json` adds the figures as last line.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    #: Seconds from the first byte to the last run; None when they were not awaited to the end.
    runs_complete_s: float | None = None
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
#: Spans sent before the clock starts.
_WARM_UP = 2_000
#: A quick round sends what one slow sender would store in this time, and waits so long for the runs.
_QUICK_S, _QUICK_RUNS_S = 40.0, 25.0
_CLOSED = "SELECT uniqExact(trace_id) FROM runs FINAL WHERE state IN ('closed', 'amended')"


@dataclass(frozen=True, slots=True)
class Round:
    """One round of `ours`.

    Attributes:
        load: Gives the requests; they are made while the processes start.
        quick_s: Send about as many spans as one slow sender stores in this time; None sends all.
        runs_s: How long to wait for the runs after the spans; None makes no run due.
    """

    load: Callable[[], Sequence[SentRequest]]
    clients: int
    quick_s: float | None
    runs_s: float | None


def measure_ours(round_: Round, blocks: list[bytes]) -> tuple[Figures, Sequence[SentRequest]]:
    """Our collector and our embedded store; gives the requests that were sent, and the stored rows into `blocks`."""
    with tempfile.TemporaryDirectory(prefix="evalspan-bench-") as folder, ThreadPoolExecutor(1) as beside:
        loading = beside.submit(round_.load)
        stack = Stack(Path(folder), env=_WITHOUT_RUNS if round_.runs_s is None else {})
        try:
            stack.start()
            requests = loading.result()
            rate = _warm_up(stack)
            if round_.quick_s is not None:
                requests = requests[: max(100, int(rate * round_.quick_s / len(requests[0].spans)))]
            figures = _measure_stack(stack, requests, round_)
            blocks.extend(encoded_blocks(stack))
            stack.rows("OPTIMIZE TABLE spans FINAL")
            disk = stack.number(
                "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()"
                " AND table IN ('spans', 'logs', 'arrivals')"
            )
            figures.disk_bytes_per_span = disk / (figures.stored + _WARM_UP)
            return figures, requests
        finally:
            stack.close()


def _warm_up(stack: Stack) -> float:
    """Send a little; spans per second from the first byte to the last row."""
    requests = Workload(1).requests(_WARM_UP)
    began = time.monotonic()
    send_all(requests, lambda: GrpcClient(stack.address), Ledger(), clients=1)
    wait_for(lambda: stack.number("SELECT count() FROM spans"), _WARM_UP, within_s=60)
    return _WARM_UP / (time.monotonic() - began)


def _measure_stack(stack: Stack, requests: Sequence[SentRequest], round_: Round) -> Figures:
    meter = Meter([stack.store.pid, stack.collector.pid])
    ledger = Ledger()
    began = time.monotonic()
    sending_s = send_all(requests, lambda: GrpcClient(stack.address), ledger, clients=round_.clients, deadline_s=300)
    wanted = len(ledger.acknowledged) + _WARM_UP
    # The collector's own count is cheap to ask for; the query that counts rows is asked at the end.
    wait_for(lambda: int(stack.metric("otelcol_exporter_sent_spans_total")), wanted, within_s=60)
    stored = wait_for(lambda: stack.number("SELECT count() FROM spans"), wanted, within_s=60) - _WARM_UP
    queryable_s, cpu_s = time.monotonic() - began, meter.cpu_s()
    figures = Figures(
        queryable_spans_per_s=stored / queryable_s,
        spans_per_cpu_s=stored / cpu_s,
        ack_p50_ms=percentile(ledger.latencies_s, 0.5) * 1000,
        ack_p99_ms=percentile(ledger.latencies_s, 0.99) * 1000,
        wire_bytes_per_span=ledger.wire_bytes / len(ledger.acknowledged),
        sent=len(ledger.sent),
        acknowledged=len(ledger.acknowledged),
        stored=stored,
        accepted_spans_per_s=len(ledger.acknowledged) / sending_s,
    )
    if round_.runs_s is not None:
        traces = len({span.trace_id for span in ledger.acknowledged.values()})
        deadline = time.monotonic() + round_.runs_s
        while (runs := stack.number(_CLOSED)) < traces and time.monotonic() < deadline:
            time.sleep(1.0)
        figures.runs = min(runs, traces)
        if runs >= traces:
            figures.runs_complete_s = time.monotonic() - began
            figures.spans_per_cpu_s_with_runs = stored / meter.cpu_s()
    meter.close()
    figures.rss_mb = sum(meter.peaks.values()) / 2**20
    figures.collector_rss_mb = meter.peaks[stack.collector.pid] / 2**20
    return figures


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


def measure_floor(blocks: Sequence[bytes]) -> Figures:
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
                sent=stored,
                acknowledged=stored,
                stored=stored,
            )
        finally:
            stack.close()


def measure_peer(peer: Peer, requests: Sequence[SentRequest], clients: int, *, start_s: float) -> Figures:
    """A peer with its defaults and its own store.

    Raises:
        RuntimeError: It does not start.
    """
    with (
        tempfile.TemporaryDirectory(prefix="evalspan-bench-", ignore_cleanup_errors=True) as folder,
        peer.running(Path(folder), start_s=start_s) as served,
    ):

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


#: Heading, the figure, its format.
_COLUMNS = (
    ("queryable/s", "queryable_spans_per_s", ",.0f"),
    ("per CPU-s", "spans_per_cpu_s", ",.0f"),
    ("accepted/s", "accepted_spans_per_s", ",.0f"),
    ("ack p50 ms", "ack_p50_ms", ",.0f"),
    ("ack p99 ms", "ack_p99_ms", ",.0f"),
    ("RSS MB", "rss_mb", ",.0f"),
    ("disk B/span", "disk_bytes_per_span", ",.0f"),
    ("wire B/span", "wire_bytes_per_span", ",.0f"),
    ("sent", "sent", ",.0f"),
    ("acked", "acknowledged", ",.0f"),
    ("stored", "stored", ",.0f"),
)


def table(results: Mapping[str, Mapping[str, Any] | None]) -> str:
    """The figures for people."""
    lines = [f"{'':8}" + "".join(f"{heading:>13}" for heading, _, _ in _COLUMNS)]
    for name, figures in results.items():
        if figures is None:
            installed = any(peer.name == name for peer in installed_peers())
            why = "did not start, see above" if installed else "not installed: make bench-peers"
            lines.append(f"{name:8}  {why}")
            continue
        cells = ("-" if figures[key] is None else format(figures[key], form) for _, key, form in _COLUMNS)
        lines.append(f"{name:8}" + "".join(f"{cell:>13}" for cell in cells))
    ours = results["ours"]
    if ours is not None and ours["runs"] is not None:
        complete = ours["runs_complete_s"]
        lines.append(
            f"runs: {ours['runs']:,.0f} closed"
            + (
                " so far; not awaited to the end"
                if complete is None
                else f", the last {complete:.0f} s after the first byte; {ours['spans_per_cpu_s_with_runs']:,.0f} spans"
                " per CPU-s with their assembly"
            )
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, under two minutes without peers")
    parser.add_argument("--json", action="store_true", help="add the figures as JSON, the last line")
    parser.add_argument("--spans", type=int, default=0, help="spans per round, at most with --quick")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--per-request", type=int, default=100)
    parser.add_argument("--without-runs", action="store_true", help="intake alone: no run is assembled meanwhile")
    arguments = parser.parse_args()
    spans = arguments.spans or (40_000 if arguments.quick else 200_000)
    measured: dict[str, list[Figures]] = {"ours": [], "floor": [], "phoenix": [], "mlflow": []}
    for number in range(arguments.repeats or (1 if arguments.quick else 3)):

        def load(seed: int = time.time_ns() % 10**9 + number) -> Sequence[SentRequest]:
            made = Workload(seed, start_ns=time.time_ns() - 600 * 10**9)
            return made.requests(spans, per_request=arguments.per_request)

        blocks: list[bytes] = []
        runs_s = None if arguments.without_runs else _QUICK_RUNS_S if arguments.quick else 600.0
        round_ = Round(load, arguments.clients, quick_s=_QUICK_S if arguments.quick else None, runs_s=runs_s)
        ours, requests = measure_ours(round_, blocks)
        measured["ours"].append(ours)
        measured["floor"].append(measure_floor(blocks))
        for peer in installed_peers():
            share = requests[: (11 if arguments.quick else 31)]
            try:
                start_s = 30.0 if arguments.quick else 180.0
                measured[peer.name].append(measure_peer(peer, share, arguments.clients, start_s=start_s))
            except RuntimeError as error:  # a peer that does not start costs nobody else's figures
                print(f"{peer.name}: {error}", file=sys.stderr)
    results = {name: median_of(figures) for name, figures in measured.items()}
    print(table(results))
    if arguments.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
