"""Processes: a real store and a real collector on loopback, to be killed, starved and asked."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apparatus.load import Ledger
from apparatus.proxy import FaultProxy
from apparatus.waiting import until
from evalspan_collector.data_dir import DataDir
from evalspan_collector.store.client import Address, Client, connect
from evalspan_collector.store.opening import open_store

__all__ = ["Process", "Stack", "WorkerProcess", "free_port"]

_START_S = 90.0


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


class Process:
    """One `evalspan` command as a child process.

    Args:
        arguments: Of the command line.
        port: Answers `path` with 200 once the process is ready.
        log: Gets its output.
    """

    def __init__(
        self, arguments: list[str], *, port: int, path: str, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._arguments = arguments
        self._port = port
        self._path = path
        self.log = log
        self._env = {**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})}
        self._env.pop("PYTHONDONTWRITEBYTECODE", None)  # every start would compile everything again
        self._child: subprocess.Popen[bytes] | None = None
        self.started_in_s = 0.0

    @property
    def pid(self) -> int:
        """Of the running child."""
        assert self._child is not None
        return self._child.pid

    def spawn(self) -> None:
        """Start without waiting."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "evalspan_dashboard", *self._arguments], stdout=log, stderr=log, env=self._env
            )

    def start(self) -> None:
        """Start and wait until it answers."""
        began = time.monotonic()
        self.spawn()
        self.await_ready()
        self.started_in_s = time.monotonic() - began

    def await_ready(self) -> None:
        """Wait until a child that was spawned answers."""
        until(self._ready, within_s=_START_S, what=f"start of {self._arguments[0]}")

    def _ready(self) -> bool:
        assert self._child is not None
        if self._child.poll() is not None:
            raise AssertionError(f"{self._arguments[0]} ended with {self._child.returncode}: {self.output()[-2000:]}")
        return _answers(self._port, self._path)

    def kill(self) -> None:
        """SIGKILL, and reap."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait(30)

    def terminate(self, within_s: float = 15.0) -> int:
        """SIGTERM; the exit code."""
        assert self._child is not None
        self._child.terminate()
        return self._child.wait(within_s)

    def wait(self, within_s: float) -> int:
        """The exit code of a child that ends by itself."""
        assert self._child is not None
        return self._child.wait(within_s)

    def signal(self, number: signal.Signals) -> None:
        """Send any signal."""
        assert self._child is not None
        self._child.send_signal(number)

    def output(self) -> str:
        """Everything it wrote."""
        return self.log.read_text(errors="replace")

    def resident_bytes(self) -> int:
        """Its resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def threads(self) -> int:
        """How many threads it has."""
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def descriptors(self) -> int:
        """How many files and sockets it has open.

        Without those of /proc: each thread of ClickHouse's pool opens its own three the first time it runs a query.
        """
        found = 0
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                found += not str(link.readlink()).startswith("/proc/")
        return found


class WorkerProcess(Process):
    """A worker: it has no port, its heartbeat tells that it is ready."""

    def __init__(self, data: DataDir, *, store_port: int, log: Path, env: Mapping[str, str] | None = None) -> None:
        arguments = ["worker", "--data", str(data.root), "--store-port", str(store_port)]
        super().__init__(arguments, port=0, path="", log=log, env=env)
        self._heartbeat = data.run / "worker.heartbeat"
        self._spawned = 0.0

    def spawn(self) -> None:
        """Start without waiting."""
        self._spawned = time.time()
        super().spawn()

    def _ready(self) -> bool:
        assert self._child is not None
        if self._child.poll() is not None:
            raise AssertionError(f"the worker ended with {self._child.returncode}: {self.output()[-2000:]}")
        return self._heartbeat.exists() and self._heartbeat.stat().st_mtime >= self._spawned


class Stack:
    """A store and a collector with a fault proxy between them, in one data folder, and a worker when it is started.

    Args:
        folder: Their data.
        env: EVALSPAN_* variables of the collector and the worker.
        collector_data: Another data folder for the collector alone, such as one on a small disk.
    """

    def __init__(
        self, folder: Path, *, env: Mapping[str, str] | None = None, collector_data: Path | None = None
    ) -> None:
        self.folder = folder
        self.data = DataDir(folder / "data")
        if collector_data is not None:  # it looks for the store's token in its own folder
            token = DataDir(collector_data).create().store_token
            token.touch(mode=0o600)
            token.write_text("of-this-test")
            mine = self.data.create().store_token
            mine.touch(mode=0o600)
            mine.write_text("of-this-test")
        store_port = free_port()
        self.proxy = FaultProxy(store_port)
        self.grpc_port, self.http_port, self.metrics_port = free_port(), free_port(), free_port()
        self.store = Process(
            ["store", "--data", str(self.data.root), "--store-port", str(store_port)],
            port=store_port,
            path="/ping",
            log=folder / "store.log",
        )
        self.collector = Process(
            [
                "collector",
                *("--data", str(collector_data or self.data.root), "--store-port", str(self.proxy.port)),
                *("--grpc-port", str(self.grpc_port), "--http-port", str(self.http_port)),
                *("--metrics-port", str(self.metrics_port)),
            ],
            port=self.http_port,
            path="/readyz",
            log=folder / "collector.log",
            env=env,
        )
        self.worker = WorkerProcess(self.data, store_port=self.proxy.port, log=folder / "worker.log", env=env)
        self.url = f"http://127.0.0.1:{store_port}/evalspan"
        self._client: Client | None = None

    def start(self) -> "Stack":
        """Start both, the tables first, as `evalspan up` does."""
        self.start_store()
        self.collector.start()
        return self

    def start_store(self) -> None:
        """Start the store and make its tables."""
        self.store.start()
        open_store(self.url, token=self.token).close()

    def close(self) -> None:
        """End both."""
        self.worker.kill()
        self.collector.kill()
        self.store.kill()
        self.proxy.close()
        if self._client is not None:
            self._client.close()

    @property
    def token(self) -> str:
        """Of the store."""
        return self.data.store_token.read_text().strip()

    @property
    def address(self) -> str:
        """Where the collector takes gRPC."""
        return f"127.0.0.1:{self.grpc_port}"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the store directly, past the proxy."""
        if self._client is None:
            self._client = connect(Address.of(self.url, token=self.token))
        return self._client.rows(sql)

    def number(self, sql: str) -> int:
        """The one number a query gives."""
        return int(self.rows(sql)[0][0] or 0)

    def metric(self, name: str) -> float:
        """Sum of a self-metric of the collector over its labels; 0 while it is away."""
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=5)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        except OSError:
            return 0.0
        finally:
            connection.close()
        return sum(
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.partition(" ")[0].partition("{")[0] == name
        )

    def wait_stored(self, ledger: Ledger, *, within_s: float = 90.0) -> None:
        """Wait until the store has as many spans as were acknowledged."""
        wanted = len(ledger.acknowledged)
        until(
            lambda: self.number("SELECT uniqExact(span_id) FROM spans") >= wanted,
            within_s=within_s,
            what=f"storing {wanted} spans",
        )

    def check(self, ledger: Ledger) -> dict[str, int]:
        """What was acknowledged is stored; nothing is counted twice; tokens are those that were sent.

        Returns:
            The figures: sent, acknowledged, stored, lost, doubled.
        """
        stored = dict(self.rows("SELECT span_id, count() FROM spans FINAL GROUP BY span_id"))
        tokens = dict(self.rows("SELECT span_id, ifNull(sum(input_tokens), 0) FROM spans FINAL GROUP BY span_id"))
        lost = [span_id for span_id in ledger.acknowledged if span_id not in stored]
        doubled = [span_id for span_id, count in stored.items() if count > 1]
        wrong = [span_id for span_id, count in tokens.items() if count != ledger.sent[span_id].input_tokens]
        assert not lost, f"{len(lost)} acknowledged spans are not in the store"
        assert not doubled, f"{len(doubled)} spans are in the store more than once"
        assert not wrong, f"{len(wrong)} spans have other tokens than were sent"
        assert set(stored) <= set(ledger.sent)
        return {
            "sent": len(ledger.sent),
            "acknowledged": len(ledger.acknowledged),
            "stored": len(stored),
            "lost": len(lost),
            "doubled": len(doubled),
        }

    def check_runs(self, ledger: Ledger, *, within_s: float = 100) -> None:
        """Once everything is closed, the runs' tokens are those of the ledger's spans."""
        traces = {span.trace_id for span in ledger.sent.values()}
        wanted = (len(traces), sum(span.input_tokens for span in ledger.sent.values()))
        read = "FROM runs FINAL WHERE state IN ('closed', 'amended')"
        found = (0, 0)

        def whole() -> bool:
            nonlocal found
            ((count, tokens),) = self.rows(f"SELECT uniqExact(trace_id), ifNull(sum(input_tokens), 0) {read}")
            found = (int(count), int(tokens))
            return found == wanted

        try:
            until(whole, within_s=within_s, what=f"runs of {wanted[0]} traces with {wanted[1]} input tokens")
        except AssertionError as error:
            raise AssertionError(f"{error}: {found[0]} traces, {found[1]} tokens") from error
        assert self.number(f"SELECT count() {read}") == len(traces)
