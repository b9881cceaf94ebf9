"""Service: the worker process, which scores runs and watches alerts until it is told to stop."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import structlog

from evalspan.errors import SchemaError, StoreError
from evalspan_collector.prices import Prices
from evalspan_collector.settings import Settings
from evalspan_collector.store.contract import Store
from evalspan_evaluators.alert_loop import AlertLoop
from evalspan_evaluators.channels import Channel
from evalspan_evaluators.config import Config, load_config, open_channels
from evalspan_evaluators.config_watch import ConfigWatch
from evalspan_evaluators.judge import Judge
from evalspan_evaluators.judges.opening import make_judge
from evalspan_evaluators.retention import RetentionLoop, dropper_of
from evalspan_evaluators.worker import TickReport, Worker, WorkerLimits
from evalspan_evaluators.worker_status import WorkerStatus, status_path, write_status

__all__ = ["ServiceTiming", "WorkerService", "WorkerSetup", "read_setup", "run_worker"]

_log = structlog.get_logger(__name__)
#: Tries of a tick with `once` before a script is told that the store is away.
_ONCE_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTiming:
    """How often things happen, seconds.

    Attributes:
        poll_s: Between looking for runs when there were none.
        alerts_s: Between evaluations of the alerts.
        first_wait_s: Before the first try to reach a store that is away; doubles up to `last_wait_s`.
        heartbeat_s: Between touches of the heartbeat file.
        config_s: Between looks at evalspan.yaml.
        finish_s: For the evaluations under way to end by themselves once the worker is told to stop.
        give_back_s: After that, for giving back the runs whose evaluation was broken off.
    """

    poll_s: float = 1.0
    alerts_s: float = 5.0
    first_wait_s: float = 0.5
    last_wait_s: float = 10.0
    heartbeat_s: float = 5.0
    config_s: float = 1.0
    finish_s: float = 5.0
    give_back_s: float = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """Everything the worker makes from evalspan.yaml.

    Attributes:
        channels: Opened channels by name.
        judge: For judge metrics.
    """

    config: Config
    channels: Mapping[str, Channel] = field(default_factory=dict[str, Channel])
    judge: Judge | None = None

    @property
    def limits(self) -> WorkerLimits:
        """Bounds of a worker with this configuration."""
        return WorkerLimits(concurrency=self.config.judge.concurrency if self.config.judge else 8)


class WorkerService:
    """Runs a worker and an alert loop over a store that may go away and come back.

    Args:
        open_store: Connects; called again until the store is there.
        setup: Rules, alerts, caps, channels and judge to start with.
        watch: Gives the next setup when evalspan.yaml changes; None never.
        heartbeat: File whose age tells a supervisor that the process is alive.
        status: File where the worker says which configuration it uses.
        timing: How often things happen.
        clock: Nanoseconds since the epoch.

    Attributes:
        left_behind: True when the service ended with something still running that did not end in time.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        setup: WorkerSetup,
        *,
        watch: ConfigWatch[WorkerSetup] | None = None,
        heartbeat: Path | None = None,
        status: Path | None = None,
        timing: ServiceTiming | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._open_store = open_store
        self._setup = setup
        self._watch = watch
        self._heartbeat = heartbeat
        self._status_path = status
        self._timing = timing or ServiceTiming()
        self._clock = clock
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._worker: Worker | None = None
        self._looked_at_config = 0.0
        self._status = WorkerStatus(config=_name_of(setup.config), config_read_ns=clock())
        self.left_behind = False

    def stop(self) -> None:
        """End soon: what is being evaluated may finish for a while, then it is given back; from the loop's thread."""
        self._stop.set()
        self._wake.set()

    def reload(self) -> None:
        """Read evalspan.yaml and what it names again, changed or not; from the loop's thread."""
        if self._watch is not None:
            self._watch.ask()
            self._looked_at_config = 0.0
            self._wake.set()

    async def run(self, *, once: bool = False) -> None:
        """Work until `stop`; with `once`, until nothing is left to score and the alerts were evaluated.

        Raises:
            SchemaError: The store is of a newer version.
            StoreError: With `once`: the store cannot be reached.
        """
        beat = asyncio.create_task(self._beat())
        told = asyncio.create_task(self._stop.wait())
        work = asyncio.create_task(self._connected(once=once))
        try:
            self._say(self._status)
            await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await self._wind_down(work)
            if work.done():
                work.result()
        finally:
            beat.cancel()
            told.cancel()
            work.cancel()

    async def _wind_down(self, work: "asyncio.Task[None]") -> None:
        """Let the evaluations under way end, then break them off, then leave whatever does not end."""
        if self._worker is not None:
            self._worker.stop()
        await asyncio.wait({work}, timeout=self._timing.finish_s)
        if work.done():
            return
        if self._worker is not None:
            _log.warning("evaluations broken off, their runs are scored after the next start")
            self._worker.abandon()
        await asyncio.wait({work}, timeout=self._timing.give_back_s)
        if not work.done():
            self.left_behind = True
            _log.warning("the store or a channel did not answer in time, what was on its way is repeated")

    async def _connected(self, *, once: bool) -> None:
        store = await self._opened(once=once)
        if store is None:
            return
        try:
            setup = self._setup
            worker = Worker(store, setup.config, judge=setup.judge, clock=self._clock, limits=setup.limits)
            self._worker = worker
            alerts = AlertLoop(
                store, setup.config.alerts, setup.channels, clock=self._clock, stopping=self._stop.is_set
            )
            drop = dropper_of(store)
            retention = RetentionLoop(drop, setup.config.retention, clock=self._clock) if drop else None
            try:
                await self._work(worker, alerts, None if once else retention, once=once)
            finally:
                worker.close()
        finally:
            await asyncio.to_thread(store.close)

    async def _opened(self, *, once: bool) -> Store | None:
        """The store, waiting longer each time until it is there; None when stopped before."""
        tries = 0
        while not self._stop.is_set():
            try:
                return await asyncio.to_thread(self._open_store)
            except SchemaError:
                raise
            except StoreError as error:
                if once:
                    raise
                tries += 1
                await self._away(error, tries)
        return None

    async def _work(self, worker: Worker, alerts: AlertLoop, retention: RetentionLoop | None, *, once: bool) -> None:
        """Tick; while the store is away the worker keeps what it has not written, and goes on from there."""
        due = 0.0
        failures = 0
        while not self._stop.is_set():
            try:
                await self._follow_config(worker, alerts, retention)
                report = await (worker.tick() if once else worker.tick_if_news())
                _tell(report)
                if (once and report.idle) or (not once and time.monotonic() >= due and not self._stop.is_set()):
                    await worker.with_store(alerts.tick)
                    await self._drop_old(worker, retention)
                    due = time.monotonic() + self._timing.alerts_s
            except StoreError as error:
                failures += 1
                if once and failures >= _ONCE_TRIES:
                    raise
                await self._away(error, failures)
                continue
            failures = 0
            if report.idle:
                if once:
                    return
                await self._sleep(self._timing.poll_s)

    async def _drop_old(self, worker: Worker, retention: RetentionLoop | None) -> None:
        if retention is None or not retention.is_due():
            return
        dropped = await worker.with_store(retention.tick)
        self._say(replace(self._status, retention_ns=self._clock(), retention_dropped=len(dropped)))

    async def _follow_config(self, worker: Worker, alerts: AlertLoop, retention: RetentionLoop | None) -> None:
        """Take over a changed evalspan.yaml, between two ticks."""
        if self._watch is None or time.monotonic() - self._looked_at_config < self._timing.config_s:
            return
        self._looked_at_config = time.monotonic()
        setup = await asyncio.to_thread(self._watch.poll)
        if setup is None:
            if self._watch.error != self._status.config_error:
                self._say(replace(self._status, config_error=self._watch.error))
            return
        try:
            await worker.configure(setup.config, setup.judge, setup.limits)
        except StoreError:
            self._watch.ask()  # once more when the store is back
            raise
        alerts.configure(setup.config.alerts, setup.channels)
        if retention is not None:
            retention.configure(setup.config.retention)
        restart = tuple(dict.fromkeys((*self._status.restart_for, *_needs_restart(self._setup.config, setup.config))))
        self._setup = setup
        name, config = _name_of(setup.config), setup.config
        _log.info(
            "evalspan.yaml applied",
            path=name,
            rules=len(config.rules),
            alerts=len(config.alerts),
            channels=len(config.channels),
        )
        if restart:
            _log.warning("parts of evalspan.yaml take effect only after a restart", parts=list(restart))
        self._say(
            replace(
                self._status,
                config=name,
                config_read_ns=self._clock(),
                config_error=None,
                restart_for=restart,
            )
        )

    def _say(self, status: WorkerStatus) -> None:
        self._status = status
        if self._status_path is None:
            return
        try:
            write_status(self._status_path, status)
        except OSError as error:
            _log.warning("no status file", path=str(self._status_path), error=str(error))

    async def _away(self, error: StoreError, tries: int) -> None:
        pause = min(self._timing.last_wait_s, self._timing.first_wait_s * 2 ** min(tries - 1, 10))
        _log.warning("store is away", error=str(error), next_try_s=pause)
        await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        """Wait, but not past `stop` or `reload`."""
        if not self._stop.is_set():
            self._wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _beat(self) -> None:
        """Says that the loop turns; a worker that hangs falls silent."""
        while self._heartbeat is not None:
            try:
                self._heartbeat.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._heartbeat.touch(mode=0o600)
            except OSError as error:
                _log.warning("no heartbeat", path=str(self._heartbeat), error=str(error))
            await asyncio.sleep(self._timing.heartbeat_s)


def read_setup(settings: Settings, env: Mapping[str, str] | None = None) -> tuple[WorkerSetup, Prices]:
    """Everything the worker needs from evalspan.yaml, and the prices.

    Raises:
        ConfigError: The file is wrong, or something it names is missing; one line per mistake.
    """
    config = load_config(settings.config, env, complete=True)
    prices = Prices(settings.prices or config.prices)
    judge = make_judge(config.judge, env, prices=prices)
    return WorkerSetup(config=config, channels=open_channels(config, env), judge=judge), prices


def run_worker(
    settings: Settings,
    *,
    store_url: str,
    store_token: str | None = None,
    once: bool = False,
    env: Mapping[str, str] | None = None,
    timing: ServiceTiming | None = None,
) -> None:
    """Run the worker process until SIGTERM or SIGINT; with `once`, until nothing is left to score.

    SIGHUP reads evalspan.yaml again; a change of the file does so too.

    Raises:
        ConfigError: evalspan.yaml is wrong, or a variable it names is not set.
        StoreError: With `once`: the store cannot be reached.
    """
    from evalspan_collector.store.opening import open_store

    setup, prices = read_setup(settings, env)
    service = WorkerService(
        partial(open_store, store_url, token=store_token, prices=prices),
        setup,
        watch=ConfigWatch(settings.config, lambda: read_setup(settings, env)[0], env=env),
        heartbeat=settings.data_dir.run / "worker.heartbeat",
        status=status_path(settings.data_dir.run),
        timing=timing,
    )

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, service.stop)
        loop.add_signal_handler(signal.SIGHUP, service.reload)
        await service.run(once=once)
        if service.left_behind:
            # A thread that waits for a store or a metric would keep the process; what it has done is repeated.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    asyncio.run(main())


def _name_of(config: Config) -> str | None:
    return None if config.path is None else str(config.path)


def _needs_restart(old: Config, new: Config) -> tuple[str, ...]:
    """Parts of the file that other processes, or the connection to the store, were started with."""
    parts = {
        "settings": dict(old.settings) != dict(new.settings),
        "project": old.project != new.project,
        "prices": old.prices != new.prices,
    }
    return tuple(name for name, changed in parts.items() if changed)


def _tell(report: TickReport) -> None:
    if not report.idle:
        _log.info("runs judged", scores=report.scores, **dict(report.outcomes))
