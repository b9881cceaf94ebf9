"""Commands for operators, and the limit to one project, against a real store."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as _parquet  # type: ignore[import-untyped]  # ships no stubs
import pytest

from evalspan_collector.records import AlertState, ScoreRecord
from evalspan_collector.run import Run
from evalspan_collector.span import Span
from evalspan_collector.store.clickhouse import ClickHouseStore
from evalspan_collector.store.client import Address, connect
from evalspan_collector.store.contract import RunQuery
from evalspan_dashboard.cli import main

parquet: Any = _parquet  # typed at our edge
DAY = 86_400 * 10**9
NOW = 1_790_000_000 * 10**9


class Cli:
    """The command line in this process: exit code, stdout and stderr of one call."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._url = url
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str, store_url: str | None = None) -> tuple[int, str, str]:
        argv = ["evalspan", *arguments, "--store-url", store_url or self._url]
        self._monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        return int(ended.value.code or 0), out, err

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """The objects of a command with --json that succeeds."""
        code, out, err = self(*arguments, "--json")
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def cli(store_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    for name in ("EVALSPAN_PROJECT_ONLY", "EVALSPAN_CONFIG", "EVALSPAN_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EVALSPAN_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return Cli(store_url, capsys, monkeypatch)


def span(project: str, at: int = NOW, user: str | None = None) -> Span:
    return Span(
        trace_id=("a" if project == "a" else "b") * 32, span_id="c" * 16, name="n", start_ns=at, end_ns=at,
        received_ns=at, project=project, user_id=user,
    )  # fmt: skip


def run(project: str, user: str | None = None) -> Run:
    return Run(
        run_id=f"run-{project}", trace_id=("a" if project == "a" else "b") * 32, state="closed", project=project,
        started_ns=NOW, last_received_ns=NOW, user_id=user, agent=f"agent-{project}",
    )  # fmt: skip


def score(project: str) -> ScoreRecord:
    return ScoreRecord(
        project=project, run_id=f"run-{project}", metric=f"metric_{project}", rule="r", run_revision=1,
        metric_version="1", created_ns=NOW, value=1.0,
    )  # fmt: skip


@pytest.fixture
def two_projects(store: ClickHouseStore) -> ClickHouseStore:
    """Projects a and b with a run of user ann, a score and an alert each."""
    store.insert_spans([span("a", user="ann"), span("b", user="ann")], token="s")
    store.write_runs([run("a", "ann"), run("b", "ann")], token="r")
    store.write_scores([score("a"), score("b")], token="c")
    for project in "ab":
        store.write_alert_state(
            AlertState(project=project, alert=f"alert-{project}", state="ok", since_ns=NOW, updated_ns=NOW)
        )
    return store


def test_a_key_is_made_listed_and_revoked(cli: Cli) -> None:
    code, out, err = cli("keys", "create", "--project", "checkout", "--name", "ci")
    assert code == 0
    secret = out.strip()
    assert secret.startswith("esk_")
    assert secret not in err
    (listed,) = cli.rows("keys", "list")
    assert (listed["project"], listed["name"], listed["revoked_at"]) == ("checkout", "ci", None)
    assert secret not in json.dumps(listed)
    (made,) = cli.rows("keys", "create", "--project", "other")
    assert made["key"].startswith("esk_")
    assert [row["key_id"] for row in cli.rows("keys", "list", "--project", "other")] == [made["key_id"]]
    (revoked,) = cli.rows("keys", "revoke", listed["key_id"])
    assert revoked["revoked_at"] is not None
    assert "checkout" in cli("keys", "list")[1]


def test_a_key_needs_a_project_and_an_unknown_one_is_named(cli: Cli) -> None:
    code, _, err = cli("keys", "create")
    assert code == 2
    assert "--project" in err
    code, _, err = cli("keys", "revoke", "nothere")
    assert code == 2
    assert "'nothere'" in err
    assert "evalspan keys list" in err


def test_keys_need_a_store_that_keeps(cli: Cli) -> None:
    code, _, err = cli("keys", "list", store_url="memory://")
    assert code == 2
    assert "memory://" in err
    code, _, err = cli("keys", "list", store_url="http://127.0.0.1:9/evalspan")
    assert code == 3
    assert "127.0.0.1:9" in err


def test_health_shows_the_tables(cli: Cli, two_projects: ClickHouseStore) -> None:
    (found,) = cli.rows("storage", "health")
    tables = {table["name"]: table for table in found["tables"]}
    assert tables["spans"]["rows"] == 2
    assert found["problems"] == []
    assert found["newest_at"] is not None
    code, out, _ = cli("storage", "health")
    assert code == 0
    assert "spans" in out
    assert "no problems" in out


def test_a_backup_is_restored_beside_the_store(cli: Cli, two_projects: ClickHouseStore, store_url: str) -> None:
    database = store_url.rpartition("/")[2]
    (made,) = cli.rows("storage", "backup", f"{database}.tar.zst")
    assert made["name"] == f"{database}.tar.zst"
    target = f"{database}_again"
    (done,) = cli.rows("storage", "restore", made["name"], "--into", target)
    assert done["database"] == target
    client = connect(Address.of(f"{store_url.rpartition('/')[0]}/{target}"))
    assert client.rows("SELECT count() FROM runs FINAL") == [(2,)]
    client.execute(f"DROP DATABASE {target} SYNC")
    client.close()
    code, _, err = cli("storage", "restore", made["name"], "--into", database)
    assert code == 2
    assert "in use" in err
    assert cli("storage", "backup", "../evil")[0] == 2


def test_an_export_holds_one_project(cli: Cli, two_projects: ClickHouseStore, tmp_path: Path) -> None:
    rows = cli.rows("storage", "export", str(tmp_path / "out"), "--table", "runs", "--project", "b")
    assert [(row["table"], row["rows"]) for row in rows] == [("runs", 1)]
    table = parquet.read_table(rows[0]["path"])
    assert [str(value, "utf-8") if isinstance(value, bytes) else value for value in table["run_id"].to_pylist()] == [
        "run-b"
    ]
    code, _, err = cli("storage", "export", str(tmp_path / "out"), "--table", "api_keys")
    assert code == 2
    assert "'api_keys'" in err


def test_retention_says_what_it_would_drop_then_drops_it(cli: Cli, store: ClickHouseStore, tmp_path: Path) -> None:
    old = 1_500_000_000 * 10**9
    store.insert_spans([span("a"), replace(span("a", old), span_id="d" * 16)], token="s")
    (tmp_path / "evalspan.yaml").write_text("retention: {spans_days: 3000, runs_days: 3000}\n")
    dropped = cli.rows("storage", "retention", "--dry-run")
    assert [(row["table"], row["rows"], row["dry_run"]) for row in dropped] == [("spans", 1, True)]
    assert len(store.spans("a", ["a" * 32])) == 2
    assert [row["table"] for row in cli.rows("storage", "retention")] == ["spans"]
    assert len(store.spans("a", ["a" * 32])) == 1


def test_a_users_data_goes_only_when_told_so(cli: Cli, two_projects: ClickHouseStore) -> None:
    code, _, err = cli("storage", "delete", "--user", "ann", "--project", "a")
    assert code == 2
    assert "--yes" in err
    assert cli("storage", "delete", "--project", "a", "--yes")[0] == 2
    assert cli("storage", "delete", "--project", "a", "--user", "ann", "--session", "s", "--yes")[0] == 2
    assert len(two_projects.runs(RunQuery())) == 2
    (done,) = cli.rows("storage", "delete", "--user", "ann", "--project", "a", "--yes")
    assert (done["runs"], done["traces"], done["rows"]["spans"]) == (1, 1, 1)
    assert [row.project for row in two_projects.runs(RunQuery())] == ["b"]


def test_a_new_database_is_migrated_once(cli: Cli) -> None:
    planned = cli.rows("storage", "migrate", "--dry-run")
    assert [row["number"] for row in planned] == list(range(1, len(planned) + 1))
    assert [row["name"] for row in cli.rows("storage", "migrate")] == [row["name"] for row in planned]
    assert cli.rows("storage", "migrate") == []
    assert "up to date" in cli("storage", "migrate")[1]


def test_a_project_cannot_see_another(
    cli: Cli, two_projects: ClickHouseStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = cli.rows("keys", "create", "--project", "b")[0]
    monkeypatch.setenv("EVALSPAN_PROJECT_ONLY", "a")
    listings: list[tuple[Callable[[], list[dict[str, Any]]], str, str]] = [
        (lambda: cli.rows("runs", "list"), "run_id", "run-a"),
        (lambda: cli.rows("scores", "list"), "run_id", "run-a"),
        (lambda: cli.rows("alerts", "list"), "alert", "alert-a"),
    ]
    for rows, column, own in listings:
        assert [row[column] for row in rows()] == [own]
    assert cli.rows("runs", "show", "run-a")[0]["project"] == "a"
    assert cli.rows("scores", "list", "--run", "run-b") == []
    code, out, err = cli("runs", "show", "run-b", "--json")
    assert (code, out) == (2, "")
    assert "no run 'run-b'" in err
    assert cli("case", "run-b", "--into", str(tmp_path / "cases.jsonl"))[0] == 2
    for command in (["runs", "list"], ["runs", "show", "run-b"], ["keys", "list"], ["keys", "create"]):
        code, out, err = cli(*command, "--project", "b")
        assert (code, out) == (2, ""), command
        assert "EVALSPAN_PROJECT_ONLY" in err
    assert cli.rows("keys", "list") == []
    assert cli("keys", "revoke", other["key_id"])[0] == 2
    assert cli("storage", "delete", "--user", "ann", "--project", "b", "--yes")[0] == 2


def test_what_reaches_every_project_is_refused_to_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALSPAN_PROJECT_ONLY", "a")
    for command in (["backup"], ["restore", "x", "--into", "y"], ["retention"], ["migrate"]):
        code, _, err = cli("storage", *command)
        assert code == 2, command
        assert "EVALSPAN_PROJECT_ONLY" in err
