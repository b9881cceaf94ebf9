"""Options that several commands share, and how they become settings and a store."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evalspan_collector.settings import Settings, load_settings
from evalspan_collector.store.contract import Store

__all__ = ["Config", "Data", "Json", "Project", "StoreUrl", "connect", "read_settings", "store_token"]

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
Project = Annotated[str | None, typer.Option("--project", help="Only this project.", show_default="all")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line, for programs.")]


def read_settings(*, config: Path | None = None, **flags: Any) -> Settings:
    """Settings from flags, EVALSPAN_* variables, the `settings:` section of evalspan.yaml and defaults.

    Raises:
        ConfigError: A value cannot be used, or evalspan.yaml has a mistake.
    """
    from evalspan_evaluators.config import load_config

    loaded = load_config(config)
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

    return open_store(settings.store_url or settings.embedded_store_url, token=store_token(settings))
