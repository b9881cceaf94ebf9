"""Keys, retention, deletion, backup, export and health of a store, over the HTTP front."""

import hashlib
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as _parquet  # type: ignore[import-untyped]  # ships no stubs
import pytest

from evalspan.errors import InputError, StoreError
from evalspan_collector.records import JudgeCallRecord, OutcomeRecord, ScoreRecord
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.admin import Retention, apply_retention, delete_subject, store_health
from evalspan_collector.store.backup import export_parquet, make_backup, restore_backup
from evalspan_collector.store.clickhouse import ClickHouseStore
from evalspan_collector.store.contract import RunQuery, ScoreQuery
from evalspan_collector.store.keys import ApiKeys
from evalspan_collector.store.opening import open_clickhouse

if TYPE_CHECKING:
    from conftest import StoreProcess

parquet: Any = _parquet  # typed at our edge
DAY = 86_400 * 10**9
NOW = time.time_ns()


def span(trace: str, at: int = NOW, project: str = "default", user: str | None = None) -> Span:
    return Span(
        trace_id=trace, span_id="b" * 16, name="n", start_ns=at, end_ns=at, received_ns=at, project=project, user_id=user
    )  # fmt: skip


def run(run_id: str, trace: str, user: str | None = None, project: str = "default") -> Run:
    return Run(
        run_id=run_id, trace_id=trace, state="closed", user_id=user, project=project, started_ns=NOW, last_received_ns=NOW
    )  # fmt: skip


def score(run_id: str) -> ScoreRecord:
    return ScoreRecord(
        project="default", run_id=run_id, metric="m", rule="r", run_revision=1, metric_version="1", created_ns=NOW, value=1
    )  # fmt: skip


def outcome(run_id: str) -> OutcomeRecord:
    return OutcomeRecord(
        project="default", rule="all", run_id=run_id, run_revision=1, outcome="scored", rule_version="1", created_ns=NOW
    )  # fmt: skip


def test_a_key_is_shown_once_and_kept_as_a_hash(store: ClickHouseStore) -> None:
    keys = ApiKeys(store.client)
    made = keys.create("p1", "ci")
    other = keys.create("p2")
    assert keys.listed() == [made.key, other.key]
    assert keys.listed("p2") == [other.key]
    assert made.key.sha256 == hashlib.sha256(made.secret.encode()).hexdigest()
    everything = store.client.raw("SELECT * FROM api_keys", "TSV").decode()
    assert made.secret not in everything
    with pytest.raises(InputError, match="no project name"):
        keys.create(" ")


def test_a_revoked_key_stays_listed_and_no_use_undoes_it(store: ClickHouseStore) -> None:
    keys = ApiKeys(store.client)
    made = keys.create("p1").key
    with pytest.raises(InputError, match="no key"):
        keys.revoke(made.key_id, project="p2")
    revoked = keys.revoke(made.key_id, project="p1")
    assert revoked.revoked_ns is not None
    keys.note_uses({made.key_id: NOW})
    keys.note_uses({made.key_id: NOW - 5})  # of a collector that reports late
    (listed,) = keys.listed()
    assert (listed.revoked_ns, listed.last_used_ns) == (revoked.revoked_ns, NOW)
    assert keys.revoke(made.key_id) == listed
    with pytest.raises(InputError, match="no key 'none'"):
        keys.revoke("none")


def test_retention_drops_whole_partitions_of_each_project(store: ClickHouseStore) -> None:
    ages = (0, 8, 40)
    spans = [span(f"{p}{age:031}", NOW - age * DAY, project=f"p{p}") for p in "12" for age in ages]
    store.insert_spans(spans, token="t")
    limits = {"p1": Retention(spans_days=7), "p2": Retention(spans_days=30)}
    planned = apply_retention(store.client, limits, dry_run=True)
    assert sum(d.rows for d in planned) == 3
    assert len(list(store.iter_spans("p1", since_ns=0, until_ns=NOW + DAY))) == 3
    assert apply_retention(store.client, limits) == planned
    assert len(list(store.iter_spans("p1", since_ns=0, until_ns=NOW + DAY))) == 1
    assert len(list(store.iter_spans("p2", since_ns=0, until_ns=NOW + DAY))) == 2
    assert apply_retention(store.client, limits) == []


def test_retention_keeps_what_no_limit_names(store: ClickHouseStore) -> None:
    store.insert_spans([span("a" * 32, NOW - 900 * DAY)], token="t")
    assert apply_retention(store.client, {}) == []
    assert apply_retention(store.client, {}, default=Retention(spans_days=10**9, runs_days=10**15)) == []
    dropped = apply_retention(store.client, {}, default=Retention(spans_days=30))
    assert [(d.table, d.rows) for d in dropped] == [("spans", 1)]


def test_deleting_a_user_removes_every_trace_of_him_from_the_parts(
    store: ClickHouseStore, store_process: "StoreProcess"
) -> None:
    canary = uuid.uuid4().hex
    gone, kept = "1" * 32, "2" * 32
    store.insert_spans([replace(span(gone, user="ann"), input_value=canary), span(kept, user="bob")], token="t")
    log = LogRecord(
        project="default", trace_id=gone, span_id="b" * 16, event_name="e", time_ns=NOW, received_ns=NOW, body=canary
    )
    store.insert_logs([log], token="l")
    store.write_runs([replace(run("r1", gone, "ann"), input=canary), run("r2", kept, "bob")], token="r")
    store.write_scores([replace(score("r1"), reason=canary), score("r2")], token="s")
    assert _holding(store_process.folder, store, canary)
    with pytest.raises(InputError, match="either a user or a session"):
        delete_subject(store.client, project="default")
    assert delete_subject(store.client, project="other", user="ann").runs == 0
    done = delete_subject(store.client, project="default", user="ann")
    assert (done.traces, done.runs, done.rows["spans"], done.rows["logs"], done.rows["scores"]) == (1, 1, 1, 1, 1)
    assert store.spans("default", [gone]) == []
    assert store.logs("default", [gone]) == []
    assert [r.run_id for r in store.runs(RunQuery())] == ["r2"]
    assert [s.run_id for s in store.scores(ScoreQuery())] == ["r2"]
    assert len(store.spans("default", [kept])) == 1
    assert _holding(store_process.folder, store, canary) == []


def test_what_a_judge_says_of_deleted_data_is_dropped_and_what_it_cost_is_kept(store: ClickHouseStore) -> None:
    call = JudgeCallRecord(
        project="default", call_id="c", created_ns=NOW, rule="all", metric="m", run_id="r1", purpose="p", model="j",
        cost_usd=4.0, error="ann said",
    )  # fmt: skip
    store.insert_spans([span("1" * 32, user="ann")], token="t")
    store.write_runs([run("r1", "1" * 32, "ann")], token="r")
    store.write_judge_calls([call], token="j")
    delete_subject(store.client, project="default", user="ann")
    store.write_scores([score("r1"), score("r9")], token="late")
    store.write_outcomes([outcome("r1"), outcome("r9")], token="late")
    store.write_judge_calls([replace(call, created_ns=NOW + 1, cost_usd=5.0), replace(call, call_id="d")], token="late")
    assert [s.run_id for s in store.scores(ScoreQuery())] == ["r9"]
    assert [o.run_id for o in store.outcomes("default")] == ["r9"]
    assert store.runs(RunQuery()) == []
    assert store.judge_spend("default", rule=None, since_ns=NOW - 1) == 5.0 + 4.0
    assert store.client.rows("SELECT DISTINCT run_id, error FROM judge_calls") == [("", None)]


def test_a_run_whose_data_was_deleted_and_came_in_anew_survives_the_next_deletion(store: ClickHouseStore) -> None:
    for user, trace, name in (("ann", "1" * 32, "r1"), ("bob", "2" * 32, "r2")):
        store.insert_spans([span(trace, user=user)], token=f"t{name}")
        store.write_runs([run(name, trace, user)], token=name)
    delete_subject(store.client, project="default", user="ann")
    store.write_runs([replace(run("r1", "1" * 32, "ann"), revision=2)], token="again")
    store.write_scores([replace(score("r1"), run_revision=2)], token="s")
    delete_subject(store.client, project="default", user="bob")
    assert [r.run_id for r in store.runs(RunQuery())] == ["r1"]
    assert [s.run_id for s in store.scores(ScoreQuery())] == ["r1"]


def test_what_slipped_in_during_a_deletion_goes_with_the_next(store: ClickHouseStore) -> None:
    store.write_runs([run("r1", "1" * 32, "ann")], token="r")
    delete_subject(store.client, project="default", user="ann")
    for table in ("outcomes", "scores", "judge_calls", "annotations"):  # of writers that had looked before
        store.client.execute(f"INSERT INTO {table} (project, run_id) VALUES ('default', 'r1')")
    removed = delete_subject(store.client, project="default", user="ann").rows
    assert {table: count for table, count in removed.items() if count} == {
        "outcomes": 1, "scores": 1, "judge_calls": 1, "annotations": 1
    }  # fmt: skip
    assert store.outcomes("default") == []
    assert not any(delete_subject(store.client, project="default", user="ann").rows.values())


def test_a_run_that_is_written_while_its_data_is_deleted_goes_too(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.insert_spans([span("1" * 32, user="ann")], token="t")
    execute, late = store.client.execute, [replace(run("r1", "1" * 32, "ann"), input="what ann said")]

    def slowly(sql: str, *given: Any) -> None:
        execute(sql, *given)
        if "DELETE" in sql and late:  # the assembler had read the spans before
            store.write_runs([late.pop()], token="late")

    monkeypatch.setattr(store.client, "execute", slowly)
    done = delete_subject(store.client, project="default", user="ann")
    assert (done.traces, done.runs) == (1, 1)
    assert store.runs(RunQuery()) == []
    assert store.client.rows("SELECT state, input, user_id FROM runs") == [("withdrawn", None, None)]


def _holding(folder: Path, store: ClickHouseStore, text: str) -> list[str]:
    """Files of active parts that hold a text; an incompressible one lies in them as it is."""
    rows = store.client.rows("SELECT path FROM system.parts WHERE active AND database = currentDatabase()")
    files = [file for (path,) in rows for file in (folder / path).rglob("*") if file.is_file()]
    assert files
    return [str(file) for file in files if text.encode() in file.read_bytes()]


def test_a_backup_restores_into_another_database(store: ClickHouseStore, store_process: "StoreProcess") -> None:
    store.insert_spans([span("a" * 32)], token="t")
    store.write_runs([run("r1", "a" * 32)], token="r")
    name = f"{uuid.uuid4().hex}.tar.zst"
    assert make_backup(store.client, name).status == "BACKUP_CREATED"
    source = store.client.address.database
    target = f"restored_{uuid.uuid4().hex[:8]}"
    assert restore_backup(store.client, name, source=source, target=target).status == "RESTORED"
    other = open_clickhouse(f"{store_process.url}/{target}", migrate=False)
    assert [r.run_id for r in other.runs(RunQuery())] == ["r1"]
    assert other.spans("default", ["a" * 32]) == store.spans("default", ["a" * 32])
    other.client.execute("DROP DATABASE {name:Identifier}", {"name": target})
    other.close()
    with pytest.raises(InputError, match="letters, digits"):
        make_backup(store.client, "../outside")
    with pytest.raises(InputError, match="in use"):
        restore_backup(store.client, name, source=source, target=source)
    with pytest.raises(StoreError):
        restore_backup(store.client, "missing.tar", source=source, target=target)


def test_an_export_is_parquet_by_day_and_only_of_the_project(store: ClickHouseStore, tmp_path: Path) -> None:
    store.insert_spans(
        [span("1" * 32), span("2" * 32, NOW - 3 * DAY), span("3" * 32, project="other")], token="t"
    )  # fmt: skip
    files = export_parquet(store.client, "spans", tmp_path, project="default")
    assert [f.rows for f in files] == [1, 1]
    names: set[bytes | str] = set()
    for file in files:
        names.update(parquet.read_table(file.path).column("trace_id").to_pylist())
    assert {n.decode() if isinstance(n, bytes) else n for n in names} == {"1" * 32, "2" * 32}
    store.write_runs([run("r1", "1" * 32)], token="r")
    assert [f.rows for f in export_parquet(store.client, "runs", tmp_path, project="default")] == [1]
    with pytest.raises(InputError, match="api_keys"):
        export_parquet(store.client, "api_keys", tmp_path, project="default")


def test_health_shows_tables_disk_and_what_waits(store: ClickHouseStore) -> None:
    empty = store_health(store.client)
    assert (empty.newest_ns, empty.open_traces, empty.problems) == (None, 0, ())
    store.insert_spans([span("a" * 32)], token="t")
    found = store_health(store.client)
    spans = next(t for t in found.tables if t.name == "spans")
    assert (spans.rows, spans.parts) == (1, 1)
    assert spans.bytes_on_disk > 0
    assert found.open_traces == 1
    assert found.newest_ns is not None
    assert found.newest_ns >= NOW
    assert found.migration >= 3
    assert found.disk_free is not None
