"""The page of a huge run: a trace of 100,000 spans is taken, becomes one run and opens."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from apparatus.load import GrpcClient, Ledger, send_all
from apparatus.processes import Stack
from apparatus.waiting import until
from apparatus.workload import Workload

from evalspan_collector.store.contract import RunQuery
from evalspan_collector.store.opening import open_store
from evalspan_dashboard.queries import run_page

_SPANS = 100_000


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path, env={"EVALSPAN_IDLE_S": "8", "EVALSPAN_GRACE_S": "3"})
    yield made
    made.close()


@pytest.mark.e2e
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_page_of_a_run_of_a_hundred_thousand_spans_opens(stack: Stack) -> None:
    stack.start()
    ledger = Ledger()
    requests = Workload(7, content=0.2).requests(_SPANS, per_request=500, length=_SPANS)
    send_all(requests, lambda: GrpcClient(stack.address), ledger, deadline_s=600)
    stack.wait_stored(ledger, within_s=300)
    store = open_store(stack.url, token=stack.token)
    try:
        began = time.monotonic()
        until(lambda: store.runs(RunQuery(state="closed")), within_s=600, what="the run")
        closed_s = time.monotonic() - began
        (row,) = store.runs(RunQuery())
        opened: list[float] = []
        for _ in range(3):
            began = time.monotonic()
            page = run_page(store, row.run_id)
            opened.append(time.monotonic() - began)
            assert page is not None
            assert len(page.run.steps) == row.steps
        print(f"{len(ledger.sent)} spans, {row.steps} steps, closed {closed_s:.0f} s after they were stored,"
              f" page read in {', '.join(f'{s:.2f}' for s in opened)} s,"
              f" collector {stack.collector.resident_bytes() >> 20} MB")  # fmt: skip
        assert row.steps >= 0.99 * _SPANS
    finally:
        store.close()
