"""Intake: OTLP bytes, protobuf and JSON, to spans and logs, whatever is wrong with them."""

import base64
import json
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from evalspan.errors import DecodeError
from evalspan_collector.intake import read_logs, read_traces
from evalspan_collector.lenient_json import is_list, is_object
from evalspan_collector.receiver.check import check_logs, check_traces
from evalspan_collector.wire import parts_of

TRACE, SPAN = bytes(range(1, 17)), bytes(range(1, 9))


def request(*spans: Span) -> ExportTraceServiceRequest:
    """A request with these spans in one scope."""
    found = ExportTraceServiceRequest()
    resource = found.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = resource.scope_spans.add()
    scope.scope.name = "demo"
    scope.spans.extend(spans)
    return found


def span(**fields: Any) -> Span:
    """A good span."""
    stated: dict[str, Any] = {
        "trace_id": TRACE,
        "span_id": SPAN,
        "name": "chat m",
        "start_time_unix_nano": 5,
        "end_time_unix_nano": 9,
    }
    stated.update(fields)
    return Span(**stated)


def kv(key: str, **value: Any) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(**value))


def rich() -> ExportTraceServiceRequest:
    """A request that uses every kind of value."""
    nested = KeyValueList(
        values=[kv("a", int_value=1), kv("b", array_value=ArrayValue(values=[AnyValue(bool_value=True), AnyValue()]))]
    )
    found = span(
        parent_span_id=bytes(range(2, 10)),
        kind=Span.SPAN_KIND_CLIENT,
        flags=768,
        status=Status(code=Status.STATUS_CODE_ERROR, message="no"),
        attributes=[
            kv("gen_ai.operation.name", string_value="chat"),
            kv("text", string_value="x"),
            kv("whole", int_value=2**62),
            kv("part", double_value=0.25),
            kv("yes", bool_value=True),
            kv("map", kvlist_value=nested),
            kv("bytes", bytes_value=b"\x00\xff"),
            kv("zero", int_value=0),
        ],
    )
    event = found.events.add(name="note", time_unix_nano=7)
    event.attributes.append(kv("k", string_value="v"))
    link = found.links.add(trace_id=TRACE, span_id=SPAN)
    link.attributes.append(kv("k", string_value="v"))
    return request(found)


def as_json(found: ExportTraceServiceRequest) -> bytes:
    """OTLP JSON as the specification has it: hex ids, lowerCamelCase, 64-bit integers as text."""
    tree = json_format.MessageToDict(found, use_integers_for_enums=True)

    def hexed(node: Any) -> Any:
        if is_object(node):
            return {
                k: base64.b64decode(v).hex() if k in {"traceId", "spanId", "parentSpanId"} else hexed(v)
                for k, v in node.items()
            }
        return [hexed(n) for n in node] if is_list(node) else node

    return json.dumps(hexed(tree)).encode()


def test_protobuf_and_json_give_the_same_spans() -> None:
    found = rich()
    from_protobuf = read_traces(found.SerializeToString(), project="p", received_ns=3)
    from_json = read_traces(as_json(found), project="p", received_ns=3, json=True)
    assert from_protobuf == from_json
    (read,) = from_protobuf.spans
    assert read.attributes == {
        "text": "x",
        "whole": str(2**62),
        "part": "0.25",
        "yes": "true",
        "map": '{"a":1,"b":[true,null]}',
        "bytes": "00ff",
        "zero": "0",
    }
    assert (read.trace_id, read.parent_id, read.status, read.span_flags) == (
        TRACE.hex(),
        bytes(range(2, 10)).hex(),
        "error",
        768,
    )
    assert (read.events[0].attributes, read.links[0].span_id, read.service_name) == ({"k": "v"}, SPAN.hex(), "shop")


def test_json_takes_ids_of_any_case_numbers_as_text_and_unknown_fields() -> None:
    body = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": TRACE.hex().upper(),
                                "spanId": SPAN.hex(),
                                "parentSpanId": "",
                                "name": "x",
                                "kind": "SPAN_KIND_SERVER",
                                "startTimeUnixNano": "5",
                                "endTimeUnixNano": 9,
                                "status": {"code": "STATUS_CODE_ERROR"},
                                "attributes": [
                                    {"key": "n", "value": {"intValue": "7"}},
                                    {"key": "d", "value": {"doubleValue": "NaN"}},
                                ],
                                "fieldOfTomorrow": {"a": 1},
                            }
                        ]
                    }
                ]
            }
        ]
    }
    (read,) = read_traces(json.dumps(body).encode(), project="p", received_ns=1, json=True).spans
    assert (read.trace_id, read.parent_id, read.otel_kind, read.start_ns, read.end_ns, read.status) == (
        TRACE.hex(),
        None,
        2,
        5,
        9,
        "error",
    )
    assert read.attributes == {"n": "7", "d": "nan"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace_id": b""}, "trace id of 0 bytes, 16 needed"),
        ({"trace_id": TRACE[:8]}, "trace id of 8 bytes, 16 needed"),
        ({"trace_id": bytes(16)}, "trace id is all zeros"),
        ({"span_id": TRACE}, "span id of 16 bytes, 8 needed"),
        ({"span_id": bytes(8)}, "span id is all zeros"),
    ],
)
def test_a_span_with_a_bad_id_is_refused_with_its_reason_and_the_rest_is_read(
    fields: dict[str, Any], reason: str
) -> None:
    body = request(span(**fields), span()).SerializeToString()
    read = read_traces(body, project="p", received_ns=1)
    assert (len(read.spans), read.rejected, read.reasons, read.message) == (1, 1, {reason: 1}, f"1 x {reason}")
    assert check_traces(body, json=False) == (1, 1, read.message)


def test_a_parent_of_zeros_is_no_parent() -> None:
    (read,) = read_traces(request(span(parent_span_id=bytes(8))).SerializeToString(), project="p", received_ns=1).spans
    assert read.parent_id is None


def test_the_last_of_equal_keys_wins() -> None:
    (read,) = read_traces(
        request(span(attributes=[kv("a", int_value=1), kv("a", int_value=2)])).SerializeToString(),
        project="p",
        received_ns=1,
    ).spans
    assert read.attributes == {"a": "2"}


def test_a_string_that_is_no_utf8_costs_its_bytes_and_nothing_else() -> None:
    good, bad = span(span_id=SPAN[::-1]), span(attributes=[kv("a", string_value="@@@@")])
    body = request(good, bad).SerializeToString().replace(b"@@@@", b"a\xff\xfeb")
    read = read_traces(body, project="p", received_ns=1)
    assert [s.flags for s in read.spans] == [(), ("invalid_utf8",)]
    assert read.spans[1].attributes == {"a": "a��b"}
    assert check_traces(body, json=False) == (2, 0, "")


def test_nul_and_times_at_the_ends_of_the_range_pass() -> None:
    found = span(name="a\x00b", start_time_unix_nano=2**64 - 1, end_time_unix_nano=0)
    (read,) = read_traces(request(found).SerializeToString(), project="p", received_ns=1).spans
    assert (read.name, read.start_ns, read.end_ns, read.duration_s) == ("a\x00b", 2**63 - 1, 0, 0.0)
    assert "clock_skew" in read.flags


def test_ten_thousand_attributes_are_read() -> None:
    many = [kv(f"llm.input_messages.{i}.message.content", string_value="x") for i in range(10_000)]
    (read,) = read_traces(request(span(attributes=many)).SerializeToString(), project="p", received_ns=1).spans
    assert len(json.loads(read.input_messages or "[]")) == 10_000


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def delimited(field: int, data: bytes) -> bytes:
    """A field of bytes; no protobuf library writes deeper than it would read, so the bytes are made by hand."""
    return bytes([field << 3 | 2]) + varint(len(data)) + data


def deep_pair(levels: int) -> bytes:
    value = delimited(1, b"x")
    for _ in range(levels):
        value = delimited(5, delimited(1, value))  # AnyValue.array_value, ArrayValue.values
    return delimited(1, b"deep") + delimited(2, value)


@pytest.mark.parametrize("place", ["attribute", "event", "link", "resource"])
@pytest.mark.parametrize("levels", [100, 400, 3_000])
def test_a_value_nested_too_deep_costs_itself_and_neither_its_span_nor_the_request(place: str, levels: int) -> None:
    pair = deep_pair(levels)
    spoilt = span(span_id=bytes(range(2, 10)), attributes=[kv("good", int_value=1)]).SerializeToString()
    spoilt += {"attribute": delimited(9, pair), "event": delimited(11, delimited(2, b"e") + delimited(3, pair)),
               "link": delimited(13, delimited(1, TRACE) + delimited(4, pair)), "resource": b""}[place]  # fmt: skip
    spans = delimited(2, span().SerializeToString()) + delimited(2, spoilt)
    resource = delimited(1, delimited(1, pair)) if place == "resource" else b""
    body = delimited(1, resource + delimited(2, spans))
    assert check_traces(body, json=False) == (2, 0, "")
    one, two = read_traces(body, project="p", received_ns=1).spans
    assert "truncated" not in one.flags
    assert two.attributes["good"] == "1"
    if place in {"attribute", "event"}:
        assert "truncated" in two.flags
        assert (two.attributes if place == "attribute" else two.events[0].attributes)["deep"] == "..."


@pytest.mark.parametrize("levels", [101, 400, 5_000])
def test_json_nested_too_deep_costs_itself_and_neither_its_span_nor_the_request(levels: int) -> None:
    deep = '{"arrayValue":{"values":[' * levels + '{"stringValue":"x"}' + "]}}" * levels
    spans = ",".join(
        f'{{"traceId":"{TRACE.hex()}","spanId":"{number:016x}","attributes":[{{"key":"good","value":{{"intValue":"1"}}}}'
        f',{{"key":"a","value":{value}}}]}}'
        for number, value in ((1, '{"stringValue":"]]}\\"[["}'), (2, deep))
    )
    body = f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}'.encode()
    assert check_traces(body, json=True) == (2, 0, "")
    one, two = read_traces(body, project="p", received_ns=1, json=True).spans
    assert (one.flags, one.attributes) == ((), {"good": "1", "a": ']]}"[['})
    assert "truncated" in two.flags
    assert two.attributes["good"] == "1"


def test_values_as_deep_as_protobuf_reads_them_are_read_whole() -> None:
    inner = AnyValue(string_value="x")
    for _ in range(40):
        inner = AnyValue(array_value=ArrayValue(values=[inner]))
    (read,) = read_traces(
        request(span(attributes=[KeyValue(key="a", value=inner)])).SerializeToString(), project="p", received_ns=1
    ).spans
    assert (read.flags, read.attributes["a"]) == ((), "[" * 40 + '"x"' + "]" * 40)


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"not otlp"])
def test_bytes_that_are_no_request_are_named_as_such(body: bytes) -> None:
    with pytest.raises(DecodeError, match="no ExportTraceServiceRequest"):
        read_traces(body, project="p", received_ns=1)


@pytest.mark.parametrize("body", [b"[]", b"", b"{", b"null", b"\xff\xfe"])
def test_json_that_is_no_object_is_named_as_such(body: bytes) -> None:
    with pytest.raises(DecodeError, match="no JSON object"):
        check_traces(body, json=True)


def test_an_empty_request_is_fine() -> None:
    assert read_traces(b"", project="p", received_ns=1).spans == ()
    assert read_logs(b"{}", project="p", received_ns=1, json=True).logs == ()


def logs_request() -> ExportLogsServiceRequest:
    """Two records: one of a span, one of none."""
    found = ExportLogsServiceRequest()
    scope = found.resource_logs.add().scope_logs.add()
    record = scope.log_records.add(trace_id=TRACE, span_id=SPAN, event_name="gen_ai.choice", observed_time_unix_nano=7)
    record.body.kvlist_value.values.append(kv("index", int_value=0))
    scope.log_records.add(time_unix_nano=1).body.string_value = "a line of no span"
    return found


def test_log_records_keep_their_span_their_name_and_their_body() -> None:
    found = logs_request()
    (read,) = read_logs(found.SerializeToString(), project="p", received_ns=3).logs
    assert (read.trace_id, read.span_id, read.event_name, read.time_ns, read.body) == (
        TRACE.hex(),
        SPAN.hex(),
        "gen_ai.choice",
        7,
        '{"index":0}',
    )
    assert check_logs(found.SerializeToString(), json=False) == (2, 0, "")


def test_the_name_of_a_record_may_be_an_attribute() -> None:
    found = logs_request()
    record = found.resource_logs[0].scope_logs[0].log_records[0]
    record.event_name = ""
    record.attributes.append(kv("event.name", string_value="gen_ai.user.message"))
    assert read_logs(found.SerializeToString(), project="p", received_ns=3).logs[0].event_name == "gen_ai.user.message"


MUTATION = st.tuples(st.integers(0, 10_000), st.integers(0, 255), st.sampled_from(["set", "cut", "insert", "drop"]))


def mutated(body: bytes, changes: list[tuple[int, int, str]]) -> bytes:
    """The body with some bytes changed."""
    data = bytearray(body)
    for place, value, how in changes:
        at = place % (len(data) + 1)
        if how == "set" and at < len(data):
            data[at] = value
        elif how == "cut":
            del data[at:]
        elif how == "insert":
            data[at:at] = bytes([value])
        elif how == "drop" and at < len(data):
            del data[at]
    return bytes(data)


@settings(deadline=1_000)
@given(st.lists(MUTATION, max_size=6), st.booleans())
def test_mutated_bytes_are_an_error_or_spans(changes: list[tuple[int, int, str]], json_form: bool) -> None:
    body = mutated(as_json(rich()) if json_form else rich().SerializeToString(), changes)
    try:
        read = read_traces(body, project="p", received_ns=1, json=json_form)
    except DecodeError:
        return
    assert all(len(s.trace_id) == 32 and len(s.span_id) == 16 for s in read.spans)
    assert len(read.spans) + read.rejected <= 20


@settings(deadline=1_000)
@given(st.binary(max_size=300))
def test_any_bytes_are_an_error_or_logs(body: bytes) -> None:
    try:
        read_logs(body, project="p", received_ns=1)
        read_logs(body, project="p", received_ns=1, json=True)
    except DecodeError:
        return


def test_a_large_request_read_in_parts_gives_the_same_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rich()
    second = found.resource_spans.add()
    second.schema_url = "https://example.org/schema"
    for number in range(1, 40):
        second.scope_spans.add().spans.append(span(span_id=number.to_bytes(8, "big"), name=f"s{number}"))
    second.scope_spans[5].scope.name = "five"
    body = found.SerializeToString()
    whole = read_traces(body, project="p", received_ns=1)
    assert len(whole.spans) == 40
    for size in (1, 100, 300, len(body)):
        assert b"".join(parts_of(body, size))
        monkeypatch.setattr("evalspan_collector.decode._LARGE", size)
        assert read_traces(body, project="p", received_ns=1) == whole
    monkeypatch.setattr("evalspan_collector.decode._LARGE", 1)
    with pytest.raises(DecodeError):
        read_traces(body[:-1], project="p", received_ns=1)
