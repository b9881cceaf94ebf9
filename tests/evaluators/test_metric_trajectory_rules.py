"""Trajectory rules: the language, its automata, and the point at which a run breaks a rule."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan.errors import ConfigError
from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import create, evaluate_metric
from evalspan_evaluators.score import Score
from evalspan_evaluators.trajectory.trajectory import Trajectory


def run(rule: str, *calls: str | ToolCall, strict: bool = False) -> Score:
    tools = tuple(ToolCall(name=c, span_id=f"s{i}") if isinstance(c, str) else c for i, c in enumerate(calls))
    score = evaluate_metric(Trajectory(rules=(rule,), strict=strict), Case(tools=tools))
    assert score.error is None, score.error
    return score


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("a b", ["ab", "xaxbx"], ["ba", "a", ""]),
        ("a -> b -> c", ["abc", "axbxc"], ["acb"]),
        ("a b? c", ["ac", "abc"], ["bc", "ca"]),
        ("a (b | c) d", ["abd", "acd", "axcxd"], ["ad"]),
        ("a{2}", ["aa", "axa"], ["a", ""]),
        ("a{2,3} b", ["aab", "aaab"], ["ab"]),
        ("(a b)+ c", ["abc", "ababc"], ["ac", "c"]),
        ("a before b", ["ab", "", "a", "x", "aab"], ["b", "ba", "xba"]),
        ("b after a", ["ab", "", "a"], ["ba"]),
        ("never c", ["", "ab"], ["c", "abc"]),
        ("never c after d", ["", "c", "cd", "cdx"], ["dc", "cdxc"]),
        ("never c before d", ["dc", "d", ""], ["cd", "c"]),
        ("c between a and b", ["acb", "", "ab", "acxcb"], ["cab", "ac", "abc", "acbc"]),
        ("at most 2 of s", ["", "ss", "sxs"], ["sss", "sxsxs"]),
        ("at least 2 of s", ["ss", "sxs", "sss"], ["", "s"]),
        ("exactly 2 of s", ["ss", "xsxs"], ["s", "sss"]),
        ("at most 0 of s", ["", "x"], ["s"]),
    ],
)
def test_each_form_of_rule_is_kept_and_broken_as_written(rule: str, good: list[str], bad: list[str]) -> None:
    assert [calls for calls in good if not run(rule, *calls).passed] == []
    assert [calls for calls in bad if run(rule, *calls).passed] == []


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("a b", ["ab"], ["axb", "abx", "xab"]),
        ("a ... b", ["ab", "axyb"], ["abx"]),
        ("a . b", ["axb"], ["ab", "axxb"]),
        ("a !b* c", ["ac", "axxc"], ["abc", "axbc"]),
        ("a* b{1,2}", ["b", "aabb"], ["a", "bbb"]),
        ("a*", ["", "aaa"], ["ab"]),
    ],
)
def test_a_strict_rule_describes_the_whole_run(rule: str, good: list[str], bad: list[str]) -> None:
    assert [calls for calls in good if not run(rule, *calls, strict=True).passed] == []
    assert [calls for calls in bad if run(rule, *calls, strict=True).passed] == []


def test_names_have_wildcards_quotes_and_dots() -> None:
    assert run("get_* 'send mail' web.search", "get_user", "send mail", "web.search").passed
    assert run("mcp__db__* before refund", "mcp__db__read", "refund").passed
    assert run("'before' a", "before", "a").passed


def refund(**sent: Any) -> ToolCall:
    return ToolCall(name="refund", arguments=sent, span_id="r")


@pytest.mark.parametrize(
    ("condition", "good"),
    [
        ("amount <= 100", True),
        ("amount > 100", False),
        ("amount = 100, reason = 'late delivery'", True),
        ("reason ~ '^late'", True),
        ("reason != late", True),
        ("urgent = true", True),
        ("items[0].id = A1", True),
        ("items[*].id = B2", True),
        ("items.1.id = A1", False),
        ("missing", False),
        ("amount", True),
        ("when >= '2024-01-01' and when < '2024-02-01'", True),
    ],
)
def test_a_call_has_conditions_on_its_arguments(condition: str, good: bool) -> None:
    sent = refund(
        amount=100, reason="late delivery", urgent=True, items=[{"id": "A1"}, {"id": "B2"}], when="2024-01-15"
    )
    assert run(f"refund[{condition}]", sent).passed is good


def test_a_condition_can_look_at_the_result_and_at_failure() -> None:
    check = ToolCall(name="check", result={"status": "ok"})
    assert run("check[result.status = ok] before refund", check, "refund").passed
    assert not run("check[result.status = denied] before refund", check, "refund").passed
    assert not run("never refund[failed]", ToolCall(name="refund", failed=True)).passed


def test_an_argument_must_come_from_an_earlier_result() -> None:
    lookup = ToolCall(name="lookup", result={"orders": [{"id": 71, "total": 9.5}], "note": "call 555"})
    rule = "refund[order = from lookup.orders.id]"
    assert run(rule, lookup, refund(order=71)).passed
    assert run(rule, lookup, refund(order="71")).passed
    assert not run(rule, lookup, refund(order=72)).passed
    assert not run(rule, lookup, refund(order=9.5)).passed
    assert not run(rule, refund(order=71), lookup).passed
    assert run("refund[order = from any]", lookup, refund(order=9.5)).passed
    assert not run("never refund[order != from any]", lookup, refund(order=1)).passed
    assert run(
        "refund[order = from lookup]", ToolCall(name="lookup", result="order O-7 found"), refund(order="O-7")
    ).passed


def test_the_call_that_breaks_a_rule_is_the_evidence() -> None:
    score = run("verify before refund", "search", "refund", "verify")
    (evidence,) = score.evidence
    assert (evidence.tool, evidence.span_id, evidence.code) == ("refund", "s1", "RULE_BROKEN")
    assert "call 2 'refund'" in score.reason


def test_an_unfinished_rule_says_what_was_still_expected() -> None:
    score = run("search (email | sms) close", "search", "x", "sms")
    assert score.evidence[0].code == "RULE_NOT_COMPLETED"
    assert "expected close after call 3 'sms'" in score.reason


def test_a_near_name_is_offered() -> None:
    assert "'search_web' the same tool" in run("searchWeb close", "search_web").reason


def test_the_value_is_the_share_of_rules_kept() -> None:
    metric = create("trajectory", {"rules": ["a before b", "never c", "a b"]})
    assert evaluate_metric(metric, Case(tools=(ToolCall(name="a"), ToolCall(name="c")))).value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "a (b",
        "a)",
        "a{3,2}",
        "a{999}",
        "before",
        "never",
        "a before",
        "at 3 of x",
        "a[",
        "a[x <]",
        "(a{99}){99}",
        "(",
    ],
)
def test_a_broken_rule_is_refused_with_its_place(rule: str) -> None:
    with pytest.raises(ConfigError, match="trajectory"):
        create("trajectory", {"rules": [rule]})


def test_deep_brackets_are_refused_not_followed() -> None:
    with pytest.raises(ConfigError, match="nested"):
        create("trajectory", {"rules": ["(" * 500 + "a" + ")" * 500]})


patterns = st.recursive(
    st.sampled_from(["a", "b", "c"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"({p[0]} {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} | {p[1]})"),
        inner.map(lambda p: f"({p})?"),
        inner.map(lambda p: f"({p})*"),
        inner.map(lambda p: f"({p}){{1,2}}"),
    ),
    max_leaves=6,
)


@given(pattern=patterns, calls=st.text("abcd", max_size=7))
def test_a_strict_rule_agrees_with_a_regular_expression(pattern: str, calls: str) -> None:
    expression = pattern.replace(" | ", "|").replace(" ", "")
    wanted = re.fullmatch(expression, calls) is not None
    assert run(pattern, *calls, strict=True).passed is wanted


@given(pattern=patterns, calls=st.text("abcd", max_size=7))
def test_further_calls_never_break_a_rule_that_is_not_strict(pattern: str, calls: str) -> None:
    if run(pattern, *calls).passed:
        assert run(pattern, *f"d{'d'.join(calls)}d").passed


def test_time_grows_with_the_calls_and_not_with_the_ways_to_match() -> None:
    rule = "(a* a*)* (a | a)* b"
    assert not run(rule, *("a" * 20_000)).passed
