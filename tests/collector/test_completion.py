"""Completion: when runs close, and what a re-assembly changes; on a clock that the test holds."""

from dataclasses import replace

import pytest
from golden.handmade import agent, asks, llm, told, tool

from evalspan_collector.assemble import assemble
from evalspan_collector.completion import (
    RunFacts,
    Timing,
    changed_fields,
    closes_at_ns,
    facts_of,
    is_closed,
    revise,
    run_fingerprint,
    withdrawn,
)
from evalspan_collector.run import Run

SECOND = 1_000_000_000
T0 = 1_700_000_000 * SECOND


def facts(*, root_ended: bool = True, calls_answered: bool = True, first: int = T0, last: int = T0) -> RunFacts:
    return RunFacts(root_ended, calls_answered, first, last)


def a_run(**fields: object) -> Run:
    root = agent("desk", 0, 100)
    run = assemble([root, llm(1, 50, root), tool("look", 51, 60, root)])[0]
    return replace(run, **fields)  # type: ignore[arg-type]  # tests name real fields


@pytest.mark.parametrize(
    ("given", "after_s"),
    [
        (facts(), 2),
        (facts(calls_answered=False), 10),
        (facts(root_ended=False), 60),
        (facts(root_ended=False, last=T0 + 3590 * SECOND), 3600),
        (facts(last=T0 + 30 * SECOND), 32),
    ],
)
def test_a_run_closes_when_it_was_quiet_long_enough(given: RunFacts, after_s: int) -> None:
    assert closes_at_ns(given) == T0 + after_s * SECOND
    assert not is_closed(given, T0 + after_s * SECOND - 1)
    assert is_closed(given, T0 + after_s * SECOND)


def test_the_times_to_wait_are_settings() -> None:
    assert closes_at_ns(facts(), Timing(quick_grace_s=0.5)) == T0 + SECOND // 2


def test_a_missing_root_keeps_a_run_open_longer() -> None:
    gone = agent("gone", 0, 100)
    run = assemble([llm(1, 50, gone), tool("look", 51, 60, gone)])[0]
    assert not facts_of(run).root_ended


def test_an_unanswered_tool_call_keeps_a_run_open_longer() -> None:
    root = agent("desk", 0, 100)
    run = assemble([root, llm(1, 50, root, output_messages=told(asks(("c", "look", {}))))])[0]
    assert not facts_of(run).calls_answered


def test_a_run_is_open_then_closed_then_amended() -> None:
    first = revise(None, a_run(), closed=False)
    assert (first.state, first.revision) == ("open", 1)
    closed = revise(first, a_run(), closed=True)
    assert (closed.state, closed.revision) == ("closed", 1)
    again = revise(closed, a_run(last_received_ns=T0 + 5), closed=True)
    assert (again.state, again.revision) == ("closed", 1), "nothing a reader sees has changed"
    late = revise(again, a_run(output="late"), closed=True)
    assert (late.state, late.revision) == ("amended", 2)


def test_the_fingerprint_knows_no_times_of_arrival() -> None:
    assert run_fingerprint(a_run()) == run_fingerprint(a_run(last_received_ns=9, first_received_ns=3, revision=7))
    assert run_fingerprint(a_run()) != run_fingerprint(a_run(output="other"))


def test_only_what_changed_is_scored_again() -> None:
    assert changed_fields(a_run(), a_run(tags=("late",))) == {"tags"}
    assert changed_fields(a_run(), a_run(revision=4)) == frozenset()


def test_a_run_that_got_another_root_is_withdrawn() -> None:
    gone = agent("gone", 0, 100, parent_id="above")
    children = [llm(1, 50, gone), tool("look", 51, 60, gone)]
    before = assemble(children)
    above = agent("above", 0, 200, span_id="above")
    after = assemble([*children, gone, above])
    tombstones = withdrawn(before, after)
    assert [(t.run_id, t.state, t.revision) for t in tombstones] == [(before[0].run_id, "withdrawn", 2)]
    assert withdrawn(tombstones, after) == (), "once is enough"
