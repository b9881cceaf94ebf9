"""Answers that contradict, or agree with, what the tools of a run said."""

import json
from typing import Any

import pytest
from golden.captures import capture, captures

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.grounding import Grounding
from evalspan_evaluators.metric import evaluate_metric
from evalspan_evaluators.score import Evidence, Score

ACMX = {
    "ticker": "ACMX",
    "period": "1mo",
    "price": 187.42,
    "currency": "USD",
    "pe_ratio": 23.1,
    "revenue_growth": 0.124,
}
NWTX = {
    "ticker": "NWTX",
    "price": 142.35,
    "currency": "USD",
    "eps_ttm": 5.1,
    "pe": 27.91,
    "revenue_growth_pct": 18.4,
    "debt_to_equity": 0.42,
}


def call(name: str, result: Any, span_id: str = "b7ad6b7169203331", **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments or None, result=result, span_id=span_id)


def score(output: str, *tools: ToolCall, question: str = "") -> Score:
    return evaluate_metric(Grounding(), Case(input=question or None, output=output, tools=tools))


def flagged(result: Score) -> list[Evidence]:
    return [e for e in result.evidence if e.verdict in ("contradicted", "unsupported")]


@pytest.mark.parametrize("encode", [json.dumps, dict, repr])
def test_a_wrong_price_and_ratio_are_contradicted_with_pointer_and_true_value(encode: Any) -> None:
    answer = "ACMX is trading at 197.42 USD with a P/E of 18.3, a clear bargain."
    result = score(answer, call("fetch_stock_data", encode(ACMX), ticker="ACMX"))
    price, ratio = flagged(result)
    assert (price.verdict, price.expected, price.path, price.tool) == (
        "contradicted",
        "187.42",
        "$.price",
        "fetch_stock_data",
    )
    assert (ratio.verdict, ratio.expected, ratio.path) == ("contradicted", "23.1", "$.pe_ratio")
    assert price.span_id == "b7ad6b7169203331"
    assert answer[price.start : price.end] == "197.42 USD"
    assert result.passed is False


def test_three_wrong_figures_next_to_results_of_other_tools() -> None:
    result = score(
        "NWTX trades at 412.35 USD with a P/E of 17.9, so it is a bargain; revenue grew 48.4%.",
        call(
            "search",
            '[{"title": "Northwind Turbines posts record backlog", "ticker": "NWTX", "published": "2025-10-14"}]',
        ),
        call("fetch_stock_data", NWTX),
        call("analyze_metrics", {"ticker": "NWTX", "peg": 1.517, "verdict": "fairly valued", "score": 0.62}),
    )
    assert [(e.claim, e.expected, e.path) for e in flagged(result)] == [
        ("412.35 USD", "142.35", "$.price"),
        ("17.9", "27.91", "$.pe"),
        ("48.4%", "18.4", "$.revenue_growth_pct"),
    ]


def test_a_true_answer_has_no_flags() -> None:
    result = score(
        "ACMX trades at 187.42 USD with a P/E of 23.1 and revenue growth of 12.4%.", call("fetch_stock_data", ACMX)
    )
    assert flagged(result) == []
    assert result.value == 1.0


def test_policy_text_and_order_data_support_a_refund_answer() -> None:
    result = score(
        "Yes. LL-20417 was delivered 12 days ago, within the 30-day window, and before day 14 there is no restocking "
        "fee, so you get 84.50 EUR back.",
        call(
            "lookup_order",
            {"order_id": "LL-20417", "status": "delivered", "delivered_days_ago": 12, "total": 84.5, "currency": "EUR"},
        ),
        call(
            "get_refund_policy",
            "Unused items may be returned within 30 days of delivery. A restocking fee of 10% applies after 14 days.",
        ),
        question="Order LL-20417: can I still send the lamp back?",
    )
    assert flagged(result) == []
    assert result.passed


def test_nothing_checkable_is_not_applicable() -> None:
    result = score("Happy to help, anything else?", call("fetch_stock_data", ACMX))
    assert result.not_applicable
    assert "nothing to check" in result.reason


def test_seed_g8_no_evidence_is_not_applicable_with_its_reason() -> None:
    result = score("ACMX trades at 187.42 USD.")
    assert result.not_applicable
    assert "no evidence" in result.reason


def test_seed_e18_one_bad_claim_of_ten_fails_the_run() -> None:
    facts = {
        f"metric_{name}": 1000 + 37 * i
        for i, name in enumerate(
            ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
        )
    }
    said = dict(facts) | {"metric_delta": 9111}
    answer = "\n".join(f"{key.removeprefix('metric_')}: {value}" for key, value in said.items())
    result = score(answer, call("read_metrics", facts))
    assert [e.claim for e in flagged(result)] == ["9111"]
    assert result.passed is False


def test_uncaptured_results_are_no_evidence() -> None:
    case = Case(output="It costs 12 EUR.", tools=(ToolCall(name="price", content_captured=False),))
    result = evaluate_metric(Grounding(), case)
    assert result.not_applicable
    assert "not captured" in result.reason


def test_a_field_of_another_tool_may_be_meant_but_not_one_of_another_subject() -> None:
    search = call(
        "search", [{"flight": "HAT1", "prices": {"economy": 164}}, {"flight": "HAT2", "prices": {"economy": 192}}]
    )
    booking = call(
        "book", {"id": "R1", "flights": [{"flight": "HAT3", "price": 443}, {"flight": "HAT1", "price": 164}]}
    )
    assert flagged(score("Flight HAT1 has a price of $164 in economy.", search, booking)) == []
    (wrong,) = flagged(score("Flight HAT1 has a price of $443 in economy.", search, booking))
    assert (wrong.claim, wrong.verdict, wrong.expected) == ("$443", "contradicted", "164")
    sector = call("sector", {"sector": "energy", "sector_pe": 19.5})
    assert flagged(score("ACMX has a P/E of 23.1 while the sector P/E is 19.5.", call("fetch", ACMX), sector)) == []


@pytest.mark.parametrize("name", [n for n in captures() if n.endswith(("__refund_bot", "__stock_analyst"))])
def test_no_claim_of_a_captured_answer_is_flagged_unless_its_source_says_otherwise(name: str) -> None:
    for run in capture(name).runs():
        for wrong in flagged(evaluate_metric(Grounding(), Case.from_run(run))):
            # Some captured analysts say a score that their own tool did not give.
            assert (wrong.value, wrong.expected) == ("53.68", "5.37")
            assert any("5.37" in str(tool.result) and "53.68" not in str(tool.result) for tool in run.tools)


def test_a_rule_of_a_category_may_be_meant_of_anything_though_its_call_names_the_category() -> None:
    order = call("lookup_order", {"order_id": "LL-20417", "delivered_days_ago": 12}, order_id="LL-20417")
    policy = call("get_refund_policy", "Unused items may be returned within 30 days of delivery.", category="lighting")
    assert score("LL-20417 was delivered 12 days ago, within the 30-day window.", order, policy).value == 1.0
    weather = [call("weather", f"It is {t} degrees Celsius.", city=c) for c, t in (("Paris", 21), ("Berlin", 18))]
    assert [e.expected for e in flagged(score("Paris has 18 degrees Celsius.", *weather))] == ["21"]
