"""What every store does, over the memory store, the HTTP front, chDB in the process, and a server where one is given."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalspan_collector.records import AlertEvent, AlertState, JudgeCallRecord, OutcomeRecord, ScoreRecord
from evalspan_collector.run import ModelCall, Run, Step, ToolCall
from evalspan_collector.span import LogRecord, Span, SpanEvent, SpanKind, SpanLink, Usage
from evalspan_collector.store.contract import (
    AggregateQuery,
    RunQuery,
    RunTrend,
    ScoreQuery,
    ScoreTrend,
    SeriesQuery,
    Store,
)
from evalspan_collector.store.current import Stamp
from evalspan_collector.store.span_block import SpanBlock

NOW = 1_796_000_000_000_000_000
SECOND = 1_000_000_000
IN_PROCESS = "EVALSPAN_TEST_IN_PROCESS"


@pytest.fixture(scope="session")
def engine_folder() -> Iterator[str]:
    """Folder of the engine of this process, kept running between the tests."""
    from evalspan_collector.store.opening import open_store

    folder = os.environ[IN_PROCESS]
    root = open_store(f"chdb://{folder}")
    yield folder
    root.close()


@pytest.fixture(params=["memory", "http", "chdb", "server"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    from evalspan_collector.store.opening import open_store

    name = f"t_{uuid.uuid4().hex[:16]}"
    if request.param == "memory":
        opened = open_store("memory://")
    elif request.param == "http":
        opened = open_store(f"{request.getfixturevalue('store_process').url}/{name}")
    elif request.param == "chdb":
        if IN_PROCESS not in os.environ:
            pytest.skip("chDB is tried in a process of its own below")
        opened = open_store(f"chdb://{request.getfixturevalue('engine_folder')}?database={name}")
    else:
        opened = open_store(f"{request.getfixturevalue('clickhouse_server_url')}/{name}")
    yield opened
    opened.close()


@pytest.mark.timeout(900)
@pytest.mark.skipif(IN_PROCESS in os.environ, reason="this is that process")
def test_the_contract_holds_for_chdb_in_the_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "chdb", "-p", "no:cacheprovider", "--timeout", "600", __file__],
        env={**os.environ, IN_PROCESS: str(tmp_path / "store")},
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def span(number: int = 0, trace: str = "a" * 32, **more: Any) -> Span:
    given: dict[str, Any] = {
        "trace_id": trace,
        "span_id": f"{number:016x}",
        "name": "chat",
        "start_ns": NOW + number,
        "end_ns": NOW + number + SECOND,
        "received_ns": NOW + number,
    }
    return Span(**(given | more))


def run(run_id: str = "r1", **more: Any) -> Run:
    given: dict[str, Any] = {
        "run_id": run_id,
        "trace_id": "a" * 32,
        "state": "closed",
        "agent": "analyst",
        "started_ns": NOW,
        "duration_s": 2.0,
        "last_received_ns": NOW,
    }
    return Run(**(given | more))


def score(run_id: str = "r1", value: float | None = 0.9, **more: Any) -> ScoreRecord:
    given: dict[str, Any] = {
        "project": "default",
        "run_id": run_id,
        "metric": "grounding",
        "rule": "all",
        "run_revision": 1,
        "metric_version": "v1",
        "created_ns": NOW,
        "value": value,
        "threshold": 0.7,
        "passed": None if value is None else value >= 0.7,
    }
    return ScoreRecord(**(given | more))


def outcome(run_id: str = "r1", **more: Any) -> OutcomeRecord:
    given: dict[str, Any] = {
        "project": "default",
        "rule": "all",
        "run_id": run_id,
        "run_revision": 1,
        "outcome": "scored",
        "rule_version": "v1",
        "created_ns": NOW + 10**18,
    }
    return OutcomeRecord(**(given | more))


# spans and logs

FULL = span(
    parent_id="b" * 16,
    kind=SpanKind.LLM,
    status="error",
    status_message="boom",
    otel_kind=3,
    span_flags=768,
    scope_name="anthropic",
    agent_name="analyst",
    agent_id="",
    tool_name="",
    failed=True,
    error_message="it's \\ bad\n\t\0",
    finish_reasons=("stop", "length"),
    time_to_first_token_s=0.25,
    usage=Usage(input_tokens=10, output_tokens=0, cache_read_tokens=4),
    cost_carried=0.001,
    content="captured",
    input_messages='[{"role":"user","parts":[{"type":"text","content":"größe 你好 😀"}]}]',
    tags=("a", "b"),
    events=(SpanEvent("e", NOW, {"k": "v"}),),
    links=(SpanLink("c" * 32, "d" * 16),),
    flags=("usage_repaired",),
    attributes={"": "", "key": "[1,2]", "quote'": 'x"'},
    sources={"model_request": "gen_ai.request.model"},
    session_id="s1",
)


def test_a_span_comes_back_as_it_went_in(store: Store) -> None:
    store.insert_spans([FULL, span(1)], token="t")
    found = {s.span_id: s for s in store.spans("default", ["a" * 32])}
    assert found == {FULL.span_id: FULL, span(1).span_id: span(1)}
    assert store.spans("default", []) == []
    assert store.spans("default", ["none"]) == []
    assert store.spans("other", ["a" * 32]) == []


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_optional = st.none() | _text
_count = st.none() | st.integers(-(2**63) + 1, 2**63 - 1)
_pairs = st.dictionaries(_text, _text, max_size=3)
_spans = st.builds(
    Span,
    trace_id=st.sampled_from(["1" * 32, "2" * 32]),
    span_id=st.uuids().map(lambda u: u.hex[:16]),
    name=_text,
    start_ns=st.integers(0, 2**64 - 1),
    end_ns=st.integers(0, 2**64 - 1),
    received_ns=st.integers(NOW, NOW + 10**15),
    parent_id=_optional,
    otel_kind=st.integers(0, 5),
    span_flags=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(SpanKind),
    agent_name=_optional,
    agent_description=_optional,
    tool_arguments=_optional,
    tool_result=_optional,
    failed=st.none() | st.booleans(),
    error_type=_optional,
    request_params=_optional,
    finish_reasons=st.lists(_text, max_size=2).map(tuple),
    time_to_first_token_s=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    usage=st.builds(Usage, _count, _count, _count, _count, _count),
    cost_carried=st.none() | st.floats(allow_nan=False),
    input_messages=_optional,
    output_value=_optional,
    run_input=_optional,
    documents=_optional,
    session_id=_optional,
    tags=st.lists(_text, max_size=2).map(tuple),
    flags=st.lists(_text, max_size=2).map(tuple),
    events=st.lists(st.builds(SpanEvent, _text, st.integers(0, 2**64 - 1), _pairs), max_size=2).map(tuple),
    links=st.lists(st.builds(SpanLink, _text, _text, _pairs), max_size=2).map(tuple),
    attributes=_pairs,
    sources=_pairs,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spans=st.lists(_spans, min_size=1, max_size=5, unique_by=lambda s: (s.trace_id, s.span_id)))
def test_any_span_comes_back_as_it_went_in(store: Store, spans: list[Span]) -> None:
    project = uuid.uuid4().hex
    given = [replace(s, project=project) for s in spans]
    store.insert_spans(given, token=project)
    found = store.spans(project, ["1" * 32, "2" * 32])
    assert sorted(found, key=lambda s: (s.trace_id, s.span_id)) == sorted(given, key=lambda s: (s.trace_id, s.span_id))


def test_values_that_fit_no_column_do_not_stop_their_neighbours(store: Store) -> None:
    odd = span(1, name="a\ud800b", otel_kind=999, usage=Usage(input_tokens=2**70), attributes={"k\udfff": "v"})
    store.insert_spans([span(0), odd, span(2)], token="t")
    assert len(store.spans("default", ["a" * 32])) == 3


def test_the_same_token_twice_stores_once(store: Store) -> None:
    for _ in range(3):
        store.insert_spans([span(0), span(1)], token="t")
    assert len(store.spans("default", ["a" * 32])) == 2
    assert store.open_traces()[0].spans == 2


def test_a_span_sent_again_replaces_the_older_one(store: Store) -> None:
    store.insert_spans([span(0, name="new", received_ns=NOW + 5)], token="t1")
    store.insert_spans([span(0, name="old", received_ns=NOW + 1)], token="t2")
    assert [s.name for s in store.spans("default", ["a" * 32])] == ["new"]


def test_a_span_that_is_twice_in_one_block_counts_once(store: Store) -> None:
    twice = [span(0, name="old"), span(1), span(0, name="new", received_ns=NOW + 5)]
    store.insert_spans(twice, token="t")
    assert {s.name for s in store.spans("default", ["a" * 32])} == {"new", span(1).name}
    assert len(store.spans("default", ["a" * 32])) == 2


def test_a_block_formed_piece_by_piece_is_what_was_added(store: Store) -> None:
    block = SpanBlock()
    block.add([span(0)])
    block.add([replace(FULL, trace_id="a" * 32, span_id="f" * 16), span(2, name="a\ud800b")])
    block.add([span(3)])
    store.insert_block(block, token="t")
    store.insert_block(block, token="t")
    found = {s.span_id: s for s in store.spans("default", ["a" * 32])}
    assert len(block) == len(found) == 4
    assert [found[s.span_id] for s in block.spans] == block.spans
    assert block.spans[2].name == "a?b"


def test_a_stamp_tells_what_a_trace_holds_without_reading_it(store: Store) -> None:
    store.insert_spans([span(0), span(1, received_ns=NOW + 7), span(0, trace="b" * 32)], token="t1")
    store.insert_spans([span(0, received_ns=NOW + 3)], token="t2")
    stamps = store.stamps("default", ["a" * 32, "b" * 32, "c" * 32])
    assert stamps["a" * 32] == Stamp(2, NOW + 7, 0, 0)
    assert stamps["b" * 32] == Stamp(1, NOW, 0, 0)
    assert stamps.get("c" * 32, Stamp(0, 0, 0, 0)) == Stamp(0, 0, 0, 0)
    assert store.stamps("other", ["a" * 32]).get("a" * 32, Stamp(0, 0, 0, 0)) == Stamp(0, 0, 0, 0)


def test_the_first_arrival_of_a_trace_outlives_the_spans_that_came_with_it(store: Store) -> None:
    store.insert_spans([span(0), span(1, trace="b" * 32), span(2, trace="c" * 32, start_ns=1, end_ns=2)], token="t1")
    store.insert_spans([span(0, received_ns=NOW + 7)], token="t2")
    ids = ["a" * 32, "b" * 32, "c" * 32, "d" * 32]
    window = {"start_ns": NOW, "end_ns": NOW + SECOND}
    assert store.first_arrivals("default", ids, **window) == {"a" * 32: NOW, "b" * 32: NOW + 1}
    assert store.first_arrivals("default", ids[2:], start_ns=0, end_ns=NOW) == {"c" * 32: NOW + 2}
    assert store.first_arrivals("other", ids, **window) == {}
    assert store.first_arrivals("default", [], **window) == {}


def test_the_first_arrival_is_of_what_ran_at_that_time_and_not_of_what_replaced_it(store: Store) -> None:
    store.insert_spans([span(0)], token="t1")
    later = span(0, received_ns=NOW + 7, start_ns=NOW + 9 * SECOND, end_ns=NOW + 9 * SECOND)
    store.insert_spans([later], token="t2")
    assert store.first_arrivals("default", ["a" * 32], start_ns=NOW, end_ns=NOW) == {"a" * 32: NOW}
    assert store.first_arrivals("default", ["a" * 32], start_ns=NOW + 8 * SECOND, end_ns=2**60) == {}
    assert store.first_arrivals("default", ["a" * 32], start_ns=later.start_ns, end_ns=2**62) == {"a" * 32: NOW + 7}


def test_spans_of_many_projects_and_days_go_in_together(store: Store) -> None:
    many = [span(0, project=f"p{i}", received_ns=NOW + i * 86_400 * SECOND) for i in range(130)]
    store.insert_spans(many, token="t")
    assert all(len(store.spans(f"p{i}", ["a" * 32])) == 1 for i in (0, 60, 129))


def test_log_records_come_back_as_they_went_in(store: Store) -> None:
    logs = [
        LogRecord(
            project="default",
            trace_id="a" * 32,
            span_id=f"{i:016x}",
            event_name="gen_ai.choice",
            time_ns=NOW,
            received_ns=NOW,
            body=body,
            attributes={"k": "v"},
            sequence=i,
        )
        for i, body in enumerate(['{"x":1}', None, ""])
    ]
    store.insert_logs(logs, token="t")
    store.insert_logs(logs, token="t2")
    assert sorted(store.logs("default", ["a" * 32]), key=lambda r: r.sequence) == logs
    assert store.logs("default", ["b" * 32]) == []
    assert store.stamps("default", ["a" * 32]) == {"a" * 32: Stamp(0, 0, 3, NOW)}


def test_spans_stream_in_pages_by_the_time_they_came(store: Store) -> None:
    store.insert_spans([span(i, trace=f"{i % 7:032x}") for i in range(12_000)], token="t")
    assert len(list(store.iter_spans("default", since_ns=NOW, until_ns=NOW + 12_000))) == 12_000
    assert {s.span_id for s in store.iter_spans("default", since_ns=NOW + 3, until_ns=NOW + 5)} == {
        span(3).span_id,
        span(4).span_id,
    }


# the pending set


def test_a_trace_is_open_until_its_run_is_closed(store: Store) -> None:
    store.insert_spans([span(0), span(3)], token="t")
    (found,) = store.open_traces()
    assert (found.trace_id, found.first_received_ns, found.last_received_ns, found.spans) == ("a" * 32, NOW, NOW + 3, 2)
    store.write_runs([run(state="open", last_received_ns=NOW + 3)], token="r1")
    assert len(store.open_traces()) == 1
    store.write_runs([run(last_received_ns=NOW + 3)], token="r2")
    assert store.open_traces() == []


def test_a_late_span_opens_the_trace_again(store: Store) -> None:
    store.insert_spans([span(0)], token="t")
    store.write_runs([run()], token="r")
    store.insert_spans([span(7)], token="t2")
    assert [t.last_received_ns for t in store.open_traces()] == [NOW + 7]


def test_a_late_log_record_opens_the_trace_again(store: Store) -> None:
    store.insert_spans([span(0)], token="t")
    store.write_runs([run()], token="r")
    late = LogRecord(
        project="default", trace_id="a" * 32, span_id="b" * 16, event_name="e", time_ns=NOW, received_ns=NOW + 9
    )
    store.insert_logs([late], token="l")
    assert len(store.open_traces()) == 1


def test_one_open_run_keeps_a_trace_of_several_open(store: Store) -> None:
    store.insert_spans([span(0), span(1)], token="t")
    store.write_runs([run("r1", state="open", last_received_ns=NOW), run("r2", last_received_ns=NOW + 1)], token="r")
    assert len(store.open_traces()) == 1
    store.withdraw_runs("default", ["r1"], now_ns=NOW)
    assert store.open_traces() == []


def test_a_trace_without_runs_can_be_settled(store: Store) -> None:
    store.insert_spans([span(0), span(1, trace="b" * 32)], token="t")
    store.settle_traces("default", [("a" * 32, NOW)])
    assert [t.trace_id for t in store.open_traces()] == ["b" * 32]


def test_open_traces_are_those_since_a_time_oldest_first(store: Store) -> None:
    store.insert_spans([span(i, trace=f"{i:032x}") for i in (5, 1, 3)], token="t")
    assert [t.last_received_ns - NOW for t in store.open_traces()] == [1, 3, 5]
    assert [t.last_received_ns - NOW for t in store.open_traces(since_received_ns=NOW + 3)] == [3, 5]
    assert len(store.open_traces(limit=1)) == 1


def test_open_traces_come_in_pages_of_which_none_misses_or_repeats_a_trace(store: Store) -> None:
    same_time = [span(4, trace=f"{i:032x}") for i in (9, 8, 7)]
    store.insert_spans([span(i, trace=f"{i:032x}") for i in (5, 1, 3)] + same_time, token="t")
    pages = [store.open_traces(limit=2)]
    while pages[-1]:
        pages.append(store.open_traces(after=pages[-1][-1], limit=2))
    assert [len(page) for page in pages] == [2, 2, 2, 0]
    assert [int(t.trace_id, 16) for page in pages for t in page] == [1, 3, 7, 8, 9, 5]


def test_neighbours_are_traces_of_a_process_or_session_in_a_window(store: Store) -> None:
    store.insert_spans(
        [
            span(0, trace="1" * 32, service_instance_id="i1", service_name="svc"),
            span(1, trace="2" * 32, service_name="svc"),
            span(2, trace="3" * 32, session_id="s"),
            span(3, trace="4" * 32, service_name="svc", start_ns=1, end_ns=2),
        ],
        token="t",
    )
    ask = {"start_ns": NOW, "end_ns": NOW + SECOND}
    assert store.neighbour_traces("default", processes=["svc"], session_ids=[], **ask) == ["1" * 32, "2" * 32]
    assert store.neighbour_traces("default", processes=["i1"], session_ids=["s"], **ask) == ["1" * 32, "3" * 32]
    assert store.neighbour_traces("other", processes=["svc"], session_ids=["s"], **ask) == []


# runs


def test_the_newest_revision_of_a_run_is_shown(store: Store) -> None:
    store.write_runs([run(output="first")], token="r1")
    store.write_runs([run(output="second", revision=2, state="amended")], token="r2")
    (found,) = store.runs(RunQuery(project="default"))
    assert (found.output, found.revision, found.state) == ("second", 2, "amended")
    assert store.run_summary("default", "r1") == found
    assert store.run_summary("other", "r1") is None
    assert store.run_summary(None, "r1") == found


def test_a_run_row_holds_what_the_list_shows(store: Store) -> None:
    full = run(
        agents=("analyst", "helper"),
        session_id="s",
        user_id="u",
        service="svc",
        environment="prod",
        status="error",
        error="boom",
        input="in",
        output="out",
        flags=("orphans",),
        tags=("x",),
        metadata={"k": [1]},
        models=("m1",),
        usage=Usage(input_tokens=3, output_tokens=4, reasoning_tokens=1),
        cost_usd=0.25,
        cost_unknown_calls=1,
        steps=(
            Step(index=0, kind="tool_call", name="search", tool=ToolCall(name="search")),
            Step(index=1, kind="tool_call", name="final", tool=ToolCall(name="final", pseudo=True)),
            Step(index=2, kind="model_call", name="chat", model_call=ModelCall(model="m1")),
        ),
    )
    store.write_runs([full], token="r")
    found = store.run_summary("default", "r1")
    assert found is not None
    assert found.tool_names == ("search",)
    assert (found.agents, found.session_id, found.user_id) == (("analyst", "helper"), "s", "u")
    assert (found.status, found.error, found.input, found.output) == ("error", "boom", "in", "out")
    assert (found.input_tokens, found.output_tokens, found.cache_read_tokens, found.reasoning_tokens) == (3, 4, None, 1)
    assert (found.cost_usd, found.cost_unknown_calls, found.steps, found.flags) == (0.25, 1, 3, ("orphans",))
    assert found.trace_ids == ("a" * 32,)


def test_runs_page_by_key_without_gaps(store: Store) -> None:
    store.write_runs([run(f"r{i:02}", started_ns=NOW + i // 3) for i in range(20)], token="r")
    seen: list[str] = []
    before: tuple[int, str] | None = None
    while page := store.runs(RunQuery(project="default", limit=7, before=before)):
        seen += [r.run_id for r in page]
        before = (page[-1].started_ns, page[-1].run_id)
    assert seen == [f"r{i:02}" for i in reversed(range(20))]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"agent": "analyst"}, {"good", "bad"}),
        ({"agent": "x' OR 1=1 --"}, set[str]()),
        ({"status": "error"}, {"bad"}),
        ({"state": "open"}, {"other"}),
        ({"session_id": "s"}, {"good"}),
        ({"user_id": "u"}, {"bad"}),
        ({"service": "svc"}, {"good"}),
        ({"environment": "prod"}, {"good"}),
        ({"model": "m"}, {"good"}),
        ({"tool": "search"}, {"bad"}),
        ({"flag": "orphans"}, {"bad"}),
        ({"since_ns": NOW + 1}, {"bad", "other"}),
        ({"until_ns": NOW + 1}, {"good"}),
        ({"text": "REFUND"}, {"good"}),
        ({"text": "boom"}, {"bad"}),
        ({"metric": "grounding"}, {"good", "bad"}),
        ({"metric": "grounding", "passed": False}, {"bad"}),
        ({"passed": True}, {"good"}),
        ({"metric": "grounding", "max_score": 0.5}, {"bad"}),
        ({"metric": "none"}, set[str]()),
    ],
)
def test_runs_are_filtered(store: Store, query: dict[str, Any], expected: set[str]) -> None:
    steps = (Step(index=0, kind="tool_call", name="search", tool=ToolCall(name="search")),)
    store.write_runs(
        [
            run("good", session_id="s", service="svc", environment="prod", models=("m",), input="A refund, please"),
            run("bad", status="error", error="Boom", user_id="u", steps=steps, flags=("orphans",), started_ns=NOW + 1),
            run("other", agent="helper", state="open", started_ns=NOW + 2),
        ],
        token="r",
    )
    store.write_scores([score("good"), score("bad", 0.2)], token="s")
    assert {r.run_id for r in store.runs(RunQuery(project="default", **query))} == expected
    assert store.runs(RunQuery(project="elsewhere", **query)) == []


def test_many_older_revisions_push_no_run_off_a_page(store: Store) -> None:
    store.write_runs([run("kept", started_ns=NOW)], token="kept")
    for revision in range(1, 5):
        moved = [run(f"m{i}", started_ns=NOW + 1000 * (5 - revision) + i, revision=revision) for i in range(40)]
        store.write_runs(moved, token=f"r{revision}")
    store.write_runs([run(f"m{i}", started_ns=NOW - 1 - i, revision=9) for i in range(40)], token="last")
    found = store.runs(RunQuery(project="default", limit=3))
    assert [r.run_id for r in found] == ["kept", "m0", "m1"]
    assert [r.revision for r in found] == [1, 9, 9]
    assert store.runs(RunQuery(project="default", since_ns=NOW + 1)) == []


def test_a_list_reaches_the_oldest_runs(store: Store) -> None:
    now, day = time.time_ns(), 86_400 * SECOND
    ages = (0, 1, 3, 7, 9, 20, 400)
    for age in ages:
        store.write_runs([run(f"d{age}", started_ns=now - age * day, session_id=f"s{age}")], token=f"t{age}")
    seen: list[str] = []
    before = None
    while rows := store.runs(RunQuery(before=before, limit=2)):
        seen += [row.run_id for row in rows]
        before = (rows[-1].started_ns, rows[-1].run_id)
    assert seen == [f"d{age}" for age in ages]
    assert [row.run_id for row in store.runs(RunQuery(session_id="s400"))] == ["d400"]
    assert [row.run_id for row in store.runs(RunQuery(since_ns=now - 10 * day, limit=5))] == [f"d{a}" for a in ages[:5]]
    assert [row.run_id for row in store.runs(RunQuery(until_ns=now - 8 * day, limit=1))] == ["d9"]


def test_a_run_whose_start_moved_leaves_its_old_window(store: Store) -> None:
    now, hour = time.time_ns(), 3600 * SECOND
    store.write_runs([run("r1", started_ns=now - hour, agent="early")], token="1")
    store.write_runs([run("r1", started_ns=now - 5 * hour, agent="late", revision=2)], token="2")
    window = SeriesQuery(since_ns=now - 2 * hour, until_ns=now, step_s=60)
    assert store.run_trend(window).points == ()
    assert store.runs(RunQuery(since_ns=window.since_ns)) == []
    assert store.facets(None, since_ns=window.since_ns).agents == ()
    assert store.runs(RunQuery(agent="early")) == []
    assert [row.agent for row in store.runs(RunQuery(since_ns=now - 6 * hour))] == ["late"]


def test_the_same_run_in_two_projects_is_two_runs(store: Store) -> None:
    now = time.time_ns()
    for project in ("a", "b"):
        store.write_runs([run("r1", project=project, started_ns=now)], token=project)
        store.write_scores([score("r1", project=project, created_ns=now, run_started_ns=now)], token=f"s{project}")
    assert {row.project for row in store.runs(RunQuery())} == {"a", "b"}
    window = SeriesQuery(since_ns=now - SECOND, until_ns=now + SECOND, step_s=60)
    assert sum(point.runs for point in store.run_trend(window).points) == 2
    assert sum(point.scored for point in store.score_trend(window).points) == 2
    assert {row.project for row in store.scores(ScoreQuery(run_ids=("r1",)))} == {"a", "b"}


def test_projects_do_not_see_each_other(store: Store) -> None:
    store.write_runs([run("a", project="p1"), run("a", project="p2")], token="r")
    store.write_scores([score("a", project="p1")], token="s")
    assert [r.project for r in store.runs(RunQuery(project="p1"))] == ["p1"]
    assert len(store.runs(RunQuery())) == 2
    assert store.scores(ScoreQuery(project="p2")) == []
    store.withdraw_runs("p1", ["a"], now_ns=NOW)
    assert [r.project for r in store.runs(RunQuery())] == ["p2"]


def test_a_withdrawn_run_disappears_with_its_scores(store: Store) -> None:
    store.write_runs([run("r1"), run("r2")], token="r")
    store.write_scores([score("r1"), score("r2")], token="s")
    store.withdraw_runs("default", ["r1"], now_ns=NOW)
    assert [r.run_id for r in store.runs(RunQuery(project="default"))] == ["r2"]
    assert store.run_summary("default", "r1") is None
    assert store.run("default", "r1") is None
    assert [s.run_id for s in store.scores(ScoreQuery(project="default"))] == ["r2"]
    assert [r.run_id for r in store.runs_of_traces("default", ["a" * 32])] == ["r2"]
    assert store.aggregate(AggregateQuery(project="default", of="runs")).value == 1
    store.write_scores([score("r1", created_ns=NOW + 10**17)], token="late")
    assert [s.run_id for s in store.scores(ScoreQuery(project="default"))] == ["r2"]
    assert "withdrawn" in {r.state for r in store.changed_runs(after_ns=0)}


def test_the_last_revision_of_a_run_is_found_whatever_its_times_and_state(store: Store) -> None:
    store.write_runs([run("r1", started_ns=NOW - 10**16, revision=2), run("r2", trace_id="b" * 32)], token="r")
    store.write_runs([run("r1", state="amended", revision=3)], token="again")
    store.withdraw_runs("default", ["r2"], now_ns=NOW)
    found = store.last_revisions("default", ["r1", "r2", "r3"])
    assert {(r.run_id, r.revision, r.state) for r in found} == {("r1", 3, "amended"), ("r2", 1, "withdrawn")}
    assert store.last_revisions("other", ["r1"]) == []
    assert store.last_revisions("default", []) == []


@pytest.mark.parametrize("shift_s", [3600, -3600, -90 * 86_400])
def test_a_run_whose_start_moved_is_counted_once_and_where_it_is_now(store: Store, shift_s: int) -> None:
    old = NOW - 200 * 86_400 * SECOND
    new = old + shift_s * SECOND
    store.write_runs([run(started_ns=old)], token="r1")
    store.write_scores([score(value=0.1)], token="s1")
    store.write_runs([run(started_ns=new, revision=2, state="amended")], token="r2")
    store.write_scores([score(value=0.9, run_revision=2, created_ns=NOW + 5)], token="s2")
    for since_ns, until_ns, count in ((0, NOW, 1), (old, old + 1, 0), (new, new + 1, 1)):
        assert [r.revision for r in store.runs(RunQuery(since_ns=since_ns, until_ns=until_ns))] == [2] * count
        assert [s.value for s in store.scores(ScoreQuery(since_ns=since_ns, until_ns=until_ns))] == [0.9] * count
        whole = AggregateQuery(project="default", of="runs", since_ns=since_ns, until_ns=until_ns)
        assert store.aggregate(whole).value == count
        assert store.aggregate(replace(whole, of="score", metric="grounding")).sample == count
        series = SeriesQuery(step_s=86_400, since_ns=since_ns, until_ns=until_ns)
        assert sum(point.runs for point in store.run_trend(series).points) == count
        assert sum(point.scored for point in store.score_trend(series).points) == count


def test_a_run_that_comes_back_is_judged_again(store: Store) -> None:
    store.write_runs([run()], token="r1")
    store.write_outcomes([outcome()], token="o")
    store.withdraw_runs("default", ["r1"], now_ns=NOW)
    store.write_runs([run(output="again")], token="r2")
    assert [r.run_id for r in store.unjudged_runs("default", "all", "v1", since_ns=0)] == ["r1"]


def test_the_run_is_assembled_from_its_spans(store: Store) -> None:
    root = span(0, kind=SpanKind.AGENT, operation="invoke_agent", agent_name="analyst", run_output="done")
    tool = span(
        1, kind=SpanKind.TOOL, operation="execute_tool", tool_name="search", parent_id=root.span_id, tool_result="42"
    )
    store.insert_spans([root, tool], token="t")
    from evalspan_collector.assemble import assemble

    (built,) = assemble([root, tool])
    store.write_runs([replace(built, state="amended", revision=3)], token="r")
    found = store.run("default", built.run_id)
    assert found is not None
    assert (found.state, found.revision) == ("amended", 3)
    assert [t.name for t in found.tools] == ["search"]
    assert replace(found, state=built.state, revision=built.revision) == built


def test_every_run_of_a_trace_follows_its_late_spans(store: Store) -> None:
    from evalspan_collector.assemble import assemble

    roots = [
        span(i, kind=SpanKind.AGENT, operation="invoke_agent", agent_name="analyst", run_output=f"done {i}")
        for i in range(3)
    ]
    store.insert_spans(roots, token="t")
    built = assemble(roots)
    store.write_runs(built, token="r")

    def tools() -> list[list[str]]:
        found = [store.run("default", r.run_id) for r in built]
        return [[tool.name for tool in r.tools] for r in found if r is not None]

    assert tools() == [[], [], []]
    late = span(9, kind=SpanKind.TOOL, operation="execute_tool", tool_name="search", parent_id=roots[1].span_id)
    store.insert_spans([late], token="late")
    assert tools() == [[], ["search"], []]
    store.insert_spans([replace(late, tool_name="fetch", received_ns=NOW + SECOND)], token="again")
    assert tools() == [[], ["fetch"], []]


def test_many_runs_read_together_are_what_each_is_alone(store: Store) -> None:
    from evalspan_collector.assemble import assemble

    roots = [
        span(
            i, trace=f"{i // 2:032x}", project=project, kind=SpanKind.AGENT, agent_name="a", run_output=f"{project} {i}"
        )
        for i, project in enumerate(("default", "default", "default", "other", "other"))
    ]
    store.insert_spans(roots, token="t")
    store.write_runs(assemble(roots), token="r")
    store.write_runs([run("gone", trace_id="f" * 32, trace_ids=("f" * 32,), output="kept")], token="g")
    rows = [*store.runs(RunQuery(project="other")), *store.runs(RunQuery(project="default"))]
    assert len(rows) == 6

    together = store.runs_content(rows)

    assert together == [store.run(row.project, row.run_id) for row in rows]
    assert {r.output for r in together} == {*(r.run_output for r in roots), "kept"}
    assert store.runs_content([]) == []
    gone = together[0]
    store.withdraw_runs(gone.project, [gone.run_id], now_ns=NOW + SECOND)
    assert store.runs_content(rows) == together[1:]


def test_a_run_whose_spans_are_gone_still_shows_its_row(store: Store) -> None:
    store.write_runs([run(output="kept")], token="r")
    found = store.run("default", "r1")
    assert found is not None
    assert found.output == "kept"
    assert "content_expired" in found.flags


def test_runs_of_traces_finds_stitched_runs_by_any_trace(store: Store) -> None:
    store.write_runs([run("r1", trace_ids=("a" * 32, "b" * 32)), run("r2", trace_id="c" * 32)], token="r")
    assert [r.run_id for r in store.runs_of_traces("default", ["b" * 32])] == ["r1"]
    assert store.runs_of_traces("default", []) == []
    assert store.runs_of_traces("other", ["b" * 32]) == []


def test_changed_runs_can_be_followed_by_their_time(store: Store) -> None:
    store.write_runs([run(f"r{i}") for i in range(5)] + [run("open", state="open")], token="r")
    seen: list[str] = []
    after = 0
    while page := store.changed_runs(after_ns=after, limit=2):
        seen += [r.run_id for r in page]
        after = page[-1].updated_ns
    assert seen == [f"r{i}" for i in range(5)]
    store.write_runs([run("r3", revision=2, state="amended")], token="r2")
    assert [r.run_id for r in store.changed_runs(after_ns=after)] == ["r3"]


def test_a_clock_that_runs_ahead_hides_no_run_from_its_window(store: Store) -> None:
    ahead = NOW * 5
    store.write_runs([run("ahead", started_ns=ahead), run("negative", started_ns=-5)], token="r")
    found = {r.run_id: r for r in store.runs(RunQuery(project="default"))}
    assert found["negative"].started_ns == 0
    assert found["ahead"].started_ns <= found["ahead"].updated_ns + 86_400 * SECOND
    assert [r.run_id for r in store.runs(RunQuery(project="default", since_ns=found["ahead"].updated_ns))] == ["ahead"]


# scores and outcomes


def test_the_newest_revision_and_then_the_newest_time_is_the_current_score(store: Store) -> None:
    store.write_runs([run()], token="r")
    store.write_scores([score(value=0.1, run_revision=2, created_ns=NOW)], token="s1")
    store.write_scores([score(value=0.2, run_revision=1, created_ns=NOW + 100)], token="s2")
    assert [s.value for s in store.scores(ScoreQuery(project="default"))] == [0.1]
    store.write_scores([score(value=0.3, run_revision=2, created_ns=NOW + 1)], token="s3")
    assert [s.value for s in store.scores(ScoreQuery(project="default"))] == [0.3]
    store.write_scores([score(value=0.3, run_revision=3, superseded=True)], token="s4")
    assert store.scores(ScoreQuery(project="default")) == []


def test_a_score_comes_back_as_it_went_in_with_what_its_run_knows(store: Store) -> None:
    store.write_runs([run()], token="r")
    given = score(
        label="ok",
        reason="because",
        evidence='[{"a":1}]',
        extra='{"n":2}',
        source="human",
        span_id="b" * 16,
        duration_s=0.5,
        judge_model="m",
        judge_input_tokens=5,
        judge_cost_usd=0.01,
    )
    store.write_scores([given], token="s")
    assert store.scores(ScoreQuery(project="default")) == [replace(given, agent="analyst", run_started_ns=NOW)]
    error = score("r1", None, rule="other", error="judge failed")
    store.write_scores([error], token="s2")
    found = store.scores(ScoreQuery(project="default", rule="other"))
    assert (found[0].value, found[0].passed, found[0].error) == (None, None, "judge failed")


def test_scores_are_filtered_and_newest_first(store: Store) -> None:
    store.write_runs([run(f"r{i}", started_ns=NOW + i) for i in range(4)], token="r")
    store.write_scores([score(f"r{i}", i / 4, created_ns=NOW + i) for i in range(4)], token="s")
    assert [s.run_id for s in store.scores(ScoreQuery(project="default"))] == ["r3", "r2", "r1", "r0"]
    assert [s.run_id for s in store.scores(ScoreQuery(project="default", passed=True))] == ["r3"]
    assert [s.run_id for s in store.scores(ScoreQuery(run_ids=("r1", "r2"), limit=1))] == ["r2"]
    assert [s.run_id for s in store.scores(ScoreQuery(since_ns=NOW + 1, until_ns=NOW + 3))] == ["r2", "r1"]
    assert store.scores(ScoreQuery(run_ids=())) == []
    assert store.scores(ScoreQuery(metric="none")) == []


def test_runs_are_unjudged_until_their_revision_has_a_final_outcome(store: Store) -> None:
    store.write_runs([run("r1"), run("r2"), run("open", state="open")], token="r")

    def unjudged(rule: str = "all", version: str = "v1") -> list[str]:
        return [r.run_id for r in store.unjudged_runs("default", rule, version, since_ns=0)]

    assert unjudged() == ["r1", "r2"]
    store.write_outcomes([outcome("r1"), outcome("r2", outcome="waiting")], token="o1")
    assert unjudged() == ["r2"]
    assert unjudged("other") == ["r1", "r2"]
    assert unjudged(version="v2") == ["r1", "r2"]
    store.write_outcomes([outcome("r2", outcome="not_applicable", created_ns=NOW + 10**18 + 1)], token="o2")
    assert unjudged() == []
    store.write_runs([run("r1", revision=2, state="amended")], token="r2")
    assert unjudged() == ["r1"]
    assert store.unjudged_runs("default", "all", "v1", since_ns=2**62) == []


def test_the_mark_of_runs_changes_with_every_write_of_runs_and_outcomes(store: Store) -> None:
    marks = [store.runs_mark()]
    assert store.runs_mark() == marks[0]
    store.write_runs([run("r1")], token="r")
    marks.append(store.runs_mark())
    store.write_runs([run("r0", started_ns=1)], token="r0")
    marks.append(store.runs_mark())
    store.write_outcomes([outcome("r1", created_ns=1)], token="o1")
    marks.append(store.runs_mark())
    assert len(set(marks)) == len(marks)


def test_outcomes_are_replaced_by_newer_ones(store: Store) -> None:
    store.write_outcomes([outcome(outcome="waiting", created_ns=NOW)], token="o1")
    store.write_outcomes([outcome(outcome="error", attempt=3, reason="x", created_ns=NOW + 1)], token="o2")
    (found,) = store.outcomes("default")
    assert (found.outcome, found.attempt, found.reason) == ("error", 3, "x")
    assert store.outcomes("default", run_ids=["none"]) == []
    assert store.outcomes("default", name=found.outcome) == [found]
    assert store.outcomes("default", name="over_budget") == []
    assert len(store.outcomes(None, rule="all")) == 1


def test_outcomes_of_a_name_are_gone_through_page_by_page(store: Store) -> None:
    given = [outcome(f"r{n}", outcome="over_budget", created_ns=NOW + n // 3) for n in range(7)]
    store.write_outcomes([*given, outcome("other", created_ns=NOW + 1)], token="o1")
    seen: list[OutcomeRecord] = []
    for _ in range(5):
        before = (seen[-1].created_ns, seen[-1].run_id) if seen else None
        seen += store.outcomes("default", rule="all", name="over_budget", before=before, limit=2)
    assert [found.run_id for found in seen] == ["r6", "r3", "r4", "r5", "r0", "r1", "r2"]


def test_a_call_of_unknown_cost_counts_with_what_was_set_aside_until_its_cost_is_known(store: Store) -> None:
    begun = JudgeCallRecord(
        project="default", call_id="c", created_ns=NOW, rule="r", metric="m", run_id="run", purpose="p", model="m",
        error="cut off", reserved_usd=2.0,
    )  # fmt: skip
    store.write_judge_calls([begun], token="b")
    assert store.judge_spend("default", rule="r", since_ns=0) == 2.0
    ended = replace(begun, created_ns=NOW + 1, cost_usd=0.5, reserved_usd=None, error=None)
    store.write_judge_calls([ended], token="e")
    assert store.judge_spend("default", rule="r", since_ns=0) == 0.5


def test_the_ledger_sums_what_was_spent_once(store: Store) -> None:
    def call(call_id: str, cost: float | None, rule: str = "r", at: int = NOW) -> JudgeCallRecord:
        return JudgeCallRecord(
            project="default", call_id=call_id, created_ns=at, rule=rule, metric="m", run_id="r1", purpose="score",
            model="m", cost_usd=cost,
        )  # fmt: skip

    assert store.judge_spend("default", rule=None, since_ns=0) == 0.0
    calls = [call("1", 0.25), call("2", None), call("3", 0.5, rule="x"), call("4", 1.0, at=NOW - 10)]
    store.write_judge_calls(calls, token="j1")
    store.write_judge_calls(calls[:1], token="j2")
    assert store.judge_spend("default", rule=None, since_ns=0) == pytest.approx(1.75)
    assert store.judge_spend("default", rule="x", since_ns=0) == pytest.approx(0.5)
    assert store.judge_spend("default", rule=None, since_ns=NOW) == pytest.approx(0.75)
    assert store.judge_spend("other", rule=None, since_ns=0) == 0.0


# numbers


@pytest.fixture
def numbers(store: Store) -> Store:
    store.write_runs(
        [
            run("a", duration_s=1.0, cost_usd=0.1, usage=Usage(input_tokens=10, output_tokens=1), environment="prod"),
            run("b", duration_s=2.0, cost_usd=0.4, status="error", started_ns=NOW + 61 * SECOND),
            run("c", duration_s=None, cost_usd=None, agent="helper", started_ns=NOW + 62 * SECOND),
        ],
        token="r",
    )
    store.write_scores(
        [
            score("a", 1.0, judge_cost_usd=0.01),
            score("b", 0.2),
            score("c", 0.5),
            score("a", None, rule="x", error="failed"),
            score("b", None, rule="x", not_applicable=True),
            score("c", 0.9, metric="other"),
        ],
        token="s",
    )
    return store


@pytest.mark.parametrize(
    ("query", "value", "sample", "unknown"),
    [
        ({"of": "runs"}, 3.0, 3, 0),
        ({"of": "cost", "aggregate": "sum"}, 0.5, 2, 1),
        ({"of": "cost", "aggregate": "max"}, 0.4, 2, 1),
        ({"of": "latency"}, 1.5, 2, 1),
        ({"of": "latency", "aggregate": "p90"}, 1.9, 2, 1),
        ({"of": "error_rate"}, 1 / 3, 3, 0),
        ({"of": "tokens"}, 11.0, 1, 2),
        ({"of": "score", "metric": "grounding"}, 1.7 / 3, 3, 2),
        ({"of": "score", "metric": "grounding", "aggregate": "min"}, 0.2, 3, 2),
        ({"of": "pass_rate", "metric": "grounding"}, 1 / 3, 3, 2),
        ({"of": "pass_rate", "metric": "none"}, None, 0, 0),
        ({"of": "cost", "agent": "helper"}, None, 0, 1),
        ({"of": "latency", "environment": "prod"}, 1.0, 1, 0),
        ({"of": "score", "metric": "grounding", "environment": "prod"}, 1.0, 1, 1),
        ({"of": "score", "metric": "grounding", "agent": "helper"}, 0.5, 1, 0),
        ({"of": "runs", "since_ns": NOW + SECOND, "until_ns": NOW + 62 * SECOND}, 1.0, 1, 0),
        ({"of": "runs", "since_ns": NOW + 10**12}, 0.0, 0, 0),
        ({"of": "score", "metric": "grounding", "since_ns": NOW + 62 * SECOND}, 0.5, 1, 0),
    ],
)
def test_an_aggregate_counts_what_is_known(
    numbers: Store, query: dict[str, Any], value: float | None, sample: int, unknown: int
) -> None:
    found = numbers.aggregate(AggregateQuery(project="default", **query))
    assert found.value == (None if value is None else pytest.approx(value))
    assert (found.sample, found.unknown) == (sample, unknown)


def test_an_aggregate_names_the_worst_runs_first(numbers: Store) -> None:
    ask = numbers.aggregate
    assert ask(AggregateQuery(project="default", of="score", metric="grounding")).worst_run_ids == ("b", "c")
    assert ask(AggregateQuery(project="default", of="pass_rate", metric="grounding")).passed == 1
    assert ask(AggregateQuery(project="default", of="cost")).worst_run_ids == ("b", "a")
    assert ask(AggregateQuery(project="default", of="error_rate")).worst_run_ids == ("b",)


def test_series_are_in_aligned_buckets_without_empty_ones(numbers: Store) -> None:
    query = SeriesQuery(project="default", since_ns=0, until_ns=2**62, step_s=60)
    first, second = numbers.run_trend(query).points
    assert first.start_ns % (60 * SECOND) == 0
    assert (first.runs, first.errors, first.input_tokens) == (1, 0, 10)
    assert first.cost_usd == pytest.approx(0.1)
    assert (second.runs, second.errors, second.input_tokens, second.latency_p50_s) == (2, 1, None, 2.0)
    points = {(p.start_ns, p.metric): p for p in numbers.score_trend(query).points}
    assert len(points) == 3
    one = points[first.start_ns, "grounding"]
    assert (one.scored, one.passed, one.average, one.errors) == (1, 1, 1.0, 1)
    assert one.judge_cost_usd == pytest.approx(0.01)
    two = points[second.start_ns, "grounding"]
    assert (two.scored, two.passed, two.not_applicable) == (2, 0, 1)
    assert two.average == pytest.approx(0.35)
    assert numbers.run_trend(replace(query, agent="helper")).points[0].runs == 1
    assert numbers.run_trend(replace(query, environment="prod")).points == (first,)


def test_a_trend_is_beside_the_window_before(numbers: Store) -> None:
    query = SeriesQuery(project="default", since_ns=NOW + 60 * SECOND, until_ns=NOW + 120 * SECOND + 1, step_s=1)
    trend = numbers.run_trend(query)
    assert [(p.start_ns, p.runs) for p in trend.points] == [(p.start_ns, 1) for p in trend.points]
    assert len(trend.points) == 2
    assert trend.whole is not None
    assert (trend.whole.start_ns, trend.whole.runs, trend.whole.errors) == (query.since_ns, 2, 1)
    assert trend.whole.latency_p95_s == 2.0
    assert trend.whole.cost_usd == pytest.approx(0.4)
    assert trend.before is not None
    assert (trend.before.start_ns, trend.before.runs, trend.before.latency_p95_s) == (NOW - 1, 1, 1.0)
    scores = numbers.score_trend(query)
    assert [(p.metric, p.scored, p.errors) for p in scores.before] == [("grounding", 1, 1)]
    assert sorted((p.metric, p.scored, p.average) for p in scores.points) == [
        ("grounding", 1, 0.2),
        ("grounding", 1, 0.5),
        ("other", 1, 0.9),
    ]
    # Nothing is left of the window before when nothing started in it, and of both where there was nothing.
    assert numbers.run_trend(replace(query, since_ns=NOW - SECOND)).before is None
    assert numbers.run_trend(replace(query, project="none")) == RunTrend()
    assert numbers.score_trend(replace(query, project="none")) == ScoreTrend()


def test_the_worst_scores_come_first_when_asked_for(numbers: Store) -> None:
    def named(**filters: Any) -> list[tuple[str, float | None]]:
        found = numbers.scores(ScoreQuery(project="default", worst_first=True, **filters))
        return [(s.run_id, s.value) for s in found]

    assert named(limit=3) == [("b", 0.2), ("c", 0.5), ("c", 0.9)]
    assert named()[-2:] == [("b", None), ("a", None)]
    assert named(agent="helper") == [("c", 0.5), ("c", 0.9)]
    assert named(run_ids=("a", "b"), metric="grounding", limit=2) == [("b", 0.2), ("a", 1.0)]


def test_scores_that_were_written_again_make_room_for_others(store: Store) -> None:
    """More rows of former scores than are looked at first: the current ones come all the same."""
    ids = [f"r{number:04}" for number in range(1130)]
    store.write_runs([run(run_id, started_ns=NOW) for run_id in ids], token="r")
    for revision, value in ((1, 0.1), (2, 0.2)):
        again = ids if revision == 1 else ids[:1120]
        store.write_scores(
            [score(i, value, run_revision=revision, created_ns=NOW + revision, run_started_ns=NOW) for i in again],
            token=f"s{revision}",
        )
    worst = store.scores(ScoreQuery(worst_first=True, limit=12, since_ns=NOW))
    assert [(s.run_id, s.value) for s in worst] == [(i, 0.1) for i in ids[1120:]] + [("r0000", 0.2), ("r0001", 0.2)]
    newest = store.scores(ScoreQuery(limit=2, since_ns=NOW))
    assert [(s.run_id, s.value) for s in newest] == [("r0000", 0.2), ("r0001", 0.2)]
    assert [s.value for s in store.scores(ScoreQuery(worst_first=True, limit=2, since_ns=NOW))] == [0.1, 0.1]
    assert len(store.scores(ScoreQuery(limit=100))) == 100
    assert len(store.scores(ScoreQuery(limit=2000))) == 1130


def test_facets_are_the_values_that_occur(numbers: Store) -> None:
    found = numbers.facets("default", since_ns=0)
    assert (found.projects, found.agents) == (("default",), ("analyst", "helper"))
    assert (found.environments, found.metrics) == (("prod",), ("grounding", "other"))
    assert numbers.facets("none", since_ns=0).agents == ()


# alerts and life


def test_the_newest_state_of_an_alert_is_current(store: Store) -> None:
    state = AlertState(project="p", alert="a", state="firing", since_ns=1, updated_ns=2, value=0.5, sample=3)
    store.write_alert_state(state)
    resolved = replace(state, state="resolved", updated_ns=3, notified_state="firing")
    store.write_alert_state(resolved)
    assert store.alert_states() == [resolved]
    assert store.alert_states("other") == []


def test_an_alert_event_is_replaced_once_delivered(store: Store) -> None:
    event = AlertEvent(project="p", alert="a", event_id="e1", created_ns=1, state="firing", delivery_error="down")
    store.write_alert_event(event)
    delivered = replace(event, delivered=True, delivery_error=None)
    store.write_alert_event(delivered)
    newer = replace(event, event_id="e2", created_ns=2)
    store.write_alert_event(newer)
    assert store.alert_events("p") == [newer, delivered]
    assert store.alert_events("p", limit=1) == [newer]


def test_a_store_answers_and_satisfies_the_protocol(store: Store) -> None:
    store.ping()
    assert isinstance(store, Store)
