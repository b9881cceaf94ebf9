"""Listings: finding a run by what a person has at hand of its id."""

import json

import pytest

from evalspan.errors import InputError
from evalspan_collector.assemble import assemble
from evalspan_collector.completion import revise
from evalspan_collector.intake import read_traces
from evalspan_collector.run import Run
from evalspan_collector.store.contract import Store
from evalspan_collector.store.opening import open_store
from evalspan_dashboard.commands.listing import find_run

NOW = 1_790_000_000 * 10**9


def put(store: Store, number: int) -> Run:
    span = {
        "traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "invoke_agent a",
        "startTimeUnixNano": str(NOW + number), "endTimeUnixNano": str(NOW + number + 1),
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}],
    }  # fmt: skip
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    intake = read_traces(body, project="default", received_ns=NOW, json=True)
    store.insert_spans(intake.spans, token=f"s{number}")
    (found,) = assemble(intake.spans)
    run = revise(None, found, closed=True)
    store.write_runs([run], token=f"r{number}")
    return run


def test_the_first_characters_of_a_run_id_are_enough() -> None:
    store = open_store("memory://")
    wanted, *_ = [put(store, n) for n in range(1, 6)]
    assert find_run(store, None, wanted.run_id).run_id == wanted.run_id
    assert find_run(store, "default", wanted.run_id[:8]).run_id == wanted.run_id


def test_an_id_of_no_run_or_of_too_few_characters_is_named() -> None:
    store = open_store("memory://")
    run = put(store, 1)
    for given in ("deadbeef", run.run_id[:3], ""):
        with pytest.raises(InputError, match=f"no run '{given}'.*evalspan runs list"):
            find_run(store, None, given)


def test_characters_that_several_runs_begin_with_ask_for_more() -> None:
    store = open_store("memory://")
    ids: dict[str, int] = {}
    for number in range(1, 2000):
        start = put(store, number).run_id[:4]
        ids[start] = ids.get(start, 0) + 1
        if ids[start] > 1:
            with pytest.raises(InputError, match=f"2 runs begin with '{start}': give more"):
                find_run(store, None, start)
            return
    pytest.fail("no two ids began alike")
