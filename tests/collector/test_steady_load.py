"""Store, collector and worker under steady load and queries: nothing grows that has no reason to."""

import itertools
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from apparatus.killing import SEED
from apparatus.load import GrpcClient, Ledger, percentile, send_all
from apparatus.processes import Process, Stack
from apparatus.workload import SentRequest, Workload

from evalspan_collector.store.contract import AggregateQuery, RunQuery, SeriesQuery, Store
from evalspan_collector.store.opening import open_store

pytestmark = [pytest.mark.e2e]

_SOAK_S = float(os.environ.get("EVALSPAN_SOAK_S", "3600"))
#: Spans per second. So many in the long form that what is remembered of recent traces, 50,000 of them, is full before
#: memory is measured: until then it grows, as it should.
_RATE, _SOAK_RATE = 200.0, float(os.environ.get("EVALSPAN_SOAK_RATE", "800"))


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path, env={"EVALSPAN_IDLE_S": "8", "EVALSPAN_GRACE_S": "3"})
    yield made
    made.close()


@dataclass(slots=True)
class Samples:
    """What was measured of one process, one number per sample."""

    at_s: list[float] = field(default_factory=list[float])
    resident: list[int] = field(default_factory=list[int])
    threads: list[int] = field(default_factory=list[int])
    descriptors: list[int] = field(default_factory=list[int])

    def take(self, process: Process, at_s: float) -> None:
        """One more sample."""
        self.at_s.append(at_s)
        self.resident.append(process.resident_bytes())
        self.threads.append(process.threads())
        self.descriptors.append(process.descriptors())

    def slope_mb_per_min(self) -> float:
        """Growth of resident memory by least squares, over the second half of the time: pools and caches fill first."""
        late = [(t, y) for t, y in zip(self.at_s, self.resident, strict=True) if t >= self.at_s[-1] / 2]
        mean_t = sum(t for t, _ in late) / len(late)
        mean_y = sum(y for _, y in late) / len(late)
        over = sum((t - mean_t) * (y - mean_y) for t, y in late)
        under = sum((t - mean_t) ** 2 for t, _ in late)
        return over / under * 60 / (1 << 20)


def grown(values: list[int]) -> int:
    """By how much the most of the second half exceeds the most of the first."""
    middle = len(values) // 2
    return max(values[middle:]) - max(values[:middle])


def endless(seed: int) -> Iterator[SentRequest]:
    """Requests without end, every thousand of other ids; spans start now, so that partitions are those of a day."""
    for number in itertools.count():
        made = Workload(seed + number, content=0.2, start_ns=time.time_ns() - 3600 * 10**9)
        yield from made.requests(1000, per_request=50)


def ask_as_a_screen(store: Store) -> None:
    """What the runs list, the overview and a run page ask."""
    now = time.time_ns()
    since = now - 3600 * 10**9
    page = store.runs(RunQuery(limit=50))
    store.aggregate(AggregateQuery(project="default", of="runs", since_ns=since, until_ns=now))
    store.run_trend(SeriesQuery(since_ns=since, until_ns=now, step_s=60))
    store.facets(None, since_ns=since)
    if page:
        store.run(page[0].project, page[0].run_id)


class Strain:
    """Four senders at a steady rate and a reader, until told to stop."""

    def __init__(self, stack: Stack, *, seconds: float, rate: float) -> None:
        self.ledger = Ledger()
        self._rate = rate
        self.waits: list[float] = []
        self.failed: list[Exception] = []
        self._stack = stack
        self._seconds = seconds
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._ask)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        send_all(
            endless(SEED), lambda: GrpcClient(self._stack.address), self.ledger,
            spans_per_s=self._rate, deadline_s=self._seconds + 600, stop=self._stop,
        )  # fmt: skip

    def _ask(self) -> None:
        store = open_store(self._stack.url, token=self._stack.token)
        try:
            while not self._stop.wait(1.0):
                began = time.monotonic()
                ask_as_a_screen(store)
                self.waits.append(time.monotonic() - began)
        except Exception as error:  # noqa: BLE001  raised again where the test sees it
            self.failed.append(error)
        finally:
            store.close()

    def end(self) -> None:
        """Stop, and raise what a query raised."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        if self.failed:
            raise self.failed[0]


def watch(stack: Stack, samples: dict[str, Samples], *, seconds: float) -> int:
    """Sample every process after a quarter of the time; the most active parts that were seen."""
    processes = {"store": stack.store, "collector": stack.collector, "worker": stack.worker}
    began = time.monotonic()
    most_parts = 0
    while (now := time.monotonic() - began) < seconds:
        time.sleep(min(10.0, seconds / 20))
        most_parts = max(most_parts, stack.number("SELECT count() FROM system.parts WHERE active"))
        if now >= seconds / 4:
            for name, process in processes.items():
                samples[name].take(process, now)
    return most_parts


@pytest.mark.parametrize(
    ("seconds", "rate"),
    [
        pytest.param(20.0, _RATE, marks=pytest.mark.timeout(300), id="short"),
        pytest.param(_SOAK_S, _SOAK_RATE, marks=[pytest.mark.soak, pytest.mark.timeout(_SOAK_S + 1800)], id="long"),
    ],
)
def test_r12_under_steady_load_and_queries_nothing_grows(stack: Stack, seconds: float, rate: float) -> None:
    stack.start()
    stack.worker.start()
    samples = {name: Samples() for name in ("store", "collector", "worker")}
    strain = Strain(stack, seconds=seconds, rate=rate)
    most_parts = watch(stack, samples, seconds=seconds)
    strain.end()
    stack.wait_stored(strain.ledger)
    print(
        f"{seconds:.0f} s at {rate:.0f} spans/s: {stack.check(strain.ledger)}, up to {most_parts} active parts,"
        f" {len(strain.waits)} rounds of queries, p95 {percentile(strain.waits, 0.95) * 1000:.0f} ms"
    )
    for name, taken in samples.items():
        print(
            f"  {name}: {[size >> 20 for size in taken.resident[:: max(1, len(taken.resident) // 12)]]} MB"
            f" ({taken.slope_mb_per_min():+.2f} MB/min), threads {taken.threads[0]} -> {taken.threads[-1]},"
            f" descriptors {taken.descriptors[0]} -> {taken.descriptors[-1]}"
        )
    assert len(strain.ledger.acknowledged) >= 0.8 * rate * seconds
    assert most_parts < 100
    # In seconds, pools and caches still fill; memory is judged once they have.
    threads, descriptors = (8, 16) if seconds >= 600 else (24, 48)
    for name, taken in samples.items():
        assert grown(taken.threads) <= threads, f"{name} has more and more threads: {taken.threads}"
        assert grown(taken.descriptors) <= descriptors, f"{name} opens more and more: {taken.descriptors}"
        if seconds >= 1800:
            assert taken.slope_mb_per_min() < 1.0, f"{name} grows: {[size >> 20 for size in taken.resident]}"
