"""What we decided where the documents the project started from are silent, differ, or describe a bug."""

from collections.abc import Mapping
from typing import Any

import pytest

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case, Expected, Turn
from evalspan_evaluators.judge import JudgeReply, JudgeRequest
from evalspan_evaluators.metric import create, evaluate_metric, evaluate_metric_async
from evalspan_evaluators.score import JudgeUsage, Score


class Grader:
    """A judge that always gives one verdict and keeps what it was asked."""

    def __init__(self, **verdict: Any) -> None:
        self.verdict: Mapping[str, Any] = verdict
        self.asked: list[JudgeRequest] = []

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.asked.append(request)
        return JudgeReply(verdict=self.verdict, usage=JudgeUsage(model="m"))


PRICE = ToolCall(name="get_price", result={"symbol": "AAPL", "price": 187.42})


async def test_seed_e17_made_up_values_are_found_without_a_judge_and_meaning_with_one_call() -> None:
    case = Case(input="Price of AAPL?", output="AAPL trades at $197.42.", tools=(PRICE,))
    assert evaluate_metric(create("grounding"), case).passed is False

    statement = {"quote": case.output, "verdict": "contradicted", "source": "source_2", "reason": "187.42"}
    judge = Grader(statements=[statement])
    assert (await evaluate_metric_async(create("faithfulness"), case, judge)).value == 0.0
    assert len(judge.asked) == 1


def test_seed_e21_a_pattern_is_searched_in_the_whole_output_and_never_takes_off_the_grade_of_another_metric() -> None:
    far = Case(output="x" * 1_000_000 + " order A-77")
    assert evaluate_metric(create("regex", {"patterns": [r"[A-Z]-\d+$"]}), far).value == 1.0
    half = evaluate_metric(create("regex", {"patterns": ["order", "refund"]}), far)
    assert half.value == 0.5
    schema = {"type": "object", "required": ["id"]}
    assert evaluate_metric(create("json_schema", {"schema": schema}), Case(output="{}")).value == 0.0


def test_seed_e23_a_turn_is_judged_on_its_own_tool_results_and_what_came_before() -> None:
    first = Turn(input="Price of AAPL?", output="AAPL trades at $187.42.", tools=(PRICE,))
    newer = ToolCall(name="get_price", result={"symbol": "MSFT", "price": 402.1})
    metric = create("grounding")
    own = Case(input="And MSFT?", output="MSFT trades at $402.10.", turns=(first,), tools=(newer,))
    assert evaluate_metric(metric, own).value == 1.0
    shifted = Case(input="And MSFT?", output="MSFT trades at $187.42.", turns=(first,), tools=(newer,))
    assert evaluate_metric(metric, shifted).passed is False


@pytest.mark.parametrize(
    ("metric", "verdict", "scale"),
    [
        ("correctness", {"score": 4, "reason": "r"}, "whole numbers from 1 to 5"),
        ("output_quality", {"score": 75, "reason": "r"}, "from 0 (useless) to 100 (perfect)"),
    ],
)
async def test_seed_g2_and_g7_the_judge_is_told_the_exact_range_and_its_number_is_kept(
    metric: str, verdict: dict[str, Any], scale: str
) -> None:
    judge = Grader(**verdict, steps=["Compare."])
    case = Case(input="q", output="a", expected=Expected(output="a"))

    score = await evaluate_metric_async(create(metric), case, judge)

    assert scale in judge.asked[-1].instructions
    assert score.value == 0.75
    kept = dict(score.extra).get("raw") if score.judge is None or score.judge.raw is None else score.judge.raw
    assert kept == verdict["score"]


def test_seed_g10_the_order_of_a_score_s_fields_does_not_matter_since_they_have_names() -> None:
    make: Any = Score
    with pytest.raises(TypeError, match="positional"):
        make("grounding", 1.0, 0.7, True, "fine")
    assert make(reason="fine", passed=True, threshold=0.7, value=1.0, metric="grounding").value == 1.0
