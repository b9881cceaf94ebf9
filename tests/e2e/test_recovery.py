"""Killing any one process under `evalspan up`: it comes back, and the next run is scored."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, start: Callable[..., Any]) -> Any:
    from evalspan_dashboard.demo.runs import config_text

    return start(tmp_path_factory.mktemp("recovery"), config_text())


@pytest.mark.parametrize("service", ["store", "collector", "worker", "dashboard"])
def test_a_killed_process_comes_back_and_the_next_run_is_scored(
    running: Any, service: str, until: Callable[..., Any]
) -> None:
    from evalspan_dashboard.demo.runs import run_demo

    first = until(lambda: running.pid(service), 30, f"{service} process")
    os.kill(first, signal.SIGKILL)
    killed = time.monotonic()

    until(lambda: running.pid(service) not in (first, None), 30, f"a new {service} process")
    until(lambda: _sound(running), 60, "every hop")
    print(f"{service}: every hop answers {time.monotonic() - killed:.1f} s after the kill")

    session = f"after-{service}"
    run_demo(running.endpoint, scenarios=["good refund"], session=session)

    def scored() -> bool:
        runs = [r for r in running.lines("runs", "list") if (r["session_id"] or "").startswith(session)]
        return bool(runs) and bool(running.lines("scores", "list", "--run", runs[0]["run_id"]))

    until(scored, 90, "scoring after the kill")


def _sound(running: Any) -> bool:
    done = subprocess.run(
        [sys.executable, "-m", "evalspan_dashboard", "doctor", "--only", "store,collector,dashboard"],
        env=running.environment,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode == 0


def test_r13_a_store_that_hangs_is_killed_and_started_again(running: Any, until: Callable[..., Any]) -> None:
    first = until(lambda: running.pid("store"), 30, "store process")
    os.kill(first, signal.SIGSTOP)  # alive and answering nobody, as after a fault inside the engine
    hung = time.monotonic()

    until(lambda: running.pid("store") not in (first, None), 60, "a new store process")
    print(f"killed and started again {time.monotonic() - hung:.1f} s after it hung")
    until(lambda: _sound(running), 60, "every hop")


def test_sec_everything_listens_on_loopback_only(running: Any, until: Callable[..., Any]) -> None:
    until(lambda: _sound(running), 60, "every hop")
    pids = [running.process.pid, *(running.pid(name) for name in ("store", "collector", "worker", "dashboard"))]
    listening = {address for pid in pids for address in _listening(pid)}

    assert len(listening) >= 5
    assert {address.partition(":")[0] for address in listening} <= _LOOPBACK


#: 127.0.0.1, ::1, and 127.0.0.1 on a socket of both kinds.
_LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


def _listening(pid: int) -> list[str]:
    """Local addresses of the process's listening sockets, with port, as /proc/net writes them."""
    mine: set[str] = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            mine.add(str(descriptor.readlink()))
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return [line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in mine]


def test_a_second_up_on_the_same_folder_says_who_owns_it(running: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evalspan_dashboard", "up"],
        env={**running.environment, **{k: "0" for k in running.environment if k.endswith("_PORT")}},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert f"pid {running.process.pid}" in done.stderr
    assert "--data" in done.stderr


def test_a_busy_port_names_the_port_and_the_flag(running: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evalspan_dashboard", "up", "--data", str(tmp_path / "other")],
        env=running.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert str(running.ports["store"]) in done.stderr
    assert "--store-port" in done.stderr


def test_random_bytes_to_the_grpc_port_harm_nothing(running: Any) -> None:
    import random
    import socket

    noise = random.Random(5)
    for _ in range(30):
        with socket.create_connection(("127.0.0.1", running.ports["grpc"]), timeout=30) as connection:
            connection.sendall(noise.randbytes(noise.randrange(1, 5000)))

    assert running.lines("doctor", "--only", "store,collector")[-1]["outcome"] == "ok"


def test_sigterm_stops_everything_and_leaves_nothing_behind(
    tmp_path: Path, start: Callable[..., Any], until: Callable[..., Any]
) -> None:
    own = start(tmp_path, extra=("--without-dashboard",))
    pids = [own.pid(name) for name in ("store", "collector", "worker")]
    assert all(pids)

    own.process.send_signal(signal.SIGTERM)

    assert own.process.wait(60) == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
