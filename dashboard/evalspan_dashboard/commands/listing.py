"""Listings: runs, scores, alerts and metrics, for people and for programs."""

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, cast

import typer

from evalspan.errors import InputError
from evalspan_collector.records import RunSummary, ScoreRecord
from evalspan_collector.run import Run, iso_time
from evalspan_collector.store.contract import RunQuery, ScoreQuery, Store
from evalspan_dashboard.commands.options import Config, Data, Json, Project, StoreUrl, connect, read_settings
from evalspan_dashboard.output import clean, console, number, print_json, print_table, seconds, usd

__all__ = [
    "alerts_list",
    "find_run",
    "metrics_list",
    "register",
    "run_json",
    "runs_list",
    "runs_show",
    "score_json",
    "scores_list",
    "since_ns",
    "summary_json",
]

#: Fewer characters of a run id name too many runs.
_SHORTEST_ID = 4
#: Columns of `runs list` that a narrow terminal has no room for, and the width from which it has.
_LEFT_OUT, _WIDE = ("state", "cost", "tools", "output"), 120
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Since = Annotated[
    str | None, typer.Option("--since", help="How far back: 30m, 24h, 7d, or a time like 2026-01-31T10:00Z.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most this many.")]
Agent = Annotated[str | None, typer.Option("--agent", help="Only this agent.")]


def since_ns(text: str | None, *, now: datetime | None = None) -> int | None:
    """Nanoseconds since the epoch of a span like `24h` or a time in ISO 8601 (UTC where it names no zone).

    Raises:
        InputError: It is neither.
    """
    if text is None:
        return None
    count, unit = text[:-1], text[-1:]
    if unit in _UNITS and count.replace(".", "", 1).isdigit():
        moment = (now or datetime.now(tz=UTC)) - timedelta(seconds=float(count) * _UNITS[unit])
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise InputError(f"--since {text!r} is no time: write 30m, 24h, 7d or 2026-01-31T10:00Z") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1e9)


def score_json(score: ScoreRecord) -> dict[str, Any]:
    """The stable JSON form of one score of a run."""
    return {
        "metric": score.metric,
        "value": score.value,
        "threshold": score.threshold,
        "passed": score.passed,
        "label": score.label,
        "reason": score.reason,
        "error": score.error,
        "not_applicable": score.not_applicable,
        "evidence": json.loads(score.evidence),
        "judge_cost_usd": score.judge_cost_usd,
        "rule": score.rule,
        "source": score.source,
    }


def run_json(run: Run, scores: list[ScoreRecord]) -> dict[str, Any]:
    """The stable JSON form of `evalspan runs show`."""
    return {**run.to_json(), "scores": [score_json(s) for s in scores]}


def summary_json(row: RunSummary) -> dict[str, Any]:
    """The stable JSON form of one line of `evalspan runs list`."""
    return {
        "run_id": row.run_id,
        "trace_id": row.trace_id,
        "project": row.project,
        "revision": row.revision,
        "state": row.state,
        "agent": row.agent,
        "agents": list(row.agents),
        "session_id": row.session_id,
        "user_id": row.user_id,
        "service": row.service,
        "environment": row.environment,
        "started_at": iso_time(row.started_ns),
        "duration_s": row.duration_s,
        "status": row.status,
        "error": row.error,
        "input": row.input,
        "output": row.output,
        "flags": list(row.flags),
        "usage": {
            "input_tokens": row.input_tokens,
            "output_tokens": row.output_tokens,
            "cache_read_tokens": row.cache_read_tokens,
            "cache_write_tokens": row.cache_write_tokens,
            "reasoning_tokens": row.reasoning_tokens,
        },
        "cost_usd": row.cost_usd,
        "cost_unknown_calls": row.cost_unknown_calls,
        "models": list(row.models),
    }


def _count(number_of: int, noun: str) -> str:
    return f"{number_of} {noun}" if number_of == 1 else f"{number_of} {noun}s"


def _verdict(score: ScoreRecord) -> str:
    if score.error is not None:
        return "error"
    if score.not_applicable:
        return "n/a"
    return "pass" if score.passed else "FAIL"


def runs_list(
    agent: Agent = None,
    status: Annotated[Literal["ok", "error"] | None, typer.Option("--status", help="How the run ended.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="open, closed or amended.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Only this session.")] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="Only runs with a score of this metric.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only runs that failed --metric.")] = False,
    since: Since = None,
    limit: Limit = 50,
    project: Project = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """List runs, newest first.

    Example: evalspan runs list --agent refund_bot --metric grounding --failed --since 24h
    """
    if failed and metric is None:
        raise InputError("--failed needs the metric that failed: add --metric grounding, for example")
    store = connect(read_settings(config=config, data=data, store_url=store_url))
    query = RunQuery(
        project=project,
        agent=agent,
        status=status,
        state=state,
        session_id=session,
        metric=metric,
        passed=False if failed else None,
        since_ns=since_ns(since),
        limit=limit,
    )
    rows = store.runs(query)
    if as_json:
        for row in rows:
            print_json(summary_json(row))
        return
    _print_runs(store, rows, project)


def _print_runs(store: Store, rows: list[RunSummary], project: str | None) -> None:
    if not rows:
        console.print("No such runs: send spans to the collector, try `evalspan demo`, or ask for more")
        return
    scores: dict[tuple[str, str], list[ScoreRecord]] = {}
    query = ScoreQuery(project=project, run_ids=tuple(r.run_id for r in rows), limit=100_000)
    for score in store.scores(query):
        scores.setdefault((score.project, score.run_id), []).append(score)
    cells: dict[str, Callable[[RunSummary], object]] = {
        "run": lambda r: r.run_id,
        "started": lambda r: iso_time(r.started_ns)[:19].replace("T", " "),
        "agent": lambda r: r.agent,
        "status": lambda r: r.status,
        "state": lambda r: r.state,
        "time": lambda r: seconds(r.duration_s),
        "cost": lambda r: usd(r.cost_usd, r.cost_unknown_calls),
        "tools": lambda r: ", ".join(r.tool_names),
        "scores": lambda r: ", ".join(
            f"{s.metric} {number(s.value)} {_verdict(s)}" for s in scores.get((r.project, r.run_id), [])
        ),
        "output": lambda r: clean(r.output, limit=60),
    }
    left_out = _LEFT_OUT if console.width < _WIDE else ()
    columns = [name for name in cells if name not in left_out]
    print_table(
        _count(len(rows), "run"),
        columns,
        ([cells[name](row) for name in columns] for row in rows),
        numeric=("time", "cost"),
        whole=("run",),
    )


def runs_show(
    run_id: Annotated[str, typer.Argument(help="Run id, from `evalspan runs list`, or its first characters.")],
    project: Project = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Show one run: its steps with arguments and results, usage, cost, and scores with their evidence.

    Example: evalspan runs show 3f6c1f0f --json
    """
    store = connect(read_settings(config=config, data=data, store_url=store_url))
    run = find_run(store, project, run_id)
    scores = store.scores(ScoreQuery(project=run.project, run_ids=(run.run_id,)))
    if as_json:
        print_json(run_json(run, scores))
        return
    _print_run(run, scores)


def find_run(store: Store, project: str | None, run_id: str) -> Run:
    """The run of an id, or of its first four or more characters among the newest 10,000 runs.

    Raises:
        InputError: No run has it, or several begin with it.
    """
    run = store.run(project, run_id)
    if run is not None:
        return run
    near: list[RunSummary] = []
    if len(run_id) >= _SHORTEST_ID:
        near = [r for r in store.runs(RunQuery(project=project, limit=10_000)) if r.run_id.startswith(run_id)]
    if len(near) > 1:
        raise InputError(f"{len(near)} runs begin with {run_id!r}: give more of the id, as {near[0].run_id!r}")
    run = store.run(near[0].project, near[0].run_id) if near else None
    if run is None:
        raise InputError(f"there is no run {run_id!r}: list them with `evalspan runs list`")
    return run


def _print_run(run: Run, scores: list[ScoreRecord]) -> None:
    console.print(f"run {run.run_id}  {run.agent or '-'}  {run.state} revision {run.revision}  {run.status}")
    console.print(f"started {iso_time(run.started_ns)}  took {seconds(run.duration_s)}", end="  ")
    console.print(f"cost {usd(run.cost_usd, run.cost_unknown_calls)}  models {', '.join(run.models) or '-'}")
    for label, text in (("input", run.input), ("output", run.output), ("error", run.error)):
        if text:
            console.print(f"{label}: {clean(text, limit=2000)}")
    if run.flags:
        console.print(f"flags: {', '.join(run.flags)}")
    print_table(
        "Steps",
        ("#", "kind", "name", "agent", "time", "arguments", "result"),
        (
            (
                s.index,
                s.kind + (" FAILED" if s.failed else ""),
                "  " * s.depth + s.name,
                s.agent,
                seconds(s.duration_s),
                clean(json.dumps(s.tool.arguments, ensure_ascii=False), limit=120) if s.tool else "",
                clean(json.dumps(s.tool.result, ensure_ascii=False), limit=160) if s.tool else "",
            )
            for s in run.steps
        ),
    )
    _print_scores(scores)


def _print_scores(scores: list[ScoreRecord]) -> None:
    print_table(
        "Scores",
        ("metric", "value", "verdict", "reason"),
        ((s.metric, number(s.value), _verdict(s), clean(s.error or s.reason, limit=300)) for s in scores),
        numeric=("value",),
    )
    for score in scores:
        for item in json.loads(score.evidence):
            if item.get("verdict") in ("contradicted", "unsupported", "mismatch"):
                where = " ".join(str(item[k]) for k in ("tool", "path", "source") if item.get(k))
                console.print(
                    f"  {score.metric}: {item['verdict']} {clean(item.get('claim'))!r}"
                    f" expected {clean(item.get('expected'))} ({clean(where)}) {clean(item.get('note') or '')}".rstrip()
                )


def scores_list(
    metric: Annotated[str | None, typer.Option("--metric", help="Only this metric.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only scores that did not pass.")] = False,
    run: Annotated[str | None, typer.Option("--run", help="Only this run.")] = None,
    since: Since = None,
    limit: Limit = 100,
    project: Project = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """List current scores, newest first.

    Example: evalspan scores list --metric grounding --failed --json
    """
    store = connect(read_settings(config=config, data=data, store_url=store_url))
    query = ScoreQuery(
        project=project,
        metric=metric,
        run_ids=(run,) if run else None,
        passed=False if failed else None,
        since_ns=since_ns(since),
        limit=limit,
    )
    rows = store.scores(query)
    if as_json:
        for row in rows:
            print_json({"run_id": row.run_id, "project": row.project, **score_json(row)})
        return
    print_table(
        _count(len(rows), "score"),
        ("run", "metric", "rule", "value", "verdict", "reason"),
        (
            (r.run_id, r.metric, r.rule, number(r.value), _verdict(r), clean(r.error or r.reason, limit=160))
            for r in rows
        ),
        numeric=("value",),
    )


def alerts_list(
    events: Annotated[
        bool, typer.Option("--events", help="The history of changes instead of the current states.")
    ] = False,
    limit: Limit = 100,
    project: Project = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """List alerts and where they stand.

    Example: evalspan alerts list --events --json
    """
    store = connect(read_settings(config=config, data=data, store_url=store_url))
    rows: list[dict[str, Any]] = (
        [asdict(e) for e in store.alert_events(project, limit=limit)]
        if events
        else [asdict(s) for s in store.alert_states(project)[:limit]]
    )
    for row in rows:
        for key in [k for k in row if k.endswith("_ns")]:
            row[key.removesuffix("_ns") + "_at"] = iso_time(row.pop(key))
    if as_json:
        for row in rows:
            print_json(row)
        return
    columns = ("alert", "state", "value", "sample", "created_at" if events else "since_at")
    print_table(
        _count(len(rows), "change" if events else "alert"),
        columns,
        ([number(row[c], 3) if c == "value" else row.get(c) for c in columns] for row in rows),
        numeric=("value", "sample"),
    )


def metrics_list(as_json: Json = False) -> None:
    """List the metrics a rule or a test case can name, with their parameters.

    Example: evalspan metrics list
    """
    from dataclasses import MISSING, fields

    from evalspan_evaluators.metric import available

    rows: list[dict[str, Any]] = []
    for name, cls in sorted(available().items()):
        parameters = {
            f.name: None if f.default is MISSING else f.default
            for f in fields(cast("Any", cls))
            if f.name != "threshold"
        }
        summary = (cls.__doc__ or "").strip().splitlines()[0]
        rows.append(
            {
                "metric": name,
                "threshold": cls.default_threshold,
                "requires": list(cls.requires),
                "judge": hasattr(cls, "evaluate_with"),
                "parameters": {
                    k: v if isinstance(v, str | int | float | bool | None) else repr(v) for k, v in parameters.items()
                },
                "summary": summary,
            }
        )
    if as_json:
        for row in rows:
            print_json(row)
        return
    columns = ("metric", "summary", "requires", "parameters")
    print_table(
        f"{len(rows)} metrics; a judge is a model that is asked",
        columns,
        (
            (
                r["metric"],
                r["summary"],
                ", ".join([*r["requires"], *(["a judge"] if r["judge"] else [])]),
                ", ".join(r["parameters"]),
            )
            for r in rows
        ),
    )


def register(app: typer.Typer) -> None:
    """Add these commands."""
    families: dict[str, tuple[str, dict[str, Callable[..., None]]]] = {
        "runs": ("Runs: list them, show one.", {"list": runs_list, "show": runs_show}),
        "scores": ("Scores of runs.", {"list": scores_list}),
        "alerts": ("Alerts and where they stand.", {"list": alerts_list}),
        "metrics": ("Metrics a rule can name.", {"list": metrics_list}),
    }
    for name, (help_text, commands) in families.items():
        group = typer.Typer(help=help_text, no_args_is_help=True)
        for command_name, command in commands.items():
            group.command(command_name)(command)
        app.add_typer(group, name=name)
