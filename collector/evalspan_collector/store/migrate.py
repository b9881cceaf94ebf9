"""Migrate: the store's schema, as numbered SQL files that are applied once and in order."""

import hashlib
import os
import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from evalspan.errors import SchemaError, StoreError

__all__ = ["Migration", "Sql", "applied_migrations", "load_migrations", "migrate", "pending_migrations"]

_FILE: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql\Z")
_TABLE_EXISTS: Final = 57
_UNKNOWN_TABLE: Final = 60
_LOCK: Final = "migration_lock"


class Sql(Protocol):
    """What a migration asks of a connection."""

    def execute(self, sql: str, parameters: dict[str, Any] | None = None) -> None:
        """Runs a statement without an answer."""
        ...

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Runs a query."""
        ...


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered SQL file; every statement in it may run twice."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements in order, without comments."""
        bare = re.sub(r"^--.*\n", "", self.sql, flags=re.MULTILINE)
        return tuple(part.strip() for part in re.split(r";\s*(?:\n|\Z)", bare) if part.strip())


def load_migrations(folder: Path | None = None) -> tuple[Migration, ...]:
    """The migrations this code knows, by number.

    Raises:
        SchemaError: A file is not named NNNN_name.sql, or a number is missing.
    """
    source = folder or Path(__file__).parent / "migrations"
    found: list[Migration] = []
    for path in sorted(source.glob("*.sql")):
        matched = _FILE.match(path.name)
        if matched is None:
            raise SchemaError(f"migration file {path.name!r} is not named NNNN_name.sql")
        found.append(Migration(int(matched.group(1)), matched.group(2), path.read_text(encoding="utf-8")))
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise SchemaError(f"migrations in {str(source)!r} are numbered {numbers}, not 1 to {len(found)}")
    return tuple(found)


def applied_migrations(sql: Sql) -> dict[int, str]:
    """Number to checksum of what was applied; empty for a new database."""
    try:
        rows = sql.rows("SELECT number, argMax(checksum, applied_ns) FROM migrations GROUP BY number ORDER BY number")
    except StoreError as error:
        if getattr(error, "code", None) == _UNKNOWN_TABLE:
            return {}
        raise
    return {int(number): str(checksum) for number, checksum in rows}


def pending_migrations(sql: Sql, known: Sequence[Migration] | None = None) -> tuple[Migration, ...]:
    """What `migrate` would apply.

    Raises:
        SchemaError: The store is newer than this code, or an applied file was changed since.
    """
    known = load_migrations() if known is None else known
    applied = applied_migrations(sql)
    newest = max(applied, default=0)
    if newest > len(known):
        raise SchemaError(
            f"the store's schema is at migration {newest}, this evalspan knows {len(known)}: upgrade evalspan"
        )
    for migration in known:
        checksum = applied.get(migration.number)
        if checksum is not None and checksum != migration.checksum:
            raise SchemaError(
                f"migration {migration.number:04}_{migration.name} was applied with checksum {checksum[:12]!r} and is "
                f"now {migration.checksum[:12]!r}: install the release that made the store, or restore a backup"
            )
    return tuple(migration for migration in known if migration.number not in applied)


def migrate(
    sql: Sql,
    *,
    known: Sequence[Migration] | None = None,
    dry_run: bool = False,
    exclusive: bool = False,
    rewrite: Callable[[str], Sequence[str]] | None = None,
    stale_s: float = 600.0,
    patience_s: float = 660.0,
    clock: Callable[[], int] = time.time_ns,
) -> tuple[Migration, ...]:
    """Applies what is missing, one process at a time, and returns it.

    A process that dies on the way leaves statements that may run again, and a lock that the next
    one takes over after `stale_s`.

    Args:
        sql: Connection with the store's database selected.
        known: Migrations instead of those of this code.
        dry_run: Only say what would be applied.
        exclusive: The caller is the only process at this store: an old lock is ignored.
        rewrite: Turns a statement into those that run instead (cluster DDL).
        stale_s: Age at which another process's lock counts as abandoned.
        patience_s: How long to wait for another process.
        clock: Nanoseconds since the epoch.

    Raises:
        SchemaError: The store is newer than this code, changed, or locked for too long.
    """
    pending = pending_migrations(sql, known)
    if dry_run or not pending:
        return pending
    run = rewrite or _as_it_is
    _lock(sql, exclusive=exclusive, stale_s=stale_s, patience_s=patience_s, clock=clock)
    try:
        for statement in run(_MIGRATIONS_TABLE):
            sql.execute(statement)
        pending = pending_migrations(sql, known)  # another process may have been faster
        for migration in pending:
            for statement in migration.statements:
                for text in run(statement):
                    sql.execute(text)
            sql.execute(
                "INSERT INTO migrations SELECT {number:UInt32}, {name:String}, {checksum:String}, {now:Int64}",
                {"number": migration.number, "name": migration.name, "checksum": migration.checksum, "now": clock()},
            )
    finally:
        sql.execute(f"DROP TABLE IF EXISTS {_LOCK}")
    return pending


def _as_it_is(statement: str) -> Sequence[str]:
    return (statement,)


_MIGRATIONS_TABLE: Final = """CREATE TABLE IF NOT EXISTS migrations
(
    number UInt32,
    name String,
    checksum String,
    applied_ns Int64
)
ENGINE = ReplacingMergeTree(applied_ns)
ORDER BY number"""


def _lock(sql: Sql, *, exclusive: bool, stale_s: float, patience_s: float, clock: Callable[[], int]) -> None:
    """Takes the lock: of two CREATE TABLE at once exactly one succeeds."""
    if exclusive:
        sql.execute(f"DROP TABLE IF EXISTS {_LOCK}")
    deadline = time.monotonic() + patience_s
    while True:
        host = re.sub(r"[^A-Za-z0-9_.-]", "_", socket.gethostname())
        owner = f"{host} {os.getpid()} {clock()}"
        try:
            sql.execute(f"CREATE TABLE {_LOCK} (held UInt8) ENGINE = Memory COMMENT '{owner}'")
        except StoreError as error:
            if getattr(error, "code", None) != _TABLE_EXISTS:
                raise
        else:
            return
        holder = _holder(sql)
        if holder is not None and clock() - int(holder.rpartition(" ")[2]) > stale_s * 1e9:
            sql.execute(f"DROP TABLE IF EXISTS {_LOCK}")
        elif time.monotonic() > deadline:
            raise SchemaError(f"another process ({holder}) holds the migration lock: DROP TABLE {_LOCK} if it is dead")
        else:
            time.sleep(0.1)


def _holder(sql: Sql) -> str | None:
    rows = sql.rows(
        "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = {name:String}", {"name": _LOCK}
    )
    return str(rows[0][0]) if rows else None
