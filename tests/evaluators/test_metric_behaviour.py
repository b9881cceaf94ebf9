"""Behaviour, errors and provenance of tool calls."""

import datetime as dt
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan_collector.message import Message, Part
from evalspan_collector.run import ToolCall, ToolDefinition
from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import create, evaluate_metric
from evalspan_evaluators.score import Score


def call(name: str, result: Any = None, *, failed: bool = False, **sent: Any) -> ToolCall:
    return ToolCall(name=name, arguments=sent, result=result, failed=failed, span_id=f"span-{name}")


def scored(metric: str, *calls: ToolCall, output: str | None = "done", **parameters: Any) -> Score:
    return evaluate_metric(create(metric, parameters), Case(tools=calls, output=output, input="help"))


def test_seed_e22_three_identical_calls_in_a_row_are_a_loop() -> None:
    assert scored("loops", call("a", q=1), call("a", q=1)).passed
    score = scored("loops", call("a", q=1), call("a", q=1), call("a", q=1), call("b"))
    assert score.value == 0.5
    assert score.label == "loop"
    assert "[a] 3 times from call 1" in score.reason


def test_calls_with_other_arguments_are_no_loop() -> None:
    assert scored("loops", *(call("read", page=n) for n in range(9))).passed


def test_a_cycle_of_several_calls_is_a_loop() -> None:
    cycle = (call("a"), call("b", n=1), call("c"))
    score = scored("loops", *cycle, *cycle, *cycle)
    assert score.value == pytest.approx(3 / 9)
    assert "[a, b, c] 3 times" in score.reason
    assert scored("loops", *cycle, *cycle).passed


def test_seed_e22_a_stall_is_five_calls_that_bring_nothing_new() -> None:
    assert scored("stalls", *(call("a", n) for n in range(9))).passed
    assert not scored("stalls", *(call("a", 1) for _ in range(6))).passed
    assert not scored("stalls", *(call("a", n) for n in range(9)), by_tool=True).passed


def test_seed_e22_an_identical_retry_after_an_error_is_blind() -> None:
    score = scored("identical_retries", *(call("a", failed=True, q=1) for _ in range(3)))
    assert score.value == pytest.approx(2 / 3)
    assert score.evidence[0].code == "IDENTICAL_RETRY"
    assert scored("identical_retries", call("a", failed=True, q=1), call("a", q=1)).passed
    assert scored("identical_retries", call("a", failed=True, q=1), call("a", failed=True, q=2)).passed
    assert scored("identical_retries", call("a")).not_applicable


def test_asking_again_for_the_same_is_redundant_until_something_changed() -> None:
    look = call("get_order", {"n": 1}, id=1)
    assert scored("redundant_calls", look, look).value == 0.5
    assert scored("redundant_calls", look, call("update_order", id=1), look).passed
    assert scored("redundant_calls", call("get_order", failed=True, id=1), look).passed


def test_tool_errors_are_a_share_and_recovery_can_be_forgiven() -> None:
    calls = (call("a", failed=True), call("a"), call("b", failed=True), call("c"))
    assert scored("tool_errors", *calls).value == 0.5
    assert scored("tool_errors", *calls, recovered="forgive").value == 0.75
    assert dict(scored("tool_errors", *calls).extra) == {"failed": 2.0, "recovered": 1.0}


@pytest.mark.parametrize("result", ["Error: no such order", {"error": "denied"}, "error"])
def test_a_result_that_is_an_error_message_is_a_failure(result: Any) -> None:
    assert scored("tool_errors", call("a", result)).value == 0.0


@pytest.mark.parametrize("result", ["Errors found: 0 in 3 files", {"error": None, "ok": True}, {"errors": []}, "fine"])
def test_a_result_that_only_mentions_errors_is_none(result: Any) -> None:
    assert scored("tool_errors", call("a", result)).value == 1.0


@pytest.mark.parametrize(
    ("answer", "admits"),
    [
        ("I could not find that order.", True),
        ("Sorry, the payment service is unavailable right now.", True),
        ("Leider konnte ich die Bestellung nicht finden.", True),
        ("Je n’ai pas pu trouver la commande.", True),
        ("申し訳ありませんが、見つかりません。", True),
        ("抱歉，未找到该订单。", True),
        ("Your refund of $20 is on its way.", False),
        ("Everything worked without any errors.", False),
        ("All done, no problems!", False),
    ],
)
def test_seed_e19_a_failure_must_be_admitted_in_the_answer(answer: str, admits: bool) -> None:
    score = scored("error_acknowledged", call("a", failed=True), output=answer)
    assert score.passed is admits


def test_a_failure_made_good_needs_no_admission() -> None:
    assert scored("error_acknowledged", call("a", failed=True), call("a"), output="Done.").not_applicable


def provenance(*calls: ToolCall, said: str = "Refund my order, I am mia_li_3668", **more: Any) -> Score:
    return evaluate_metric(create("argument_provenance"), Case(input=said, tools=calls, **more))


def test_an_id_from_an_earlier_result_or_the_user_has_an_origin() -> None:
    score = provenance(
        call("get_user", {"orders": ["O-7731"]}, user_id="mia_li_3668"), call("refund", None, order="O-7731")
    )
    assert score.value == 1.0


def test_an_invented_id_is_named_with_its_path() -> None:
    score = provenance(call("get_user", {"orders": ["O-7731"]}, user_id="mia_li_3668"), call("refund", order="O-9999"))
    assert score.value == 0.5
    (evidence,) = score.evidence
    assert (evidence.claim, evidence.tool, evidence.path) == ("O-9999", "refund", "$.order")


def test_a_text_of_other_digits_is_no_number_and_is_looked_up_as_it_is() -> None:
    made = call("measure", unit="²3", area="x²3")
    assert provenance(made, said="Take ²3 and x²3").value == 1.0
    assert provenance(made).value == 0.0


def test_a_result_with_objects_that_are_no_json_is_read_as_they_are_written() -> None:
    due = call("get_bill", {"due": dt.date(2024, 5, 3), "ref": uuid.UUID(int=7)}, user="mia_li_3668")
    assert provenance(due, call("pay", None, on="2024-05-03", ref=str(uuid.UUID(int=7)))).value == 1.0


def test_a_value_from_a_later_result_was_not_known_yet() -> None:
    assert provenance(call("refund", None, order="O-7731"), call("get_user", {"orders": ["O-7731"]})).value == 0.0


def test_derived_numbers_other_writings_and_enums_have_an_origin() -> None:
    known = call("get", {"price": 1250.5, "fee": 300}, q="x")
    assert provenance(known, call("pay", total=1550.5)).value == 1.0
    assert provenance(call("pay", total=1250), said="pay $1,250").value == 1.0
    assert provenance(call("book", date="2024-05-20"), said="on May 20th").value == 1.0
    assert provenance(call("book", date="2024-05-21"), said="on May 20th").value == 0.0
    assert provenance(call("book", date="2024-05-21"), said="next Friday").not_applicable
    schema = {"type": "object", "properties": {"plan": {"enum": ["pro-2024"]}}}
    offered = (ToolDefinition(name="up", parameters=schema),)
    assert provenance(call("up", plan="pro-2024"), tool_definitions=offered).value == 1.0


def test_free_text_and_small_numbers_are_not_checked() -> None:
    assert provenance(call("search", q="cheap flights to Rome", limit=10, page=1)).not_applicable


def test_the_user_s_later_words_count() -> None:
    later = (Message(role="user", parts=(Part(type="text", content="card 4421486 please"),)),)
    assert provenance(call("pay", card="4421486"), conversation=later).value == 1.0


@given(names=st.lists(st.sampled_from("ab"), max_size=12))
def test_behaviour_scores_lie_between_0_and_1(names: list[str]) -> None:
    calls = [call(name, failed=name == "b") for name in names]
    for metric in ("loops", "stalls", "identical_retries", "redundant_calls", "tool_errors"):
        score = scored(metric, *calls)
        assert score.error is None
        assert score.not_applicable or 0.0 <= (score.value or 0.0) <= 1.0


@given(names=st.lists(st.sampled_from("abc"), min_size=1, max_size=6))
def test_a_run_without_repetition_has_no_loop_and_no_redundant_call(names: list[str]) -> None:
    calls = [call(name, index, n=index) for index, name in enumerate(names)]
    for metric in ("loops", "stalls", "redundant_calls"):
        assert scored(metric, *calls).value == 1.0
