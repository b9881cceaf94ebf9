"""The worker process: it ends in time, gives back what it cannot finish, follows evalspan.yaml, drops old data."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from apparatus.waiting import until

from evalspan.errors import StoreError
from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run
from evalspan_collector.span import Span
from evalspan_collector.store.admin import DroppedPartition
from evalspan_collector.store.contract import ScoreQuery
from evalspan_collector.store.memory import MemoryStore
from evalspan_evaluators.case import Case
from evalspan_evaluators.config import Config, Retention, load_config
from evalspan_evaluators.config_watch import ConfigWatch
from evalspan_evaluators.judge import Judge, JudgeReply, JudgeRequest
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.retention import RetentionLoop, dropper_of
from evalspan_evaluators.rule import Rule
from evalspan_evaluators.score import JudgeUsage, Score
from evalspan_evaluators.service import ServiceTiming, WorkerService, WorkerSetup
from evalspan_evaluators.worker_status import WorkerStatus, read_status

if TYPE_CHECKING:
    from evalspan_collector.store.clickhouse import ClickHouseStore

S = 1_000_000_000
DAY = 86_400 * S
START = 1_790_000_000 * S


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(MetricBase):
    """Asks the judge one question."""

    name: ClassVar[str] = "asked"

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        reply = await judge.ask(JudgeRequest(purpose="asked/score", instructions="x", data={"o": "?"}, schema={}))
        return self.score(float(reply.verdict["score"]), "")


class Gate:
    """A judge that answers once it is opened."""

    def __init__(self, *, opened: bool = False) -> None:
        self.asked = 0
        self.open = asyncio.Event()
        if opened:
            self.open.set()

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.asked += 1
        await self.open.wait()
        return JudgeReply(verdict={"score": 1.0}, usage=JudgeUsage(model="m"))


class Runs(MemoryStore):
    """Runs that are given whole."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.content = {
            name: Run(
                run_id=name, trace_id=f"t{name}", output="o", started_ns=START, state="closed", last_received_ns=START
            )
            for name in names
        }
        self.write_runs(list(self.content.values()), token="runs")

    def run(self, project: str | None, run_id: str) -> Run | None:
        return self.content.get(run_id)

    def runs_content(self, summaries: Sequence[RunSummary]) -> list[Run]:
        return [self.content[summary.run_id] for summary in summaries if summary.run_id in self.content]

    def close(self) -> None:
        """Stay readable."""

    def settled(self) -> dict[str, str]:
        return {o.run_id: o.outcome for o in sorted(self.outcomes("default", rule="r"), key=lambda o: o.created_ns)}


def timing(**seconds: float) -> ServiceTiming:
    usual = {"poll_s": 0.02, "alerts_s": 0.02, "first_wait_s": 0.02, "config_s": 0.02, "heartbeat_s": 1.0}
    return ServiceTiming(**{**usual, "finish_s": 0.2, "give_back_s": 2.0, **seconds})


def setup(judge: Judge | None = None) -> WorkerSetup:
    return WorkerSetup(config=Config(rules=(Rule(name="r", metrics=(Asked(),)),)), judge=judge)


async def soon(condition: Callable[[], object], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "nothing came of it"
        await asyncio.sleep(0.01)


async def test_what_finishes_in_time_after_a_stop_is_written_once() -> None:
    store, judge = Runs("a", "b"), Gate()
    service = WorkerService(lambda: store, setup(judge), timing=timing(finish_s=20))
    running = asyncio.create_task(service.run())
    await soon(lambda: judge.asked == 2)
    service.stop()
    judge.open.set()
    await asyncio.wait_for(running, 10)
    assert store.settled() == {"a": "scored", "b": "scored"}
    assert len(store.scores(ScoreQuery(project="default"))) == 2
    assert not service.left_behind


async def test_what_does_not_finish_is_given_back_and_scored_once_after_the_next_start() -> None:
    store, stuck = Runs(*(f"run{i}" for i in range(12))), Gate()
    for _ in range(7):  # more often than a run may fail
        service = WorkerService(lambda: store, setup(stuck), timing=timing())
        running = asyncio.create_task(service.run())
        asked = stuck.asked
        await soon(lambda asked=asked: stuck.asked == asked + 8)  # type: ignore[misc]  # its concurrency; bound now
        service.stop()
        await asyncio.wait_for(running, 10)
        assert set(store.settled().values()) == {"waiting"}
        assert not service.left_behind
    judge = Gate(opened=True)
    await WorkerService(lambda: store, setup(judge), timing=timing()).run(once=True)
    assert set(store.settled().values()) == {"scored"}
    assert len(store.scores(ScoreQuery(project="default"))) == judge.asked == 12
    assert {o.attempt for o in store.outcomes("default", rule="r")} == {1}


async def test_a_store_that_does_not_answer_cannot_hold_the_end() -> None:
    asked, answer = threading.Event(), threading.Event()

    class Stuck(Runs):
        def unjudged_runs(self, *_: Any, **__: Any) -> list[RunSummary]:
            asked.set()
            answer.wait(60)
            return []

    service = WorkerService(Stuck, setup(), timing=timing(give_back_s=0.1))
    running = asyncio.create_task(service.run())
    try:
        await soon(asked.is_set)
        service.stop()
        await asyncio.wait_for(running, 20)
        assert service.left_behind
    finally:
        answer.set()


# evalspan.yaml

FIRST = "rules: [{name: one, metrics: [loops]}]"
SECOND = "rules: [{name: two, metrics: [loops]}]\nretention: {spans_days: 3}\n"
BROKEN = "rules: [{name: two, metrics: [lops]}]\n"


def rewrite(path: Path, text: str) -> None:
    """As an editor does it: a new file in place of the old."""
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.replace(path)


async def test_a_changed_file_is_taken_over_and_a_wrong_one_leaves_the_old_rules(tmp_path: Path) -> None:
    path, status = tmp_path / "evalspan.yaml", tmp_path / "run" / "worker.json"
    path.write_text(FIRST)

    def read() -> WorkerSetup:
        return WorkerSetup(config=load_config(path, {}))

    def said() -> WorkerStatus:
        return read_status(status) or WorkerStatus()

    store = Runs("a")
    service = WorkerService(lambda: store, read(), watch=ConfigWatch(path, read), status=status, timing=timing())
    running = asyncio.create_task(service.run())
    await soon(lambda: store.outcomes("default", rule="one"))

    rewrite(path, BROKEN)
    await soon(lambda: said().config_error)
    assert "evalspan.yaml:1: rules[0].metrics[0]: unknown metric 'lops': did you mean 'loops'?" in str(
        said().config_error
    )
    store.write_runs([Run(run_id="b", trace_id="tb", started_ns=START, state="closed")], token="b")
    store.content["b"] = store.content["a"]
    await soon(lambda: len(store.outcomes("default", rule="one")) == 2)

    rewrite(path, SECOND)
    await soon(lambda: len(store.outcomes("default", rule="two")) == 2)
    await soon(lambda: said().config_error is None)

    path.unlink()
    await soon(lambda: "is gone" in str(said().config_error))
    service.stop()
    await asyncio.wait_for(running, 10)


def test_a_file_that_is_being_written_is_read_once_it_rests(tmp_path: Path) -> None:
    path = tmp_path / "evalspan.yaml"
    path.write_text("a")
    watch = ConfigWatch(path, path.read_text)
    assert watch.poll() is None
    path.write_text("ab")
    assert watch.poll() is None  # just changed: perhaps only half of it is there
    assert watch.poll() == "ab"
    assert watch.poll() is None
    watch.ask()
    assert watch.poll() == "ab"


def test_a_file_that_appears_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    watch = ConfigWatch(None, lambda: "read", env={})
    assert watch.poll() is None
    (tmp_path / "evalspan.yaml").write_text(FIRST)
    watch.poll()
    assert watch.poll() == "read"


PROCESS = """
import sys
from pathlib import Path
from evalspan_collector.run import Run
from evalspan_collector.settings import load_settings
from evalspan_collector.store import opening
from evalspan_collector.store.memory import MemoryStore
from evalspan_evaluators.service import ServiceTiming, run_worker

run = Run(run_id="a", trace_id="ta", input="q", output="o", started_ns=1_790_000_000 * 10**9, state="closed")

class Store(MemoryStore):
    def run(self, project, run_id):
        return run
    def runs_content(self, summaries):
        return [run for _ in summaries]
    def write_outcomes(self, outcomes, **more):
        super().write_outcomes(outcomes, **more)
        for outcome in outcomes:
            (data / f"{outcome.rule}.judged").touch()
    def close(self):
        print([(o.rule, o.outcome, o.attempt) for o in self.outcomes("default") if o.rule != "received"], flush=True)

store = Store()
store.write_runs([run], token="t")
opening.open_store = lambda *_, **__: store
data = Path(sys.argv[1])
run_worker(load_settings({"data": data, "config": data / "evalspan.yaml"}), store_url="memory://", timing=ServiceTiming(finish_s=1.0, config_s=0.1))
"""


@pytest.mark.e2e
def test_the_process_reloads_on_sighup_and_ends_within_ten_seconds_of_sigterm_while_a_judge_hangs(
    tmp_path: Path,
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))  # takes connections and never answers
    config = (
        "judge: {provider: openai, model: m, max_usd_per_day: null,"
        f' base_url: "http://127.0.0.1:{listener.getsockname()[1]}/v1"}}\n'
        "rules: [{name: r, metrics: [{correctness: {criteria: it is right}}]}]\n"
    )
    (tmp_path / "evalspan.yaml").write_text(config)
    status = tmp_path / "run" / "worker.json"
    environment = {**os.environ, "OPENAI_API_KEY": "k", "NO_PROXY": "127.0.0.1"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        listener.settimeout(60)
        connection, _ = listener.accept()  # the judge is being asked
        read_ns = json.loads(status.read_text())["config_read_ns"]
        # Between two ticks only: the one under way waits for the judge.
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        output, _ = process.communicate(timeout=60)
        assert ServiceTiming().finish_s + ServiceTiming().give_back_s < 9
        assert time.monotonic() - began < 20  # ten seconds, and what a machine shared with other tests adds
        assert process.returncode == 0
        assert "('r', 'waiting', 0)" in output
        assert json.loads(status.read_text())["config_read_ns"] == read_ns
        connection.close()
    finally:
        listener.close()
        process.kill()
        process.wait()


@pytest.mark.e2e
def test_sighup_reads_the_file_again(tmp_path: Path) -> None:
    path, status = tmp_path / "evalspan.yaml", tmp_path / "run" / "worker.json"
    path.write_text(FIRST)
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        until(status.exists, within_s=60)
        before = json.loads(status.read_text())["config_read_ns"]
        process.send_signal(signal.SIGHUP)
        until(lambda: json.loads(status.read_text())["config_read_ns"] > before, within_s=60)
        until((tmp_path / "one.judged").exists, within_s=60)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        assert "evalspan.yaml applied" in output
        assert "('one', " in output
    finally:
        process.kill()
        process.wait()


# retention


def test_old_data_is_dropped_once_a_day_and_at_once_when_the_limits_change() -> None:
    now = [START]
    asked: list[tuple[Retention, int]] = []

    def drop(retention: Retention, now_ns: int) -> Sequence[DroppedPartition]:
        asked.append((retention, now_ns))
        return (DroppedPartition("spans", "p", 20260101, 5, 100),)

    loop = RetentionLoop(drop, Retention(spans_days=30), clock=lambda: now[0])
    assert [len(loop.tick()) for _ in range(3)] == [1, 0, 0]
    now[0] += DAY
    assert len(loop.tick()) == 1
    loop.configure(Retention(spans_days=30))
    assert len(loop.tick()) == 0
    loop.configure(Retention(spans_days=7))
    assert len(loop.tick()) == 1
    assert [(r.spans_days, at) for r, at in asked] == [(30, START), (30, START + DAY), (7, START + DAY)]


def test_a_store_that_refuses_is_asked_again_tomorrow() -> None:
    now = [START]
    tries: list[int] = []

    def drop(_retention: Retention, now_ns: int) -> Sequence[DroppedPartition]:
        tries.append(now_ns)
        raise StoreError("no right to drop")

    loop = RetentionLoop(drop, Retention(), clock=lambda: now[0])
    assert [len(loop.tick()) for _ in range(3)] == [0, 0, 0]
    now[0] += DAY
    loop.tick()
    assert tries == [START, START + DAY]


def test_partitions_go_by_the_limits_of_their_project_and_no_wrong_clock_drops_more(store: "ClickHouseStore") -> None:
    real = time.time_ns()
    spans = [
        Span(trace_id=f"{project}{age:031}", span_id="b" * 16, name="n", start_ns=at, end_ns=at, received_ns=at, project=f"p{project}")
        for project in "12"
        for age in (0, 8, 40)
        for at in [real - age * DAY]
    ]  # fmt: skip
    store.insert_spans(spans, token="t")
    drop = dropper_of(store)
    assert drop is not None
    assert dropper_of(MemoryStore()) is None
    limits = Retention(spans_days=30, projects={"p1": Retention(spans_days=7)})
    far = RetentionLoop(drop, limits, clock=lambda: real + 400 * DAY)  # a clock that is a year ahead
    gone = {(d.project, d.rows) for d in far.tick() if d.table == "spans"}
    assert gone == {("p1", 1), ("p2", 1)}
    assert len(list(store.iter_spans("p1", since_ns=0, until_ns=real + DAY))) == 1
    assert len(list(store.iter_spans("p2", since_ns=0, until_ns=real + DAY))) == 2
