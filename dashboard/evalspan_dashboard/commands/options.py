"""Options that several commands share, and how they become settings and a store."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalspan.errors import InputError
from evalspan_collector.settings import Settings, load_settings
from evalspan_collector.store.contract import Store

if TYPE_CHECKING:
    from evalspan_collector.store.clickhouse import ClickHouseStore

__all__ = [
    "Config", "Data", "Json", "Project", "StoreUrl", "connect", "connect_clickhouse", "limited", "own_project",
    "read_settings", "store_token", "store_url_of",
]  # fmt: skip


def own_project() -> str | None:
    """The one project that screens and commands here may see (EVALSPAN_PROJECT_ONLY), None for all."""
    return os.environ.get("EVALSPAN_PROJECT_ONLY") or None


def limited(project: str | None) -> str | None:
    """The project of a command: the flag's, or the only one there is here.

    Raises:
        InputError: The flag names another than EVALSPAN_PROJECT_ONLY.
    """
    only = own_project()
    if only is not None and project not in (None, only):
        raise InputError(f"--project {project!r} is not yours: EVALSPAN_PROJECT_ONLY limits you to {only!r}")
    return only or project


Data = Annotated[
    Path | None,
    typer.Option("--data", envvar="EVALSPAN_DATA", help="Data folder.", show_default="the user data folder"),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", envvar="EVALSPAN_CONFIG", help="evalspan.yaml.", show_default="./evalspan.yaml"),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store-url",
        envvar="EVALSPAN_STORE_URL",
        help="ClickHouse: https://user:pass@host:8443/db",
        show_default="the embedded store of this data folder",
    ),
]
Project = Annotated[
    str | None,
    typer.Option(
        "--project", help="Only this project.", show_default="all, or EVALSPAN_PROJECT_ONLY", callback=limited
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line, for programs.")]


def read_settings(
    *, config: Path | None = None, complete: bool = False, metrics: bool = True, **flags: Any
) -> Settings:
    """Settings from flags, EVALSPAN_* variables, the `settings:` section of evalspan.yaml and defaults.

    Args:
        config: `--config`.
        complete: Also look for what only the worker opens, so that it is missed before anything starts.
        metrics: Check the rules' metrics too, which takes a moment.
        flags: Values of other flags by the setting's name; None where not given.

    Raises:
        ConfigError: A value cannot be used, or evalspan.yaml has a mistake.
    """
    from evalspan_evaluators.config import load_config

    loaded = load_config(config, complete=complete, metrics=metrics)
    found = {"project": loaded.project, "prices": loaded.prices, "config": loaded.path}
    return load_settings({**found, **flags}, loaded.settings)


def store_token(settings: Settings) -> str | None:
    """Token of the embedded store, None where a server's URL carries its own credentials."""
    path = settings.data_dir.store_token
    if settings.store_url is None and path.exists():
        return path.read_text().strip()
    return None


def connect(settings: Settings) -> Store:
    """The store these settings name.

    Raises:
        StoreUnreachableError: Nothing answers there.
    """
    from evalspan_collector.store.opening import open_store

    return open_store(store_url_of(settings), token=store_token(settings))


def store_url_of(settings: Settings) -> str:
    """Address of the store: the given one, or that of the embedded store process."""
    return settings.store_url or settings.embedded_store_url


def connect_clickhouse(settings: Settings) -> "ClickHouseStore":
    """Likewise, for what only ClickHouse has: keys, health, backups.

    Raises:
        StoreUnreachableError: Nothing answers there.
        InputError: The store is in memory.
    """
    from evalspan_collector.store.clickhouse import ClickHouseStore

    store = connect(settings)
    if not isinstance(store, ClickHouseStore):
        raise InputError(
            f"--store-url {settings.store_url!r} keeps nothing: name a ClickHouse server or chdb:///folder"
        )
    return store
