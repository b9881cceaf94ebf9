"""Command line: `evalspan`, one program for every process and every listing."""

import sys
from typing import Annotated

import typer

from evalspan import __version__
from evalspan.errors import EvalspanError
from evalspan_dashboard.commands import admin, demo, files, keys, listing, serve
from evalspan_dashboard.commands import doctor as doctor_command
from evalspan_dashboard.commands import evaluate as evaluate_command
from evalspan_dashboard.output import clean, errors

__all__ = ["app", "main", "root"]

app = typer.Typer(
    name="evalspan",
    help="Scores the runs of LLM agents from their OpenTelemetry traces, live.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:  # noqa: FBT001  typer passes the flag's value by position
    if show:
        typer.echo(f"evalspan {__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Scores the runs of LLM agents from their OpenTelemetry traces, live.

    Start with: evalspan up
    """


for family in (serve, files, listing, evaluate_command, keys, admin, doctor_command, demo):
    family.register(app)


def _not_text(arguments: list[str]) -> str | None:
    """The first argument whose bytes are no UTF-8: no store holds such text."""
    return next((a for a in arguments if a != a.encode("utf-8", "replace").decode("utf-8")), None)


def main() -> None:
    """Run the command line; errors go to stderr, the exit code says what kind (0, 1, 2 or 3)."""
    try:
        app()  # ends the process itself: typer tells of wrong usage, whichever click it is built on
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away, as `| head` does: nothing to say
        sys.exit(0)
    except UnicodeEncodeError:
        wrong = _not_text(sys.argv[1:])
        if wrong is None:
            raise
        errors.print(f"error: {wrong!r} is no UTF-8: write it in UTF-8")
        sys.exit(2)
    except EvalspanError as error:
        errors.print(f"error: {clean(error, lines=True)}")
        sys.exit(error.exit_code)
