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
from evalspan_collector.intake import check_logs, check_traces, read_logs, read_traces
from evalspan_collector.lenient_json import is_list, is_object

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
    assert check_traces(body) == (1, read.message)


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
    assert check_traces(body) == (0, "")


def test_nul_and_times_at_the_ends_of_the_range_pass() -> None:
    found = span(name="a\x00b", start_time_unix_nano=2**64 - 1, end_time_unix_nano=0)
    (read,) = read_traces(request(found).SerializeToString(), project="p", received_ns=1).spans
    assert (read.name, read.start_ns, read.end_ns, read.duration_s) == ("a\x00b", 2**63 - 1, 0, 0.0)
    assert "clock_skew" in read.flags


def test_ten_thousand_attributes_are_read() -> None:
    many = [kv(f"llm.input_messages.{i}.message.content", string_value="x") for i in range(10_000)]
    (read,) = read_traces(request(span(attributes=many)).SerializeToString(), project="p", received_ns=1).spans
    assert len(json.loads(read.input_messages or "[]")) == 10_000


@pytest.mark.parametrize("json_form", [False, True])
def test_deep_nesting_is_read_or_refused_but_never_a_crash(json_form: bool) -> None:
    if json_form:
        value: Any = {"stringValue": "x"}
        for _ in range(5_000):
            value = {"arrayValue": {"values": [value]}}
        text = '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"%s","attributes":[{"key":"a","value":%s}]}]}]}]}'
        depth = '{"arrayValue":{"values":[' * 5_000 + '{"stringValue":"x"}' + "]}}" * 5_000
        body = (text % (TRACE.hex(), SPAN.hex(), depth)).encode()
    else:
        inner = AnyValue(string_value="x")
        for _ in range(40):
            inner = AnyValue(array_value=ArrayValue(values=[inner]))
        body = request(span(attributes=[KeyValue(key="a", value=inner)])).SerializeToString()
    try:
        read = read_traces(body, project="p", received_ns=1, json=json_form)
    except DecodeError:
        return
    assert len(read.spans) <= 1


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
    assert check_logs(found.SerializeToString()) == (0, "")


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
