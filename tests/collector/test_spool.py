"""The spool: what was appended comes back, whatever happened to the process or the disk in between."""

import errno
import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from evalspan.errors import ConfigError
from evalspan_collector.spool import Block, Damage, Position, Signal, Spool, SpoolFullError, SpoolRecord


def open_spool(folder: Path, *, max_bytes: int = 1 << 24, segment_bytes: int = 4096, power_safe: bool = False) -> Spool:
    return Spool(folder, max_bytes=max_bytes, segment_bytes=segment_bytes, power_safe=power_safe)


def put(spool: Spool, *payloads: bytes) -> None:
    for number, payload in enumerate(payloads):
        spool.append(Signal.TRACES, "shop", payload, received_ns=1000 + number)


def records(spool: Spool) -> list[SpoolRecord]:
    return [item for item in spool.read(spool.checkpoint.done) if isinstance(item, SpoolRecord)]


def damages(spool: Spool) -> list[Damage]:
    return [item for item in spool.read(spool.checkpoint.done) if isinstance(item, Damage)]


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.seg"))


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append(Signal.LOGS, "büro", b"\x00payload", received_ns=77, json=True)
    (record,) = records(spool)
    assert (record.signal, record.project, record.payload) == (Signal.LOGS, "büro", b"\x00payload")
    assert (record.received_ns, record.json) == (77, True)


def test_records_survive_a_process_that_never_closed(tmp_path: Path) -> None:
    payloads = [bytes([n]) * 700 for n in range(30)]
    put(open_spool(tmp_path / "spool"), *payloads)
    # The folder of a killed process, without its lock.
    again = tmp_path / "again"
    again.mkdir()
    for path in (tmp_path / "spool").iterdir():
        (again / path.name).write_bytes(path.read_bytes())
    spool = open_spool(again)
    assert [record.payload for record in records(spool)] == payloads
    assert len(segments(again)) > 3


def test_a_second_process_on_the_same_spool_is_refused(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    with pytest.raises(ConfigError, match="another collector uses the spool"):
        open_spool(tmp_path)
    spool.close()
    open_spool(tmp_path).close()


def test_the_checkpoint_survives_and_passed_segments_go(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, *[b"x" * 1500] * 10)
    middle = records(spool)[6].end
    spool.begin_blocks(Block(spool.checkpoint.done, middle))
    spool.finish_block(middle)
    spool.close()
    again = open_spool(tmp_path)
    assert again.checkpoint.done == middle
    assert len(records(again)) == 3
    assert not again.checkpoint_lost
    again.finish_block(records(again)[-1].end)
    assert again.bytes_waiting == 0
    assert segments(tmp_path) == []


def test_a_recorded_block_is_formed_again_exactly(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, b"a", b"b", b"c", b"d")
    first = records(spool)
    block = Block(first[0].start, first[1].end)
    spool.begin_blocks(block)
    spool.close()
    again = open_spool(tmp_path)
    assert again.checkpoint.pending == (block,)
    replayed = [item for item in again.read(block.start, until=block.end) if isinstance(item, SpoolRecord)]
    assert [record.payload for record in replayed] == [b"a", b"b"]
    assert again.spool_id == spool.spool_id


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"body": "{}", "check": 1}'])
def test_without_a_sound_checkpoint_everything_is_read_again(tmp_path: Path, content: bytes | None) -> None:
    spool = open_spool(tmp_path)
    put(spool, b"a", b"b")
    spool.begin_blocks(Block(Position(1, 0), records(spool)[0].end))
    spool.finish_block(records(spool)[0].end)
    spool.close()
    path = tmp_path / "checkpoint.json"
    path.unlink() if content is None else path.write_bytes(content)
    again = open_spool(tmp_path)
    assert again.checkpoint_lost
    assert [record.payload for record in records(again)] == [b"a", b"b"]


def test_a_torn_tail_costs_only_the_torn_record(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, b"a" * 100, b"b" * 100)
    spool.close()
    (path,) = segments(tmp_path)
    path.write_bytes(path.read_bytes()[:-30])
    again = open_spool(tmp_path)
    put(again, b"c")
    assert [record.payload[:1] for record in records(again)] == [b"a", b"c"]
    assert [damage.reason for damage in damages(again)] == ["torn_tail"]


def test_every_flipped_byte_costs_at_most_its_own_record(tmp_path: Path) -> None:
    payloads = [bytes([65 + n]) * 40 for n in range(5)]
    spool = open_spool(tmp_path / "clean", segment_bytes=1 << 20)
    put(spool, *payloads)
    spool.close()
    clean = segments(tmp_path / "clean")[0].read_bytes()
    for offset in range(len(clean)):
        folder = tmp_path / f"flip{offset}"
        folder.mkdir()
        broken = bytearray(clean)
        broken[offset] ^= 0x41
        (folder / "000000000001.seg").write_bytes(broken)
        damaged = open_spool(folder)
        hit = offset * len(payloads) // len(clean)
        expected = [payload for number, payload in enumerate(payloads) if number != hit]
        assert [record.payload for record in records(damaged)] == expected
        assert len(damages(damaged)) == 1
        damaged.close()


def test_garbage_between_records_is_skipped(tmp_path: Path) -> None:
    rng = random.Random(5)
    spool = open_spool(tmp_path)
    put(spool, b"a")
    spool.close()
    (path,) = segments(tmp_path)
    sound = path.read_bytes()
    path.write_bytes(sound + rng.randbytes(500) + sound + rng.randbytes(90) + sound)
    again = open_spool(tmp_path)
    assert len(records(again)) == 3
    assert sum(damage.end.offset - damage.start.offset for damage in damages(again)) == 590


def test_a_full_spool_refuses_and_takes_again_once_drained(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=10_000)
    put(spool, *[b"x" * 2000] * 4)
    with pytest.raises(SpoolFullError):
        put(spool, b"x" * 3000)
    spool.finish_block(records(spool)[-1].end)
    put(spool, b"x" * 3000)
    assert len(records(spool)) == 1


def test_a_drained_segment_makes_room_though_it_is_still_open(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=10_000, segment_bytes=1 << 20)
    for _ in range(5):
        put(spool, b"x" * 6000)
        (record,) = records(spool)
        spool.finish_block(record.end)
        assert segments(tmp_path) == []
    assert spool.bytes_used == 0


def test_a_disk_that_refuses_acknowledges_nothing_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool(tmp_path, power_safe=True)
    put(spool, b"before")
    writev = os.writev

    def half(descriptor: int, buffers: Sequence[memoryview]) -> int:
        writev(descriptor, [bytes(buffers[0])[:5]])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", half)
    with pytest.raises(SpoolFullError, match="No space left"):
        put(spool, b"refused")
    monkeypatch.setattr(os, "writev", writev)
    put(spool, b"after")
    assert [record.payload for record in records(spool)] == [b"before", b"after"]
    assert damages(spool) == []


def test_a_failed_fsync_acknowledges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool(tmp_path, power_safe=True)

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(SpoolFullError, match="Input/output"):
        put(spool, b"refused")
    monkeypatch.undo()
    put(spool, b"after")
    assert [record.payload for record in records(spool)] == [b"after"]


def test_appends_of_many_threads_share_fsyncs_and_all_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool(tmp_path, segment_bytes=1 << 20, power_safe=True)
    syncs: list[int] = []
    real = os.fdatasync

    def slow_sync(descriptor: int) -> None:
        syncs.append(descriptor)
        threading.Event().wait(0.005)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", slow_sync)
    threads = [
        threading.Thread(target=put, args=(spool, *[f"{number}-{n}".encode() for n in range(20)]))
        for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [record.payload for record in records(spool)]
    assert len(found) == len(set(found)) == 320
    for number in range(16):  # each sender's own order is kept
        own = [payload for payload in found if payload.startswith(b"%d-" % number)]
        assert own == [f"{number}-{n}".encode() for n in range(20)]
    assert len(syncs) <= 160


def test_an_append_is_synced_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = open_spool(tmp_path, power_safe=True)
    order: list[str] = []
    real_write, real_sync = os.writev, os.fdatasync

    def write(descriptor: int, buffers: Sequence[memoryview]) -> int:
        order.append("write")
        return real_write(descriptor, buffers)

    def sync(descriptor: int) -> None:
        order.append("sync")
        real_sync(descriptor)

    monkeypatch.setattr(os, "writev", write)
    monkeypatch.setattr(os, "fdatasync", sync)
    put(spool, b"x")
    order.append("returned")
    assert order == ["write", "sync", "returned"]


def test_a_reader_waits_for_what_comes(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    done = spool.checkpoint.done
    assert not spool.wait_beyond(done, 0.01)
    timer = threading.Timer(0.05, put, (spool, b"x"))
    timer.start()
    assert spool.wait_beyond(done, 10)
    timer.join()
