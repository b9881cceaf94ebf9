"""Doctor command: which hop is broken, and the fix."""

from typing import Annotated, Any

import typer

from evalspan.errors import ConfigError, InputError
from evalspan_collector.settings import load_settings
from evalspan_dashboard.commands.options import Config, Data, Json, StoreUrl, connect, read_settings
from evalspan_dashboard.output import clean, console, print_json

__all__ = ["doctor", "register"]

_MARKS = {"ok": "ok     ", "broken": "BROKEN ", "skipped": "skipped"}


def doctor(
    only: Annotated[
        str | None, typer.Option("--only", help="Only these hops, separated by commas.", show_default="all")
    ] = None,
    patience: Annotated[float, typer.Option("--patience", min=1, help="Seconds to wait at each hop.")] = 20.0,
    api_key: Annotated[
        str | None, typer.Option("--api-key", envvar="EVALSPAN_API_KEY", help="Key of the project to probe.")
    ] = None,
    grpc_port: Annotated[int | None, typer.Option("--grpc-port", help="OTLP/gRPC port.")] = None,
    store_port: Annotated[int | None, typer.Option("--store-port", help="Port of the embedded store.")] = None,
    dashboard_port: Annotated[int | None, typer.Option("--dashboard-port", help="Dashboard port.")] = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Send a probe span through every hop and name the one that is broken.

    Example: evalspan doctor --only store,collector,span
    """
    from evalspan_dashboard.doctor import HOPS, Doctor
    from evalspan_evaluators.config import find_config

    wanted = tuple(part.strip() for part in only.split(",")) if only else HOPS
    unknown = [name for name in wanted if name not in HOPS]
    if unknown:
        raise InputError(f"--only names the hop {unknown[0]!r}: one of {', '.join(HOPS)}")
    flags: dict[str, Any] = {
        "data": data, "store_url": store_url, "grpc_port": grpc_port, "store_port": store_port,
        "dashboard_port": dashboard_port,
    }  # fmt: skip
    try:
        settings = read_settings(config=config, **flags)
    except ConfigError:  # the first hop tells what is wrong with the file
        settings = load_settings({"config": find_config(config), **flags})
    sound = True
    for hop in Doctor(settings, connect, api_key=api_key, patience_s=patience).examine(wanted):
        sound = sound and hop.outcome == "ok"
        if as_json:
            print_json(hop.to_json())
            continue
        detail = clean(hop.detail, lines=True).replace("\n", "\n" + " " * 20)
        console.print(f"{_MARKS[hop.outcome]}  {hop.name:<10} {detail}  ({hop.seconds:.1f} s)")
        if hop.fix:
            console.print(f"         fix: {hop.fix}")
    if not sound:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("doctor")(doctor)
