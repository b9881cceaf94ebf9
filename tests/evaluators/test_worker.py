import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from evalspan.errors import ConfigError, JudgeRefusedError, StoreError, StoreUnreachableError
from evalspan_collector.prices import Prices
from evalspan_collector.records import JudgeCallRecord, OutcomeRecord, RunSummary, ScoreRecord
from evalspan_collector.run import ReceivedEvaluation, Run
from evalspan_collector.store.contract import ScoreQuery, Store
from evalspan_collector.store.memory import MemoryStore
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.config import Config, JudgeSettings
from evalspan_evaluators.evaluation import Circuit
from evalspan_evaluators.judge import Judge, JudgeReply, JudgeRequest
from evalspan_evaluators.judges.anthropic_judge import AnthropicJudge
from evalspan_evaluators.judges.model_judge import JudgeLimits, ModelJudge
from evalspan_evaluators.judges.opening import make_judge, priced_by
from evalspan_evaluators.judges.replay import ReplayJudge
from evalspan_evaluators.judges.transport import Prompt, RawReply, TransportError
from evalspan_evaluators.metric import JudgeMetric, Metric, MetricBase
from evalspan_evaluators.outbox import Outbox
from evalspan_evaluators.rule import Filters, Rule, is_sampled
from evalspan_evaluators.score import JudgeUsage, Score
from evalspan_evaluators.service import ServiceTiming, WorkerService, WorkerSetup
from evalspan_evaluators.worker import TickReport, Worker, WorkerLimits

S = 1_000_000_000
START = 1_790_000_000 * S  # in the past: a store takes no run from the future
DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Polite(MetricBase):
    """Looks at the output only."""

    name: ClassVar[str] = "polite"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    reads: ClassVar[tuple[str, ...]] = ("output",)

    def evaluate(self, case: Case) -> Score:
        return self.score(float("please" in (case.output or "")), "looked for please")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns(MetricBase):
    """Shows what a case holds of its session and its expectations."""

    name: ClassVar[str] = "turns"

    def evaluate(self, case: Case) -> Score:
        seen = [f"{turn.input}>{turn.output}" for turn in case.turns]
        return self.score(1.0, f"{seen} {case.expected.contains}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(MetricBase):
    name: ClassVar[str] = "broken"

    def evaluate(self, case: Case) -> Score:
        raise RuntimeError("no such luck \ud800")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleeper(MetricBase):
    name: ClassVar[str] = "sleeper"
    woken: ClassVar[threading.Event] = threading.Event()

    def evaluate(self, case: Case) -> Score:
        self.woken.wait(30)
        return self.score(1.0, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(MetricBase):
    """Asks the judge one question about the output."""

    name: ClassVar[str] = "asked"

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        schema = {
            "type": "object",
            "properties": {"score": {"type": "number"}},
            "required": ["score"],
            "additionalProperties": False,
        }
        reply = await judge.ask(
            JudgeRequest(purpose="asked/score", instructions="x", data={"o": case.output or ""}, schema=schema)
        )
        return self.score(float(reply.verdict["score"]), "the judge said so", judge=reply.usage)


class Tape:
    """A model API that answers from a list; an exception in it is raised."""

    provider = "tape"

    def __init__(self, *replies: str | Exception) -> None:
        self.replies = list(replies)
        self.sent: list[Prompt] = []

    async def send(self, prompt: Prompt) -> RawReply:
        self.sent.append(prompt)
        reply = self.replies.pop(0) if self.replies else '{"score": 1.0}'
        if isinstance(reply, Exception):
            raise reply
        return RawReply(
            text=reply, model="tape-1", input_tokens=1000, output_tokens=100, stop_reason="end_turn", finished=True
        )

    async def aclose(self) -> None:
        pass


def a_dollar_a_call(*_: object) -> float:
    return 1.0


def no_price(*_: object) -> None:
    return None


def judge_of(tape: Tape) -> ModelJudge:
    return ModelJudge(
        tape, model="tape-1", limits=JudgeLimits(attempts=1), pricer=a_dollar_a_call, now_ns=lambda: START
    )


class Bench:
    """A store whose runs are given whole, a worker over it, and a clock that steps."""

    def __init__(
        self,
        *rules: Rule,
        judge: Judge | None = None,
        max_usd: float | None = None,
        limits: WorkerLimits | None = None,
        circuit: Circuit | None = None,
    ) -> None:
        self.now = START
        self.loads: list[str] = []
        self.content: dict[str, Run] = {}
        self.store = Given(self)
        self.config = Config(rules=rules, judge=JudgeSettings(max_usd_per_day=max_usd))
        self.judge = judge
        self.limits = limits or WorkerLimits(retry_s=5.0)
        self.circuit = circuit
        self.worker = self.started()

    @property
    def setup(self) -> WorkerSetup:
        return WorkerSetup(config=self.config, judge=self.judge)

    def started(self) -> Worker:
        return Worker(
            self.store, self.config, judge=self.judge, clock=lambda: self.now, limits=self.limits, circuit=self.circuit
        )

    def add(self, run_id: str, output: str | None = "yes please", **fields: Any) -> Run:
        run = Run(
            run_id=run_id,
            trace_id=f"t-{run_id}",
            output=output,
            started_ns=fields.pop("started_ns", START),
            state=fields.pop("state", "closed"),
            last_received_ns=START,
            **fields,
        )
        self.content[run_id] = run
        self.store.write_runs([run], token=f"{run_id}:{run.revision}")
        return run

    async def tick(self, after_s: float = 1) -> TickReport:
        self.now += int(after_s * S)
        return await self.worker.tick()

    def outcomes(self, rule: str = "r") -> dict[str, tuple[str, str]]:
        found = sorted(self.store.outcomes("default", rule=rule), key=lambda o: (o.run_revision, o.created_ns))
        return {o.run_id: (o.outcome, o.reason) for o in found}

    def scores(self, run_id: str | None = None) -> list[ScoreRecord]:
        ids = None if run_id is None else (run_id,)
        return sorted(self.store.scores(ScoreQuery(project="default", run_ids=ids)), key=lambda s: (s.run_id, s.metric))


class Given(MemoryStore):
    """A memory store whose runs come from the test instead of from spans."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench
        self.looks = 0

    def unjudged_runs(self, *asked: Any, **more: Any) -> list[RunSummary]:
        self.looks += 1
        return super().unjudged_runs(*asked, **more)

    def run(self, project: str | None, run_id: str) -> Run | None:
        self._bench.loads.append(run_id)
        return self._bench.content.get(run_id)

    def runs_content(self, summaries: Sequence[RunSummary]) -> list[Run]:
        found = [self.run(summary.project, summary.run_id) for summary in summaries]
        return [run for run in found if run is not None]


def rule(*metrics: Metric | JudgeMetric, **fields: Any) -> Rule:
    return Rule(name=fields.pop("name", "r"), metrics=metrics, **fields)


async def test_every_run_gets_its_scores_and_one_outcome_once() -> None:
    bench = Bench(rule(Polite()))
    bench.add("a")
    bench.add("b", "no")
    report = await bench.tick()
    assert (report.outcomes["scored"], report.scores) == (2, 2)
    assert [(s.run_id, s.value, s.passed, s.rule) for s in bench.scores()] == [
        ("a", 1.0, True, "r"),
        ("b", 0.0, False, "r"),
    ]
    assert bench.outcomes() == {"a": ("scored", ""), "b": ("scored", "")}
    assert (await bench.tick()).idle


async def test_runs_are_read_many_at_a_time_and_one_by_one_where_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(rule(Polite()))
    for number in range(45):
        bench.add(f"r{number:02}")
    together: list[int] = []
    whole = bench.store.runs_content

    def runs_content(summaries: Sequence[RunSummary]) -> list[Run]:
        together.append(len(summaries))
        if len(together) == 1:
            raise RuntimeError("one of them cannot be assembled")
        return whole(summaries)

    monkeypatch.setattr(bench.store, "runs_content", runs_content)
    await bench.tick()
    assert together == [20, 20, 5]
    assert sorted(bench.loads) == sorted(bench.content)  # each once, those of the broken read by themselves
    assert [outcome for outcome, _ in bench.outcomes().values()] == ["scored"] * 45


async def test_an_open_run_is_left_alone_until_it_closes() -> None:
    bench = Bench(rule(Polite()))
    run = bench.add("a", state="open")
    assert (await bench.tick()).idle
    bench.store.write_runs([replace(run, state="closed")], token="closed")
    assert (await bench.tick()).scores == 1


async def test_filters_and_sampling_leave_an_outcome_with_the_reason_and_load_nothing() -> None:
    bench = Bench(rule(Polite(), filters=Filters(agents=("x",)), sample=0.5))
    bench.add("other", agent="y")
    ids = [f"run{i}" for i in range(20)]
    for run_id in ids:
        bench.add(run_id, agent="x")
    await bench.tick()
    outcomes = bench.outcomes()
    assert outcomes["other"] == ("filtered", "agent 'y' is none of x")
    for run_id in ids:
        assert outcomes[run_id][0] == ("scored" if is_sampled(run_id, 0.5) else "sampled_out")
    assert {s.run_id for s in bench.scores()} == {i for i in ids if is_sampled(i, 0.5)}


async def test_tags_are_compared_once_the_run_is_loaded() -> None:
    bench = Bench(rule(Polite(), filters=Filters(tags=("beta",))))
    bench.add("a", tags=("beta",))
    bench.add("b", tags=("stable",))
    await bench.tick()
    assert bench.outcomes() == {"a": ("scored", ""), "b": ("filtered", "has none of the tags beta")}


async def test_expectations_and_earlier_turns_of_the_session_reach_the_metric() -> None:
    bench = Bench(rule(Turns(), expected=Expected(contains=("x",))))
    for i in range(3):
        bench.add(f"run{i}", f"out{i}", input=f"in{i}", session_id="s", started_ns=START + i * S)
    bench.add("alone", "o", input="i")
    await bench.tick()
    reasons = {s.run_id: s.reason for s in bench.scores()}
    assert reasons["run2"] == "['in0>out0', 'in1>out1'] ('x',)"
    assert reasons["run0"] == reasons["alone"] == "[] ('x',)"


async def test_nothing_to_check_is_not_applicable_and_a_broken_metric_is_an_error() -> None:
    bench = Bench(rule(Polite()), rule(Polite(), Broken(), name="b"))
    bench.add("a", None)
    await bench.tick()
    assert bench.outcomes()["a"] == ("not_applicable", "needs output")
    name, reason = bench.outcomes("b")["a"]
    assert name == "error"
    assert reason.startswith("broken: RuntimeError: no such luck")
    broken = [s for s in bench.scores() if s.metric == "broken"]
    assert [(s.value, s.passed, s.not_applicable) for s in broken] == [(None, None, False)]
    assert (await bench.tick(100)).idle


async def test_a_metric_that_takes_too_long_is_an_error_and_the_others_go_on() -> None:
    bench = Bench(rule(Polite(), Sleeper()), limits=WorkerLimits(metric_s=1.5))
    bench.add("a")
    await bench.tick()
    Sleeper.woken.set()
    assert bench.outcomes()["a"] == ("error", "sleeper: no result within 1.5 s")
    assert [(s.metric, s.value) for s in bench.scores()] == [("polite", 1.0), ("sleeper", None)]


async def test_a_new_revision_scores_again_only_what_read_something_that_changed() -> None:
    bench = Bench(rule(Polite(), Turns()))
    run = bench.add("a", input="one")
    await bench.tick()
    first = {s.metric: s for s in bench.scores()}
    amended = replace(run, input="two", revision=2, state="amended")
    bench.content["a"] = amended
    bench.store.write_runs([amended], token="a:2")
    await bench.tick()
    second = {s.metric: s for s in bench.scores()}
    assert second["polite"] == first["polite"]
    assert (second["turns"].run_revision, first["turns"].run_revision) == (2, 1)
    assert bench.outcomes()["a"] == ("scored", "1 of 2 scores still hold")
    assert len(bench.scores()) == 2


async def test_a_score_that_still_holds_goes_with_its_run_to_another_time() -> None:
    bench = Bench(rule(Polite()))
    run = bench.add("a")
    await bench.tick()
    (first,) = bench.scores()
    moved = replace(run, started_ns=START - 3600 * S, agent="other", revision=2, state="amended")
    bench.content["a"] = moved
    bench.store.write_runs([moved], token="a:2")
    await bench.tick()
    (second,) = bench.scores()
    assert (second.run_revision, second.run_started_ns, second.agent) == (2, START - 3600 * S, "other")
    assert (second.value, second.reason) == (first.value, first.reason)
    assert bench.outcomes()["a"] == ("scored", "1 of 1 scores still hold")


async def test_a_changed_rule_scores_stored_runs_again() -> None:
    bench = Bench(rule(Polite()))
    bench.add("a", "no")
    await bench.tick()
    bench.config = Config(rules=(rule(Polite(threshold=0.0)),))
    bench.worker = bench.started()
    await bench.tick()
    assert [(s.threshold, s.passed) for s in bench.scores()] == [(0.0, True)]


async def test_evaluations_that_came_with_a_run_become_scores_of_their_own() -> None:
    bench = Bench(rule(Polite(), filters=Filters(agents=("nobody",))))
    one = ReceivedEvaluation(
        name="relevance", value=4.5, label="pass", explanation="good", source="phoenix", span_id="s1"
    )
    two = [ReceivedEvaluation(name="toxic", value=v, source="phoenix", span_id=f"s{v}") for v in (0.1, 0.2)]
    run = bench.add("a", evaluations=(one, *two))
    bench.add("b")
    await bench.tick()
    rows = [(s.metric, s.rule, s.value, s.passed, s.source) for s in bench.scores("a")]
    assert sorted(rows) == [
        ("relevance", "received", 4.5, True, "received"),
        ("toxic", "received:phoenix:s0.1", 0.1, None, "received"),
        ("toxic", "received:phoenix:s0.2", 0.2, None, "received"),
    ]
    assert bench.outcomes("received")["a"] == ("scored", "3 evaluations arrived with the run")
    assert bench.outcomes("received")["b"][0] == "not_applicable"
    amended = replace(run, revision=2, state="amended", evaluations=(one,))
    bench.content["a"] = amended
    bench.store.write_runs([amended], token="a:2")
    await bench.tick()
    assert [s.metric for s in bench.scores("a")] == ["relevance"]


async def test_a_run_that_breaks_the_worker_is_given_up_after_five_tries_and_its_neighbours_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(rule(Polite()))
    bench.add("poison")
    bench.add("fine")
    read = bench.store.run

    def poisoned(project: str | None, run_id: str) -> Run | None:
        if run_id == "poison":
            raise ValueError("cannot be decoded")
        return read(project, run_id)

    monkeypatch.setattr(bench.store, "run", poisoned)
    seen: list[str] = []
    for _ in range(8):
        await bench.tick(200)
        seen.append(bench.outcomes()["poison"][0])
    assert seen[:5] == ["waiting"] * 5
    assert seen[5:] == ["error"] * 3
    assert bench.outcomes()["poison"][1] == "given up after 5 tries: ValueError: cannot be decoded"
    assert bench.outcomes()["fine"] == ("scored", "")


async def test_a_retry_waits_longer_each_time() -> None:
    bench = Bench(rule(Polite()), limits=WorkerLimits(retry_s=10, attempts=4))
    bench.add("a")
    del bench.content["a"]
    seconds: dict[int, int] = {}
    for second in range(100):
        await bench.tick(1)
        (outcome,) = bench.store.outcomes("default", rule="r")
        seconds.setdefault(outcome.attempt, second)
    assert list(seconds) == [1, 2, 3, 4]
    # The outcome is written after the tick began, so the try comes with the tick behind the pause.
    assert [later - earlier for earlier, later in itertools.pairwise(seconds.values())] == [11, 21, 41]
    assert bench.outcomes()["a"] == ("error", "given up after 4 tries: the run cannot be read")


async def test_runs_that_wait_do_not_keep_new_ones_out() -> None:
    bench = Bench(rule(Polite()), limits=WorkerLimits(batch=5, retry_s=1000))
    for i in range(12):
        bench.add(f"stuck{i}")
        del bench.content[f"stuck{i}"]
    for _ in range(6):
        await bench.tick()
    bench.add("new")
    for _ in range(3):
        await bench.tick()
    assert bench.outcomes()["new"] == ("scored", "")


async def test_an_idle_worker_looks_only_when_something_was_written_or_its_time_has_come() -> None:
    bench = Bench(rule(Polite()), limits=WorkerLimits(look_s=10, retry_s=30))
    bench.add("a")

    async def looks(after_s: float) -> bool:
        bench.now += int(after_s * S)
        before = bench.store.looks
        await bench.worker.tick_if_news()
        return bench.store.looks > before

    assert [await looks(1) for _ in range(4)] == [True, True, False, False]  # its own outcome is news once
    assert bench.outcomes()["a"] == ("scored", "")
    bench.add("late", started_ns=START - 3600 * S)
    assert await looks(1)
    assert bench.outcomes()["late"] == ("scored", "")
    bench.add("a", output="no", revision=2, state="amended")
    assert await looks(1)
    assert await looks(1)
    assert not await looks(9)
    assert await looks(1)  # nothing was written, but ten seconds have passed
    assert not await looks(1)
    assert await looks(-3600)  # a clock that was set back
    assert not await looks(1)
    await bench.worker.configure(Config(rules=(rule(Polite(), name="s"),)), None)
    assert await looks(1)
    assert set(bench.outcomes("s")) == {"a", "late"}


async def test_a_run_that_waits_for_its_retry_is_looked_for_all_the_time() -> None:
    bench = Bench(rule(Polite()), limits=WorkerLimits(retry_s=5, look_s=3600))
    content = bench.add("a")
    del bench.content["a"]
    for _ in range(4):
        bench.now += S
        await bench.worker.tick_if_news()
    assert bench.outcomes()["a"][0] == "waiting"
    bench.content["a"] = content
    for _ in range(3):
        bench.now += S
        await bench.worker.tick_if_news()
    assert bench.outcomes()["a"] == ("scored", "")


# judges


async def test_every_judge_call_is_in_the_ledger_with_its_rule_and_run() -> None:
    bench = Bench(rule(Asked()), judge=judge_of(Tape()))
    bench.add("a")
    await bench.tick()
    await bench.tick()
    (score,) = bench.scores()
    assert (score.value, score.judge_model, score.judge_input_tokens, score.judge_cost_usd) == (
        1.0,
        "tape-1",
        1000,
        1.0,
    )
    assert bench.store.judge_spend("default", rule="r", since_ns=0) == 1.0
    assert bench.store.judge_spend("default", rule="other", since_ns=0) == 0.0


async def test_without_a_judge_its_scores_are_errors() -> None:
    bench = Bench(rule(Asked(), Polite()))
    bench.add("a")
    await bench.tick()
    name, reason = bench.outcomes()["a"]
    assert name == "error"
    assert "no judge is configured" in reason


async def test_a_cap_stops_the_judge_before_the_call_and_the_runs_are_judged_the_next_day() -> None:
    tape = Tape()
    bench = Bench(rule(Asked(), Polite(), max_usd_per_day=2.0), judge=judge_of(tape))
    for i in range(4):
        bench.add(f"r{i}")
    await bench.tick()
    assert len(tape.sent) == 2
    names = [name for name, _ in bench.outcomes().values()]
    assert sorted(names) == ["over_budget", "over_budget", "scored", "scored"]
    assert "judging would pass the cap: $2.0000 spent of $2.00" in next(
        reason for name, reason in bench.outcomes().values() if name == "over_budget"
    )
    assert len([s for s in bench.scores() if s.metric == "polite"]) == 4
    assert all(s.error is None for s in bench.scores())
    await bench.tick(120)
    assert len(tape.sent) == 2
    await bench.tick(DAY)
    await bench.tick()
    assert len(tape.sent) == 4
    assert {name for name, _ in bench.outcomes().values()} == {"scored"}


async def test_every_run_over_budget_is_judged_later_however_many_there_are() -> None:
    tape = Tape()
    bench = Bench(rule(Asked(), max_usd_per_day=1.0), judge=judge_of(tape), limits=WorkerLimits(replay_s=1.0))
    for i in range(1_100):
        bench.add(f"r{i:04}")
    for _ in range(80):
        await bench.tick(1)
    assert Counter(o.outcome for o in bench.store.outcomes("default", rule="r", limit=2_000)) == {
        "over_budget": 1_099,
        "scored": 1,
    }
    object.__setattr__(bench.config.rules[0], "max_usd_per_day", 1e6)  # as an edited file says
    bench.now += DAY * S
    bench.worker = bench.started()
    for _ in range(80):
        await bench.tick(1)
    assert Counter(o.outcome for o in bench.store.outcomes("default", rule="r", limit=2_000)) == {"scored": 1_100}
    assert len(tape.sent) == 1_100


async def test_a_run_that_costs_more_than_the_cap_holds_up_no_other_that_is_over_budget() -> None:
    tape = Tape()

    def by_length(_provider: str, _model: str, input_tokens: int, *_: int) -> float:
        return 5.0 if input_tokens > 2_000 else 1.0

    judge = ModelJudge(tape, model="tape-1", limits=JudgeLimits(attempts=1), pricer=by_length, now_ns=lambda: START)
    limits = WorkerLimits(replay_s=1.0, concurrency=1)  # two runs at a time
    bench = Bench(rule(Asked(), max_usd_per_day=1.0), judge=judge, limits=limits)
    for i in range(3):
        bench.add(f"small{i}")
    for i in range(6):  # the newest ones
        bench.add(f"large{i}", "please " * 1_000)
    for day in range(3):
        bench.now += DAY * S
        for _ in range(12):
            await bench.tick(1)
        assert len(tape.sent) == day + 1
    judged = {run_id for run_id, (name, _) in bench.outcomes().items() if name == "scored"}
    assert judged == {"small0", "small1", "small2"}


async def test_a_run_over_budget_that_is_older_than_the_rule_looks_back_outlives_a_judge_that_fails() -> None:
    tape = Tape('{"score": 1.0}', TransportError("overloaded", passing=True), '{"score": 0.5}')
    bench = Bench(rule(Asked(), max_usd_per_day=1.0, backfill_s=3600.0), judge=judge_of(tape))
    bench.add("a")
    bench.add("b")
    await bench.tick()
    assert sorted(name for name, _ in bench.outcomes().values()) == ["over_budget", "scored"]
    await bench.tick(DAY)
    reasons = [reason for name, reason in bench.outcomes().values() if name == "over_budget"]
    assert "overloaded" in reasons[0]
    await bench.tick(120)
    assert {name for name, _ in bench.outcomes().values()} == {"scored"}
    assert len(tape.sent) == 3


async def test_a_run_over_budget_is_found_behind_thousands_whose_revision_is_no_more() -> None:
    tape = Tape()
    bench = Bench(rule(Asked(), max_usd_per_day=1.0), judge=judge_of(tape), limits=WorkerLimits(replay_s=1.0))
    bench.add("spender")
    bench.add("waits")
    await bench.tick()
    before = bench.store.outcomes("default", rule="r", name="over_budget")
    gone = [replace(before[0], run_id=f"gone{i}", created_ns=before[0].created_ns + 1 + i) for i in range(11_000)]
    bench.store.write_outcomes(gone, token="gone")
    bench.now += DAY * S
    for _ in range(6):
        await bench.tick(1)
    assert bench.store.outcomes("default", run_ids=["spender", "waits"], name="over_budget") == []
    assert len(tape.sent) == 2


async def test_tries_are_counted_however_many_outcomes_of_other_revisions_there_are() -> None:
    tape = Tape(*(TransportError("overloaded", passing=True) for _ in range(20)))
    bench = Bench(rule(Asked()), judge=judge_of(tape), circuit=Circuit(failures=100))
    bench.add("a")
    bench.add("b", revision=1_500)
    await bench.tick()
    (kept,) = bench.store.outcomes("default", run_ids=["b"], rule="r")
    later = [
        replace(kept, run_revision=n, outcome="scored", created_ns=kept.created_ns + S + n) for n in range(1, 1_500)
    ]
    bench.store.write_outcomes(later, token="later")
    for _ in range(6):
        await bench.tick(100)
    assert bench.outcomes()["a"][1].startswith("given up after 5 tries")
    assert len(tape.sent) == 10


async def test_the_cap_over_all_rules_counts_what_the_ledger_already_holds() -> None:
    tape = Tape()
    bench = Bench(rule(Asked()), rule(Asked(), name="other"), judge=judge_of(tape), max_usd=3.0)
    for i in range(3):
        bench.add(f"r{i}")
    bench.worker = Worker(bench.store, bench.config, judge=judge_of(tape), clock=lambda: bench.now)
    await bench.tick()
    assert len(tape.sent) == 3
    bench.worker = Worker(bench.store, bench.config, judge=judge_of(tape), clock=lambda: bench.now)
    bench.add("later")
    await bench.tick()
    assert len(tape.sent) == 3
    assert bench.outcomes()["later"][0] == "over_budget"


async def test_a_model_without_a_price_is_not_asked_under_a_cap() -> None:
    tape = Tape()
    judge = ModelJudge(tape, model="m", pricer=no_price)
    bench = Bench(rule(Asked(), max_usd_per_day=1.0), judge=judge)
    bench.add("a")
    await bench.tick()
    assert tape.sent == []
    assert bench.outcomes()["a"][0] == "over_budget"
    assert "no known price" in bench.outcomes()["a"][1]


async def test_a_judge_that_fails_is_asked_again_and_its_error_is_no_score() -> None:
    tape = Tape("no JSON at all", '{"score": 0.25}')
    bench = Bench(rule(Asked(), Polite()), judge=judge_of(tape))
    bench.add("a")
    await bench.tick()
    assert bench.outcomes()["a"][0] == "waiting"
    assert [(s.metric, s.value, s.error is None) for s in bench.scores()] == [
        ("asked", None, False),
        ("polite", 1.0, True),
    ]
    assert (await bench.tick(1)).idle
    await bench.tick(10)
    assert [(s.metric, s.value) for s in bench.scores()] == [("asked", 0.25), ("polite", 1.0)]
    assert bench.outcomes()["a"][0] == "scored"
    assert bench.store.judge_spend("default", rule=None, since_ns=0) == 2.0


class Refusing:
    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.asked += 1
        raise JudgeRefusedError("the model refused to judge", usage=JudgeUsage(model="m"))


async def test_a_refusal_is_an_error_at_once() -> None:
    judge = Refusing()
    bench = Bench(rule(Asked()), judge=judge)
    bench.add("a")
    await bench.tick()
    await bench.tick(1000)
    assert judge.asked == 1
    assert bench.outcomes()["a"] == ("error", "asked: the model refused to judge")


async def test_a_judge_that_is_down_is_left_alone_while_other_rules_go_on() -> None:
    now = [0.0]
    tape = Tape(*[TransportError("the API answered 401", passing=False)] * 50)
    circuit = Circuit(lambda: now[0], failures=3, pause_s=30)
    bench = Bench(
        rule(Asked(), name="judged"),
        rule(Polite()),
        judge=judge_of(tape),
        circuit=circuit,
        limits=WorkerLimits(concurrency=2, retry_s=1),
    )
    for i in range(10):
        bench.add(f"r{i}")
    await bench.tick()
    sent = len(tape.sent)
    assert 3 <= sent <= 4
    for _ in range(10):
        await bench.tick(100)
    assert len(tape.sent) == sent
    assert len(bench.outcomes()) == 10
    now[0] = 31.0
    await bench.tick(100)
    assert len(tape.sent) == sent + 1
    tape.replies.clear()
    now[0] = 500.0
    for _ in range(6):
        await bench.tick(100)
    assert {name for name, _ in bench.outcomes("judged").values()} == {"scored"}


# crashes and stores that go away


async def test_what_was_judged_is_not_judged_again_when_only_its_outcome_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tape = Tape()
    bench = Bench(rule(Asked()), judge=judge_of(tape))
    bench.add("a")
    write = bench.store.write_outcomes

    def lost(outcomes: Sequence[OutcomeRecord], *, token: str) -> None:
        if any(o.rule == "r" and o.outcome != "waiting" for o in outcomes):
            raise StoreUnreachableError("gone")
        write(outcomes, token=token)

    monkeypatch.setattr(bench.store, "write_outcomes", lost)
    bench.worker = bench.started()
    with pytest.raises(StoreUnreachableError):
        await bench.tick()
    monkeypatch.undo()
    bench.worker = bench.started()  # the process was killed: nothing is left of the old one
    await bench.tick(60)
    assert len(tape.sent) == 1
    assert bench.outcomes()["a"] == ("scored", "1 of 1 scores still hold")
    assert len(bench.scores()) == 1


async def test_a_store_that_is_away_for_a_while_loses_no_judged_score(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape()
    bench = Bench(rule(Asked()), judge=judge_of(tape))
    bench.add("a")

    def away(scores: Sequence[ScoreRecord], *, token: str) -> None:
        raise StoreUnreachableError("gone")

    gone = [True]
    write = bench.store.write_scores

    def sometimes(scores: Sequence[ScoreRecord], *, token: str) -> None:
        (away if gone[0] else write)(scores, token=token)

    monkeypatch.setattr(bench.store, "write_scores", sometimes)
    for _ in range(3):
        with pytest.raises(StoreUnreachableError):
            await bench.tick()
    assert bench.outcomes()["a"] == ("waiting", "being scored")
    gone[0] = False
    await bench.tick()
    assert [s.value for s in bench.scores()] == [1.0]
    assert bench.outcomes()["a"] == ("scored", "")
    assert bench.store.judge_spend("default", rule="r", since_ns=0) == 1.0
    assert len(tape.sent) == 1


async def test_no_call_is_made_that_the_ledger_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape()
    bench = Bench(rule(Asked()), judge=judge_of(tape))
    bench.add("a")
    write = bench.store.write_judge_calls
    gone = [True]

    def sometimes(calls: Sequence[JudgeCallRecord], *, token: str) -> None:
        if gone[0]:
            raise StoreUnreachableError("gone")
        write(calls, token=token)

    monkeypatch.setattr(bench.store, "write_judge_calls", sometimes)
    for _ in range(3):
        with pytest.raises(StoreUnreachableError):
            await bench.tick(400)
    assert tape.sent == []
    gone[0] = False
    for _ in range(3):
        await bench.tick(400)
    assert bench.outcomes()["a"] == ("scored", "")
    assert bench.store.judge_spend("default", rule="r", since_ns=0) == 1.0
    assert len(tape.sent) == 1


async def test_a_call_whose_worker_died_counts_with_what_was_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape()
    bench = Bench(rule(Asked(), max_usd_per_day=1.5), judge=judge_of(tape))
    bench.add("a")

    def lost(*_: object) -> None:
        """Nothing is written after the call: the process is gone."""

    monkeypatch.setattr(Outbox, "add", lost)
    await bench.tick()
    monkeypatch.undo()
    assert len(tape.sent) == 1
    assert bench.store.judge_spend("default", rule="r", since_ns=0) == 1.0
    bench.worker = bench.started()
    await bench.tick(60)
    assert len(tape.sent) == 1
    assert bench.outcomes()["a"][0] == "over_budget"


async def test_rows_the_store_refuses_do_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(rule(Polite()))
    write = bench.store.write_scores

    def picky(scores: Sequence[ScoreRecord], *, token: str) -> None:
        if any(s.run_id == "bad" for s in scores):
            raise StoreError("cannot parse input")
        write(scores, token=token)

    monkeypatch.setattr(bench.store, "write_scores", picky)
    bench.worker = bench.started()
    bench.add("bad")
    refused = 0
    for _ in range(12):
        try:
            await bench.tick(400)
        except StoreError:
            refused += 1
    bench.add("good")
    await bench.tick(400)
    assert refused > 0
    assert bench.outcomes()["good"] == ("scored", "")


CRASHING = """
import asyncio, os, sys, time
from dataclasses import dataclass
from typing import ClassVar
from evalspan_collector.store.opening import open_store
from evalspan_collector.store import memory
from evalspan_evaluators.config import Config
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.rule import Rule
from evalspan_evaluators.worker import Worker, WorkerLimits
from evalspan_collector.run import Run

@dataclass(frozen=True, slots=True, kw_only=True)
class Deadly(MetricBase):
    name: ClassVar[str] = "deadly"
    def evaluate(self, case):
        if case.output == "poison":
            os._exit(9)
        return self.score(1.0, "")

class Given:
    def __init__(self, inner, runs): self._inner, self._runs = inner, runs
    def __getattr__(self, name): return getattr(self._inner, name)
    def run(self, project, run_id): return self._runs[run_id]
    def runs_content(self, rows): return [self._runs[row.run_id] for row in rows]

store = open_store("chdb://" + sys.argv[1])
START = 1_790_000_000 * 10**9
runs = {n: Run(run_id=n, trace_id="t" + n, output=n, started_ns=START, state="closed", last_received_ns=START) for n in ("fine1", "poison", "fine2")}
if not store.runs_of_traces("default", ["tfine1"]):
    store.write_runs(list(runs.values()), token="runs")
worker = Worker(Given(store, runs), Config(rules=(Rule(name="r", metrics=(Deadly(),)),)), limits=WorkerLimits(attempts=2, retry_s=0.01))
async def main():
    for _ in range(10):
        await worker.tick()
        await asyncio.sleep(0.05)
asyncio.run(main())
print({o.run_id: o.outcome for o in store.outcomes("default", rule="r")})
store.close()
"""


@pytest.mark.e2e
def test_a_run_that_kills_the_process_is_given_up_and_takes_no_other_along(tmp_path: Path) -> None:
    script = tmp_path / "crash.py"
    script.write_text(CRASHING)
    codes: list[int] = []
    out, err = "", ""
    for _ in range(6):
        done = subprocess.run(  # noqa: PLW1510  its exit code is what is looked at
            [sys.executable, str(script), str(tmp_path / "store")], capture_output=True, text=True, timeout=100
        )
        codes.append(done.returncode)
        out, err = done.stdout, done.stderr
        if done.returncode != 9:
            break
    assert codes[-1] == 0, err
    assert codes[:-1] == [9] * len(codes[:-1])
    assert "'poison': 'error'" in out
    assert "'fine1': 'scored'" in out
    assert "'fine2': 'scored'" in out


# the process


def quick() -> ServiceTiming:
    return ServiceTiming(poll_s=0.02, alerts_s=0.02, first_wait_s=0.02, last_wait_s=0.05, heartbeat_s=0.02)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "nothing came of it"
        await asyncio.sleep(0.02)


async def test_the_service_waits_for_the_store_scores_and_ends_when_told(tmp_path: Path) -> None:
    bench = Bench(rule(Polite()))
    bench.add("a")
    tries = 0

    def opened() -> Store:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise StoreUnreachableError("not yet")
        return bench.store

    beat = tmp_path / "run" / "worker.heartbeat"
    service = WorkerService(opened, bench.setup, heartbeat=beat, timing=quick())
    running = asyncio.create_task(service.run())
    await until(lambda: bool(bench.scores()))
    assert beat.exists()
    service.stop()
    await asyncio.wait_for(running, 10)
    assert tries == 3


async def test_the_service_outlives_a_store_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(rule(Polite()))
    service = WorkerService(lambda: bench.store, bench.setup, timing=quick())
    running = asyncio.create_task(service.run())
    failures = 0

    def away(*args: object, **fields: object) -> list[Any]:
        nonlocal failures
        failures += 1
        raise StoreUnreachableError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "unjudged_runs", away)
        await until(lambda: failures >= 3)
    bench.add("a")
    await until(lambda: bool(bench.scores()))
    service.stop()
    await asyncio.wait_for(running, 10)


async def test_once_ends_when_nothing_is_left_and_says_when_the_store_is_away() -> None:
    bench = Bench(rule(Polite()), limits=WorkerLimits(batch=2))
    for i in range(250):
        bench.add(f"r{i}")
    await asyncio.wait_for(WorkerService(lambda: bench.store, bench.setup, timing=quick()).run(once=True), 30)
    assert len(bench.scores()) == 250

    def nobody() -> Store:
        raise StoreUnreachableError("nothing answers")

    with pytest.raises(StoreUnreachableError):
        await WorkerService(nobody, bench.setup, timing=quick()).run(once=True)


def test_a_judge_is_made_as_configured(tmp_path: Path) -> None:
    assert make_judge(None, {}) is None
    anthropic = make_judge(JudgeSettings(model="m", base_url="http://127.0.0.1:1"), {}, prices=Prices())
    assert isinstance(anthropic, AnthropicJudge)
    assert anthropic.model == "m"
    replies = tmp_path / "replies.jsonl"
    replies.write_text('{"key": "asked/score", "reply": "{}"}\n')
    assert isinstance(make_judge(JudgeSettings(provider="replay", replies=replies), {}), ReplayJudge)
    with pytest.raises(ConfigError, match=r"'MY_KEY' of judge\.api_key_env is not set"):
        make_judge(JudgeSettings(api_key_env="MY_KEY"), {})
    with pytest.raises(ConfigError, match=r"judge\.model is missing"):
        make_judge(JudgeSettings(provider="openai"), {})


def test_judge_calls_are_priced_with_the_users_own_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("models: [{model: house-model, input_per_million: 2.0, output_per_million: 20.0}]\n")
    assert priced_by(Prices(path))("anthropic", "house-model", 1_000_000, 500_000, 0, 0) == pytest.approx(12.0)
    assert priced_by(Prices())("anthropic", "house-model", 1_000_000, 500_000, 0, 0) is None
