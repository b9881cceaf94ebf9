"""The drain: spool to store, once each, whatever fails in between."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from apparatus.stores import FaultyStore
from apparatus.waiting import until
from apparatus.workload import SentRequest, Workload

from evalspan.errors import StoreError
from evalspan_collector.drain import BlockLimits, Drain
from evalspan_collector.quarantine import Quarantine
from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.spool import Block, Signal, Spool, SpoolRecord


class Line:
    """A spool, a drain and a store."""

    def __init__(self, folder: Path, store: FaultyStore, *, block_spans: int = 50, wait_s: float = 0.02) -> None:
        self.folder = folder
        self.store = store
        self.metrics = SelfMetrics()
        self.spool = Spool(folder / "spool", max_bytes=1 << 26, segment_bytes=1 << 18, power_safe=False)
        self.drain = Drain(
            spool=self.spool,
            stores=lambda: store,
            quarantine=Quarantine(folder / "quarantine", max_bytes=1 << 20, metrics=self.metrics),
            metrics=self.metrics,
            limits=BlockLimits(spans=block_spans, wait_s=wait_s),
        )

    def put(self, *requests: SentRequest, project: str = "shop") -> None:
        for number, request in enumerate(requests):
            self.spool.append(Signal.TRACES, project, request.body, received_ns=1_000 + number)

    def put_raw(self, payload: bytes, signal: Signal = Signal.TRACES) -> None:
        self.spool.append(signal, "shop", payload, received_ns=1)

    def quarantined(self, reason: str) -> float:
        return self.metrics.registry.get_sample_value("evalspan_quarantined_total", {"reason": reason}) or 0.0

    def kept_aside(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((self.folder / "quarantine").glob("*.bin"))]

    def end(self) -> None:
        self.drain.stop(0.1)
        self.spool.close()


def stored_ids(store: FaultyStore, *requests: SentRequest, project: str = "shop") -> set[str]:
    traces = sorted({span.trace_id for request in requests for span in request.spans})
    return {span.span_id for span in store.spans(project, traces)}


def sent_ids(*requests: SentRequest) -> set[str]:
    return {span.span_id for request in requests for span in request.spans}


def test_everything_in_the_spool_reaches_the_store_in_large_blocks(tmp_path: Path) -> None:
    requests = Workload(1, content=0.1).requests(400, per_request=20)
    line = Line(tmp_path, FaultyStore(), block_spans=100, wait_s=5)
    line.put(*requests)
    line.drain.start()
    until(lambda: not line.spool.bytes_waiting)
    assert stored_ids(line.store, *requests) == sent_ids(*requests)
    assert line.store.blocks == [100, 100, 100, 100]
    line.end()


def test_a_small_block_goes_after_a_short_wait(tmp_path: Path) -> None:
    line = Line(tmp_path, FaultyStore(), block_spans=100_000, wait_s=0.05)
    line.drain.start()
    request = Workload(1, content=0.1).one()
    line.put(request)
    until(lambda: stored_ids(line.store, request) == sent_ids(request))
    line.end()


def test_blocks_grow_while_the_store_is_slow(tmp_path: Path) -> None:
    line = Line(tmp_path, FaultyStore(), block_spans=100_000, wait_s=0.01)
    line.store.stuck.clear()
    requests = Workload(1, content=0.1).requests(600, per_request=20)
    line.drain.start()
    for request in requests:
        line.put(request)
        until(lambda: line.spool.bytes_waiting > 0)
    line.store.stuck.set()
    until(lambda: not line.spool.bytes_waiting)
    assert stored_ids(line.store, *requests) == sent_ids(*requests)
    assert len(line.store.blocks) < len(requests) / 2
    line.end()


def test_an_outage_of_the_store_loses_nothing(tmp_path: Path) -> None:
    line = Line(tmp_path, FaultyStore())
    line.store.down = True
    requests = Workload(1, content=0.1).requests(200, per_request=20)
    line.put(*requests)
    line.drain.start()
    until(lambda: line.metrics.registry.get_sample_value("otelcol_exporter_send_failed_spans_total"))
    assert line.metrics.registry.get_sample_value("evalspan_store_up") == 0
    line.store.down = False
    until(lambda: not line.spool.bytes_waiting)
    assert stored_ids(line.store, *requests) == sent_ids(*requests)
    assert line.metrics.registry.get_sample_value("evalspan_store_up") == 1
    assert line.kept_aside() == []
    line.end()


def test_a_block_that_was_under_way_goes_again_under_the_same_token(tmp_path: Path) -> None:
    requests = Workload(1, content=0.1).requests(200, per_request=20)
    line = Line(tmp_path, FaultyStore(), block_spans=60, wait_s=5)
    line.put(*requests)
    records = [item for item in line.spool.read(line.spool.checkpoint.done) if isinstance(item, SpoolRecord)]
    block = Block(records[0].start, records[2].end)
    line.spool.begin_blocks(block)
    line.spool.close()
    store = FaultyStore()
    again = Line(tmp_path, store, block_spans=100_000, wait_s=0.01)
    again.drain.start()
    until(lambda: not again.spool.bytes_waiting)
    assert stored_ids(store, *requests) == sent_ids(*requests)
    assert store.blocks == [60, 140]
    assert f"{block.start.segment}.{block.start.offset}-{block.end.segment}.{block.end.offset}" in store.tokens[0]
    again.end()


def test_a_request_that_cannot_be_decoded_is_put_aside_and_its_neighbours_go_on(tmp_path: Path) -> None:
    line = Line(tmp_path, FaultyStore())
    before, after = Workload(1, content=0.1).one(), Workload(2, content=0.1).one()
    line.put(before)
    line.put_raw(b"\xff\xff poison")
    line.put(after)
    line.drain.start()
    until(lambda: not line.spool.bytes_waiting)
    assert stored_ids(line.store, before, after) == sent_ids(before, after)
    assert line.kept_aside() == [b"\xff\xff poison"]
    assert line.quarantined("undecodable") == 1
    line.end()


def poisoned(request: SentRequest, error: Exception) -> Callable[[Sequence[Span]], Exception | None]:
    ids = {span.span_id for span in request.spans}

    def refuse(spans: Sequence[Span]) -> Exception | None:
        return error if any(span.span_id in ids for span in spans) else None

    return refuse


@pytest.mark.parametrize("error", [StoreError("code 53: type mismatch"), UnicodeEncodeError("utf-8", "x", 0, 1, "no")])
def test_a_request_that_the_store_cannot_take_is_put_aside_alone(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalspan_collector.drain._FIRST_DELAY_S", 0.01)
    requests = Workload(1, content=0.1).requests(200, per_request=20)
    line = Line(tmp_path, FaultyStore(), block_spans=100)
    line.store.refuse = poisoned(requests[3], error)
    line.put(*requests)
    line.drain.start()
    until(lambda: not line.spool.bytes_waiting)
    others = [request for request in requests if request is not requests[3]]
    assert stored_ids(line.store, *requests) == sent_ids(*others)
    assert line.kept_aside() == [requests[3].body]
    assert line.quarantined("unstorable") == 1
    line.end()


def test_a_sick_store_never_empties_the_spool_into_the_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalspan_collector.drain._FIRST_DELAY_S", 0.01)
    monkeypatch.setattr("evalspan_collector.drain._LAST_DELAY_S", 0.01)
    requests = Workload(1, content=0.1).requests(100, per_request=20)
    line = Line(tmp_path, FaultyStore())
    attempts: list[int] = []

    def no_space(spans: Sequence[Span]) -> Exception | None:
        attempts.append(len(spans))
        return StoreError("code 243: no space left")

    line.store.refuse = no_space
    line.put(*requests)
    line.drain.start()
    until(lambda: len(attempts) > 20)
    assert line.kept_aside() == []
    line.store.refuse = None
    until(lambda: not line.spool.bytes_waiting)
    assert stored_ids(line.store, *requests) == sent_ids(*requests)
    line.end()


def test_a_store_that_recovers_while_requests_are_tried_apart_loses_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalspan_collector.drain._FIRST_DELAY_S", 0.01)
    requests = Workload(1, content=0.1).requests(100, per_request=20)
    line = Line(tmp_path, FaultyStore())
    apart: list[int] = []

    def sick_for_a_while(spans: Sequence[Span]) -> Exception | None:
        apart.append(len(spans))
        return StoreError("not now") if len(apart) < 6 else None  # whole thrice, then two requests alone

    line.store.refuse = sick_for_a_while
    line.put(*requests)
    line.drain.start()
    until(lambda: not line.spool.bytes_waiting)
    assert line.kept_aside() == []
    assert stored_ids(line.store, *requests) == sent_ids(*requests)
    line.end()


def test_damage_on_disk_costs_only_the_damaged_record(tmp_path: Path) -> None:
    requests = Workload(1, content=0.1).requests(100, per_request=20)
    line = Line(tmp_path, FaultyStore())
    line.put(*requests)
    records = [item for item in line.spool.read(line.spool.checkpoint.done) if isinstance(item, SpoolRecord)]
    line.spool.close()
    (path,) = (tmp_path / "spool").glob("*.seg")
    broken = bytearray(path.read_bytes())
    broken[records[2].end.offset - 10] ^= 0xFF
    path.write_bytes(broken)
    again = Line(tmp_path, FaultyStore())
    again.drain.start()
    until(lambda: not again.spool.bytes_waiting)
    kept = [request for request in requests if request is not requests[2]]
    assert stored_ids(again.store, *requests) == sent_ids(*kept)
    assert again.quarantined("spool_bad_body") == 1
    assert len(again.kept_aside()) == 1
    again.end()


def test_stopping_drains_what_is_there(tmp_path: Path) -> None:
    line = Line(tmp_path, FaultyStore(), block_spans=100_000, wait_s=60)
    requests = Workload(1, content=0.1).requests(100, per_request=20)
    line.put(*requests)
    line.drain.start()
    assert line.drain.stop(10)
    assert stored_ids(line.store, *requests) == sent_ids(*requests)
    line.spool.close()


def test_stopping_with_the_store_down_leaves_the_spool_intact(tmp_path: Path) -> None:
    line = Line(tmp_path, FaultyStore())
    line.store.down = True
    requests = Workload(1, content=0.1).requests(100, per_request=20)
    line.put(*requests)
    line.drain.start()
    assert not line.drain.stop(0.5)
    line.spool.close()
    again = Line(tmp_path, FaultyStore())
    again.drain.start()
    until(lambda: not again.spool.bytes_waiting)
    assert stored_ids(again.store, *requests) == sent_ids(*requests)
    again.end()


def test_who_listens_is_told_of_confirmed_spans_only(tmp_path: Path) -> None:
    line = Line(tmp_path, FaultyStore())
    told: list[str] = []
    sizes: list[int] = []

    def stored(spans: Sequence[Span], logs: Sequence[LogRecord], size_bytes: int) -> None:
        del logs
        sizes.append(size_bytes)
        told.extend(span.span_id for span in spans)

    line.drain.on_stored(stored)
    line.store.down = True
    request = Workload(1, content=0.1).one()
    line.put(request)
    line.drain.start()
    until(lambda: line.metrics.registry.get_sample_value("otelcol_exporter_send_failed_spans_total"))
    assert told == []
    line.store.down = False
    until(lambda: set(told) == sent_ids(request))
    assert sizes == [len(request.body)]
    line.end()


def test_who_listens_and_fails_stops_nothing(tmp_path: Path) -> None:
    line = Line(tmp_path, FaultyStore())
    asked: list[int] = []

    def stored(spans: Sequence[Span], logs: Sequence[LogRecord], size_bytes: int) -> None:
        asked.append(len(spans) + len(logs) + size_bytes)
        raise RuntimeError("nobody listens")

    line.drain.on_stored(stored)
    first, second = Workload(1, content=0.1).one(), Workload(2, content=0.1).one()
    line.put(first)
    line.drain.start()
    until(lambda: len(asked) == 1)
    line.put(second)
    until(lambda: len(asked) == 2)
    assert stored_ids(line.store, first, second) == sent_ids(first, second)
    until(lambda: not line.spool.bytes_waiting)
    line.end()


def test_the_watermark_is_now_only_without_a_backlog(tmp_path: Path) -> None:
    line = Line(tmp_path, FaultyStore())
    assert line.drain.watermark_ns() > 1_700_000_000_000_000_000
    line.put(Workload(1, content=0.1).one())
    assert line.drain.watermark_ns() == 0
    line.drain.start()
    until(lambda: line.drain.watermark_ns() > 1_700_000_000_000_000_000)
    line.end()
