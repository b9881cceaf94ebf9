"""Killing: SIGKILL at random moments while spans come in, and what must be true afterwards."""

import random
import signal
import threading
import time
from collections.abc import Sequence

from apparatus.invariants import check_recomputed, check_scores
from apparatus.load import GrpcClient, Ledger, send_all
from apparatus.processes import Process, Stack
from apparatus.workload import SentRequest, Workload

__all__ = ["SEED", "check_all", "in_background", "kill_all_at_once", "kill_under_load", "load"]

SEED = 20261130


def load(spans: int, *, seed: int = SEED, per_request: int = 50) -> list[SentRequest]:
    """Requests with short contents."""
    return Workload(seed, content=0.2).requests(spans, per_request=per_request)


def in_background(stack: Stack, requests: list[SentRequest], ledger: Ledger, *, rate: float) -> threading.Thread:
    """Four clients that send until answered, at `rate` spans per second."""
    thread = threading.Thread(
        target=send_all,
        args=(requests, lambda: GrpcClient(stack.address, timeout_s=5), ledger),
        kwargs={"clients": 4, "spans_per_s": rate, "deadline_s": 400},
    )
    thread.start()
    return thread


def kill_under_load(
    stack: Stack, victims: list[Process], *, kills: int, seed: int, rate: float = 400, spans: int | None = None
) -> Ledger:
    """SIGKILL some of the victims at random moments while spans come in; what dies is started again."""
    rng = random.Random(seed)
    ledger = Ledger()
    sender = in_background(stack, load(spans or 400 * kills + 2000, seed=seed), ledger, rate=rate)
    restarts: list[float] = []
    for _ in range(kills):
        time.sleep(rng.uniform(0.3, 2.0))
        struck = [victim for victim in victims if rng.random() < 0.7] or victims[:1]
        for victim in struck:
            victim.kill()
        for victim in struck:
            victim.start()
            restarts.append(victim.started_in_s)
    sender.join()
    check_all(
        stack, ledger, f"seed {seed}: {kills} kills, restarts up to {max(restarts):.1f} s", stack.worker in victims
    )
    return ledger


def kill_all_at_once(stack: Stack, *, seed: int) -> None:
    """One random schedule: all three die at the same moment, one to three times, and come back in any order.

    The next blow may fall while they still start. All that is random comes from the seed.
    """
    rng = random.Random(seed)
    ledger = Ledger()
    blows = [rng.uniform(0.1, 3.0) for _ in range(rng.randint(1, 3))]
    rate, spans = rng.choice((200.0, 400.0, 800.0)), rng.randint(600, 1500)
    print(f"schedule {seed}: {spans} spans at {rate:.0f}/s, blows {[f'{blow:.1f}' for blow in blows]} s apart")
    everyone: list[Process] = [stack.store, stack.collector, stack.worker]
    sender = in_background(stack, load(spans, seed=seed), ledger, rate=rate)
    for blow in blows:
        time.sleep(blow)
        _strike(everyone)
        for victim in rng.sample(everyone, len(everyone)):
            time.sleep(rng.uniform(0.0, 0.5))
            victim.spawn()
    began = time.monotonic()
    for victim in everyone:
        victim.await_ready()
    ready_s = time.monotonic() - began
    sender.join()
    check_all(stack, ledger, f"schedule {seed}: {len(blows)} blows, ready after {ready_s:.1f} s", scores=True)


def _strike(victims: Sequence[Process]) -> None:
    """SIGKILL to all before any of them is waited for."""
    for victim in victims:
        victim.signal(signal.SIGKILL)
    for victim in victims:
        victim.kill()


def check_all(stack: Stack, ledger: Ledger, what: str, scores: bool) -> None:
    """All invariants: everything acknowledged is stored once, runs are what the spans give, each is scored once."""
    stack.wait_stored(ledger)
    figures = stack.check(ledger)
    print(f"{what}, {ledger.retries} retries, {figures}")
    assert figures["acknowledged"] == figures["sent"] == figures["stored"]
    stack.check_runs(ledger, within_s=max(100.0, len(ledger.sent) / 100))
    print(f"{check_recomputed(stack)} runs are what their spans give")
    if scores:
        check_scores(stack)
