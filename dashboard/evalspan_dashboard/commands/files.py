"""Files: rebuild runs from OTLP files with no service, or send the files to a collector."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalspan.errors import InputError
from evalspan_dashboard.commands.options import Json, read_settings
from evalspan_dashboard.output import clean, console, errors, number, print_json, print_table, seconds, usd

if TYPE_CHECKING:
    from evalspan_collector.reconstruct import Reconstruction

__all__ = ["inspect", "register", "replay"]

Paths = Annotated[list[Path], typer.Argument(help="Files or folders; a folder is one capture.")]


def _check(paths: list[Path]) -> None:
    for path in paths:
        if not path.exists():
            raise InputError(f"there is no file or folder {str(path)!r}: check the path")
        if path.is_dir() and (inside := list(path.iterdir())) and all(p.is_dir() for p in inside):
            raise InputError(f"{str(path)!r} holds only folders and a folder is one capture: name them, as {path}/*")


def inspect(
    paths: Paths,
    as_json: Json = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show which source gave each field and which rules fired.")
    ] = False,
    prices: Annotated[Path | None, typer.Option("--prices", help="Your own model prices (docs/runs.md).")] = None,
) -> None:
    """Rebuild the runs in OTLP files, offline: no service, nothing stored.

    Reads OTLP protobuf and JSON, JSON lines, Jaeger and Tempo exports, gzip or not, told by their content.

    Ends with exit code 2 when nothing at all could be read.

    Example: evalspan inspect captures/run-1 trace.json --json
    """
    from evalspan_collector.prices import Prices
    from evalspan_collector.reconstruct import reconstruct_paths

    _check([*paths, *([prices] if prices else [])])
    nothing = True
    for item in reconstruct_paths(paths, prices=Prices(prices), explain=explain):
        nothing = nothing and not item.runs and bool(item.problems)
        for problem in item.problems:
            errors.print(f"warning: {clean(problem)}")
        if as_json:
            line: dict[str, object] = {"path": str(item.path), "runs": [run.to_json() for run in item.runs]}
            if explain:
                line["explain"] = list(item.explanation)
            print_json(line)
            continue
        if item.runs:
            _print_runs(item)
        else:
            console.print(f"{clean(item.path)}: no runs")
        for text in item.explanation if explain else ():
            console.print(f"  {clean(text)}")
    if nothing:
        raise typer.Exit(InputError.exit_code)


def _print_runs(item: "Reconstruction") -> None:
    print_table(
        str(item.path),
        ("run", "agent", "status", "time", "tokens in/out", "cost", "tools", "flags", "output"),
        (
            (
                r.run_id,
                r.agent,
                r.status,
                seconds(r.duration_s),
                f"{number(r.usage.input_tokens, 0)}/{number(r.usage.output_tokens, 0)}",
                usd(r.cost_usd, r.cost_unknown_calls),
                ", ".join(t.name + (" FAILED" if t.failed else "") for t in r.tools),
                ", ".join(r.flags),
                clean(r.output, limit=80),
            )
            for r in item.runs
        ),
    )


def replay(
    paths: Paths,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint",
            help="Collector's OTLP/gRPC address.",
            show_default="127.0.0.1, EVALSPAN_GRPC_PORT or 4317",
        ),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option("--api-key", envvar="EVALSPAN_API_KEY", help="Key of the project to send to.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Send OTLP files to a collector, in order, waiting for each acknowledgement.

    Example: evalspan replay captures/run-1 --endpoint 127.0.0.1:4317
    """
    from evalspan_dashboard.replay import replay_paths

    _check(paths)
    endpoint = endpoint or f"127.0.0.1:{read_settings().grpc_port}"
    total = replay_paths(paths, endpoint=endpoint, api_key=api_key)
    if as_json:
        print_json(total.to_json())
    else:
        console.print(
            f"sent {total.requests} requests with {total.spans} spans and {total.logs} log records to {endpoint}; "
            f"{total.rejected} rejected"
        )
    for problem in total.problems:
        errors.print(f"warning: {clean(problem)}")
    if total.rejected or total.problems:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("inspect")(inspect)
    app.command("replay")(replay)
