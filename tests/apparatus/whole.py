"""A whole evalspan in real processes, on free ports and a folder of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

_NAMES: tuple[str, ...] = ("grpc", "http", "store", "dashboard", "metrics")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@dataclass
class Webhook:
    """A receiver that keeps what it was sent."""

    url: str
    received: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@pytest.fixture(scope="session")
def webhook() -> Iterator[Webhook]:
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(json.loads(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Webhook(f"http://127.0.0.1:{server.server_port}/hook", received)
    server.shutdown()
    server.server_close()


@dataclass
class Evalspan:
    """One `evalspan up` and the command line that talks to it."""

    data: Path
    environment: dict[str, str]
    process: subprocess.Popen[str]
    ports: dict[str, int]
    log: Path

    def run(self, *arguments: str, code: int = 0, timeout: float = 90) -> str:
        """Run a command of evalspan and return its stdout."""
        done = subprocess.run(
            [sys.executable, "-m", "evalspan_dashboard", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """Run a listing with --json and return its objects."""
        return [json.loads(line) for line in self.run(*arguments, "--json").splitlines()]

    def pid(self, service: str) -> int | None:
        """Process id of a supervised service, None while it is down."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "-f", f"evalspan_dashboard {service} |streamlit.*app.py"
             if service == "dashboard" else f"evalspan_dashboard {service} "],
            capture_output=True, text=True, check=False,
        ).stdout.split()  # fmt: skip
        return int(found[0]) if found else None

    @property
    def endpoint(self) -> str:
        """Address for OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self.ports['grpc']}"

    @property
    def dashboard(self) -> str:
        """Address of the screens."""
        return f"http://127.0.0.1:{self.ports['dashboard']}"


def until(condition: Callable[[], Any], seconds: float = 30.0, what: str = "it") -> Any:
    """Poll until the condition gives something true, and return that."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.2)


@pytest.fixture(scope="session", name="until")
def until_fixture() -> Callable[..., Any]:
    return until


def start_evalspan(folder: Path, config: str | None, *, extra: tuple[str, ...] = ()) -> Evalspan:
    """Start `evalspan up` and wait until it says that it is up."""
    ports = dict(zip(_NAMES, _free_ports(len(_NAMES)), strict=True))
    # Without bytecode on the disk every process would compile everything again.
    foreign = ("EVALSPAN_", "OTEL_", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    environment = {
        **kept,
        "EVALSPAN_DATA": str(folder / "data"),
        **{f"EVALSPAN_{name.upper()}_PORT": str(port) for name, port in ports.items()},
    }
    if config is not None:
        (folder / "evalspan.yaml").write_text(config)
        environment["EVALSPAN_CONFIG"] = str(folder / "evalspan.yaml")
    log = folder / "up.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "evalspan_dashboard", "up", *extra],
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
        )
    started = Evalspan(folder / "data", environment, process, ports, log)

    def up() -> bool:
        assert process.poll() is None, log.read_text() + _logs(folder)
        return "evalspan is up" in log.read_text()

    until(up, 90, "evalspan up")
    return started


def stop_evalspan(running: Evalspan) -> None:
    """Ask it to stop, as Ctrl-C does, and see that it does."""
    running.process.send_signal(signal.SIGINT)
    try:
        running.process.wait(60)
    finally:
        running.process.kill()


def _logs(folder: Path) -> str:
    return "".join(f"\n== {p.name}\n{p.read_text()[-3000:]}" for p in sorted((folder / "data" / "logs").glob("*.log")))


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Evalspan]]:
    """Starts further evalspans; stops them at the end of the session."""
    started: list[Evalspan] = []

    def begin(folder: Path, config: str | None = None, *, extra: tuple[str, ...] = ()) -> Evalspan:
        one = start_evalspan(folder, config, extra=extra)
        started.append(one)
        return one

    yield begin
    for one in started:
        if one.process.poll() is None:
            stop_evalspan(one)


@pytest.fixture(scope="session")
def demo_evalspan(
    tmp_path_factory: pytest.TempPathFactory, webhook: Webhook, start: Callable[..., Evalspan]
) -> Evalspan:
    """An evalspan with the demo's rules, its alert sent to the webhook, and the demo's runs in it."""
    from evalspan_dashboard.demo.runs import config_text, run_demo

    running = start(tmp_path_factory.mktemp("demo"), config_text(webhook.url))
    result = run_demo(running.endpoint)
    wanted = len(result.turns)

    def scored() -> bool:
        runs = {s["run_id"] for s in running.lines("scores", "list", "--limit", "1000")}
        return len(runs) >= wanted

    until(scored, 60, "scoring of the demo's runs")
    return running


@pytest.fixture(scope="session")
def scripted_anthropic() -> Callable[..., Any]:
    """A context manager: an Anthropic Messages API on loopback that answers from a script, in order."""
    from contextlib import contextmanager

    @contextmanager
    def serve(script: list[tuple[list[dict[str, Any]], str, dict[str, int]]]) -> Generator[str]:
        left = list(script)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                content, stop, usage = left.pop(0)
                body = json.dumps(
                    {
                        "id": f"msg_{len(script) - len(left):04d}",
                        "type": "message",
                        "role": "assistant",
                        "model": asked["model"],
                        "content": content,
                        "stop_reason": stop,
                        "stop_sequence": None,
                        "usage": usage,
                    }
                ).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()

    return serve
