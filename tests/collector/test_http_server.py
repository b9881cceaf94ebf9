"""OTLP over HTTP, through real sockets: both encodings, gzip under a cap, and the right status for every refusal."""

import gzip
import http.client
import json
import socket
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from apparatus.receiving import Intake, make_intake
from apparatus.waiting import until
from apparatus.workload import Workload
from google.rpc import status_pb2  # type: ignore[import-untyped]  # ships no stubs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from evalspan.errors import ConfigError
from evalspan_collector.receiver.admission import RefusedError
from evalspan_collector.receiver.http_server import HttpServer, Inflater
from evalspan_collector.spool import Signal

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json; charset=utf-8"}
SPAN = {"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "eee19b7ec3c1b174", "name": "x"}


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


class Served:
    """A server and a way to post to it."""

    def __init__(self, intake: Intake) -> None:
        self.intake = intake
        self.server = HttpServer(intake.acceptance, host="127.0.0.1", port=0)
        self.server.start()

    def post(self, body: bytes, headers: dict[str, str], path: str = "/v1/traces", method: str = "POST") -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            lowered = {key.lower(): value for key, value in response.getheaders()}
            return Reply(response.status, lowered, response.read())
        finally:
            connection.close()

    def close(self) -> None:
        self.server.stop(2)
        self.intake.spool.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(make_intake(tmp_path))
    yield made
    made.close()


def json_request(*spans: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


def test_protobuf_is_kept_and_answered_in_protobuf(served: Served) -> None:
    sent = Workload(1).one()
    reply = served.post(sent.body, PROTOBUF)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/x-protobuf")
    assert not ExportTraceServiceResponse.FromString(reply.body).HasField("partial_success")
    (record,) = served.intake.records()
    assert (record.payload, record.json, record.signal) == (sent.body, False, Signal.TRACES)


def test_json_is_kept_and_answered_in_json(served: Served) -> None:
    body = json_request(SPAN, {**SPAN, "spanId": "00"})
    reply = served.post(body, JSON)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    answer = json.loads(reply.body)
    assert answer["partialSuccess"]["rejectedSpans"] == "1"
    assert "span id" in answer["partialSuccess"]["errorMessage"]
    (record,) = served.intake.records()
    assert (record.payload, record.json) == (body, True)


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])
def test_an_empty_request_is_a_success(served: Served, path: str) -> None:
    assert served.post(b"", PROTOBUF, path).status == 200
    assert served.post(b"{}", JSON, path).body == b"{}"
    assert served.intake.records() == []


def test_gzip_is_inflated_before_it_is_kept(served: Served) -> None:
    sent = Workload(1).one()
    two_members = gzip.compress(sent.body[:100]) + gzip.compress(sent.body[100:])
    for body in (gzip.compress(sent.body), two_members):
        assert served.post(body, {**PROTOBUF, "content-encoding": "gzip"}).status == 200
    assert [record.payload for record in served.intake.records()] == [sent.body, sent.body]


def test_a_bomb_is_refused_without_unfolding(served: Served) -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([packer.compress(bytes(1 << 20)) for _ in range(200)] + [packer.flush()])
    assert len(bomb) < 400_000
    tracemalloc.start()
    reply = served.post(bomb, {**PROTOBUF, "content-encoding": "gzip"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reply.status == 413
    assert "send smaller batches" in status_pb2.Status.FromString(reply.body).message
    assert peak < 30 << 20
    assert served.post(Workload(1).one().body, PROTOBUF).status == 200


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        (b"\xff\xff", PROTOBUF, 400, "ExportTraceServiceRequest"),
        (b"{", JSON, 400, "JSON"),
        (b"[]", JSON, 400, ""),
        (b"x", {}, 415, "content-type must be"),
        (b"x", {"content-type": "text/plain"}, 415, "content-type must be"),
        (b"x", {**PROTOBUF, "content-encoding": "br"}, 415, "'br' is not known"),
        (b"no gzip", {**PROTOBUF, "content-encoding": "gzip"}, 400, "no gzip"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-6], {**PROTOBUF, "content-encoding": "gzip"}, 400, "cut off"),
        (b"x" * (5 << 20), PROTOBUF, 413, "the limit is 4194304"),
    ],
    ids=["garbage", "half JSON", "no object", "no type", "other type", "brotli", "no gzip", "cut gzip", "too large"],
)
def test_a_refusal_has_its_status_and_says_what_to_do(
    served: Served, body: bytes, headers: dict[str, str], status: int, words: str
) -> None:
    reply = served.post(body, headers)
    assert reply.status == status
    assert words in (
        json.loads(reply.body)["message"] if headers == JSON else status_pb2.Status.FromString(reply.body).message
    )
    assert served.intake.records() == []


def test_who_writes_a_body_far_over_the_limit_still_reads_the_answer(tmp_path: Path) -> None:
    served = Served(make_intake(tmp_path, max_request_bytes=4 << 20))
    for size in (7 << 20, (8 << 20) - 1):  # up to twice the limit is read and forgotten
        reply = served.post(bytes(size), PROTOBUF)
        assert reply.status == 413
        message = status_pb2.Status.FromString(reply.body).message
        assert f"has {size} bytes" in message
        assert "EVALSPAN_MAX_REQUEST_BYTES" in message
    piecewise = (bytes(1 << 16) for _ in range(110))  # chunked: no size is announced
    assert served.post(piecewise, PROTOBUF).status == 413  # type: ignore[arg-type]  # http.client takes iterables
    assert served.intake.count("evalspan_receiver_refused_requests_total", transport="http", reason="too_large") == 3
    assert served.post(Workload(1).one().body, PROTOBUF).status == 200
    served.close()


def test_a_body_that_is_announced_as_endless_is_refused_before_it_is_sent(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.server.port), timeout=10) as connection:
        head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"
        connection.sendall((head + "expect: 100-continue\r\ncontent-length: 999999999999\r\n\r\n").encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_full_spool_is_503_with_retry_after(tmp_path: Path) -> None:
    served = Served(make_intake(tmp_path, spool_bytes=1000))
    reply = served.post(Workload(1).one().body, PROTOBUF)
    assert (reply.status, reply.headers["retry-after"]) == (503, "2")
    served.close()


def test_a_project_over_its_bytes_is_429_with_retry_after(tmp_path: Path) -> None:
    served = Served(make_intake(tmp_path, rate_bytes_per_s=1000, clock=lambda: 50.0))
    body = Workload(1).one().body
    assert served.post(body, PROTOBUF).status == 200
    reply = served.post(body, PROTOBUF)
    assert reply.status == 429
    assert int(reply.headers["retry-after"]) >= len(body) // 1000 - 1
    served.close()


def test_a_key_is_asked_for_before_the_body_is_looked_at(tmp_path: Path) -> None:
    key, _ = make_intake(tmp_path / "a").keys.create("shop")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "keys.json").write_bytes((tmp_path / "a" / "keys.json").read_bytes())
    served = Served(make_intake(tmp_path / "b"))
    assert served.post(b"\xff\xff", PROTOBUF).status == 401
    assert served.post(b"\xff\xff", {**PROTOBUF, "x-api-key": "wrong"}).status == 401
    sent = Workload(1).one()
    assert served.post(sent.body, {**PROTOBUF, "authorization": f"bearer {key}"}).status == 200
    assert [record.project for record in served.intake.records()] == ["shop"]
    served.close()


def test_health_and_readiness_follow_the_life_of_the_collector(served: Served) -> None:
    assert served.post(b"", {}, "/healthz", "GET").status == 200
    assert served.post(b"", {}, "/readyz", "GET").status == 200
    served.intake.acceptance.stop()
    assert served.post(b"", {}, "/readyz", "GET").status == 503
    assert served.post(Workload(1).one().body, PROTOBUF).status == 503


def test_other_paths_and_methods_are_refused(served: Served) -> None:
    assert served.post(b"", PROTOBUF, "/v1/profiles").status == 404
    assert served.post(b"", {}, "/v1/traces", "GET").status == 405


def test_a_busy_port_names_the_port_and_the_flag(served: Served) -> None:
    with pytest.raises(ConfigError, match=rf"port {served.server.port} on 127\.0\.0\.1 is taken.*--http-port"):
        HttpServer(served.intake.acceptance, host="127.0.0.1", port=served.server.port)


def test_the_inflater_stops_one_byte_beyond_its_limit() -> None:
    inflater = Inflater(1000)
    assert len(inflater.feed(gzip.compress(bytes(100_000)))) == 1001
    assert inflater.size == 1001


def test_the_inflater_takes_a_stream_byte_by_byte() -> None:
    text = b"the quick brown fox" * 50
    inflater = Inflater(10_000)
    packed = gzip.compress(text) + gzip.compress(b"!")
    assert b"".join(inflater.feed(packed[n : n + 1]) for n in range(len(packed))) == text + b"!"
    inflater.finish()


def test_the_inflater_names_what_is_no_gzip() -> None:
    with pytest.raises(RefusedError, match="no gzip"):
        Inflater(10).feed(b"plain text")


def opened(served: Served, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", served.server.port), timeout=20)
    connection.sendall(sent)
    return connection


def answered(connection: socket.socket, path: str = "/healthz") -> bool:
    """Ask on a connection that stays open; whether the answer came whole and is 200."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"ok\n"):
        piece = connection.recv(4096)
        if not piece:
            return False
        answer += piece
    return answer.startswith(b"HTTP/1.1 200")


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has ended the connection; waits for it."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"POST /v1/tr", b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n"])
def test_a_connection_without_a_whole_head_is_closed(
    served: Served, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalspan_collector.receiver.patience.HEAD_S", 0.3)
    assert is_closed(opened(served, sent))
    assert served.post(Workload(1).one().body, PROTOBUF).status == 200


def test_a_second_head_on_a_kept_connection_is_not_waited_for_either(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalspan_collector.receiver.patience.HEAD_S", 0.5)
    connection = opened(served)
    assert answered(connection)
    time.sleep(0.8)  # longer than a head may take: an idle connection between two requests stays
    assert answered(connection)
    connection.sendall(b"GET /hea")
    assert is_closed(connection)


def test_one_connection_too_many_is_closed_and_the_others_are_served(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalspan_collector.receiver.patience.MOST_CONNECTIONS", 3)
    kept = [opened(served) for _ in range(3)]
    assert all(answered(one) for one in kept)
    assert is_closed(opened(served))
    assert all(answered(one) for one in kept)


def test_a_body_that_does_not_end_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalspan_collector.receiver.http_server._BODY_S", 0.3)
    head = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 100\r\n\r\n"
    connection = opened(served, head + b"half")
    answer = b""
    while piece := connection.recv(4096):
        answer += piece
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1" in answer.lower()


def test_bodies_under_way_are_bounded_together(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalspan_collector.receiver.http_server._READING_FACTOR", 0)
    monkeypatch.setattr("evalspan_collector.receiver.http_server._READING_LEAST", 10_000)
    head = (
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 9000\r\n\r\n"
    )
    waiting = opened(served, head + b"x" * 6_000)
    until(lambda: served.server._app._reading == 6_000)  # what nobody can see from outside
    reply = served.post(b"x" * 9_000, PROTOBUF)
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    waiting.close()
    small = Workload(1, content=0.01).one(1).body
    assert len(small) < 10_000
    until(lambda: served.post(small, PROTOBUF).status == 200)
