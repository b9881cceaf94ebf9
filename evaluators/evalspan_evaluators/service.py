"""Service: the worker process, which scores runs and watches alerts until it is told to stop."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from evalspan.errors import ConfigError, SchemaError, StoreError
from evalspan_collector.prices import Prices
from evalspan_collector.settings import Settings
from evalspan_collector.span import Usage
from evalspan_collector.store.contract import Store
from evalspan_evaluators.alert_loop import AlertLoop
from evalspan_evaluators.channels import Channel
from evalspan_evaluators.config import Config, JudgeSettings, load_config, open_channels
from evalspan_evaluators.judge import Judge
from evalspan_evaluators.judges.pricing import JudgePricer
from evalspan_evaluators.worker import TickReport, Worker, WorkerLimits

__all__ = ["ServiceTiming", "WorkerService", "make_judge", "run_worker"]

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
    """

    poll_s: float = 1.0
    alerts_s: float = 5.0
    first_wait_s: float = 0.5
    last_wait_s: float = 10.0
    heartbeat_s: float = 5.0


class WorkerService:
    """Runs a worker and an alert loop over a store that may go away and come back.

    Args:
        open_store: Connects; called again until the store is there.
        config: Rules, alerts and caps.
        channels: Opened channels by name.
        judge: For judge metrics.
        heartbeat: File whose age tells a supervisor that the process is alive.
        timing: How often things happen.
        clock: Nanoseconds since the epoch.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        config: Config,
        *,
        channels: Mapping[str, Channel] | None = None,
        judge: Judge | None = None,
        heartbeat: Path | None = None,
        timing: ServiceTiming | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._open_store = open_store
        self._config = config
        self._channels = channels or {}
        self._judge = judge
        self._heartbeat = heartbeat
        self._timing = timing or ServiceTiming()
        self._clock = clock
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End after what is being evaluated now; from the loop's own thread."""
        self._stop.set()

    async def run(self, *, once: bool = False) -> None:
        """Work until `stop`; with `once`, until nothing is left to score and the alerts were evaluated.

        Raises:
            SchemaError: The store is of a newer version.
            StoreError: With `once`: the store cannot be reached.
        """
        beat = asyncio.create_task(self._beat())
        try:
            await self._connected(once=once)
        finally:
            beat.cancel()

    async def _connected(self, *, once: bool) -> None:
        store = await self._opened(once=once)
        if store is None:
            return
        try:
            limits = WorkerLimits(concurrency=self._config.judge.concurrency if self._config.judge else 8)
            worker = Worker(store, self._config, judge=self._judge, clock=self._clock, limits=limits)
            alerts = AlertLoop(store, self._config.alerts, self._channels, clock=self._clock)
            try:
                await self._work(worker, alerts, once=once)
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

    async def _work(self, worker: Worker, alerts: AlertLoop, *, once: bool) -> None:
        """Tick; while the store is away the worker keeps what it has not written, and goes on from there."""
        due = 0.0
        failures = 0
        while not self._stop.is_set():
            try:
                report = await worker.tick()
                _tell(report)
                if (once and report.idle) or (not once and time.monotonic() >= due):
                    await worker.with_store(alerts.tick)
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

    async def _away(self, error: StoreError, tries: int) -> None:
        pause = min(self._timing.last_wait_s, self._timing.first_wait_s * 2 ** min(tries - 1, 10))
        _log.warning("store is away", error=str(error), next_try_s=pause)
        await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        """Wait, but not past `stop`."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
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


def make_judge(
    settings: JudgeSettings | None, env: Mapping[str, str] | None = None, *, prices: Prices | None = None
) -> Judge | None:
    """The judge of a configuration; None when none is configured.

    Args:
        settings: The `judge` section.
        env: Environment variables; None takes the process's.
        prices: Prices its calls; None takes the list prices without the user's overrides.

    Raises:
        ConfigError: The variable with its key is named and not set.
        MissingExtraError: Its library is not installed.
    """
    if settings is None:
        return None
    environment = os.environ if env is None else env
    from evalspan_evaluators.judges.anthropic_judge import DEFAULT_MODEL, AnthropicJudge
    from evalspan_evaluators.judges.model_judge import JudgeLimits
    from evalspan_evaluators.judges.openai_judge import OpenAIJudge
    from evalspan_evaluators.judges.pricing import list_price
    from evalspan_evaluators.judges.replay import ReplayJudge

    if settings.provider == "replay":
        if settings.replies is None:
            raise ConfigError("judge.replies is missing: name the file with recorded replies")
        return ReplayJudge.read(settings.replies)
    api_key = None
    if settings.api_key_env is not None:
        api_key = environment.get(settings.api_key_env)
        if not api_key:
            raise ConfigError(f"environment variable {settings.api_key_env!r} of judge.api_key_env is not set: set it")
    limits = JudgeLimits(concurrency=settings.concurrency)
    pricer = list_price if prices is None else _pricer(prices)
    if settings.provider == "anthropic":
        return AnthropicJudge(
            settings.model or DEFAULT_MODEL, api_key=api_key, base_url=settings.base_url, limits=limits, pricer=pricer
        )
    if settings.model is None:
        raise ConfigError("judge.model is missing: name the model of the OpenAI-compatible API")
    return OpenAIJudge(settings.model, api_key=api_key, base_url=settings.base_url, limits=limits, pricer=pricer)


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

    Raises:
        ConfigError: evalspan.yaml is wrong, or a variable it names is not set.
        StoreError: With `once`: the store cannot be reached.
    """
    from evalspan_collector.store.opening import open_store

    config = load_config(settings.config, env)
    prices = Prices(settings.prices or config.prices)
    service = WorkerService(
        partial(open_store, store_url, token=store_token, prices=prices),
        config,
        channels=open_channels(config, env),
        judge=make_judge(config.judge, env, prices=prices),
        heartbeat=settings.data_dir.run / "worker.heartbeat",
        timing=timing,
    )

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, service.stop)
        await service.run(once=once)

    asyncio.run(main())


def _pricer(prices: Prices) -> JudgePricer:
    def price(  # noqa: PLR0917  the order of `JudgePricer`
        provider: str, model: str, input_tokens: int, output_tokens: int, cache_read: int, cache_write: int
    ) -> float | None:
        usage = Usage(input_tokens, output_tokens, cache_read or None, cache_write or None)
        found = prices.cost(provider, model, usage, time.time_ns())
        return None if found is None else found.usd

    return price


def _tell(report: TickReport) -> None:
    if not report.idle:
        _log.info("runs judged", scores=report.scores, **dict(report.outcomes))
