"""Formats: OTLP requests out of the files people have, told by content and not by name."""

import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Any, Literal

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalspan.errors import ConfigError, DecodeError, InputError
from evalspan_collector.attributes import read_message
from evalspan_collector.intake import Intake, read_logs, read_traces
from evalspan_collector.jaeger import is_jaeger, jaeger_to_otlp
from evalspan_collector.lenient_json import dump, is_list, is_object, parse

__all__ = ["OtlpRequest", "Problem", "read_path", "read_requests"]

Signal = Literal["traces", "logs"]
#: A file is read up to this size, also after decompression, unless the variable says otherwise.
MAX_BYTES = 256 * 1024**2
MAX_BYTES_VARIABLE = "EVALSPAN_MAX_FILE_BYTES"
_CHUNK = 65_536
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class OtlpRequest:
    """One OTLP request found in a file.

    Attributes:
        signal: What it carries.
        body: The request, uncompressed.
        json: The body is OTLP JSON, not protobuf.
        place: Where it was found, `file` or `file:line`.
    """

    signal: Signal
    body: bytes
    json: bool
    place: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A file or line that could not be read; the rest was."""

    place: str
    message: str


def read_requests(path: str | Path) -> Iterator[OtlpRequest | Problem]:
    """OTLP requests of a file or folder: protobuf, OTLP JSON, JSON lines, Jaeger, Tempo, each also gzipped.

    Args:
        path: A file, or a folder whose files are read in the order of their names; in a folder, text files
            without telemetry are passed over.

    Yields:
        Requests in order, and a problem for each file or line that could not be read.

    Raises:
        InputError: The path does not exist.
        ConfigError: EVALSPAN_MAX_FILE_BYTES is no number.
    """
    where = Path(path)
    if where.is_dir():
        for file in sorted(p for p in where.iterdir() if p.is_file() and not p.name.startswith(".")):
            yield from _file(file, in_folder=True)
    elif where.is_file():
        yield from _file(where, in_folder=False)
    else:
        wrong = "is no regular file" if where.exists() else "does not exist"
        raise InputError(f"{str(where)!r} {wrong}: name an OTLP file, or a folder of them")


def read_path(path: str | Path, *, project: str = "default", received_ns: int = 0) -> Iterator[Intake | Problem]:
    """The spans and logs of a file or folder, request by request.

    Raises:
        InputError: The path does not exist.
    """
    for item in read_requests(path):
        if isinstance(item, Problem):
            yield item
            continue
        reader = read_traces if item.signal == "traces" else read_logs
        try:
            yield reader(item.body, project=project, received_ns=received_ns, json=item.json)
        except DecodeError as error:
            yield Problem(item.place, str(error))


def _limit() -> int:
    text = os.environ.get(MAX_BYTES_VARIABLE)
    if not text:
        return MAX_BYTES
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{MAX_BYTES_VARIABLE} is {text!r}: write a number of bytes, such as {MAX_BYTES}")
    return int(text)


def _file(path: Path, *, in_folder: bool) -> Iterator[OtlpRequest | Problem]:
    place = str(path)
    limit = _limit()
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= limit else b""
    except OSError as error:
        yield Problem(place, f"cannot be read: {error}")
        return
    if size > limit:
        yield Problem(place, f"{size} bytes are more than {limit}: split the file, or raise {MAX_BYTES_VARIABLE}")
        return
    if data.startswith(_GZIP):
        data, complaint = _gunzip(data, limit)
        if complaint:
            yield Problem(place, complaint)
    if data.startswith(_ZSTD):
        yield Problem(place, "is compressed with zstd: decompress it first (`zstd -d`)")
        return
    text = _as_text(data)
    if text is None:
        yield from _binary(data, place)
    elif text.strip():
        yield from _text(text, data, place, in_folder=in_folder)


def _gunzip(data: bytes, limit: int) -> tuple[bytes, str]:
    """Decompressed bytes, as far as they go, and what went wrong; none where they are more than the limit."""
    out: list[bytes] = []
    total = 0
    stream = zlib.decompressobj(31)
    for start in range(0, len(data), _CHUNK):  # in chunks, or each of a million members would copy all that follows
        chunk = data[start : start + _CHUNK]
        while chunk:
            if stream.eof:
                if not _GZIP.startswith(chunk[:2]):
                    return b"".join(out), ""  # what follows the last member is no gzip
                stream = zlib.decompressobj(31)
            try:
                piece = stream.decompress(chunk, limit + 1 - total)
            except zlib.error as error:
                return b"".join(out), f"gzip is damaged ({error}): read what came before"
            out.append(piece)
            total += len(piece)
            if total > limit:
                advice = f"split the file, or raise {MAX_BYTES_VARIABLE}"
                return b"", f"is more than {limit} bytes when decompressed: {advice}"
            chunk = stream.unconsumed_tail or stream.unused_data
    return b"".join(out), "" if stream.eof else "gzip ends too early: read what is there"


def _as_text(data: bytes) -> str | None:
    """The text of a text file; None for binary data. Text with a few damaged bytes is still text.

    Neither JSON nor prose has raw control characters, while every protobuf request has some at its beginning
    (its first bytes may well be a line feed and a bracket).
    """
    head = data[:4096]
    if not head.strip():
        return ""
    if any(c < 9 or 13 < c < 32 for c in head):
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        return data.decode("utf-8", "replace") if start in {b"{", b"["} else None


def _binary(data: bytes, place: str) -> Iterator[OtlpRequest | Problem]:
    """One protobuf request, or several with a length before each."""
    signal = _signal_of(data)
    if signal is not None:
        yield OtlpRequest(signal, data, json=False, place=place)
        return
    for order in ("big", "little"):
        frames = _frames(data, order)
        if frames and _signal_of(frames[0]) is not None:
            for number, frame in enumerate(frames, 1):
                found = _signal_of(frame)
                where = f"{place}:{number}"
                yield (
                    Problem(where, "frame is no OTLP request")
                    if found is None
                    else OtlpRequest(found, frame, json=False, place=where)
                )
            return
    yield Problem(place, f"{len(data)} bytes are no OTLP request, JSON, Jaeger or Tempo export")


def _frames(data: bytes, order: Literal["big", "little"]) -> list[bytes]:
    """Length-delimited frames (four bytes of length), when they fill the file exactly."""
    frames: list[bytes] = []
    at = 0
    while at + 4 <= len(data):
        length = int.from_bytes(data[at : at + 4], order)
        at += 4
        if length == 0 or at + length > len(data):
            return []
        frames.append(data[at : at + length])
        at += length
    return frames if at == len(data) else []


def _signal_of(data: bytes) -> Signal | None:
    """What a protobuf request carries: both kinds parse as each other, but only one finds its ids."""
    traces = read_message(ExportTraceServiceRequest, data, None)[0]
    if traces is not None and any(s.trace_id for r in traces.resource_spans for sc in r.scope_spans for s in sc.spans):
        return "traces"
    logs = read_message(ExportLogsServiceRequest, data, None)[0]
    if logs is None:
        return None
    records = [g for r in logs.resource_logs for s in r.scope_logs for g in s.log_records]
    if any(g.time_unix_nano or g.observed_time_unix_nano or g.trace_id or g.HasField("body") for g in records):
        return "logs"
    return "traces" if traces is not None and traces.resource_spans else None


def _text(text: str, data: bytes, place: str, *, in_folder: bool) -> Iterator[OtlpRequest | Problem]:
    """A JSON document, or one on each line."""
    whole: Any = parse(text)
    if is_object(whole) or is_list(whole):
        found = list(_documents(whole, place))
        if len(found) == 1 and is_object(whole) and "resourceSpans" in whole and isinstance(found[0], OtlpRequest):
            found = [OtlpRequest(found[0].signal, data, json=True, place=place)]
        if found or in_folder or _is_metrics(whole):
            yield from found
        else:
            yield Problem(place, "is JSON without resourceSpans, resourceLogs, batches or Jaeger data")
        return
    yield from _lines(text, place, in_folder=in_folder)


def _lines(text: str, place: str, *, in_folder: bool) -> Iterator[OtlpRequest | Problem]:
    """JSON lines: a broken one is named and the rest is read."""
    items: list[OtlpRequest | Problem] = []
    good = False
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line:
            continue
        where = f"{place}:{number}"
        value = parse(line)
        if isinstance(value, dict | list):
            found = list(_documents(value, where))
            good = good or bool(found)
            items.extend(found or ([] if _is_metrics(value) else [Problem(where, "is JSON without telemetry")]))
        else:
            items.append(Problem(where, f"is no JSON (starts {line[:40]!r})"))
    if good:
        yield from items
    elif not in_folder or text.lstrip()[:1] in {"{", "["}:
        yield Problem(place, _no_telemetry(text))


def _no_telemetry(text: str) -> str:
    """Why nothing was found: what looks like JSON and breaks off is told apart from other text."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            loads(text)
        except (ValueError, RecursionError) as error:
            return f"is no valid JSON ({error}): is the file whole?"
    return f"holds no OTLP, Jaeger or Tempo JSON (starts {text.lstrip()[:40]!r})"


def _is_metrics(value: Any) -> bool:
    return is_object(value) and ("resourceMetrics" in value or "resource_metrics" in value)


def _documents(value: Any, place: str) -> Iterator[OtlpRequest | Problem]:
    """The requests in one JSON document."""
    if is_list(value):
        for item in value:
            yield from _documents(item, place)
        return
    if not is_object(value):
        return
    if is_jaeger(value):
        yield OtlpRequest("traces", dump(jaeger_to_otlp(value)).encode(), json=True, place=place)
        return
    inner = value.get("trace")
    if is_object(inner):  # Tempo's second interface
        yield from _documents(inner, place)
        return
    for signal, keys in _KEYS:
        held = next((value[k] for k in keys if is_list(value.get(k))), None)
        if held is not None:
            name = "resourceSpans" if signal == "traces" else "resourceLogs"
            yield OtlpRequest(signal, dump({name: held}).encode(), json=True, place=place)


_KEYS: tuple[tuple[Signal, Iterable[str]], ...] = (
    ("traces", ("resourceSpans", "resource_spans", "batches")),
    ("logs", ("resourceLogs", "resource_logs")),
)
