"""A collector as a process: killed, starved, stopped, cut off; no acknowledged span is lost or counted twice."""

import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from apparatus.load import GrpcClient, HttpClient, Ledger, percentile, send_all
from apparatus.processes import Process, Stack, free_port
from apparatus.waiting import until
from apparatus.workload import SentRequest, Workload

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SEED = 20261130


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path)
    yield made
    made.close()


def load(spans: int, *, seed: int = SEED, per_request: int = 50) -> list[SentRequest]:
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


def kill_under_load(stack: Stack, victims: list[Process], *, kills: int, seed: int) -> Ledger:
    """SIGKILL at random moments while spans come in; what dies is started again."""
    rng = random.Random(seed)
    ledger = Ledger()
    sender = in_background(stack, load(400 * kills + 2000, seed=seed), ledger, rate=400)
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
    stack.wait_stored(ledger)
    figures = stack.check(ledger)
    print(f"seed {seed}: {kills} kills, restarts up to {max(restarts):.1f} s, {ledger.retries} retries, {figures}")
    assert figures["acknowledged"] == figures["sent"] == figures["stored"]
    stack.check_runs(ledger)
    return ledger


def test_kill_9_of_the_collector_loses_and_doubles_nothing(stack: Stack) -> None:
    stack.start()
    kill_under_load(stack, [stack.collector], kills=3, seed=SEED)


def test_kill_9_of_the_store_loses_and_doubles_nothing(stack: Stack) -> None:
    stack.start()
    kill_under_load(stack, [stack.store], kills=3, seed=SEED + 1)


def test_kill_9_of_both_loses_and_doubles_nothing(stack: Stack) -> None:
    stack.start()
    kill_under_load(stack, [stack.collector, stack.store], kills=2, seed=SEED + 2)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("victims", ["collector", "store", "both"])
def test_many_kills_lose_and_double_nothing(stack: Stack, victims: str) -> None:
    stack.start()
    struck = {"collector": [stack.collector], "store": [stack.store], "both": [stack.collector, stack.store]}
    kill_under_load(stack, struck[victims], kills=20, seed=SEED + 3)


def test_acks_do_not_wait_for_a_store_that_is_down_slow_or_stuck(stack: Stack) -> None:
    stack.start_store()
    stack.proxy.faults.refuse = True
    stack.collector.start()  # without a store
    ledgers: list[Ledger] = []
    for round_, state in enumerate(("down", "slow", "stuck")):
        faults = stack.proxy.faults
        faults.refuse, faults.latency_s, faults.stuck = state == "down", 2.0 * (state == "slow"), state == "stuck"
        ledger = Ledger()
        send_all(load(3000, seed=round_), lambda: GrpcClient(stack.address), ledger, spans_per_s=600)
        p99 = percentile(ledger.latencies_s, 0.99)
        print(f"store {state}: p50 {percentile(ledger.latencies_s, 0.5) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
        assert len(ledger.acknowledged) == 3000
        ledgers.append(ledger)
    threads = stack.collector.threads()
    stack.proxy.faults.stuck = False
    stack.proxy.cut()
    whole = Ledger()
    for ledger in ledgers:
        whole.sent.update(ledger.sent)
        whole.acknowledged.update(ledger.acknowledged)
    stack.wait_stored(whole)
    assert stack.check(whole)["stored"] == 9000
    assert stack.collector.threads() <= threads + 4


def test_a_full_spool_refuses_keeps_what_it_acknowledged_and_recovers(tmp_path: Path) -> None:
    stack = Stack(
        tmp_path, env={"EVALSPAN_SPOOL_MAX_BYTES": str(2_000_000), "EVALSPAN_SPOOL_SEGMENT_BYTES": str(500_000)}
    )
    try:
        stack.start_store()
        stack.proxy.faults.refuse = True
        stack.collector.start()
        ledger = Ledger()
        before = stack.collector.resident_bytes()
        thread = in_background(stack, load(8000), ledger, rate=100_000)
        until(lambda: len(ledger.retried_for) > 40, within_s=60)
        assert all("UNAVAILABLE" in reason for reason in ledger.retried_for)
        grown = stack.collector.resident_bytes() - before
        print(f"full spool: {len(ledger.acknowledged)} acknowledged, memory grew by {grown >> 20} MB")
        assert grown < 50 << 20
        stack.proxy.faults.refuse = False
        thread.join()
        stack.wait_stored(ledger)
        assert stack.check(ledger)["stored"] == 8000
    finally:
        stack.close()


def test_sigterm_under_load_answers_drains_and_ends_with_0(stack: Stack) -> None:
    stack.start()
    ledger = Ledger()
    thread = in_background(stack, load(4000), ledger, rate=800)
    until(lambda: len(ledger.acknowledged) > 500)
    began = time.monotonic()
    assert stack.collector.terminate(within_s=15) == 0
    assert time.monotonic() - began < 14
    assert '"spool_empty": true' in stack.collector.output()
    held = set(ledger.acknowledged)
    stored = {row[0] for row in stack.rows("SELECT span_id FROM spans")}
    assert held <= stored
    stack.collector.start()
    thread.join()
    stack.wait_stored(ledger)
    assert stack.check(ledger)["stored"] == 4000


def test_a_second_sigterm_ends_at_once_with_the_spool_intact(stack: Stack) -> None:
    stack.start_store()
    stack.proxy.faults.stuck = True
    stack.collector.start()
    ledger = Ledger()
    send_all(load(500), lambda: GrpcClient(stack.address), ledger)
    stack.collector.signal(signal.SIGTERM)
    time.sleep(0.5)
    began = time.monotonic()
    stack.collector.signal(signal.SIGTERM)
    assert stack.collector.wait(5) == 0
    assert time.monotonic() - began < 2
    stack.proxy.faults.stuck = False
    stack.proxy.cut()
    stack.collector.start()
    stack.wait_stored(ledger)
    assert stack.check(ledger)["stored"] == 500


def test_a_burst_over_many_connections_loses_nothing(stack: Stack) -> None:
    stack.start()
    idle = [grpc.insecure_channel(stack.address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(100)]
    try:
        for channel in idle:
            grpc.channel_ready_future(channel).result(timeout=60)  # pyright: ignore[reportUnknownMemberType]  # stub
        ledger = Ledger()
        send_all(load(8000), lambda: GrpcClient(stack.address, timeout_s=30), ledger, clients=50, deadline_s=200)
    finally:
        for channel in idle:
            channel.close()
    assert len(ledger.acknowledged) == 8000
    stack.wait_stored(ledger)
    assert stack.check(ledger)["stored"] == 8000
    assert stack.collector.resident_bytes() < 400 << 20


def test_connections_that_break_in_the_middle_lose_nothing(stack: Stack) -> None:
    from apparatus.proxy import FaultProxy

    stack.start()
    hop = FaultProxy(stack.grpc_port)
    hop.faults.reset_after = 150_000
    ledger = Ledger()
    try:
        send_all(load(3000), lambda: GrpcClient(f"127.0.0.1:{hop.port}", timeout_s=5), ledger, deadline_s=200)
    finally:
        hop.close()
    assert ledger.retries > 0
    assert len(ledger.acknowledged) == 3000
    stack.wait_stored(ledger)
    assert stack.check(ledger)["stored"] == 3000


def test_http_and_grpc_bring_the_same_spans_once(stack: Stack) -> None:
    stack.start()
    requests = load(600)
    ledger = Ledger()
    send_all(requests, lambda: GrpcClient(stack.address), ledger)
    send_all(requests, lambda: HttpClient(f"http://127.0.0.1:{stack.http_port}/v1/traces"), ledger)
    until(lambda: stack.metric("otelcol_exporter_sent_spans_total") >= 1200, within_s=60)
    assert stack.check(ledger)["stored"] == 600
    stack.check_runs(ledger)
    assert stack.metric("otelcol_receiver_accepted_spans_total") == 1200


def test_a_busy_port_ends_the_start_and_names_port_and_flag(stack: Stack, tmp_path: Path) -> None:
    stack.start()
    second = Process(
        ["collector", "--data", str(tmp_path / "other"), "--grpc-port", str(stack.grpc_port)],
        port=free_port(),
        path="/readyz",
        log=tmp_path / "second.log",
    )
    second.spawn()
    assert second.wait(90) == 2
    assert f"port {stack.grpc_port}" in second.output()
    assert "--grpc-port" in second.output()


def test_a_bind_to_the_world_without_tls_and_keys_is_refused(tmp_path: Path) -> None:
    process = Process(
        ["collector", "--data", str(tmp_path / "data"), "--host", "0.0.0.0"],
        port=free_port(),
        path="/readyz",
        log=tmp_path / "log",
    )
    process.spawn()
    assert process.wait(90) == 2
    assert "--insecure" in process.output()
