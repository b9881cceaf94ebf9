"""Listings: finding a run by what a person has at hand of its id."""

import json
from collections.abc import Callable

import pytest

from evalspan.errors import InputError
from evalspan_collector.assemble import assemble
from evalspan_collector.completion import revise
from evalspan_collector.intake import read_traces
from evalspan_collector.records import ScoreRecord
from evalspan_collector.run import Run
from evalspan_collector.store.contract import Store
from evalspan_collector.store.opening import open_store
from evalspan_dashboard import output
from evalspan_dashboard.cli import main
from evalspan_dashboard.commands import listing
from evalspan_dashboard.commands.listing import find_run

NOW = 1_790_000_000 * 10**9


def opens(store: Store) -> Callable[[object], Store]:
    """What stands in for opening the store."""
    return lambda _settings: store


ESCAPES = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202e\x00 \r"


def put(store: Store, number: int, agent: str = "a") -> Run:
    span = {
        "traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "invoke_agent a",
        "startTimeUnixNano": str(NOW + number), "endTimeUnixNano": str(NOW + number + 1),
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}},
            {"key": "gen_ai.agent.name", "value": {"stringValue": agent}},
            {"key": "input.value", "value": {"stringValue": f"in {agent}"}},
            {"key": "output.value", "value": {"stringValue": f"out {agent}"}},
            {"key": "gen_ai.request.model", "value": {"stringValue": agent}},
        ],
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


@pytest.mark.parametrize("command", [["runs", "list"], ["runs", "show", "RUN"], ["scores", "list"]])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_nothing_that_a_terminal_obeys_is_ever_printed(
    command: list[str], as_json: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store("memory://")
    run = put(store, 1, agent=f"name{ESCAPES}")
    score = ScoreRecord(
        project="default", run_id=run.run_id, metric=f"m{ESCAPES}", rule="r", run_revision=1, metric_version="v",
        created_ns=NOW, value=0.2, passed=False, reason=f"why{ESCAPES}", run_started_ns=run.started_ns,
        evidence=json.dumps([{"verdict": "contradicted", "claim": ESCAPES, "tool": ESCAPES, "expected": ESCAPES}]),
    )  # fmt: skip
    store.write_scores([score], token="s")
    monkeypatch.setattr(listing, "connect", opens(store))
    monkeypatch.setattr("sys.argv", ["evalspan", *[a.replace("RUN", run.run_id) for a in command], *as_json])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "m" in printed
    assert not [c for c in printed if c != "\n" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c == "\u202e")]


def test_run_ids_stay_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store("memory://")
    runs = [put(store, number, agent="an agent with a long name") for number in (1, 2)]
    monkeypatch.setattr(listing, "connect", opens(store))
    monkeypatch.setattr(output.console, "_width", 80)
    monkeypatch.setattr("sys.argv", ["evalspan", "runs", "list"])
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert all(any(run.run_id in line for line in lines) for run in runs)
