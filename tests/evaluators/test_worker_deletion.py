"""A person's data is deleted while the worker judges it: what comes afterwards leaves no trace but its cost."""

import time
from dataclasses import dataclass
from typing import ClassVar

from evalspan_collector.run import Run
from evalspan_collector.span import Span, SpanKind
from evalspan_collector.store.admin import delete_subject
from evalspan_collector.store.clickhouse import ClickHouseStore
from evalspan_collector.store.contract import RunQuery, ScoreQuery
from evalspan_evaluators.case import Case
from evalspan_evaluators.config import Config, JudgeSettings
from evalspan_evaluators.judge import Judge, JudgeRequest
from evalspan_evaluators.judges.model_judge import JudgeLimits, ModelJudge
from evalspan_evaluators.judges.transport import Prompt, RawReply
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.rule import Rule
from evalspan_evaluators.score import Score
from evalspan_evaluators.worker import Worker

NOW = time.time_ns() - 60 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoting(MetricBase):
    """Asks the judge, and quotes the answer."""

    name: ClassVar[str] = "quoting"

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        schema = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}
        reply = await judge.ask(JudgeRequest(purpose="quoting", instructions="x", data={}, schema=schema))
        return self.score(float(reply.verdict["score"]), f"it said {case.output}", judge=reply.usage)


class DeletedMeanwhile:
    """A model API; while it thinks, the user's data is deleted."""

    provider = "tape"

    def __init__(self, store: ClickHouseStore) -> None:
        self._store = store
        self.asked = 0

    async def send(self, prompt: Prompt) -> RawReply:
        self.asked += 1
        assert delete_subject(self._store.client, project="default", user="ann").runs == 1
        return RawReply(
            text='{"score": 0.0}', model="m", input_tokens=9, output_tokens=9, stop_reason="end_turn", finished=True
        )

    async def aclose(self) -> None:
        pass


def a_dollar_a_call(*_: object) -> float:
    return 1.0


async def test_a_verdict_on_data_that_was_deleted_meanwhile_leaves_nothing_but_its_cost(store: ClickHouseStore) -> None:
    root = Span(
        trace_id="a" * 32, span_id="b" * 16, name="invoke_agent x", kind=SpanKind.AGENT, agent_name="x", user_id="ann",
        start_ns=NOW, end_ns=NOW + 9, received_ns=NOW, run_output="Ann Smith",
    )  # fmt: skip
    store.insert_spans([root], token="s")
    run = Run(run_id="r1", trace_id="a" * 32, state="closed", user_id="ann", started_ns=NOW, last_received_ns=NOW)
    store.write_runs([run], token="r")
    model = DeletedMeanwhile(store)
    judge = ModelJudge(model, model="m", limits=JudgeLimits(attempts=1), pricer=a_dollar_a_call)
    rule = Rule(name="r", metrics=(Quoting(),))
    worker = Worker(store, Config(rules=(rule,), judge=JudgeSettings(max_usd_per_day=9.0)), judge=judge)
    await worker.tick()
    await worker.tick()
    assert model.asked == 1
    assert store.runs(RunQuery()) == []
    assert store.scores(ScoreQuery()) == []
    assert store.outcomes("default") == []
    assert store.judge_spend("default", rule="r", since_ns=0) == 1.0
    assert store.client.rows("SELECT DISTINCT run_id, error FROM judge_calls") == [("", None)]
    assert not any(delete_subject(store.client, project="default", user="ann").rows.values())
