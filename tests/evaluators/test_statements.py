"""Statements: what the judge is shown, and what its verdicts become."""

from collections.abc import Mapping
from typing import Any

import pytest

from evalspan_collector.run import Document, ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.judge import JudgeReply, JudgeRequest
from evalspan_evaluators.metric import create, evaluate_metric_async
from evalspan_evaluators.score import JudgeUsage, Score

WEATHER = ToolCall(name="get.weather", arguments={"city": "Paris"}, result={"temp_c": 21.5}, span_id="ab" * 8)
CASE = Case(input="Weather in Paris?", output="It is 18 C in Paris. Paris is old.", tools=(WEATHER,))


class Scripted:
    """A judge that gives one list of statements and keeps what it was asked."""

    def __init__(self, *statements: object) -> None:
        self.verdict: Mapping[str, Any] = {"statements": list(statements)}
        self.asked: list[JudgeRequest] = []

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.asked.append(request)
        return JudgeReply(verdict=self.verdict, usage=JudgeUsage(model="m", cost_usd=0.01))


def said(quote: str, verdict: str, source: str = "") -> dict[str, str]:
    return {"quote": quote, "verdict": verdict, "reason": "because", "source": source}


async def scored(name: str, judge: Scripted, case: Case = CASE) -> Score:
    return await evaluate_metric_async(create(name), case, judge)


async def test_seed_a15_faithfulness_is_the_share_of_supported_statements_with_the_source_of_each() -> None:
    judge = Scripted(
        said("It is 18 C in Paris.", "contradicted", "source_3_tool_result_get_weather"),
        said("Paris is old.", "unsupported"),
        said("Paris", "supported", "source_2_tool_arguments_get.weather"),
    )
    score = await scored("faithfulness", judge)

    assert score.value == pytest.approx(1 / 3)
    assert score.passed is False
    assert "1 of 3 statements supported; contradicted: 'It is 18 C in Paris.'" in score.reason
    first, second, third = score.evidence
    assert (first.verdict, first.start, first.end) == ("contradicted", 0, 20)
    assert (first.source, first.tool, first.span_id) == ("tool_result", "get.weather", "ab" * 8)
    assert (second.verdict, second.source) == ("unsupported", None)
    assert (third.verdict, third.source) == ("supported", "tool_arguments")
    assert score.judge is not None
    assert score.judge.cost_usd == 0.01


async def test_the_judge_sees_every_source_under_a_name_and_the_system_prompt_is_none() -> None:
    judge = Scripted(said("Paris is old.", "supported"))
    case = Case(
        input="q", output="Paris is old.", system_prompt="Be kind.", documents=(Document(content="Founded long ago."),)
    )
    await scored("faithfulness", judge, case)

    (request,) = judge.asked
    assert request.data == {
        "source_1_user": "q",
        "source_2_document": "Founded long ago.",
        "actual_output": case.output,
    }
    assert "Founded" not in request.instructions


async def test_without_evidence_faithfulness_does_not_apply_and_nobody_is_asked() -> None:
    judge = Scripted()
    score = await scored("faithfulness", judge, Case(input="q", output="Paris is old."))
    assert score.not_applicable
    assert judge.asked == []


async def test_of_sources_that_are_too_long_the_newest_stay_and_the_reason_says_so() -> None:
    calls = tuple(ToolCall(name=f"t{i}", result=f"{i} " + "x" * 60_000) for i in range(8))
    judge = Scripted(said("Fine.", "supported"))
    score = await scored("faithfulness", judge, Case(input="q", output="Fine.", tools=calls))

    shown = judge.asked[0].data
    assert sum(len(text) for text in shown.values()) <= 160_000 + len("Fine.")
    assert "source_9_tool_result_t7" in shown
    assert "source_2_tool_result_t0" not in shown
    assert "the judge saw" in score.reason
    assert dict(score.extra)["sources_cut"] >= 8


async def test_seed_a15_answer_relevancy_counts_statements_that_help_in_whole_or_in_part() -> None:
    judge = Scripted(
        said("It is 18 C in Paris.", "relevant"), said("Paris is old.", "irrelevant"), said("18 C", "partly")
    )
    score = await scored("answer_relevancy", judge)

    assert score.value == pytest.approx(2 / 3)
    assert [e.verdict for e in score.evidence] == ["match", "mismatch", "info"]
    assert "irrelevant: 'Paris is old.'" in score.reason
    assert set(judge.asked[0].data) == {"input", "actual_output"}


@pytest.mark.parametrize("name", ["answer_relevancy", "faithfulness"])
async def test_no_statement_is_not_applicable_and_still_has_its_cost(name: str) -> None:
    score = await scored(name, Scripted())
    assert score.not_applicable
    assert score.judge is not None


@pytest.mark.parametrize("name", ["answer_relevancy", "faithfulness"])
@pytest.mark.parametrize("broken", ["text", None, {"quote": "x"}, {"quote": "x", "verdict": "maybe"}])
async def test_a_statement_that_is_none_is_an_error_with_its_usage(name: str, broken: object) -> None:
    score = await scored(name, Scripted(broken))
    assert score.value is None
    assert score.error is not None
    assert "a verdict is one of" in score.error
    assert score.judge is not None


async def test_a_source_that_was_not_there_is_none() -> None:
    cited = ("source_99_tool_result", "source_0", "nowhere", "source_1_user")
    score = await scored("faithfulness", Scripted(*(said("Paris", "supported", name) for name in cited)))
    assert [e.source for e in score.evidence] == [None, None, None, "user"]


async def test_a_judge_that_goes_on_for_ever_is_read_up_to_a_bound() -> None:
    endless = {"quote": "Paris", "verdict": "relevant", "reason": "r" * 100_000, "source": ""}
    score = await scored("answer_relevancy", Scripted(*[endless] * 5_000))
    assert len(score.evidence) == 200
    assert max(len(e.note or "") for e in score.evidence) < 2_000
    broken = await scored("answer_relevancy", Scripted({"quote": "x" * 100_000, "verdict": "maybe"}))
    assert len(broken.error or "") < 1_000


async def test_a_quote_that_is_not_in_the_output_keeps_its_verdict_without_offsets() -> None:
    score = await scored("answer_relevancy", Scripted(said("It is warm.", "relevant")))
    assert score.value == 1.0
    assert score.evidence[0].start is None
