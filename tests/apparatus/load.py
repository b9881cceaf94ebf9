"""Load: clients that send until they are answered, and a ledger of what was sent and what was acknowledged."""

import http.client
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import grpc

from apparatus.workload import SentRequest, SentSpan

__all__ = ["TRACES", "Answer", "GrpcClient", "HttpClient", "Ledger", "percentile", "send_all"]

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_RETRYABLE = frozenset({
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """How one attempt ended: taken, to be tried again, or refused for good."""

    taken: bool
    retry: bool
    detail: str = ""


class Client(Protocol):
    """One connection."""

    def send(self, body: bytes) -> Answer: ...
    def close(self) -> None: ...


class GrpcClient:
    """One gRPC channel of its own."""

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = 10.0,
        metadata: Sequence[tuple[str, str]] = (),
        method: str = TRACES,
    ) -> None:
        self._channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_http_proxy", 0),
                ("grpc.max_send_message_length", -1),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 500),
            ],
        )
        self._call: Callable[..., bytes] = self._channel.unary_unary(  # pyright: ignore[reportUnknownMemberType]  # stub
            method, None, None
        )
        self._timeout_s = timeout_s
        self._metadata = tuple(metadata)

    def call(self, body: bytes) -> bytes:
        """The answer's bytes; raises grpc.RpcError."""
        return self._call(body, timeout=self._timeout_s, metadata=self._metadata)

    def send(self, body: bytes) -> Answer:
        """One attempt."""
        try:
            self.call(body)
        except grpc.RpcError as error:
            code = error.code()
            return Answer(taken=False, retry=code in _RETRYABLE, detail=f"{code.name}: {error.details()}")
        return Answer(taken=True, retry=False)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


class HttpClient:
    """One HTTP connection; opened again when it breaks."""

    def __init__(self, url: str, *, timeout_s: float = 10.0, headers: dict[str, str] | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
        self._headers = {"content-type": "application/x-protobuf", **(headers or {})}

    def send(self, body: bytes) -> Answer:
        """One attempt."""
        try:
            self._connection.request("POST", self._path, body, self._headers)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return Answer(taken=False, retry=True, detail=repr(error))
        if response.status == http.HTTPStatus.OK:
            return Answer(taken=True, retry=False)
        return Answer(taken=False, retry=response.status in (429, 502, 503, 504), detail=f"{response.status}: {text!r}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@dataclass(slots=True)
class Ledger:
    """What the senders know, independent of what any collector says.

    Attributes:
        sent: Every span that was in an attempt.
        acknowledged: Spans of requests that were answered OK.
        attempts: Attempts made; `retries` of them were not the first of their request.
        latencies_s: Seconds from the attempt to the answer OK.
        refused: Answers that forbid trying again.
    """

    sent: dict[str, SentSpan] = field(default_factory=dict[str, SentSpan])
    acknowledged: dict[str, SentSpan] = field(default_factory=dict[str, SentSpan])
    attempts: int = 0
    retries: int = 0
    wire_bytes: int = 0
    latencies_s: list[float] = field(default_factory=list[float])
    refused: list[str] = field(default_factory=list[str])
    retried_for: list[str] = field(default_factory=list[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_attempt(self, request: SentRequest, *, again: bool) -> None:
        """Before the bytes leave."""
        with self._lock:
            self.attempts += 1
            self.retries += again
            for span in request.spans:
                self.sent[span.span_id] = span

    def note_answer(self, request: SentRequest, answer: Answer, seconds: float) -> None:
        """After the answer, or its absence."""
        with self._lock:
            if answer.taken:
                self.latencies_s.append(seconds)
                self.wire_bytes += len(request.body)
                for span in request.spans:
                    self.acknowledged[span.span_id] = span
            elif answer.retry:
                self.retried_for.append(answer.detail)
            else:
                self.refused.append(answer.detail)


def send_all(
    requests: Iterable[SentRequest],
    connect: Callable[[], Client],
    ledger: Ledger,
    *,
    clients: int = 4,
    spans_per_s: float | None = None,
    deadline_s: float = 60.0,
    retry_wait_s: float = 0.1,
    stop: threading.Event | None = None,
) -> float:
    """Send every request over `clients` connections, each again until answered OK; returns the seconds it took.

    Args:
        spans_per_s: Offered rate over all clients; None sends as fast as answers come.
        deadline_s: Requests not answered by then are given up.
        stop: Ends the sending early; requests under way are finished.
    """
    source = iter(requests)
    lock = threading.Lock()
    began = time.monotonic()
    offered = 0

    def take() -> SentRequest | None:
        nonlocal offered
        with lock:
            request = next(source, None)
            if request is None:
                return None
            due = began + offered / spans_per_s if spans_per_s else 0.0
            offered += len(request.spans)
        time.sleep(max(0.0, due - time.monotonic()))
        return request

    def work() -> None:
        client = connect()
        try:
            while not (stop and stop.is_set()) and (request := take()) is not None:
                _send_until_taken(client, request, ledger, began + deadline_s, retry_wait_s)
        finally:
            client.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline_s + 30)
    return time.monotonic() - began


def _send_until_taken(
    client: Client, request: SentRequest, ledger: Ledger, deadline: float, retry_wait_s: float
) -> None:
    again = False
    while time.monotonic() < deadline:
        ledger.note_attempt(request, again=again)
        began = time.perf_counter()
        answer = client.send(request.body)
        ledger.note_answer(request, answer, time.perf_counter() - began)
        if answer.taken or not answer.retry:
            return
        again = True
        time.sleep(retry_wait_s)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
