"""The supervisor, with real processes."""

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evalspan_dashboard.supervisor import ServiceEvent, ServiceSpec, Supervisor

#: Writes a file again and again, whole each time; SIGUSR1 makes it hang instead (it lives, but does not write).
BEATING = """
import os, pathlib, signal, sys, time
hang = []
signal.signal(signal.SIGUSR1, lambda *_: hang.append(1))
beat, next_beat = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1] + ".next")
while True:
    if not hang: next_beat.write_text(str(time.time())); os.replace(next_beat, beat)
    time.sleep(0.05)
"""


def _beats(path: Path) -> Callable[[], bool]:
    return lambda: time.time() - float(path.read_text()) < 1.0


def _spec(
    tmp_path: Path,
    name: str,
    *,
    script: str = BEATING,
    hang_s: float = 6.0,
    start_s: float = 30.0,
    grace_s: float = 5.0,
) -> ServiceSpec:
    beat = tmp_path / f"{name}.beat"
    return ServiceSpec(
        name=name,
        command=(sys.executable, "-c", script, str(beat)),
        probe=_beats(beat),
        log_path=tmp_path / f"{name}.log",
        hang_s=hang_s,
        start_s=start_s,
        grace_s=grace_s,
    )


def _until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def events() -> list[ServiceEvent]:
    return []


def _running(supervisor: Supervisor) -> threading.Thread:
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    return thread


def test_a_killed_service_comes_back(tmp_path: Path, events: list[ServiceEvent]) -> None:
    supervisor = Supervisor([_spec(tmp_path, "a"), _spec(tmp_path, "b")], on_event=events.append)
    assert supervisor.start()
    thread = _running(supervisor)
    first = supervisor.pids["a"]
    assert first is not None

    os.kill(first, signal.SIGKILL)

    _until(lambda: supervisor.pids["a"] not in (first, None) and supervisor.states["a"] == "ready")
    supervisor.request_stop()
    thread.join()
    supervisor.stop()
    assert any(e.state == "backing_off" and "SIGKILL" in e.detail for e in events)
    assert supervisor.states == {"a": "stopped", "b": "stopped"}


def test_a_service_that_hangs_is_killed_and_started_again(tmp_path: Path, events: list[ServiceEvent]) -> None:
    supervisor = Supervisor([_spec(tmp_path, "a", hang_s=1.5)], on_event=events.append)
    assert supervisor.start()
    thread = _running(supervisor)
    first = supervisor.pids["a"]
    assert first is not None

    os.kill(first, signal.SIGUSR1)

    _until(lambda: supervisor.pids["a"] not in (first, None) and supervisor.states["a"] == "ready")
    supervisor.request_stop()
    thread.join()
    supervisor.stop()
    assert any(e.state == "unresponsive" for e in events)


def test_time_in_which_nobody_watched_is_no_silence_of_a_service(tmp_path: Path, events: list[ServiceEvent]) -> None:
    skipped, probes = [0.0], [0]
    spec = _spec(tmp_path, "a", hang_s=30.0)

    def probe() -> bool:
        probes[0] += 1
        return spec.probe()

    supervisor = Supervisor(
        [replace(spec, probe=probe)], on_event=events.append, clock=lambda: time.monotonic() + skipped[0]
    )
    assert supervisor.start()
    first = supervisor.pids["a"]
    skipped[0] = 60.0  # a demo plays between `start` and `run`: twice as long as a service may be silent
    already = probes[0]
    thread = _running(supervisor)

    _until(lambda: probes[0] >= already + 3)
    supervisor.request_stop()
    thread.join()
    assert supervisor.pids["a"] == first
    supervisor.stop()

    assert [e.state for e in events] == ["starting", "ready", "stopped"]


def test_one_lost_answer_is_no_silence_of_a_service(tmp_path: Path, events: list[ServiceEvent]) -> None:
    probes, readings = itertools.count(1), itertools.count()

    def probe() -> bool:
        if next(probes) == 2:
            raise ConnectionResetError
        return True

    # A clock that each reading moves on: how busy the machine is does not matter.
    spec = replace(_spec(tmp_path, "a", hang_s=1.8), probe=probe)
    supervisor = Supervisor([spec], on_event=events.append, clock=lambda: next(readings) * 0.02)
    assert supervisor.start()
    thread = _running(supervisor)

    _until(lambda: next(readings) * 0.02 > 6.0)
    supervisor.request_stop()
    thread.join()
    supervisor.stop()

    assert next(probes) > 4
    assert [e.state for e in events] == ["starting", "ready", "stopped"]


def test_one_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + BEATING
    supervisor = Supervisor([_spec(tmp_path, "a", script=stubborn, grace_s=0.5)])
    assert supervisor.start()
    pid = supervisor.pids["a"]
    assert pid is not None

    supervisor.stop()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_service_that_never_comes_up_is_reported(tmp_path: Path, events: list[ServiceEvent]) -> None:
    spec = _spec(tmp_path, "a", script="raise SystemExit(7)", start_s=1.5)
    supervisor = Supervisor([spec], on_event=events.append)

    assert not supervisor.start()

    supervisor.stop()
    assert any("exit code 7" in e.detail and "a.log" in e.detail for e in events)


#: Ends with 2 and a message while its file says so, else beats; SIGHUP is noted.
CONFIGURED = """
import pathlib, signal, sys
beat = pathlib.Path(sys.argv[1])
if beat.with_name("broken").exists():
    print("evalspan.yaml:3: rules[0].sample: 7 is not between 0 and 1"); sys.exit(2)
signal.signal(signal.SIGHUP, lambda *_: beat.with_name("reloaded").touch())
"""


def test_a_configuration_error_is_told_once_and_ends_the_restarts_until_a_reload(
    tmp_path: Path, events: list[ServiceEvent]
) -> None:
    spec = replace(_spec(tmp_path, "a", script=CONFIGURED + BEATING), reloads=True)
    supervisor = Supervisor([spec, _spec(tmp_path, "b")], on_event=events.append)
    assert supervisor.start()
    thread = _running(supervisor)
    first = supervisor.pids["a"]
    assert first is not None
    (tmp_path / "broken").touch()
    os.kill(first, signal.SIGKILL)
    _until(lambda: supervisor.states["a"] == "failed")
    time.sleep(1.0)  # longer than the first pauses between restarts
    told = [event for event in events if event.state == "failed"]
    assert len(told) == 1
    assert "evalspan.yaml:3: rules[0].sample: 7 is not between 0 and 1" in told[0].detail
    assert supervisor.states == {"a": "failed", "b": "ready"}
    (tmp_path / "broken").unlink()
    supervisor.request_reload()
    _until(lambda: supervisor.states["a"] == "ready")
    supervisor.request_reload()
    _until((tmp_path / "reloaded").exists)
    supervisor.request_stop()
    thread.join()
    supervisor.stop()


def test_a_start_with_a_configuration_error_ends_at_once(tmp_path: Path, events: list[ServiceEvent]) -> None:
    supervisor = Supervisor([_spec(tmp_path, "a", script="raise SystemExit(2)")], on_event=events.append)
    began = time.monotonic()
    assert not supervisor.start()
    supervisor.stop()
    assert time.monotonic() - began < 15
    assert [event.state for event in events] == ["starting", "failed", "stopped"]


def test_what_a_service_writes_is_its_owners_alone(tmp_path: Path) -> None:
    supervisor = Supervisor([_spec(tmp_path, "writer")])
    try:
        assert supervisor.start()
    finally:
        supervisor.stop()
    assert {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {
        "writer.beat": 0,
        "writer.log": 0,
    }
