"""Spool: requests on disk between the answer to the client and the insert into the store.

A spool is a folder of append-only segments. Each record carries its length, a checksum of its header and one of
its body, so that a reader can tell a torn tail or a flipped byte, skip exactly the damaged records and go on.
`append` returns when the record is durable; appends that arrive during one fsync share the next one. The reader's
place is the checkpoint, moved only after the store has confirmed an insert.
"""

import fcntl
import json
import os
import secrets
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Literal, NamedTuple

from evalspan.errors import ConfigError
from evalspan_collector.data_dir import write_private

__all__ = ["Block", "Checkpoint", "Damage", "Position", "Signal", "Spool", "SpoolFullError", "SpoolRecord"]

_MAGIC = b"\xe5SPN"
#: magic, body length, received_ns, signal, encoding (1 = JSON), project length, checksum of project and payload
_HEADER = struct.Struct("<4sIQBBHI")
_CHECK = struct.Struct("<I")
_HEADER_SIZE = _HEADER.size + _CHECK.size
_SUFFIX = ".seg"


class Signal(IntEnum):
    """What a request carries."""

    TRACES = 1
    LOGS = 2


class Position(NamedTuple):
    """A place in the spool: segment number and byte offset in it."""

    segment: int
    offset: int


class Block(NamedTuple):
    """A stretch of the spool that goes to the store as one insert: `start` inclusive, `end` exclusive."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolRecord:
    """One request as it was received.

    Attributes:
        start: Where the record begins; with `end` it names the record for ever.
        received_ns: When the collector got it.
    """

    start: Position
    end: Position
    signal: Signal
    json: bool
    project: str
    received_ns: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of a segment that is no record: the reader skips it, counts it and keeps its bytes aside."""

    start: Position
    end: Position
    reason: Literal["torn_tail", "bad_header", "bad_body"]
    data: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the store has everything, and the block that may be half in.

    Attributes:
        done: Everything before it is in the store.
        pending: The blocks recorded before their insert was tried, in order.
    """

    done: Position
    pending: tuple[Block, ...] = ()


class SpoolFullError(Exception):
    """The spool's size cap is reached, or the disk is full; nothing was acknowledged."""


@dataclass(slots=True, eq=False)
class _Ticket:
    """One append on its way to the disk."""

    parts: tuple[bytes, ...]
    size: int
    done: bool = False
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class _Writer:
    """The open segment."""

    number: int
    descriptor: int
    size: int = 0
    failed: bool = field(default=False)


class Spool:
    """A folder of segments with one writer and one reader in the same process.

    Raises:
        ConfigError: Another process uses the folder.

    Args:
        folder: Where the segments lie; made when missing. One process at a time.
        max_bytes: Size cap; appends beyond it are refused.
        segment_bytes: A segment is closed once it is this large.
        power_safe: fsync before an append returns (survives power loss); else the page cache is enough
            (survives the end of any process).
    """

    def __init__(self, folder: Path, *, max_bytes: int, segment_bytes: int, power_safe: bool) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._lock = _lock_folder(folder)
        self._max_bytes = max_bytes
        self._segment_bytes = segment_bytes
        self._power_safe = power_safe
        self._changed = threading.Condition()
        self._waiting: list[_Ticket] = []
        self._writing = False
        self._closed = False
        self._sizes = {number: self._path(number).stat().st_size for number in self._numbers()}
        self._writer: _Writer | None = None
        self._next = max(self._sizes, default=0) + 1
        self.spool_id = self._load_id()
        self._checkpoint, self.checkpoint_lost = self._load_checkpoint()
        self._end = Position(self._next, 0)
        self._forget_before(self._checkpoint.done)

    # writing

    def append(self, signal: Signal, project: str, payload: bytes, *, received_ns: int, json: bool = False) -> None:
        """Keep one request; when this returns, it is durable.

        Raises:
            SpoolFullError: No room, or the disk refused; nothing is kept.
        """
        name = project.encode()
        check = zlib.crc32(payload, zlib.crc32(name))
        header = _HEADER.pack(_MAGIC, len(payload), received_ns, signal, int(json), len(name), check)
        head = header + _CHECK.pack(zlib.crc32(header)) + name
        ticket = _Ticket((head, payload), len(head) + len(payload))
        with self._changed:
            if self._closed:
                raise SpoolFullError("the spool is closed")
            if self.bytes_used + sum(t.size for t in self._waiting) + ticket.size > self._max_bytes:
                raise SpoolFullError(f"the spool holds {self.bytes_used} of {self._max_bytes} bytes")
            self._waiting.append(ticket)
            while self._writing and not ticket.done:
                self._changed.wait()
            group: list[_Ticket] = []
            if not ticket.done:
                self._writing = True
                group, self._waiting = self._waiting, []
        if group:
            self._commit(group)
        if ticket.error is not None:
            raise ticket.error

    def _commit(self, group: list[_Ticket]) -> None:
        """Write a group of appends with one fsync; whoever waits is told."""
        error: Exception | None = None
        end = self._end
        try:
            end = self._write([part for ticket in group for part in ticket.parts])
        except OSError as problem:
            error = SpoolFullError(f"the spool cannot be written: {problem}")
        with self._changed:
            for ticket in group:
                ticket.error = error
                ticket.done = True
            self._end = end
            self._writing = False
            self._changed.notify_all()

    def _write(self, parts: list[bytes]) -> Position:
        writer = self._writer
        if writer is None or writer.failed or writer.size >= self._segment_bytes:
            writer = self._rotate()
        try:
            _write_all(writer.descriptor, parts)
            if self._power_safe:
                os.fdatasync(writer.descriptor)
        except OSError:
            # What was not acknowledged must not be read later as if it had been: cut it off, and trust the
            # segment no further, since a failed fsync may have dropped pages silently.
            writer.failed = True
            try:
                os.ftruncate(writer.descriptor, writer.size)
            except OSError:
                pass  # the reader stops at the last durable end, and after a restart checksums decide
            raise
        writer.size += sum(map(len, parts))
        self._sizes[writer.number] = writer.size
        return Position(writer.number, writer.size)

    def _rotate(self) -> _Writer:
        """Close the open segment and start the next one."""
        number = self._next
        descriptor = os.open(self._path(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if self._power_safe:
            _sync_folder(self._folder)
        if self._writer is not None:
            os.close(self._writer.descriptor)
        self._next += 1
        self._writer = _Writer(number, descriptor)
        with self._changed:
            self._sizes[number] = 0
        return self._writer

    # reading

    @property
    def checkpoint(self) -> Checkpoint:
        """The reader's durable place."""
        return self._checkpoint

    @property
    def end(self) -> Position:
        """End of the last durable record of this process; earlier segments count whole."""
        return self._end

    @property
    def bytes_used(self) -> int:
        """Bytes of all segments on disk."""
        return sum(self._sizes.values())

    @property
    def bytes_waiting(self) -> int:
        """Bytes the store does not have yet."""
        done = self._checkpoint.done
        with self._changed:
            return sum(
                size - (done.offset if number == done.segment else 0)
                for number, size in self._sizes.items()
                if number >= done.segment
            )

    def wait_beyond(self, position: Position, timeout_s: float) -> bool:
        """Wait until something durable lies at or behind `position`; False when nothing came in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not self._has_beyond(position):
                left = deadline - time.monotonic()
                if left <= 0 or self._closed:
                    return False
                self._changed.wait(left)
            return True

    def _has_beyond(self, position: Position) -> bool:
        for number, size in self._sizes.items():
            if number < position.segment:
                continue
            start = position.offset if number == position.segment else 0
            if size > start:
                return True
        return False

    def read(self, start: Position, *, until: Position | None = None) -> Iterator[SpoolRecord | Damage]:
        """Records and damages from `start` up to `until`, or up to what is durable now."""
        with self._changed:
            numbers = sorted(self._sizes)
        for number in numbers:
            if number < start.segment or (until is not None and number > until.segment):
                continue
            offset = start.offset if number == start.segment else 0
            with self._changed:
                limit = self._sizes.get(number, 0)
            if until is not None and number == until.segment:
                limit = min(limit, until.offset)
            yield from self._read_segment(number, offset, limit)

    def _read_segment(self, number: int, offset: int, limit: int) -> Iterator[SpoolRecord | Damage]:
        try:
            descriptor = os.open(self._path(number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            while offset < limit:
                item = _read_record(descriptor, number, offset, limit)
                offset = item.end.offset
                yield item
        finally:
            os.close(descriptor)

    def begin_blocks(self, *blocks: Block) -> None:
        """Record block boundaries before their insert, so that a replay forms the same blocks."""
        self._save_checkpoint(Checkpoint(self._checkpoint.done, blocks))

    def finish_block(self, end: Position) -> None:
        """Everything before `end` is in the store: move the checkpoint and drop what it has passed."""
        pending = tuple(block for block in self._checkpoint.pending if block.end > end)
        self._save_checkpoint(Checkpoint(end, pending))
        self._forget_before(end)

    def _forget_before(self, position: Position) -> None:
        """Delete segments that lie wholly before the checkpoint, the open one too while nobody writes to it."""
        with self._changed:
            writer = self._writer
            if writer and writer.size and not self._writing and position >= (writer.number, writer.size):
                os.close(writer.descriptor)
                writer = self._writer = None
            open_number = writer.number if writer else None
            for number in sorted(self._sizes):
                passed = number < position.segment or (
                    number == position.segment and position.offset >= self._sizes[number]
                )
                if not passed or number == open_number:
                    continue
                self._path(number).unlink(missing_ok=True)
                del self._sizes[number]

    # files

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}{_SUFFIX}"

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob(f"*{_SUFFIX}") if path.stem.isdigit())

    def _load_id(self) -> str:
        path = self._folder / "spool.id"
        try:
            text = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            text = ""
        if not text:
            text = secrets.token_hex(8)
            write_private(path, text.encode())
        return text

    def _load_checkpoint(self) -> tuple[Checkpoint, bool]:
        """The saved checkpoint, or the start of the spool when it is missing or damaged.

        Reading again from the start is safe: rows are idempotent.
        """
        first = Position(min(self._sizes, default=self._next), 0)
        try:
            checkpoint = _read_checkpoint((self._folder / "checkpoint.json").read_bytes())
        except FileNotFoundError:
            return Checkpoint(first), bool(self._sizes)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return Checkpoint(first), True
        self._next = max(self._next, checkpoint.done.segment + 1)
        return checkpoint, False

    def _save_checkpoint(self, checkpoint: Checkpoint) -> None:
        body = json.dumps({"done": checkpoint.done, "pending": checkpoint.pending})
        content = json.dumps({"body": body, "check": zlib.crc32(body.encode())}).encode()
        write_private(self._folder / "checkpoint.json", content)
        self._checkpoint = checkpoint

    def close(self) -> None:
        """Take no more appends; those under way are finished first."""
        with self._changed:
            self._closed = True
            while self._writing or self._waiting:
                self._changed.wait(0.1)
            self._changed.notify_all()
            if self._writer is not None:
                os.close(self._writer.descriptor)
                self._writer = None
            os.close(self._lock)


def _read_checkpoint(content: bytes) -> Checkpoint:
    """Parse a saved checkpoint; any exception means that it is damaged."""
    raw = json.loads(content)
    body = raw["body"]
    if raw["check"] != zlib.crc32(body.encode()):
        raise ValueError("the checkpoint's checksum is wrong")
    place = json.loads(body)
    blocks = tuple(Block(Position(*block[0]), Position(*block[1])) for block in place["pending"])
    return Checkpoint(Position(*place["done"]), blocks)


def _lock_folder(folder: Path) -> int:
    """A lock that ends with the process, however it ends."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ConfigError(
            f"another collector uses the spool {str(folder)!r}: stop it, or pass another folder with --data"
        ) from error
    return descriptor


def _write_all(descriptor: int, parts: list[bytes]) -> None:
    """Write all buffers: writev may write less than asked, and takes a bounded number of buffers."""
    for begin in range(0, len(parts), 512):
        views = [memoryview(part) for part in parts[begin : begin + 512] if part]
        while views:
            written = os.writev(descriptor, views)
            while views and written >= len(views[0]):
                written -= len(views.pop(0))
            if written:
                views[0] = views[0][written:]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_record(descriptor: int, number: int, offset: int, limit: int) -> SpoolRecord | Damage:
    """The record at `offset`, or the damaged stretch that begins there."""
    start = Position(number, offset)
    raw = os.pread(descriptor, _HEADER_SIZE, offset)
    header = raw[: _HEADER.size]
    if len(raw) < _HEADER_SIZE or offset + _HEADER_SIZE > limit:
        return Damage(start, Position(number, limit), "torn_tail", raw)
    if header[:4] != _MAGIC or _CHECK.unpack(raw[_HEADER.size :])[0] != zlib.crc32(header):
        end = _find_record(descriptor, offset + 1, limit)
        return Damage(start, Position(number, end), "bad_header", os.pread(descriptor, end - offset, offset))
    _, length, received_ns, signal, is_json, name_length, check = _HEADER.unpack(header)
    stop = offset + _HEADER_SIZE + name_length + length
    if stop > limit:
        return Damage(start, Position(number, limit), "torn_tail", os.pread(descriptor, limit - offset, offset))
    body = os.pread(descriptor, name_length + length, offset + _HEADER_SIZE)
    if zlib.crc32(body) != check or signal not in (Signal.TRACES, Signal.LOGS):
        return Damage(start, Position(number, stop), "bad_body", raw + body)
    return SpoolRecord(
        start=start,
        end=Position(number, stop),
        signal=Signal(signal),
        json=bool(is_json),
        project=body[:name_length].decode(errors="replace"),
        received_ns=received_ns,
        payload=body[name_length:],
    )


def _find_record(descriptor: int, offset: int, limit: int) -> int:
    """Offset of the next sound header at or behind `offset`, or `limit`."""
    data = os.pread(descriptor, limit - offset, offset)
    found = data.find(_MAGIC)
    while found >= 0:
        raw = data[found : found + _HEADER_SIZE]
        if len(raw) == _HEADER_SIZE and _CHECK.unpack(raw[_HEADER.size :])[0] == zlib.crc32(raw[: _HEADER.size]):
            return offset + found
        found = data.find(_MAGIC, found + 1)
    return limit
