"""Files people have, told by content."""

import gzip
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalspan.errors import ConfigError, InputError
from evalspan_collector.formats import MAX_BYTES, OtlpRequest, Problem, read_path, read_requests
from evalspan_collector.intake import Intake

TRACE, SPAN = "0102030405060708090a0b0c0d0e0f10", "0102030405060708"
SPAN_JSON: dict[str, Any] = {
    "traceId": TRACE,
    "spanId": SPAN,
    "name": "chat m",
    "startTimeUnixNano": "1000",
    "endTimeUnixNano": "2000",
    "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
}
TRACES: dict[str, Any] = {
    "resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "demo"}, "spans": [SPAN_JSON]}]}]
}
LOGS: dict[str, Any] = {
    "resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": TRACE, "spanId": SPAN, "eventName": "gen_ai.choice", "timeUnixNano": "5", "body": {"stringValue": "x"}}]}]}]
}  # fmt: skip
JAEGER: dict[str, Any] = {
    "data": [
        {
            "traceID": "a1",
            "spans": [
                {"traceID": "a1", "spanID": "b1", "operationName": "invoke_agent bot", "references": [], "startTime": 10, "duration": 5, "tags": [{"key": "gen_ai.operation.name", "type": "string", "value": "invoke_agent"}, {"key": "n", "type": "int64", "value": 3}], "processID": "p1"},
                {"traceID": "a1", "spanID": "b2", "operationName": "execute_tool t", "references": [{"refType": "CHILD_OF", "traceID": "a1", "spanID": "b1"}], "startTime": 11, "duration": 2, "tags": [{"key": "otel.status_code", "value": "ERROR"}, {"key": "span.kind", "value": "client"}, {"key": "otel.scope.name", "value": "lib"}], "logs": [{"timestamp": 12, "fields": [{"key": "event", "value": "exception"}, {"key": "exception.type", "value": "E"}]}], "processID": "p1"},
            ],
            "processes": {"p1": {"serviceName": "shop", "tags": [{"key": "service.version", "value": "1"}]}},
        }
    ]
}  # fmt: skip


def protobuf_traces() -> bytes:
    found = ExportTraceServiceRequest()
    span = found.resource_spans.add().scope_spans.add().spans.add(name="chat m", start_time_unix_nano=1)
    span.trace_id, span.span_id = bytes.fromhex(TRACE), bytes.fromhex(SPAN)
    return found.SerializeToString()


def protobuf_logs() -> bytes:
    found = ExportLogsServiceRequest()
    record = found.resource_logs.add().scope_logs.add().log_records.add(event_name="gen_ai.choice", time_unix_nano=5)
    record.trace_id, record.span_id = bytes.fromhex(TRACE), bytes.fromhex(SPAN)
    return found.SerializeToString()


def read(path: Path) -> tuple[list[str], int, list[Problem]]:
    """Span names, number of log records, problems."""
    names: list[str] = []
    logs = 0
    problems: list[Problem] = []
    for item in read_path(path):
        if isinstance(item, Intake):
            names.extend(s.name for s in item.spans)
            logs += len(item.logs)
        else:
            problems.append(item)
    return names, logs, problems


@pytest.mark.parametrize(
    ("content", "names", "logs"),
    [
        (protobuf_traces(), ["chat m"], 0),
        (protobuf_logs(), [], 1),
        (json.dumps(TRACES).encode(), ["chat m"], 0),
        (json.dumps({**TRACES, **LOGS}).encode(), ["chat m"], 1),
        (json.dumps(TRACES, indent=2).encode(), ["chat m"], 0),
        (b"\xef\xbb\xbf" + json.dumps(TRACES).encode(), ["chat m"], 0),
        ((json.dumps(TRACES) + "\n" + json.dumps(LOGS) + "\n").encode(), ["chat m"], 1),
        (json.dumps([TRACES, TRACES]).encode(), ["chat m", "chat m"], 0),
        (json.dumps({"batches": TRACES["resourceSpans"]}).encode(), ["chat m"], 0),
        (json.dumps({"trace": TRACES, "status": "complete"}).encode(), ["chat m"], 0),
        (json.dumps(JAEGER).encode(), ["invoke_agent bot", "execute_tool t"], 0),
        (json.dumps(JAEGER["data"][0]).encode(), ["invoke_agent bot", "execute_tool t"], 0),
        (len(protobuf_traces()).to_bytes(4, "big") + protobuf_traces(), ["chat m"], 0),
        ((len(protobuf_traces()).to_bytes(4, "little") + protobuf_traces()) * 2, ["chat m", "chat m"], 0),
        (json.dumps({"resourceMetrics": []}).encode(), [], 0),
        (b"", [], 0),
    ],
)
def test_the_content_tells_the_format_plain_and_gzipped(
    tmp_path: Path, content: bytes, names: list[str], logs: int
) -> None:
    for name, data in (("plain.txt", content), ("zipped.bin", gzip.compress(content))):
        file = tmp_path / name
        file.write_bytes(data)
        assert read(file) == (names, logs, [])


def test_a_protobuf_request_that_starts_like_json_is_protobuf(tmp_path: Path) -> None:
    found = ExportTraceServiceRequest.FromString(protobuf_traces())
    found.resource_spans[0].resource.attributes.add(key="pad").value.string_value = ""
    while (body := found.SerializeToString())[:2] != b"\n[":
        found.resource_spans[0].resource.attributes[0].value.string_value += "x"
    (tmp_path / "traces.binpb").write_bytes(body)
    assert read(tmp_path) == (["chat m"], 0, [])


def test_a_broken_line_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    file.write_text("\n".join([json.dumps(TRACES), '{"resourceSpans": [', "", json.dumps(TRACES)]))
    names, _, problems = read(file)
    assert names == ["chat m", "chat m"]
    assert [p.place for p in problems] == [f"{file}:2"]
    assert "no JSON" in problems[0].message


def test_jaeger_keeps_times_parents_status_and_events(tmp_path: Path) -> None:
    file = tmp_path / "jaeger.json"
    file.write_text(json.dumps(JAEGER))
    (intake,) = (i for i in read_path(file) if isinstance(i, Intake))
    root, tool = sorted(intake.spans, key=lambda s: s.start_ns)
    assert (root.trace_id, root.span_id, root.start_ns, root.end_ns) == (
        "a1".rjust(32, "0"),
        "b1".rjust(16, "0"),
        10_000,
        15_000,
    )
    assert (tool.parent_id, tool.status, tool.otel_kind, tool.scope_name, tool.error_type) == (
        root.span_id,
        "error",
        3,
        "lib",
        "E",
    )
    assert (root.service_name, root.service_version, root.attributes["n"]) == ("shop", "1", "3")


def test_ids_in_base64_as_tempo_writes_them_are_read(tmp_path: Path) -> None:
    span = {**SPAN_JSON, "traceId": "AQIDBAUGBwgJCgsMDQ4PEA==", "spanId": "AQIDBAUGBwg="}
    file = tmp_path / "tempo.json"
    file.write_text(json.dumps({"batches": [{"resource": {}, "instrumentationLibrarySpans": [{"spans": [span]}]}]}))
    (intake,) = (i for i in read_path(file) if isinstance(i, Intake))
    assert (intake.spans[0].trace_id, intake.spans[0].span_id) == (TRACE, SPAN)


def test_a_folder_is_read_in_order_and_what_is_no_telemetry_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(protobuf_logs())
    (tmp_path / "a.json").write_text(json.dumps(TRACES))
    (tmp_path / "truth.json").write_text('{"runs": []}')
    (tmp_path / "README.md").write_text("# Captures\n")
    (tmp_path / ".hidden").write_bytes(b"\xff\x00")
    found = list(read_requests(tmp_path))
    assert [(r.signal, Path(r.place).name) for r in found if isinstance(r, OtlpRequest)] == [
        ("traces", "a.json"),
        ("logs", "b.bin"),
    ]
    assert len(found) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00\x01\x02\xff\xfe", "no OTLP request"),
        (b"hello", "no OTLP, Jaeger or Tempo JSON"),
        (b'{"a": 1}', "without resourceSpans"),
        (b'{"resourceSpans": [{"resource"', "is the file whole?"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    (problem,) = read_requests(file)
    assert isinstance(problem, Problem)
    assert message in problem.message


def test_a_gzip_that_ends_too_early_gives_what_is_there(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({**TRACES, "n": n}) for n in range(2_000))
    file = tmp_path / "cut.gz"
    file.write_bytes(gzip.compress(lines.encode())[:-200])
    names, _, problems = read(file)
    assert names
    assert any("ends too early" in p.message for p in problems)


def test_a_bomb_of_gzip_is_refused_without_unfolding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([packer.compress(bytes(1 << 20)) for _ in range(60)] + [packer.flush()])
    file = tmp_path / "bomb.gz"
    file.write_bytes(bomb)
    assert MAX_BYTES == 256 << 20
    monkeypatch.setenv("EVALSPAN_MAX_FILE_BYTES", "1000000")
    tracemalloc.start()
    (problem,) = read_requests(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(problem, Problem)
    wanted = "more than 1000000 bytes when decompressed: split the file, or raise EVALSPAN_MAX_FILE_BYTES"
    assert wanted in problem.message
    assert peak < 4_000_000
    file.write_bytes(bytes(1_000_001))
    (problem,) = read_requests(file)
    assert "1000001 bytes are more than 1000000" in str(problem)
    monkeypatch.setenv("EVALSPAN_MAX_FILE_BYTES", "a lot")
    with pytest.raises(ConfigError, match="EVALSPAN_MAX_FILE_BYTES is 'a lot'"):
        list(read_requests(file))


def test_many_small_members_of_gzip_are_one_file(tmp_path: Path) -> None:
    text = json.dumps(TRACES)
    file = tmp_path / "many.gz"
    empty = gzip.compress(b"")
    file.write_bytes(b"".join(gzip.compress(c.encode()) for c in text) + empty * 100_000)
    names, _, problems = read(file)
    assert names
    assert not problems


def test_a_path_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        list(read_requests(tmp_path / "nothing"))
