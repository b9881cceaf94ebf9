import base64
import hashlib
import hmac
import http.server
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from evalspan.errors import ConfigError
from evalspan_evaluators.channels import (
    AppriseChannel,
    DeliveryError,
    Notification,
    Resolver,
    WebhookChannel,
    WorstRun,
    check_webhook_url,
    deliver,
    sign,
    verify,
)

NOW_NS = 1_800_000_000_000_000_000
NOTE = Notification(
    event_id="e1",
    project="default",
    alert="grounding-drop",
    state="firing",
    value=0.5,
    threshold=0.8,
    sample=10,
    condition="pass_rate of grounding below 0.8 over 1h",
    reason="pass_rate of grounding below 0.8 over 1h: is 0.5 over 10",
    at_ns=NOW_NS,
    since_ns=NOW_NS,
    metric="grounding",
    worst_runs=(WorstRun(run_id="r1", agent="a", score=0.1, reason="price is 12, tool says 21"),),
)


@dataclass
class Sink:
    """A webhook on loopback that keeps what it gets and answers as told."""

    statuses: list[int] = field(default_factory=list[int])
    bodies: list[bytes] = field(default_factory=list[bytes])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    paths: list[str] = field(default_factory=list[str])
    port: int = 0


@pytest.fixture
def sink() -> Iterator[Sink]:
    kept = Sink()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            kept.headers.append({name.lower(): value for name, value in self.headers.items()})
            kept.paths.append(self.path)
            status = kept.statuses.pop(0) if kept.statuses else 200
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"http://127.0.0.1:{kept.port}/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it so
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield kept
    server.shutdown()
    server.server_close()
    thread.join()


def hook(sink: Sink, **fields: Any) -> WebhookChannel:
    return WebhookChannel(name="ops", url=f"http://127.0.0.1:{sink.port}/hook?team=a", **fields)


def answering(*addresses: str) -> Resolver:
    return lambda host, port: [(socket.AF_INET, address) for address in addresses]


def test_a_webhook_gets_the_documented_payload(sink: Sink) -> None:
    deliver(hook(sink, headers=(("x-team", "a"),)), NOTE, now_ns=NOW_NS)
    assert sink.paths == ["/hook?team=a"]
    assert json.loads(sink.bodies[0]) == {
        "version": 1,
        "event_id": "e1",
        "project": "default",
        "alert": "grounding-drop",
        "state": "firing",
        "metric": "grounding",
        "agent": None,
        "value": 0.5,
        "threshold": 0.8,
        "sample": 10,
        "condition": "pass_rate of grounding below 0.8 over 1h",
        "reason": "pass_rate of grounding below 0.8 over 1h: is 0.5 over 10",
        "at": "2027-01-15T08:00:00.000000Z",
        "since": "2027-01-15T08:00:00.000000Z",
        "worst_runs": [
            {
                "run_id": "r1",
                "agent": "a",
                "started_at": "1970-01-01T00:00:00.000000Z",
                "status": None,
                "score": 0.1,
                "reason": "price is 12, tool says 21",
            }
        ],
    }
    headers = sink.headers[0]
    assert headers["content-type"] == "application/json"
    assert headers["x-team"] == "a"
    assert headers["webhook-id"] == "e1"
    assert "webhook-signature" not in headers


def test_a_signed_webhook_can_be_verified_and_a_changed_or_old_one_cannot(sink: Sink) -> None:
    deliver(hook(sink, secret="s3cret"), NOTE, now_ns=NOW_NS)
    headers, body, now = sink.headers[0], sink.bodies[0], NOW_NS / 1e9
    assert verify("s3cret", headers, body, now_s=now)
    assert verify("s3cret", {**headers, "webhook-signature": "v1,xx " + headers["webhook-signature"]}, body, now_s=now)
    assert not verify("other", headers, body, now_s=now)
    assert not verify("s3cret", headers, body + b" ", now_s=now)
    assert not verify("s3cret", {**headers, "webhook-id": "e2"}, body, now_s=now)
    assert not verify("s3cret", headers, body, now_s=now + 301)
    assert not verify("s3cret", {}, body, now_s=now)


def test_the_signature_is_that_of_the_standard_webhooks_specification() -> None:
    key = b"0123456789abcdef0123456789abcdef"
    secret = "whsec_" + base64.b64encode(key).decode()
    digest = hmac.new(key, b'msg_1.1614265330.{"a": 1}', hashlib.sha256).digest()
    assert sign(secret, "msg_1", 1614265330, b'{"a": 1}') == "v1," + base64.b64encode(digest).decode()


def test_a_server_error_is_tried_again_and_a_refusal_is_not(sink: Sink) -> None:
    sink.statuses = [503, 429, 204]
    deliver(hook(sink), NOTE, now_ns=NOW_NS, pause_s=0.01)
    assert len(sink.bodies) == 3
    assert {headers["webhook-id"] for headers in sink.headers} == {"e1"}
    sink.statuses = [404]
    with pytest.raises(DeliveryError, match="channel 'ops': HTTP 404"):
        deliver(hook(sink), NOTE, now_ns=NOW_NS, pause_s=0.01)
    assert len(sink.bodies) == 4


def test_tries_are_bounded_and_the_url_is_not_in_the_message(sink: Sink) -> None:
    sink.statuses = [500] * 10
    with pytest.raises(DeliveryError) as caught:
        deliver(hook(sink, attempts=2), NOTE, now_ns=NOW_NS, pause_s=0.01)
    assert len(sink.bodies) == 2
    assert str(caught.value) == "channel 'ops': HTTP 500"


def test_a_redirect_is_not_followed(sink: Sink) -> None:
    sink.statuses = [307]
    with pytest.raises(DeliveryError, match="HTTP 307: redirects are not followed"):
        deliver(hook(sink), NOTE, now_ns=NOW_NS, pause_s=0.01)
    assert sink.paths == ["/hook?team=a"]


def test_nobody_listening_is_a_failed_delivery(sink: Sink) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    channel = replace(hook(sink), url=f"http://127.0.0.1:{port}/", attempts=1)
    with pytest.raises(DeliveryError, match="ConnectionRefusedError: no answer from the webhook"):
        deliver(channel, NOTE, now_ns=NOW_NS)


def test_a_server_that_answers_drop_by_drop_is_given_up_in_time() -> None:
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            while not stop.wait(0.05):
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nx-a: 1\r\n"[:1])
                except OSError:
                    return

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    channel = WebhookChannel(
        name="ops", url=f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout_s=0.5, attempts=1
    )
    started = time.monotonic()
    with pytest.raises(DeliveryError, match="no answer from the webhook"):
        deliver(channel, NOTE, now_ns=NOW_NS)
    assert time.monotonic() - started < 30  # the answer never ends
    stop.set()
    thread.join()
    listener.close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.8",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00::1",
        "fec0::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "nonsense",
    ],
)
def test_a_host_that_leads_inside_is_never_called(address: str) -> None:
    channel = WebhookChannel(name="ops", url="https://hooks.example.com/x")
    with pytest.raises(DeliveryError, match=r"inside a private network: set allow_private: true") as caught:
        deliver(channel, NOTE, now_ns=NOW_NS, resolver=answering("93.184.216.34", address))
    assert not caught.value.retry


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "017700000001", "127.1"])
def test_odd_ways_to_write_loopback_are_seen_through(host: str) -> None:
    channel = WebhookChannel(name="ops", url=f"https://{host}/x", attempts=1)
    with pytest.raises(DeliveryError, match=r"inside a private network|cannot resolve"):
        deliver(channel, NOTE, now_ns=NOW_NS)


def test_the_connection_goes_to_the_address_that_was_checked(sink: Sink) -> None:
    """A name that is looked up twice could give another address the second time."""
    answers = ["127.0.0.1", "203.0.113.1"]
    asked: list[str] = []

    def rebinding(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
        asked.append(host)
        return [(socket.AF_INET, answers[len(asked) - 1])]

    channel = WebhookChannel(name="ops", url=f"http://hooks.example.test:{sink.port}/x", allow_private=True)
    deliver(channel, NOTE, now_ns=NOW_NS, resolver=rebinding)
    assert asked == ["hooks.example.test"]
    assert sink.headers[0]["host"] == f"hooks.example.test:{sink.port}"


def test_a_private_host_is_called_only_when_the_channel_allows_it(sink: Sink) -> None:
    url = f"http://hooks.example.test:{sink.port}/x"
    with pytest.raises(DeliveryError, match="is not https"):
        deliver(WebhookChannel(name="ops", url=url), NOTE, now_ns=NOW_NS, resolver=answering("127.0.0.1"))
    deliver(
        WebhookChannel(name="ops", url=url, allow_private=True), NOTE, now_ns=NOW_NS, resolver=answering("127.0.0.1")
    )
    assert len(sink.bodies) == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://example.com/x", "is no URL"),
        ("https:///x", "is no URL"),
        ("https://exa mple.com/", "is no URL"),
        ("https://example.com:99999/", "is no URL"),
        ("https://example.com/\r\nx: y", "is no URL"),
        ("https://user:pw@example.com/", "carries a user name"),
        ("https://127.0.0.1@evil.example/", "carries a user name"),
        ("http://example.com/", "is not https"),
        ("http://10.0.0.1/", "is not https"),
        ("http://localhost.evil.example/", "is not https"),
    ],
)
def test_a_webhook_url_that_may_not_be_used_is_refused_when_the_file_is_read(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check_webhook_url(url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9000/x", "http://[::1]:9000/x", "http://localhost/x", "https://example.com/"]
)
def test_https_and_literal_loopback_are_allowed(url: str) -> None:
    assert check_webhook_url(url).hostname


def test_https_checks_the_name_in_the_certificate(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=hooks.example.test",
         "-addext", "subjectAltName=DNS:hooks.example.test", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    got: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it so
            pass

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        port = server.server_address[1]
        channel = WebhookChannel(
            name="ops",
            url=f"https://hooks.example.test:{port}/x",
            allow_private=True,
            ca_file=str(certificate),
            attempts=1,
        )
        deliver(channel, NOTE, now_ns=NOW_NS, resolver=answering("127.0.0.1"))
        assert len(got) == 1
        with pytest.raises(DeliveryError, match="SSLCertVerificationError"):
            deliver(
                replace(channel, url=f"https://other.example.test:{port}/x"),
                NOTE,
                now_ns=NOW_NS,
                resolver=answering("127.0.0.1"),
            )
        with pytest.raises(DeliveryError, match="SSLCertVerificationError"):
            deliver(replace(channel, ca_file=None), NOTE, now_ns=NOW_NS, resolver=answering("127.0.0.1"))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_text_of_traces_cannot_break_headers_terminals_or_lengths() -> None:
    evil = "x\r\nBcc: all@example.com\x1b[31m\u202e" + "y" * 5000
    note = replace(NOTE, alert=evil, reason=evil, worst_runs=(WorstRun(run_id="r", agent=evil, reason=evil),))
    for text in (note.title, note.to_json()["reason"], note.to_json()["worst_runs"][0]["reason"]):
        assert not set(text) & {"\r", "\n", "\x1b", "\u202e"}
        assert len(text) <= 300
    assert "\r" not in note.body
    assert json.loads(json.dumps(replace(note, value=float("nan")).to_json()))["value"] is None


def test_secrets_are_not_shown(sink: Sink) -> None:
    shown = repr(hook(sink, secret="s3cret", headers=(("authorization", "t0ken"),)))
    assert "s3cret" not in shown
    assert "t0ken" not in shown
    assert "team=a" not in shown


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules apprise imports
def test_apprise_delivers_the_text(sink: Sink) -> None:
    deliver(AppriseChannel(name="chat", url=f"json://127.0.0.1:{sink.port}/chat"), NOTE, now_ns=NOW_NS)
    got = json.loads(sink.bodies[0])
    assert got["title"] == "[FIRING] grounding-drop (default)"
    assert "is 0.5 over 10" in got["message"]
    assert "run r1: price is 12, tool says 21" in got["message"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules apprise imports
def test_apprise_failures_are_failed_deliveries(sink: Sink) -> None:
    sink.statuses = [500] * 9
    with pytest.raises(DeliveryError, match="channel 'chat': apprise could not deliver"):
        deliver(AppriseChannel(name="chat", url=f"json://127.0.0.1:{sink.port}/", attempts=1), NOTE, now_ns=NOW_NS)
    with pytest.raises(DeliveryError, match="apprise does not know this kind of URL"):
        deliver(AppriseChannel(name="chat", url="nonsense-scheme://x"), NOTE, now_ns=NOW_NS)
