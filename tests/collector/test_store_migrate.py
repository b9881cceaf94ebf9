"""Migrations: once, in order, under a lock, safe to kill, refused when the store is newer; and their cluster form."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evalspan.errors import ConfigError, SchemaError
from evalspan_collector.assemble import assemble
from evalspan_collector.completion import run_fingerprint
from evalspan_collector.records import JudgeCallRecord, ScoreRecord
from evalspan_collector.run import Run
from evalspan_collector.span import Span
from evalspan_collector.store._embedded import EngineOptions, connection_options
from evalspan_collector.store.clickhouse import ClickHouseStore
from evalspan_collector.store.client import Address, Client, connect
from evalspan_collector.store.cluster import SHARDING, ClusterDdl
from evalspan_collector.store.contract import RunQuery, ScoreQuery
from evalspan_collector.store.migrate import Migration, applied_migrations, load_migrations, migrate, pending_migrations
from evalspan_collector.store.opening import open_clickhouse, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator


KNOWN = load_migrations()


@pytest.fixture
def client(store_url: str) -> "Iterator[Client]":
    opened = connect(Address.of(store_url))
    yield opened
    opened.execute("DROP DATABASE IF EXISTS {name:Identifier}", {"name": opened.address.database})
    opened.close()


def tables(client: Client) -> set[str]:
    return {str(row[0]) for row in client.rows("SHOW TABLES")}


def test_every_statement_may_run_twice() -> None:
    for migration in KNOWN:
        for statement in migration.statements:
            # To set a value that is set already changes nothing.
            assert any(word in statement for word in ("IF NOT EXISTS", "IF EXISTS", "MODIFY SETTING")), statement[:80]


CREATED = tuple(text for migration in KNOWN for text in migration.statements if text.startswith("CREATE TABLE"))


def test_every_table_forgets_no_token_and_bounds_its_partitions() -> None:
    assert len(CREATED) > 15
    for statement in CREATED:
        assert "non_replicated_deduplication_window" in statement, statement[:80]
        assert "ORDER BY" in statement


def test_a_dry_run_changes_nothing(client: Client) -> None:
    assert migrate(client, dry_run=True) == KNOWN
    assert tables(client) == set()


def test_migrations_are_applied_once(client: Client) -> None:
    assert migrate(client) == KNOWN
    assert migrate(client) == ()
    assert applied_migrations(client) == {m.number: m.checksum for m in KNOWN}
    assert {"spans", "logs", "runs", "steps", "scores", "outcomes", "judge_calls", "api_keys"} <= tables(client)
    assert "migration_lock" not in tables(client)


SPAN = Span(project="default", trace_id="t" * 32, span_id="s" * 16, name="n", start_ns=1, end_ns=2, received_ns=3)
RUN = Run(run_id="r", trace_id=SPAN.trace_id, state="closed", started_ns=1, last_received_ns=3)
SCORE = ScoreRecord(
    project="default", run_id="r", metric="m", rule="r", run_revision=1, metric_version="1", created_ns=4, value=0.5
)  # fmt: skip
CALL = JudgeCallRecord(
    project="default", call_id="c2", created_ns=6, rule="r", metric="m", run_id="r", purpose="p", model="model"
)  # fmt: skip


@pytest.mark.parametrize("version", range(1, len(KNOWN)))
def test_a_store_of_an_older_schema_keeps_what_is_in_it(client: Client, store_url: str, version: int) -> None:
    migrate(client, known=KNOWN[:version])
    older = ClickHouseStore(client, assemble=assemble, fingerprint=run_fingerprint)
    older.insert_spans([SPAN], token="s")
    if version > 1:
        older.write_runs([RUN], token="r")
        older.write_scores([SCORE], token="c")
        client.execute(
            "INSERT INTO judge_calls (project, call_id, created_ns, rule, metric, run_id, purpose, model, cost_usd)"
            " VALUES ('default', 'c1', 5, 'r', 'm', 'r', 'p', 'model', 0.25)"
        )
    assert migrate(client) == KNOWN[version:]
    newer = open_clickhouse(store_url)
    try:
        assert newer.spans("default", [SPAN.trace_id]) == [SPAN]
        if version > 1:
            assert [summary.run_id for summary in newer.runs(RunQuery())] == ["r"]
            assert [score.value for score in newer.scores(ScoreQuery())] == [0.5]
            assert newer.judge_spend("default", rule=None, since_ns=0) == 0.25
        newer.write_judge_calls([replace(CALL, cost_usd=None, reserved_usd=0.5)], token="c2")
        assert newer.judge_spend("default", rule=None, since_ns=0) == (0.75 if version > 1 else 0.5)
    finally:
        newer.close()


def test_a_newer_store_is_refused(client: Client) -> None:
    newer = Migration(len(KNOWN) + 1, "later", "CREATE TABLE IF NOT EXISTS later (x UInt8) ENGINE = Memory;\n")
    migrate(client, known=(*KNOWN, newer))
    with pytest.raises(SchemaError, match="upgrade evalspan"):
        migrate(client)


def test_a_changed_file_is_refused(client: Client) -> None:
    migrate(client)
    changed = replace(KNOWN[0], sql=KNOWN[0].sql + "-- more\n")
    with pytest.raises(SchemaError, match="0001_spans was applied with checksum"):
        pending_migrations(client, (changed, *KNOWN[1:]))


def test_a_store_that_lacks_migrations_is_refused_without_leave(store_url: str) -> None:
    with pytest.raises(SchemaError, match="lacks the migrations 0001_spans"):
        open_clickhouse(store_url, migrate=False)


def test_two_processes_at_once_migrate_once(store_url: str) -> None:
    clients = [connect(Address.of(store_url)) for _ in range(3)]
    done: list[tuple[Migration, ...]] = []

    def work(client: Client) -> None:
        done.append(migrate(client))

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 3
    rows = clients[0].rows("SELECT number, count() FROM migrations GROUP BY number ORDER BY number")
    assert rows == [(m.number, 1) for m in KNOWN]
    for client in clients:
        client.close()


def test_a_lock_of_a_dead_process_is_taken_over_when_it_is_old(client: Client) -> None:
    client.execute("CREATE TABLE migration_lock (held UInt8) ENGINE = Memory COMMENT 'host 1 1000'")
    assert migrate(client, stale_s=60) == KNOWN
    fresh = f"gone_{uuid.uuid4().hex}"
    later = Migration(len(KNOWN) + 1, "later", f"CREATE TABLE IF NOT EXISTS {fresh} (x UInt8) ENGINE = Memory;\n")
    client.execute("CREATE TABLE migration_lock (held UInt8) ENGINE = Memory COMMENT 'host 1 9000000000000000000'")
    with pytest.raises(SchemaError, match=r"\(host 1 9000000000000000000\) holds the migration lock"):
        migrate(client, known=(*KNOWN, later), patience_s=0.3)
    assert migrate(client, known=(*KNOWN, later), exclusive=True) == (later,)


_KILLED = """
import os, signal, sys
from pathlib import Path
from evalspan_collector.store._embedded import Engine, EngineSql
from evalspan_collector.store.migrate import migrate
engine = Engine(Path(sys.argv[1])); engine.open()
left = int(sys.argv[2])
sql = EngineSql(engine, "evalspan")
class Dying:
    def rows(self, text, parameters=None):
        return sql.rows(text, parameters)
    def execute(self, text, parameters=None):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        sql.execute(text, parameters)
migrate(Dying(), exclusive=True)
engine.close()
print("done")
"""


@pytest.mark.timeout(300)
def test_a_migration_killed_at_any_statement_is_finished_by_the_next_start(tmp_path: Path) -> None:
    statements = 4 + sum(len(m.statements) + 1 for m in KNOWN)  # lock, table, ..., unlock
    folder = tmp_path / "store"
    killed = 0
    for step in (0, 1, 2, 3, 6, 9, 12, 17, statements):
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, str(folder), str(step)], capture_output=True, text=True, check=False
        )
        if done.returncode == -signal.SIGKILL:
            killed += 1
            continue
        assert done.returncode == 0, done.stderr
    assert killed >= 6
    store = subprocess.run(
        [sys.executable, "-c", _KILLED, str(folder), "999"], capture_output=True, text=True, check=False
    )
    assert store.stdout.strip() == "done"


# cluster


def cluster_sql() -> str:
    ddl = ClusterDdl("prod", "evalspan")
    return ";\n\n".join(text for m in KNOWN for s in m.statements for text in ddl(s)) + ";\n"


def test_the_cluster_schema_is_the_one_on_file() -> None:
    """`EVALSPAN_UPDATE_SNAPSHOTS=1` writes it anew."""
    path = Path(__file__).parent / "snapshots" / "cluster_schema.sql"
    if os.environ.get("EVALSPAN_UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(cluster_sql(), encoding="utf-8")
    assert cluster_sql() == path.read_text(encoding="utf-8")


def test_every_table_of_a_cluster_is_replicated_and_distributed() -> None:
    ddl = ClusterDdl("prod", "evalspan")
    for statement in CREATED:
        local, front = ddl(statement)
        assert "ON CLUSTER 'prod'" in local
        assert "ENGINE = Replicated" in local
        assert "'/clickhouse/tables/{shard}/evalspan/" in local
        assert "non_replicated" not in local
        assert "ENGINE = Distributed('prod', 'evalspan', " in front
    assert SHARDING["spans"] == SHARDING["logs"] == "cityHash64(trace_id)"
    assert ddl("ALTER TABLE runs ADD COLUMN IF NOT EXISTS x UInt8") == (
        "ALTER TABLE runs_local ON CLUSTER 'prod' ADD COLUMN IF NOT EXISTS x UInt8",
        "ALTER TABLE runs ON CLUSTER 'prod' ADD COLUMN IF NOT EXISTS x UInt8",
    )
    # The table in front has no parts that a setting could be about.
    assert ddl("ALTER TABLE runs MODIFY SETTING x = 1") == (
        "ALTER TABLE runs_local ON CLUSTER 'prod' MODIFY SETTING x = 1",
    )
    with pytest.raises(ConfigError, match="may hold letters"):
        ClusterDdl("x'; DROP", "evalspan")


def test_the_engine_parses_every_cluster_statement(client: Client) -> None:
    ddl = ClusterDdl("prod", "evalspan")
    for migration in KNOWN:
        for statement in migration.statements:
            for text in ddl(statement):
                assert client.rows(f"EXPLAIN AST {text}")


def test_a_cluster_is_named_in_the_url() -> None:
    address = Address.of("https://u:p@ch.example:8443/prod?cluster=main&verify=false")
    assert (address.cluster, address.database, address.port) == ("main", "prod", 8443)
    assert address.options == (("verify", "false"),)
    with pytest.raises(ConfigError, match="not http"):
        Address.of("mysql://u:secret@h/db")
    assert "secret" not in str(address)


@pytest.mark.parametrize("url", ["http://[::1", "chdb:///", "chdb://", "http://h:99999/x", "nonsense"])
def test_what_is_no_store_url_is_told_as_such(url: str) -> None:
    with pytest.raises(ConfigError, match="store URL"):
        Address.of(url)


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_store_folder_that_cannot_be_is_told_as_such(inside: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match=r"cannot be written .*: choose another folder"):
        open_store(f"chdb://{tmp_path / 'file' / inside}")


def test_a_folder_that_was_there_keeps_its_rights_and_a_new_one_is_for_its_owner_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    connection_options(tmp_path, EngineOptions())
    connection_options(tmp_path / "new", EngineOptions())
    assert (tmp_path.stat().st_mode & 0o777, (tmp_path / "new").stat().st_mode & 0o777) == (0o755, 0o700)
