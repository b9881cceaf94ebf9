"""Demo command: everything at once on sample agents, with a contradiction planted for evalspan to find."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from evalspan.errors import EvalspanError
from evalspan_collector.records import RunSummary, ScoreRecord
from evalspan_collector.settings import Settings
from evalspan_collector.store.contract import RunQuery, ScoreQuery, Store
from evalspan_dashboard.commands.options import Json, connect, read_settings
from evalspan_dashboard.commands.serve import start_all
from evalspan_dashboard.demo.runs import DemoResult, DemoTurn, run_demo, write_config
from evalspan_dashboard.output import clean, console, errors, number, print_json, print_table, usd

__all__ = ["demo", "register"]

#: Seconds the demo waits for its runs to be closed and scored.
PATIENCE_S = 60.0
DEFAULT_DATA = Path(".evalspan") / "demo"


@dataclass(frozen=True, slots=True)
class _Scored:
    turn: DemoTurn
    run: RunSummary
    scores: tuple[ScoreRecord, ...]


def demo(
    once: Annotated[bool, typer.Option("--once", help="End after showing the scores, for scripts.")] = False,
    data: Annotated[
        Path, typer.Option("--data", envvar="EVALSPAN_DATA", help="Data folder of the demo.")
    ] = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Start everything on the embedded store, run sample agents through it, and show their scores.

    Example: evalspan demo --once
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings = read_settings(config=write_config(data), data=data)
    with start_all(settings) as supervisor:
        with errors.status("running the sample agents ..."):
            result = run_demo(f"http://{settings.host}:{settings.grpc_port}")
        store = connect(settings)
        with errors.status("waiting until their runs are closed and scored ..."):
            scored = _wait(store, settings, result)
        found = _found(scored)
        if as_json:
            for item in scored:
                print_json(_json(item))
        else:
            _show(scored, found)
        address = f"http://{settings.host}:{settings.dashboard_port}"
        if not as_json and not once:
            console.print(f"\ndashboard: {address}")
        store.close()
        if not once:
            console.print("It stays up: open the address, or send spans of your own. Stop with Ctrl-C.")
            sys.stdout.flush()
            supervisor.run()
    if once and not as_json:
        console.print(f"\nIt has ended. Look around: evalspan up --data {data}, then open {address}")
    if not found:
        raise EvalspanError("the planted contradiction was not found: this is a bug, please report it")


def _wait(
    store: Store, settings: Settings, result: DemoResult, clock: Callable[[], float] = time.monotonic
) -> list[_Scored]:
    deadline = clock() + PATIENCE_S
    while True:
        scored = _scored(store, settings.project, result)
        if len(scored) == len(result.turns):
            return scored
        if clock() > deadline:
            raise EvalspanError(
                f"only {len(scored)} of {len(result.turns)} runs were scored within {PATIENCE_S:.0f} s: "
                f"see the logs in {str(settings.data_dir.logs)!r}, or run `evalspan doctor`"
            )
        time.sleep(0.3)


def _scored(store: Store, project: str, result: DemoResult) -> list[_Scored]:
    found: list[_Scored] = []
    for session in dict.fromkeys(turn.session_id for turn in result.turns):
        turns = [turn for turn in result.turns if turn.session_id == session]
        runs = sorted(store.runs(RunQuery(project=project, session_id=session, limit=100)), key=lambda r: r.started_ns)
        if len(runs) != len(turns):
            continue
        for turn, run in zip(turns, runs, strict=True):
            scores = store.scores(ScoreQuery(project=project, run_ids=(run.run_id,)))
            done = [o for o in store.outcomes(project, run_ids=[run.run_id]) if o.outcome == "scored"]
            if run.state != "open" and done and scores:
                found.append(_Scored(turn, run, tuple(sorted(scores, key=lambda s: s.metric))))
    return found


def _evidence(item: _Scored) -> list[dict[str, Any]]:
    return [e for score in item.scores for e in json.loads(score.evidence) if e.get("verdict") == "contradicted"]


def _found(scored: Sequence[_Scored]) -> bool:
    """Every planted figure was contradicted by evidence with the right tool, path and true value."""
    planted = [item for item in scored if item.turn.planted is not None]
    return bool(planted) and all(any(_points_at(e, item) for e in _evidence(item)) for item in planted)


def _points_at(evidence: dict[str, Any], item: _Scored) -> bool:
    planted = item.turn.planted
    if planted is None:
        return False
    return (
        evidence.get("tool") == planted.tool
        and planted.path in str(evidence.get("path"))
        and str(planted.truth) in str(evidence.get("expected"))
    )


def _cell(score: ScoreRecord | None) -> Text:
    if score is None or score.not_applicable:
        return Text("-", style="dim")
    if score.error is not None:
        return Text("error", style="yellow")
    return Text(f"{number(score.value)} {'✓' if score.passed else '✗'}", style="green" if score.passed else "bold red")


def _show(scored: Sequence[_Scored], found: bool) -> None:
    metrics = sorted({score.metric for item in scored for score in item.scores})
    print_table(
        "Scores of the sample agents' runs",
        ("scenario", "agent", "run", *(m.replace("_", "\n") for m in metrics), "cost"),
        (
            (
                item.turn.scenario,
                item.run.agent,
                item.run.run_id[:8],
                *(_cell(next((s for s in item.scores if s.metric == m), None)) for m in metrics),
                usd(item.run.cost_usd, item.run.cost_unknown_calls),
            )
            for item in scored
        ),
        numeric=("cost",),
    )
    for item in scored:
        for evidence in _evidence(item):
            console.print(
                f"\n✗ {item.turn.scenario}, run {item.run.run_id}: "
                f"the answer says {clean(evidence.get('claim'))!r}, but "
                f"{clean(evidence.get('tool'))} returned {clean(evidence.get('expected'))} "
                f"at {clean(evidence.get('path'))}"
            )
    console.print("\nThe planted contradiction was found." if found else "\nThe planted contradiction was NOT found.")


def _json(item: _Scored) -> dict[str, Any]:
    from evalspan_dashboard.commands.listing import score_json, summary_json

    return {
        "scenario": item.turn.scenario,
        **summary_json(item.run),
        "scores": [score_json(score) for score in item.scores],
    }


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("demo")(demo)
