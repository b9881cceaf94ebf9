"""Hostile values in every place of a query that a person or a trace can fill: text stays text, and a canary stays."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evalspan.errors import StoreError
from evalspan_collector.run import Run
from evalspan_collector.span import Span
from evalspan_collector.store.contract import AggregateQuery, RunQuery, ScoreQuery

if TYPE_CHECKING:
    from collections.abc import Callable

    from evalspan_collector.store.clickhouse import ClickHouseStore

_PAYLOADS = (
    "'", "''", "\\'", "\\", '"', "`", "--", "/*", "*/", ";", "\x00", "%", "_", "{", "}", "{project:String}",
    "' OR 1=1 --", "' OR ''='", "') OR (1=1", "\\' OR 1=1 --", "x' UNION ALL SELECT secret FROM canary --",
    "'; DROP TABLE canary; --", "'; TRUNCATE TABLE canary; --", "1); DROP TABLE canary; --", "`; DROP TABLE canary; --",
    "' AND sleepEachRow(3) AND '", "' UNION ALL SELECT * FROM file('canary.txt', 'LineAsString') --",
    "' UNION ALL SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString') --", "${jndi:x}", "$(touch canary)",
    "%27%20OR%201=1", "\u02bc OR 1=1", "\uff07 OR 1=1", "' /*!50000OR*/ 1=1 --", "' SETTINGS readonly=0 --",
    "' FORMAT Null --", "' INTO OUTFILE 'canary.txt' --", "\n' OR 1=1\n--", "' || (SELECT secret FROM canary) || '",
)  # fmt: skip
_TEXTS = tuple(
    field.name
    for field in fields(RunQuery)
    if field.name in {"project", "agent", "state", "session_id", "user_id", "service", "environment", "model", "tool",
                      "flag", "metric", "text"}
)  # fmt: skip


@pytest.fixture
def guarded(store: "ClickHouseStore", tmp_path: Path) -> "ClickHouseStore":
    """A store with a run of its own, a table that must stay, and a file that must not be read."""
    store.client.execute("CREATE TABLE canary (secret String) ENGINE = MergeTree ORDER BY secret")
    store.client.execute("INSERT INTO canary VALUES ('SECRET-1')")
    (tmp_path / "canary.txt").write_text("SECRET-2")
    store.insert_spans(
        [Span(project="p", trace_id="t" * 32, span_id="s" * 16, name="n", start_ns=1, end_ns=2, received_ns=3)],
        token="s",
    )
    store.write_runs([Run(run_id="r", trace_id="t" * 32, project="p", state="closed", started_ns=1)], token="r")
    return store


def safe(read: "Callable[[], Any]") -> str:
    """What a read shows; a refusal that names a value is as good as nothing found."""
    try:
        return repr(read())
    except (StoreError, ValueError) as error:
        return type(error).__name__


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", _TEXTS)
def test_sec_no_value_of_a_filter_is_ever_sql(guarded: "ClickHouseStore", name: str) -> None:
    assert len(_TEXTS) * len(_PAYLOADS) > 400
    for payload in _PAYLOADS:
        query: dict[str, Any] = {name: payload}
        shown = safe(lambda query=query: guarded.runs(RunQuery(**query)))  # type: ignore[misc]  # bound now
        assert shown in ("[]", "StoreError", "ClickHouseError"), f"{name}={payload!r} gave {shown[:200]}"
    assert guarded.client.rows("SELECT secret FROM canary") == [("SECRET-1",)]


@pytest.mark.parametrize("payload", _PAYLOADS)
def test_sec_no_id_or_name_is_ever_sql(guarded: "ClickHouseStore", payload: str) -> None:
    reads: list[Callable[[], Any]] = [
        lambda: guarded.run("p", payload),
        lambda: guarded.run(payload, "r"),
        lambda: guarded.spans("p", [payload]),
        lambda: guarded.spans(payload, ["t" * 32]),
        lambda: guarded.scores(ScoreQuery(project=payload, run_ids=(payload,), metric=payload, rule=payload)),
        lambda: guarded.outcomes(payload, run_ids=[payload], rule=payload),
        lambda: guarded.aggregate(AggregateQuery(project=payload, of="score", metric=payload, agent=payload)),
        lambda: guarded.judge_spend(payload, rule=payload, since_ns=0),
        lambda: guarded.neighbour_traces(payload, processes=[payload], session_ids=[payload], start_ns=0, end_ns=9),
        lambda: guarded.withdraw_runs(payload, [payload], now_ns=9),
    ]
    for read in reads:
        shown = safe(read)
        assert "SECRET" not in shown
        assert "tttt" not in shown
    assert guarded.client.rows("SELECT secret FROM canary") == [("SECRET-1",)]
    assert [run.run_id for run in guarded.runs(RunQuery(project="p"))] == ["r"]


def test_sec_hostile_values_that_are_stored_come_back_as_they_were(guarded: "ClickHouseStore") -> None:
    spans = [
        Span(
            project="p", trace_id=f"{n:032x}", span_id=f"{n:016x}", name=payload, start_ns=1, end_ns=2, received_ns=3,
            attributes={payload: payload}, agent_name=payload, session_id=payload,
        )
        for n, payload in enumerate(_PAYLOADS, 1)
    ]  # fmt: skip
    guarded.insert_spans(spans, token="hostile")
    back = guarded.spans("p", [span.trace_id for span in spans])
    assert sorted(back, key=lambda span: span.trace_id) == spans
    assert guarded.client.rows("SELECT secret FROM canary") == [("SECRET-1",)]
