"""Requests are cut and repaired in time and room that their bytes bound, whatever is in them."""

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from evalspan.errors import DecodeError
from evalspan_collector import wire
from evalspan_collector.attributes import read_pairs
from evalspan_collector.intake import read_logs, read_traces
from evalspan_collector.receiver.check import check_logs, check_traces
from evalspan_collector.wire import parts_of, varint, with_valid_strings

#: A varint field that no message of OTLP has, of two bytes.
UNKNOWN = b"\x78\x00"


def field(number: int, body: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def span(number: int, text: int = 0) -> bytes:
    """A span with a text of so many bytes, as a field of its scope."""
    pair = KeyValue(key="k", value=AnyValue(string_value="v" * text)).SerializeToString()
    ids = field(1, number.to_bytes(16, "big")) + field(2, number.to_bytes(8, "big"))
    return field(2, ids + field(5, b"chat") + field(9, pair))


def head(size: int) -> bytes:
    """A resource (or scope) of so many bytes, as a field of its spans."""
    return field(1, field(1, KeyValue(key="a", value=AnyValue(string_value="x" * size)).SerializeToString()))


#: What reads a request: the collector's reader, and the checks while the sender waits.
READERS: tuple[Callable[[bytes], object], ...] = (
    partial(read_traces, project="p", received_ns=1),
    partial(check_traces, json=False),
    partial(check_logs, json=False),
)

#: Scopes of one resource: many small ones; small ones between such as are larger than a part; one that is all.
SCOPES = {
    "many small": [field(2, span(n)) for n in range(1, 401)],
    "small and large": [field(2, span(n, 90_000 if n % 2 else 1)) for n in range(1, 21)],
    "some in each": [field(2, b"".join(span(100 * n + m, 500) for m in range(1, 40))) for n in range(1, 30)],
    "one": [field(2, field(1, field(1, b"scope")) + b"".join(span(n, 100) for n in range(1, 2_000)))],
}


@pytest.mark.parametrize("size", [1, 300, 20_000, 10**7])
@pytest.mark.parametrize("before", [10, 200_000, 2_000_000])
@pytest.mark.parametrize("scopes", SCOPES.values(), ids=SCOPES.keys())
def test_the_parts_of_a_request_are_a_small_multiple_of_it(scopes: list[bytes], before: int, size: int) -> None:
    body = field(1, head(before) + b"".join(scopes)) + field(1, b"".join(scopes[:3]) + head(10))
    parts = [*parts_of(body, size)]
    assert sum(map(len, parts)) < 4 * len(body)
    assert max(map(len, parts)) < 3 * max(size, before) + 200_000
    joined = ExportTraceServiceRequest.FromString(b"".join(parts))
    spans = [(s, r.resource) for r in joined.resource_spans for c in r.scope_spans for s in c.spans]
    whole = ExportTraceServiceRequest.FromString(body)
    assert spans == [(s, r.resource) for r in whole.resource_spans for c in r.scope_spans for s in c.spans]


def test_unknown_fields_in_a_large_request_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scopes = [UNKNOWN + field(2, UNKNOWN + span(n, 200) + UNKNOWN + head(1)) for n in range(1, 50)]
    body = UNKNOWN + field(1, UNKNOWN + b"".join(scopes) + head(5) + UNKNOWN) + field(3, b"more") + UNKNOWN
    whole = read_traces(body, project="p", received_ns=1)
    assert len(whole.spans) == 49
    for size in (1, 300, 5_000):
        monkeypatch.setattr("evalspan_collector.decode._LARGE", size)
        assert read_traces(body, project="p", received_ns=1) == whole
        assert check_traces(body, json=False).accepted == 49


@pytest.mark.parametrize("place", ["request", "resource", "scope"])
@pytest.mark.parametrize("tiny", [UNKNOWN, b"\x7a\x00", b"\x12\x00", b"\x0a\x00"])
@pytest.mark.parametrize("first", [0, 100_000])
def test_fields_too_small_for_spans_are_refused_and_take_no_room(place: str, tiny: bytes, first: int) -> None:
    held = (span(1, first) if first else b"") + tiny * 1_100_000
    body = {"request": held, "resource": field(1, held), "scope": field(1, field(2, held))}[place]
    tracemalloc.start()
    try:
        for read in READERS:
            with pytest.raises(DecodeError, match="too many small fields"):
                read(body)
        assert tracemalloc.get_traced_memory()[1] < 200_000 + 3 * first
    finally:
        tracemalloc.stop()


class Steps:
    """Counts the numbers read from bytes in Python, and ends the test when they are too many."""

    def __init__(self, most: int) -> None:
        self.left = most
        self._read: Callable[..., tuple[int, int]] = wire._read_varint

    def __call__(self, *args: Any) -> tuple[int, int]:
        self.left -= 1
        assert self.left > 0, "too many steps"
        return self._read(*args)


@pytest.mark.parametrize(
    "body",
    [
        bytes(20_000_000),
        UNKNOWN * 900_000 + b"\x0a",
        UNKNOWN * 9_000_000 + b"\x0a",
        field(1, field(2, b"".join(span(n) for n in range(20_000)) + b"\x0b")),
        field(1, field(2, UNKNOWN * 900_000 + span(1)))[:-1],
    ],
    ids=["zeros", "unknown fields", "more of them", "a group", "cut off"],
)
def test_a_body_that_is_no_request_is_refused_without_going_through_it(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(wire, "_read_varint", Steps(10_000))
    for read in READERS:
        with pytest.raises(DecodeError, match="bytes are no Export"):
            read(body)


def test_field_zero_is_no_protobuf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_read_varint", Steps(10))
    with pytest.raises(ValueError, match="field 0"):
        with_valid_strings(bytes(1_000), KeyValue.DESCRIPTOR)


def test_a_value_with_very_many_fields_is_lost_when_its_text_is_no_utf8() -> None:
    good = field(1, b"good") + field(2, field(1, b"yes"))
    for count, text in ((10, "a\ufffdc"), (200_000, "...")):
        bad = field(1, b"bad") + field(2, UNKNOWN * count + field(1, b"a\xffc"))
        assert read_pairs([good, bad]) == ({"good": "yes", "bad": text}, count == 10, int(count > 10))


def test_a_message_without_a_damaged_text_is_the_same_bytes() -> None:
    body = b"\x8a\x00\x01k" + UNKNOWN + field(2, field(1, b"v") + UNKNOWN) + UNKNOWN
    assert with_valid_strings(body, KeyValue.DESCRIPTOR) == body
    assert with_valid_strings(body.replace(b"v", b"\xff"), KeyValue.DESCRIPTOR) == (
        b"\x8a\x00\x01k" + UNKNOWN + field(2, field(1, "\ufffd".encode()) + UNKNOWN) + UNKNOWN
    )


def test_names_that_are_no_utf8_mark_their_span_alone() -> None:
    scope = field(1, field(1, b"sc\xffpe") + field(2, b"1.\xff"))
    bad, fine = span(1, 3).replace(b"chat", b"ch\xfft"), span(2, 3).replace(b"vvv", "\ufffd".encode())
    read = read_traces(field(1, field(2, scope + bad + fine)), project="p", received_ns=1).spans
    assert [(s.name, s.scope_name, s.flags) for s in read] == [
        ("ch\ufffdt", "sc\ufffdpe", ("invalid_utf8",)),
        ("chat", "sc\ufffdpe", ()),
    ]


def test_a_large_request_of_logs_read_in_parts_gives_the_same_records(monkeypatch: pytest.MonkeyPatch) -> None:
    request = ExportLogsServiceRequest()
    for number in range(1, 60):
        logs = request.resource_logs.add() if number % 20 == 1 else request.resource_logs[-1]
        record = logs.scope_logs.add().log_records.add(event_name=f"e{number}", time_unix_nano=number)
        record.trace_id, record.span_id = bytes(15) + b"t", number.to_bytes(8, "big")
        logs.resource.attributes.add(key="service.name").value.string_value = f"s{number}"
    body = request.SerializeToString()
    whole = read_logs(body, project="p", received_ns=1)
    assert len(whole.logs) == 59
    for size in (1, 100, 1_000):
        monkeypatch.setattr("evalspan_collector.decode._LARGE", size)
        assert read_logs(body, project="p", received_ns=1) == whole
        assert check_logs(body, json=False).accepted == 59
