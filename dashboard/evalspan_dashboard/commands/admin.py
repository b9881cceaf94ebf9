"""Admin: what an operator does to the store: look, back up, export, drop what is old, delete a person's data."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalspan.errors import InputError
from evalspan_collector.run import iso_time
from evalspan_dashboard.commands.options import (
    Config,
    Data,
    Json,
    Project,
    StoreUrl,
    connect_clickhouse,
    own_project,
    read_settings,
    store_token,
    store_url_of,
)
from evalspan_dashboard.output import console, print_json, print_table

if TYPE_CHECKING:
    from evalspan_collector.store.admin import StoreHealth

__all__ = ["backup", "delete", "export", "health", "migrate", "register", "restore", "retention"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def _whole_store(what: str) -> None:
    """Refuses what reaches every project where only one may be seen.

    Raises:
        InputError: EVALSPAN_PROJECT_ONLY is set.
    """
    only = own_project()
    if only is not None:
        raise InputError(
            f"{what} reaches every project and EVALSPAN_PROJECT_ONLY limits you to {only!r}: ask its operator"
        )


def _bytes(count: int | None) -> str:
    if count is None:
        return "-"
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def health(as_json: Json = False, data: Data = None, config: Config = None, store_url: StoreUrl = None) -> None:
    """Show the store's tables, disk, merges and lag, and what is wrong; exit code 1 when something is.

    Example: evalspan storage health --json
    """
    from evalspan_collector.store.admin import store_health

    found = store_health(connect_clickhouse(read_settings(config=config, data=data, store_url=store_url)).client)
    if as_json:
        row = asdict(found)
        newest = row.pop("newest_ns")
        print_json({**row, "newest_at": None if newest is None else iso_time(newest)})
    else:
        _print_health(found)
    if found.problems:
        raise typer.Exit(1)


def _print_health(found: "StoreHealth") -> None:
    print_table(
        f"ClickHouse {found.version}, schema at migration {found.migration}",
        ("table", "rows", "parts", "partitions", "on disk", "uncompressed"),
        (
            (t.name, f"{t.rows:,}", t.parts, t.partitions, _bytes(t.bytes_on_disk), _bytes(t.bytes_uncompressed))
            for t in found.tables
        ),
        numeric=("rows", "parts", "partitions", "on disk", "uncompressed"),
    )
    newest = "never" if found.newest_ns is None else iso_time(found.newest_ns)
    console.print(f"disk {_bytes(found.disk_free)} free of {_bytes(found.disk_total)}", end="; ")
    console.print(f"ClickHouse's own logs {_bytes(found.system_log_bytes)}; {found.merges} merges", end="; ")
    console.print(f"{found.open_traces} traces wait for assembly; last span written {newest}")
    for problem in found.problems:
        console.print(f"problem: {problem}")
    if not found.problems:
        console.print("no problems")


def backup(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of the backup; `.tar.zst` at its end makes one file.", show_default="the time"),
    ] = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Copy the whole database, as of now, into the engine's folder of backups, while everything runs.

    The embedded store's backups are in `backups` in the data folder.

    Example: evalspan storage backup before-upgrade.tar.zst
    """
    from evalspan_collector.store.backup import make_backup

    _whole_store("a backup")
    settings = read_settings(config=config, data=data, store_url=store_url)
    made = make_backup(
        connect_clickhouse(settings).client, name or datetime.now(tz=UTC).strftime("evalspan-%Y%m%dT%H%M%SZ.tar.zst")
    )
    if as_json:
        print_json(asdict(made))
        return
    where = "" if settings.store_url else f" in {settings.data_dir.root / 'backups'}"
    console.print(f"backup {made.name!r} of database {made.database!r} is made{where}")


def restore(
    name: Annotated[str, typer.Argument(help="Name of the backup.")],
    into: Annotated[str, typer.Option("--into", help="New database to restore into.")],
    source: Annotated[
        str | None, typer.Option("--from", help="Database the backup is of.", show_default="that of the store URL")
    ] = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Read a backup into a new database beside the one in use, which is not touched.

    Example: evalspan storage restore before-upgrade.tar.zst --into evalspan_restored
    """
    from evalspan_collector.store.backup import restore_backup

    _whole_store("restoring")
    client = connect_clickhouse(read_settings(config=config, data=data, store_url=store_url)).client
    done = restore_backup(client, name, source=source or client.address.database, target=into)
    if as_json:
        print_json(asdict(done))
        return
    console.print(
        f"backup {done.name!r} is in database {done.database!r}: open it with --store-url .../{done.database}"
    )


def export(
    folder: Annotated[Path, typer.Argument(help="Where to write the files.")],
    table: Annotated[
        list[str] | None, typer.Option("--table", help="spans, runs, steps, scores, ...", show_default="runs, scores")
    ] = None,
    project: Project = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Write a project's current rows as Parquet, one file per table and day or month.

    Example: evalspan storage export ./export --table runs --table scores --project default
    """
    from evalspan_collector.store.backup import export_parquet

    settings = read_settings(config=config, data=data, store_url=store_url)
    client = connect_clickhouse(settings).client
    written = [
        found
        for name in table or ("runs", "scores")
        for found in export_parquet(client, name, folder, project=project or settings.project)
    ]
    if as_json:
        for found in written:
            print_json({"table": found.table, "rows": found.rows, "path": str(found.path)})
        return
    print_table(
        f"{len(written)} files" if written else f"project {project or settings.project!r} has no such rows",
        ("table", "rows", "path"),
        ((found.table, found.rows, found.path) for found in written),
        numeric=("rows",),
    )


def retention(
    dry_run: DryRun = False,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Drop the days and months that lie before the limits of `retention:` in evalspan.yaml, now.

    The worker does this once a day by itself.

    Example: evalspan storage retention --dry-run
    """
    from evalspan_collector.store.admin import apply_retention
    from evalspan_evaluators.config import load_config
    from evalspan_evaluators.retention import limits_of

    _whole_store("retention")
    limits = load_config(config).retention
    projects, others = limits_of(limits)
    dropped = apply_retention(
        connect_clickhouse(read_settings(config=config, data=data, store_url=store_url)).client,
        projects,
        default=others,
        dry_run=dry_run,
    )
    if as_json:
        for found in dropped:
            print_json({**asdict(found), "dry_run": dry_run})
        return
    kept = f"spans are kept {_days(limits.spans_days)}, runs {_days(limits.runs_days)}"
    print_table(
        f"{len(dropped)} partitions {'would be' if dry_run else 'were'} dropped: {kept}",
        ("table", "project", "period", "rows", "on disk"),
        ((d.table, d.project, d.period, f"{d.rows:,}", _bytes(d.bytes_on_disk)) for d in dropped),
        numeric=("rows", "on disk"),
    )


def _days(count: int | None) -> str:
    return "for ever" if count is None else f"{count} days"


def delete(
    user: Annotated[str | None, typer.Option("--user", help="The user whose data to delete.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="The session whose data to delete.")] = None,
    project: Project = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Delete every trace, run and score of a user or a session for good; backups made before keep theirs.

    Example: evalspan storage delete --user ann@example.org --project default --yes
    """
    from evalspan_collector.store.admin import delete_subject

    if (user is None) == (session is None):
        raise InputError("name whose data to delete: either --user or --session")
    settings = read_settings(config=config, data=data, store_url=store_url)
    owner = project or settings.project
    what = f"user {user!r}" if user is not None else f"session {session!r}"
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise InputError(f"deleting {what} of project {owner!r} cannot be undone: add --yes")
        typer.confirm(f"Delete everything of {what} in project {owner!r}, for good?", abort=True)
    done = delete_subject(connect_clickhouse(settings).client, project=owner, user=user, session=session)
    if as_json:
        print_json({"project": owner, "user": user, "session": session, **asdict(done)})
        return
    rows = ", ".join(f"{count} {table}" for table, count in done.rows.items() if count)
    console.print(
        f"{what} of project {owner!r}: deleted {done.runs} runs of {done.traces} traces ({rows or 'no rows'})"
    )


def migrate(
    dry_run: DryRun = False,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Bring the store's schema up to date; every process also does this when it starts.

    Example: evalspan storage migrate --dry-run
    """
    from evalspan_collector.store.opening import migrate_store

    _whole_store("a migration")
    settings = read_settings(config=config, data=data, store_url=store_url)
    applied = migrate_store(store_url_of(settings), token=store_token(settings), dry_run=dry_run)
    rows: list[dict[str, Any]] = [{"number": m.number, "name": m.name, "dry_run": dry_run} for m in applied]
    if as_json:
        for row in rows:
            print_json(row)
        return
    console.print(
        "the schema is up to date"
        if not rows
        else f"{len(rows)} migrations {'would be' if dry_run else 'were'} applied:"
    )
    for row in rows:
        console.print(f"  {row['number']:04}_{row['name']}")


def register(app: typer.Typer) -> None:
    """Add these commands."""
    commands: dict[str, Callable[..., None]] = {
        "health": health,
        "backup": backup,
        "restore": restore,
        "export": export,
        "retention": retention,
        "delete": delete,
        "migrate": migrate,
    }
    group = typer.Typer(help="The store: health, backups, export, retention, deletion.", no_args_is_help=True)
    for name, command in commands.items():
        group.command(name)(command)
    app.add_typer(group, name="storage")
