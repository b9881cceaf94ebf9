"""Disks that are full or gone: nothing unwritten is acknowledged, nothing acknowledged is lost, and it says why."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from apparatus.load import GrpcClient, Ledger, send_all
from apparatus.processes import Stack
from apparatus.waiting import until
from apparatus.workload import SentRequest, Workload

from evalspan.errors import StoreError

if TYPE_CHECKING:
    from evalspan_collector.store.clickhouse import ClickHouseStore

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

MB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"this machine lets nobody mount a small disk: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def load(spans: int, seed: int) -> list[SentRequest]:
    return Workload(seed, content=0.2).requests(spans, per_request=50)


def fill(folder: Path, *, leave: int = 0) -> Path:
    """Take all the room but some."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            file.write(bytes(max(0, shutil.disk_usage(folder).free - leave)))
        except OSError:
            pass
    return filler


def _count(stack: Stack) -> int:
    try:
        return stack.number("SELECT uniqExact(span_id) FROM spans")
    except StoreError:  # the table is being made
        return 0


def test_an_insert_that_the_engine_cannot_write_is_an_error_and_may_come_again(store: "ClickHouseStore") -> None:
    store.client.execute(
        "CREATE TABLE strict (a UInt32, CONSTRAINT small CHECK a < 1000) ENGINE = MergeTree PARTITION BY a ORDER BY a "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    for values, code in (([5000], 469), (list(range(300)), 252)):  # a constraint; more than 100 partitions
        with pytest.raises(StoreError, match=f"code: {code}"):
            store.client.insert("strict", ["a"], [values], token="t")
    store.client.insert("strict", ["a"], [[1, 2]], token="t")  # no failure has used the token up
    store.client.insert("strict", ["a"], [[1, 2]], token="t")
    assert store.client.rows("SELECT count() FROM strict") == [(2,)]


def test_a_full_disk_refuses_acknowledges_nothing_unwritten_and_recovers(tmp_path: Path, small_disk: Path) -> None:
    stack = Stack(tmp_path, collector_data=small_disk / "collector")
    try:
        stack.start()
        stack.proxy.faults.refuse = True  # the spool cannot be emptied
        stack.proxy.cut()
        filler = fill(small_disk, leave=MB)
        ledger = Ledger()
        requests = load(3000, 1)
        send_all(requests, lambda: GrpcClient(stack.address), ledger, deadline_s=2)
        assert 0 < len(ledger.acknowledged) < 3000
        assert ledger.retried_for
        assert not ledger.refused
        assert all("UNAVAILABLE" in reason for reason in ledger.retried_for), ledger.retried_for[:3]
        filler.unlink()
        again = Ledger()
        send_all(requests, lambda: GrpcClient(stack.address), again, deadline_s=60)
        assert len(again.acknowledged) == 3000
        stack.proxy.faults.refuse = False
        stack.wait_stored(again)
        assert stack.check(again)["stored"] == 3000
        print(f"disk full: {len(ledger.acknowledged)} acknowledged, then {len(ledger.retried_for)} refusals")
    finally:
        stack.close()


def test_a_store_without_room_keeps_the_spool_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "store"
    folder.mkdir(parents=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"this machine lets nobody mount a small disk: {made.stderr.strip()}")
    stack = Stack(tmp_path)
    try:
        stack.start()
        filler = fill(folder)
        ledger = Ledger()
        send_all(load(2000, 2), lambda: GrpcClient(stack.address), ledger, deadline_s=30)
        assert len(ledger.acknowledged) == 2000  # the spool lies on another disk
        until(lambda: stack.metric("otelcol_exporter_send_failed_spans_total") > 0, within_s=60)
        assert stack.number("SELECT count() FROM spans") == 0
        filler.unlink()
        stack.wait_stored(ledger)
        stack.store.kill()
        stack.store.start()  # opens clean after it all
        assert stack.check(ledger)["stored"] == 2000
    finally:
        stack.close()
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_store_whose_folder_is_removed_says_so_ends_and_begins_anew(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    try:
        stack.start()
        shutil.rmtree(stack.data.store)
        assert stack.store.wait(60) == 3
        assert "was removed or replaced while in use" in stack.store.output()
        stack.store.start()  # as its supervisor does
        ledger = Ledger()
        send_all(load(500, 3), lambda: GrpcClient(stack.address), ledger, deadline_s=30)
        until(lambda: "store_is_empty" in stack.collector.output(), within_s=30)
        until(lambda: _count(stack) == 500, within_s=60)
        assert stack.check(ledger)["stored"] == 500
    finally:
        stack.close()
