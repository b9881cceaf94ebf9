"""Supervisor: keeps the processes of `evalspan up` alive and stops them cleanly.

A process can hang instead of dying (the embedded engine sleeps on after SIGSEGV), so waiting for its end is not
enough: each service has a liveness probe, and one that stops answering is killed and started again.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

__all__ = ["ServiceEvent", "ServiceSpec", "ServiceState", "Supervisor", "watch_parent"]

ServiceState = Literal["starting", "ready", "unresponsive", "backing_off", "failed", "stopped"]

#: Exit code of a process whose configuration cannot be used: starting it again would change nothing.
CONFIG_ERROR_CODE = 2
#: Characters of a failed process's last words that are told.
_LAST_WORDS = 4000

#: Name of the variable by which a child knows the supervisor it must not outlive.
PARENT_VARIABLE = "EVALSPAN_PARENT_PID"
#: Seconds between two looks at the processes.
TICK_S = 0.1
#: A longer time between two looks, such as that between `start` and `run`, counts as silence of no service.
UNWATCHED_S = 1.0
#: Seconds between two probes of a ready service. One that failed is repeated with the next look: a single answer that
#: got lost is not silence.
PROBE_EVERY_S = 1.0
#: A service that was ready is started again at once, the first time; after that, the first pause, which doubles with
#: each failure, up to the cap.
FIRST_BACKOFF_S = 0.3
MAX_BACKOFF_S = 30.0
#: A service that was ready this long has earned a fresh backoff.
STABLE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """One process to keep alive.

    Attributes:
        probe: True when the service answers; must return within its own time limit, may raise.
        hang_s: Seconds without an answer after which a ready service is killed.
        start_s: Seconds it may take to become ready.
        grace_s: Seconds between SIGTERM and SIGKILL.
        reloads: SIGHUP makes it read its configuration again.
    """

    name: str
    command: tuple[str, ...]
    probe: Callable[[], bool]
    log_path: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    hang_s: float = 6.0
    start_s: float = 90.0
    grace_s: float = 12.0
    reloads: bool = False


@dataclass(frozen=True, slots=True)
class ServiceEvent:
    """Something happened to a service."""

    name: str
    state: ServiceState
    detail: str = ""


@dataclass(slots=True)
class _Child:
    spec: ServiceSpec
    process: subprocess.Popen[bytes] | None = None
    log: IO[bytes] | None = None
    log_start: int = 0
    state: ServiceState = "stopped"
    started: float = 0.0
    answered: float = 0.0
    probed: float = 0.0
    restart_at: float = 0.0
    failures: int = 0
    restarts: int = 0
    probing: Future[bool] | None = None
    missed: bool = False


class Supervisor:
    """Starts services in order, watches them, restarts them with backoff, and stops them in reverse.

    Args:
        services: In order of start; each is ready before the next one starts.
        on_event: Told of every change of state.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        services: Sequence[ServiceSpec],
        *,
        on_event: Callable[[ServiceEvent], None] = lambda _event: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._children = [_Child(spec) for spec in services]
        self._on_event = on_event
        self._clock = clock
        self._stopping = threading.Event()
        self._ticked: float | None = None
        self._reloading = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(services)), thread_name_prefix="probe")

    @property
    def states(self) -> dict[str, ServiceState]:
        """Current state of every service by name."""
        return {child.spec.name: child.state for child in self._children}

    @property
    def pids(self) -> dict[str, int | None]:
        """Process id of every service by name; None while it is down."""
        return {child.spec.name: child.process.pid if child.process else None for child in self._children}

    def start(self) -> bool:
        """Start every service and wait until each is ready; False when stopped or one never came up."""
        for child in self._children:
            self._launch(child)
            deadline = self._clock() + child.spec.start_s
            while child.state != "ready":
                if self._stopping.is_set() or child.state == "failed" or self._clock() > deadline:
                    return False
                self._tick()
                self._stopping.wait(TICK_S)
        return True

    def run(self) -> None:
        """Watch until `request_stop`."""
        while not self._stopping.wait(TICK_S):
            if self._reloading.is_set():
                self._reloading.clear()
                self._reload()
            self._tick()

    def request_stop(self) -> None:
        """Ask `start` and `run` to return; safe in a signal handler."""
        self._stopping.set()

    def request_reload(self) -> None:
        """Have the services read their configuration again, and those it stopped start; safe in a signal handler."""
        self._reloading.set()

    def stop(self) -> None:
        """Stop every service, last started first: SIGTERM, then SIGKILL after its grace."""
        self._stopping.set()
        for child in reversed(self._children):
            self._terminate(child)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _launch(self, child: _Child) -> None:
        child.spec.log_path.parent.mkdir(parents=True, exist_ok=True)
        child.log = os.fdopen(os.open(child.spec.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
        child.log_start = child.spec.log_path.stat().st_size
        environment = {**os.environ, **child.spec.environment, PARENT_VARIABLE: str(os.getpid())}
        child.process = subprocess.Popen(  # noqa: S603  our own command line, no shell
            child.spec.command,
            stdin=subprocess.DEVNULL,
            stdout=child.log,
            stderr=subprocess.STDOUT,
            env=environment,
            umask=0o077,  # whatever a service writes is its owner's alone
            start_new_session=True,  # Ctrl-C reaches the supervisor only: it stops the children in order
        )
        now = self._clock()
        child.started = child.answered = now
        child.probed, child.probing, child.missed = 0.0, None, False
        self._set(child, "starting", f"pid {child.process.pid}")

    def _reload(self) -> None:
        for child in self._children:
            if child.state == "failed":
                self._launch(child)
            elif child.spec.reloads and child.process is not None and child.state == "ready":
                child.process.send_signal(signal.SIGHUP)

    def _tick(self) -> None:
        now, before = self._clock(), self._ticked
        self._ticked = now
        if before is not None and now - before > UNWATCHED_S:
            for child in self._children:  # while nobody looked no silence was heard
                child.answered += now - before
        for child in self._children:
            if child.state in ("stopped", "failed"):
                continue
            if child.process is None:
                if self._clock() >= child.restart_at:
                    child.restarts += 1
                    self._launch(child)
                continue
            code = child.process.poll()
            if code == CONFIG_ERROR_CODE:
                self._fail(child)
            elif code is not None:
                said = _written_since(child.spec.log_path, child.log_start).rpartition("\n")[2]
                self._back_off(child, f"ended with {_ending(code)}, see {child.spec.log_path}; it said last: {said}")
            else:
                self._probe(child)

    def _probe(self, child: _Child) -> None:
        now = self._clock()
        if child.probing is not None and child.probing.done():
            answered = child.probing.exception() is None and child.probing.result()
            child.probing, child.missed = None, not answered
            if answered:
                child.answered = now
                if child.state != "ready":
                    self._set(child, "ready", f"after {now - child.started:.1f} s")
                if now - child.started > STABLE_S:
                    child.failures = 0
        pause = PROBE_EVERY_S if child.state == "ready" and not child.missed else TICK_S
        if child.probing is None and now - child.probed >= pause:
            child.probed = now
            child.probing = self._pool.submit(child.spec.probe)
        limit = child.spec.start_s if child.state == "starting" else child.spec.hang_s
        if now - child.answered > limit:
            self._set(child, "unresponsive", f"no answer for {limit:.0f} s: killed")
            self._kill(child)
            self._back_off(child, "was killed")

    def _back_off(self, child: _Child, why: str) -> None:
        at_once = child.failures == 0 and child.state in ("ready", "unresponsive")
        pause = 0.0 if at_once else min(FIRST_BACKOFF_S * 2 ** max(0, child.failures - 1), MAX_BACKOFF_S)
        child.failures += 1
        child.process = None
        child.restart_at = self._clock() + pause
        self._close_log(child)
        self._set(child, "backing_off", f"{why}; starting again in {pause:.1f} s")

    def _fail(self, child: _Child) -> None:
        """It cannot work as it is configured: once told, it stays down."""
        child.process = None
        self._close_log(child)
        said = _written_since(child.spec.log_path, child.log_start)
        self._set(child, "failed", f"not started again, its configuration cannot be used:\n{said}")

    def _terminate(self, child: _Child) -> None:
        process = child.process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(child.spec.grace_s)
            except subprocess.TimeoutExpired:
                self._kill(child)
        child.process = None
        self._close_log(child)
        if child.state != "stopped":
            self._set(child, "stopped")

    def _kill(self, child: _Child) -> None:
        if child.process is None:
            return
        try:
            os.killpg(child.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended between the look and the kill
        child.process.wait()

    def _close_log(self, child: _Child) -> None:
        if child.log is not None:
            child.log.close()
            child.log = None

    def _set(self, child: _Child, state: ServiceState, detail: str = "") -> None:
        child.state = state
        self._on_event(ServiceEvent(child.spec.name, state, detail))


def _written_since(log: Path, start: int) -> str:
    """What a process wrote to its log since it was started, its end where that is much."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            text = file.read().decode(errors="replace").strip()
    except OSError:
        return f"see {log}"
    return text[-_LAST_WORDS:] or f"see {log}"


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def watch_parent(environment: Mapping[str, str] = os.environ) -> None:
    """In a child: end cleanly when the supervisor is gone, so that nothing is left holding ports and the store."""
    expected = environment.get(PARENT_VARIABLE)
    if not expected or os.getppid() != int(expected):
        return

    def watch() -> None:
        while os.getppid() == int(expected):
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()
