"""Replay of files with damage: what can be sent is sent, the rest is named; never a traceback."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalspan_dashboard.cli import main
from evalspan_dashboard.replay import replay_paths

GOOD = (
    '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"' + "a1" * 16 + '","spanId":"' + "b2" * 8 + '",'
    '"name":"NAME"}]}]}]}'
)


class Taker:
    """Takes every request and keeps it."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self._guard = threading.Lock()
        library: Any = grpc  # its stubs leave the handlers' types open
        self._server = library.server(ThreadPoolExecutor(1))
        handler = library.unary_unary_rpc_method_handler(self._take)
        service = "opentelemetry.proto.collector.trace.v1.TraceService"
        self._server.add_generic_rpc_handlers((library.method_handlers_generic_handler(service, {"Export": handler}),))
        self.endpoint = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _take(self, body: bytes, _context: object) -> bytes:
        with self._guard:
            self.requests.append(ExportTraceServiceRequest.FromString(body))
        return b""

    def stop(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def taker() -> Iterator[Taker]:
    made = Taker()
    yield made
    made.stop()


def test_a_request_that_cannot_be_sent_is_named_and_its_neighbour_sent(tmp_path: Path, taker: Taker) -> None:
    bad = GOOD.replace('"NAME"', '"x","startTimeUnixNano":"soon"')
    file = tmp_path / "capture.jsonl"
    file.write_text(f"{bad}\n{GOOD}\n")
    total = replay_paths([file], endpoint=taker.endpoint)
    assert (total.requests, total.spans) == (1, 1)
    assert len(total.problems) == 1
    assert "capture.jsonl:1" in total.problems[0]
    assert "cannot be sent" in total.problems[0]


@pytest.mark.parametrize("json", [True, False])
def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path, taker: Taker, json: bool) -> None:
    body = GOOD.encode()
    if not json:
        request = ExportTraceServiceRequest()
        request.resource_spans.add().scope_spans.add().spans.add(
            trace_id=b"\xa1" * 16, span_id=b"\xb2" * 8, name="NAME"
        )
        body = request.SerializeToString()
    file = tmp_path / "capture.bin"
    file.write_bytes(body.replace(b"NAME", b"N\xffM\xfe"))
    total = replay_paths([file], endpoint=taker.endpoint)
    assert total.problems == []
    (sent,) = taker.requests
    span = sent.resource_spans[0].scope_spans[0].spans[0]
    assert (span.trace_id, span.span_id, span.name) == (b"\xa1" * 16, b"\xb2" * 8, "N\ufffdM\ufffd")


def test_json_that_nests_without_end_is_no_crash(tmp_path: Path, taker: Taker) -> None:
    file = tmp_path / "deep.json"
    file.write_text('{"resourceSpans":' + "[" * 50_000 + "]" * 50_000 + "}")
    total = replay_paths([file], endpoint=taker.endpoint)
    assert total.requests == 0


def test_the_command_sends_to_the_port_that_every_other_command_uses(
    tmp_path: Path, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "traces.json"
    file.write_text(GOOD)
    monkeypatch.setenv("EVALSPAN_GRPC_PORT", taker.endpoint.rpartition(":")[2])
    monkeypatch.setattr(sys, "argv", ["evalspan", "replay", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert len(taker.requests) == 1
