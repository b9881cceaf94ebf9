"""Backup: copies of a store made and read by the engine itself, and its tables as Parquet files."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evalspan.errors import ConfigError, InputError
from evalspan_collector.store.admin import partitions_of
from evalspan_collector.store.client import Client

__all__ = ["EXPORTED", "Backup", "Exported", "export_parquet", "make_backup", "restore_backup"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}\Z")
#: Tables that can be exported; the secrets of keys are not among them.
EXPORTED: Final = ("spans", "runs", "steps", "scores", "outcomes", "judge_calls")


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made or read."""

    name: str
    database: str
    status: str


@dataclass(frozen=True, slots=True)
class Exported:
    """One file of an export."""

    path: Path
    table: str
    rows: int


def _checked(name: str) -> str:
    if not _NAME.match(name) or ".." in name:
        raise InputError(f"backup name {name!r} may hold letters, digits, '.', '_' and '-' only")
    return name


def make_backup(client: Client, name: str) -> Backup:
    """Copies the whole database, consistent as of now, into the engine's folder of backups.

    Args:
        client: Connection of a store.
        name: Name of the backup; `.tar` or `.tar.zst` at its end make one file of it.

    Raises:
        InputError: The name cannot be a file's.
        StoreError: The engine allows no backups, or one of this name is there.
    """
    database = client.address.database
    rows = client.rows(f"BACKUP DATABASE {_identifier(database)} TO File('{_checked(name)}')")
    return Backup(name, database, str(rows[0][1]))


def restore_backup(client: Client, name: str, *, source: str, target: str) -> Backup:
    """Reads a backup of database `source` into a new database `target`.

    The running database is not touched: open the new one by its URL, look, then switch.

    Raises:
        InputError: A name cannot be used, or the target is the database in use.
        StoreError: There is no such backup, or the target exists.
    """
    if target == client.address.database:
        raise InputError(f"{target!r} is the database in use: restore into another one and switch to it")
    rows = client.rows(
        f"RESTORE DATABASE {_identifier(source)} AS {_identifier(target)} FROM File('{_checked(name)}')"
    )  # fmt: skip
    return Backup(name, target, str(rows[0][1]))


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise InputError(f"database name {name!r} may hold letters, digits and '_' only")
    return f"`{name}`"


def export_parquet(client: Client, table: str, folder: Path, *, project: str) -> list[Exported]:
    """Writes a project's current rows of a table as Parquet, one file per day or month.

    Raises:
        InputError: The table is none of `EXPORTED`.
        ConfigError: The folder cannot be made.
    """
    if table not in EXPORTED:
        raise InputError(f"table {table!r} cannot be exported: choose one of {', '.join(EXPORTED)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {str(folder)!r}: {error.strerror}") from error
    column, function = ("received_ns", "toYYYYMMDD") if table == "spans" else _written(table)
    written: list[Exported] = []
    for period in sorted({p for owner, p in partitions_of(client, table) if owner == project}):
        when = f"{function}(fromUnixTimestamp64Nano({column}, 'UTC')) = {{period:UInt32}}"
        where = f"FROM {table} FINAL WHERE project = {{project:String}} AND {when}"
        parameters = {"project": project, "period": period}
        count = int(client.rows(f"SELECT count() {where}", parameters)[0][0])
        if count:
            path = folder / f"{table}-{period}.parquet"
            path.write_bytes(client.raw(f"SELECT * {where}", "Parquet", parameters))
            written.append(Exported(path, table, count))
    return written


def _written(table: str) -> tuple[str, str]:
    return ("updated_ns" if table in ("runs", "steps") else "created_ns"), "toYYYYMM"
