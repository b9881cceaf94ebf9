"""API server: answers the Messages API from a script, deterministically, and remembers what usage it reported."""

import argparse
import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

from evalspan_dashboard.demo.scenarios import Reply, script

__all__ = ["ScriptedApi", "ServedCall", "main"]

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ServedCall:
    """One answered model call, with the usage that was reported for it.

    Attributes:
        input_tokens: Tokens of the input that no cache was involved in, as the API counts them.
    """

    response_id: str
    model: str
    question: str
    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int


class ScriptedApi:
    """A Messages API on a free loopback port. Use as a context manager.

    An answer is chosen by the last question of the user and by how many answers were given to it so far. A
    question outside the script is refused with HTTP 400. `GET /usage` tells what `calls` holds.

    Args:
        answers: Question to answers; by default those of the demo's scenarios.
        port: 0 picks a free one.
        latency_s: Seconds each answer takes.
    """

    def __init__(
        self, answers: Mapping[str, Sequence[Reply]] | None = None, *, port: int = 0, latency_s: float = 0.0
    ) -> None:
        self._answers = script() if answers is None else answers
        self._latency_s = latency_s
        self._lock = threading.Lock()
        self._calls: list[ServedCall] = []
        self._cached: set[str] = set()
        self._server = _Server(port, self)
        self._thread = threading.Thread(target=self._server.serve_forever, name="scripted-api", daemon=True)

    @property
    def url(self) -> str:
        """What to set ANTHROPIC_BASE_URL to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def calls(self) -> tuple[ServedCall, ...]:
        """Every answered call, in order."""
        with self._lock:
            return tuple(self._calls)

    def start(self) -> None:
        """Serve on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The message to a request, None when the script has no answer."""
        question, given = _position(request.get("messages", []))
        replies = self._answers.get(question, ())
        if given >= len(replies):
            return None
        if self._latency_s:
            time.sleep(self._latency_s)
        with self._lock:
            message = self._message(request, replies[given])
            usage = message["usage"]
            kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
            counts = (usage[kind] for kind in kinds)
            self._calls.append(ServedCall(message["id"], message["model"], question, *counts))
        return message

    def _message(self, request: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
        seed = f"{len(self._calls)}:{json.dumps(request, sort_keys=True)}"
        content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
        for number, (name, arguments) in enumerate(reply.calls):
            identity = _identity("toolu_01", f"{seed}:{number}")
            content.append({"type": "tool_use", "id": identity, "name": name, "input": dict(arguments)})
        written, read = self._cache(request)
        fresh = _tokens(request.get("messages")) + (0 if written or read else _tokens(_prefix(request)))
        return {
            "id": _identity("msg_01", seed),
            "type": "message",
            "role": "assistant",
            "model": request.get("model", ""),
            "content": content,
            "stop_reason": "tool_use" if reply.calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": fresh,
                "cache_creation_input_tokens": written,
                "cache_read_input_tokens": read,
                "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
                "output_tokens": _tokens(content),
                "service_tier": "standard",
            },
        }

    def _cache(self, request: Mapping[str, Any]) -> tuple[int, int]:
        """Tokens written to and read from the cache: system prompt and tools, where the caller asked for caching."""
        prefix = _prefix(request)
        if '"cache_control"' not in prefix:
            return 0, 0
        known = prefix in self._cached
        self._cached.add(prefix)
        return (0, _tokens(prefix)) if known else (_tokens(prefix), 0)


def _position(messages: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    """The user's last question, and how many answers it got so far."""
    given = 0
    for message in reversed(messages):
        if message.get("role") == "assistant":
            given += 1
            continue
        text = _text(message.get("content"))
        if text:
            return text, given
    return "", given


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
    return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")


def _prefix(request: Mapping[str, Any]) -> str:
    return json.dumps([request.get("tools"), request.get("system")], sort_keys=True)


def _tokens(value: object) -> int:
    text = value if isinstance(value, str) else json.dumps(value)
    return max(1, -(-len(text.encode()) // _BYTES_PER_TOKEN))


def _identity(prefix: str, seed: str) -> str:
    return prefix + hashlib.sha256(seed.encode()).hexdigest()[:22]


def _events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The message as the events of a stream."""
    start: dict[str, Any] = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**message["usage"], "output_tokens": 1},
    }
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            opened: dict[str, Any] = {"type": "text", "text": ""}
            pieces = [block["text"][at : at + 40] for at in range(0, len(block["text"]), 40)]
            deltas: list[dict[str, str]] = [{"type": "text_delta", "text": piece} for piece in pieces]
        else:
            opened = {**block, "input": dict[str, Any]()}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, api: ScriptedApi) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.api = api


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.partition("?")[0] != "/v1/messages":
            self._refuse(404, "not_found_error", f"there is nothing at {self.path!r}")
            return
        try:
            request: object = json.loads(body)
        except ValueError:
            request = None
        if not isinstance(request, dict):
            self._refuse(400, "invalid_request_error", "the body is no JSON object")
            return
        fields = cast("dict[str, Any]", request)
        message = self._api.answer(fields)
        if message is None:
            self._refuse(400, "invalid_request_error", "the script has no answer to this conversation")
        elif fields.get("stream"):
            lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(message)]
            self._send(200, "".join(lines).encode(), "text/event-stream")
        else:
            self._send(200, json.dumps(message).encode(), "application/json")

    def do_GET(self) -> None:
        if self.path == "/usage":
            self._send(200, json.dumps([asdict(call) for call in self._api.calls]).encode(), "application/json")
        else:
            self._refuse(404, "not_found_error", f"there is nothing at {self.path!r}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature of http.server
        """Say nothing: the terminal belongs to the demo."""

    @property
    def _api(self) -> ScriptedApi:
        return cast("_Server", self.server).api

    def _refuse(self, status: int, kind: str, message: str) -> None:
        error = {"type": "error", "error": {"type": kind, "message": message}}
        self._send(status, json.dumps(error).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("request-id", "req_" + hashlib.sha256(body).hexdigest()[:20])
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve in the foreground: `python -m evalspan_dashboard.demo.api_server --port 8090`."""
    parser = argparse.ArgumentParser(description="A scripted Messages API for the demo's questions.")
    parser.add_argument("--port", type=int, default=8090)
    api = ScriptedApi(port=parser.parse_args().port)
    api.start()
    print(f"export ANTHROPIC_BASE_URL={api.url} ANTHROPIC_API_KEY=demo", flush=True)  # noqa: T201 - for the shell
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        api.stop()


if __name__ == "__main__":
    main()
