import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run
from evalspan_evaluators.case import Expected
from evalspan_evaluators.output.contains import Contains
from evalspan_evaluators.rule import Filters, Rule, is_sampled, preview

RUN = Run(
    run_id="r1",
    trace_id="t1",
    agent="stock_analyst",
    service="shop",
    environment="production",
    tags=("beta",),
    flags=("stitched",),
)


def summary(run_id: str, agent: str | None = "stock_analyst") -> RunSummary:
    return RunSummary(
        project="default", run_id=run_id, trace_id="t", trace_ids=("t",), revision=1, state="closed", agent=agent,
        agents=(), session_id=None, user_id=None, service="shop", environment=None, started_ns=1, duration_s=1.0,
        status="ok", error=None, input=None, output=None, flags=(), models=(), tool_names=(), input_tokens=None,
        output_tokens=None, cache_read_tokens=None, cache_write_tokens=None, reasoning_tokens=None, cost_usd=None,
        cost_unknown_calls=0, steps=0, updated_ns=1,
    )  # fmt: skip


def test_a_rule_without_filters_is_for_every_run() -> None:
    assert Filters().mismatch(RUN) is None


@pytest.mark.parametrize(
    "filters",
    [
        Filters(agents=("stock_analyst", "other")),
        Filters(agents=("stock_*",)),
        Filters(services=("sh?p",), environments=("production",)),
        Filters(status="ok"),
        Filters(tags=("beta", "gamma")),
        Filters(flags=("stitched",)),
        Filters(without_flags=("incomplete",)),
    ],
)
def test_matching_filters_let_the_run_through(filters: Filters) -> None:
    assert filters.mismatch(RUN) is None


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        (Filters(agents=("other",)), "agent 'stock_analyst' is none of other"),
        (Filters(agents=("STOCK_analyst",)), "agent 'stock_analyst' is none of STOCK_analyst"),
        (Filters(services=("x",)), "service 'shop' is none of x"),
        (Filters(environments=("staging",)), "environment 'production' is none of staging"),
        (Filters(status="error"), "status 'ok' is not 'error'"),
        (Filters(tags=("gamma",)), "has none of the tags gamma"),
        (Filters(flags=("incomplete",)), "has none of the flags incomplete"),
        (Filters(without_flags=("stitched",)), "has the flag 'stitched'"),
    ],
)
def test_a_filtered_run_gets_the_reason(filters: Filters, reason: str) -> None:
    assert filters.mismatch(RUN) == reason


def test_an_unknown_agent_is_no_match_unless_the_pattern_takes_everything() -> None:
    nameless = replace(RUN, agent=None)
    assert Filters(agents=("a",)).mismatch(nameless) == "agent None is none of a"
    assert Filters(agents=("*",)).mismatch(nameless) is None


@given(st.text(), st.floats(0, 1), st.floats(0, 1))
def test_a_smaller_sample_is_a_part_of_a_larger_one(run_id: str, one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert not is_sampled(run_id, small) or is_sampled(run_id, large)
    assert is_sampled(run_id, 1.0)
    assert not is_sampled(run_id, 0.0)


def test_the_sample_has_about_its_share_and_is_the_same_in_another_process() -> None:
    ids = [f"run-{i}" for i in range(5000)]
    chosen = [i for i in ids if is_sampled(i, 0.25)]
    assert 0.22 < len(chosen) / len(ids) < 0.28
    code = (
        "from evalspan_evaluators.rule import is_sampled;"
        "print(sum(is_sampled(f'run-{i}', 0.25) for i in range(5000)), is_sampled('run-7', 0.25))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out == [str(len(chosen)), str(is_sampled("run-7", 0.25))]


def test_the_version_changes_with_what_the_rule_does_and_not_with_when() -> None:
    rule = Rule(name="a", metrics=(Contains(),))
    changed = [
        replace(rule, name="b"),
        replace(rule, sample=0.5),
        replace(rule, filters=Filters(agents=("x",))),
        replace(rule, expected=Expected(contains=("x",))),
        replace(rule, metrics=(Contains(threshold=0.1),)),
        replace(rule, metrics=(Contains(), Contains(threshold=0.1))),
    ]
    versions = {rule.version, *(r.version for r in changed)}
    assert len(versions) == len(changed) + 1
    assert replace(rule, max_usd_per_day=1.0, backfill_s=5.0).version == rule.version
    assert Rule(name="a", metrics=(Contains(),)).version == rule.version


def test_a_preview_says_how_many_runs_a_rule_matches_and_why_not_the_others() -> None:
    runs = [summary(f"r{i}") for i in range(40)] + [summary(f"x{i}", agent="other") for i in range(5)]
    result = preview(Rule(name="a", metrics=(), filters=Filters(agents=("stock_analyst",)), sample=0.5), runs)
    assert (result.runs, result.filtered) == (45, 5)
    assert result.matched + result.sampled_out == 40
    assert 5 < result.matched < 35
    assert result.reasons == (("agent 'other' is none of stock_analyst", 5),)
