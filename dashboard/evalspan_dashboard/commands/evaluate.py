"""Evaluate: run YAML test cases or score a data set, offline, and make stored runs into cases."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalspan.errors import ConfigError, InputError
from evalspan_dashboard.commands.listing import find_run
from evalspan_dashboard.commands.options import Config, Data, Project, StoreUrl, connect, read_settings
from evalspan_dashboard.output import clean, console, errors, print_json, print_table

if TYPE_CHECKING:
    from evalspan_evaluators.baseline import Baseline
    from evalspan_evaluators.case import Case
    from evalspan_evaluators.evalcases.case import EvalCase
    from evalspan_evaluators.evalcases.suite import CaseOutcome
    from evalspan_evaluators.judge import Judge
    from evalspan_evaluators.results import Results

__all__ = ["case", "evaluate", "register"]

#: Endings of data sets; YAML is one when it holds a list or `cases:`.
_DATASETS = frozenset({".jsonl", ".ndjson", ".csv", ".tsv", ".json"})
#: Metrics of a data set where none is named: each applies where the case says what it needs.
_DATASET_METRICS = ("tool_accuracy", "sequence", "tool_arguments", "contains", "not_contains", "grounding")

Paths = Annotated[list[Path], typer.Argument(help="YAML test cases, folders of them, or data sets.")]


def evaluate(
    paths: Paths,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for the whole report.")] = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML here.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Write Markdown here.")] = None,
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, max=100, help="Run every case this often.", show_default="the case's")
    ] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Compare with this baseline file.")] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write this run to --baseline instead of failing on changes.")
    ] = False,
    command: Annotated[
        str | None, typer.Option("--command", help="Run the agent by this command; {query} is the question.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="Ask the agent at this address.")] = None,
    recorded: Annotated[
        Path | None, typer.Option("--recorded", help="Judge runs recorded in this OTLP file or folder.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Metric for data sets; may be given several times.")
    ] = None,
    judge: Annotated[bool, typer.Option("--judge", help="Let the judge of evalspan.yaml grade outputs.")] = False,
    cases_config: Annotated[
        Path | None, typer.Option("--cases-config", help="Default weights.", show_default=".evalview/config.yaml")
    ] = None,
    compatible: Annotated[bool, typer.Option("--compatible", help="Judge as EvalView does.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="A check that cannot be made fails the case.")] = False,
    config: Config = None,
) -> None:
    """Run YAML test cases, or score a data set, offline.

    Exit code 0: all passed; 1: a case failed, could not be judged, or got worse than its baseline; 2: a file is wrong.

    Example: evalspan eval tests/ --baseline baseline.json --junit report.xml
    """
    if update_baseline and baseline is None:
        raise InputError("--update-baseline needs the file to write: add --baseline FILE")
    given = [name for name, value in (("--command", command), ("--url", url), ("--recorded", recorded)) if value]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} name two agents: give one")
    asked = _judge(config) if judge else None
    datasets, yaml_paths = _split(paths)
    if datasets:
        if yaml_paths:
            raise InputError(f"{str(datasets[0])!r} is a data set and {str(yaml_paths[0])!r} is not: evaluate one kind")
        if baseline is not None or runs is not None:
            raise InputError("--baseline and --runs are for test cases: a data set holds what an agent did")
        _dataset(datasets, metric, asked, as_json=as_json, junit=junit, markdown=markdown)
        return
    cases = [_with_agent(c, command, url, recorded) for c in _read(yaml_paths, cases_config)]
    _suite(
        cases, asked, (compatible, strict), runs, (baseline, update_baseline), as_json=as_json,
        junit=junit, markdown=markdown,
    )  # fmt: skip


def _judge(config: Path | None) -> "Judge":
    from evalspan_evaluators.config import JudgeSettings, load_config
    from evalspan_evaluators.judges.opening import make_judge

    settings = load_config(config).judge or JudgeSettings()
    if settings.provider == "anthropic" and settings.api_key_env is None and not os.environ.get("ANTHROPIC_API_KEY"):
        raise ConfigError("--judge needs a model's API key: set ANTHROPIC_API_KEY, or judge in evalspan.yaml")
    made = make_judge(settings)
    if made is None:
        raise ConfigError("--judge needs a judge: set judge in evalspan.yaml")
    return made


def _split(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    datasets = [p for p in paths if p.suffix.lower() in _DATASETS or _is_yaml_dataset(p)]
    return datasets, [p for p in paths if p not in datasets]


def _is_yaml_dataset(path: Path) -> bool:
    if path.suffix.lower() not in {".yaml", ".yml"} or not path.is_file():
        return False
    from evalspan_collector.config_file import read_yaml

    data = read_yaml(path).data
    return isinstance(data, list) or (isinstance(data, dict) and "cases" in data)


def _read(paths: Sequence[Path], config: Path | None) -> "list[EvalCase]":
    from evalspan_evaluators.evalcases.case import find_cases, read_cases, read_defaults

    found: list[EvalCase] = []
    for path in find_cases(paths):
        found.extend(read_cases(path, read_defaults(config, beside=path.parent)))
    twice = sorted({c.name for c in found if sum(d.name == c.name for d in found) > 1})
    if twice:
        files = ", ".join(str(c.path) for c in found if c.name == twice[0])
        raise InputError(f"test case {twice[0]!r} is there twice ({files}): give each its own name")
    return found


def _with_agent(case: "EvalCase", command: str | None, url: str | None, recorded: Path | None) -> "EvalCase":
    agent = case.agent
    if command is not None:
        agent = replace(agent, command=tuple(shlex.split(command)), url=None, recorded=None)
    elif url is not None:
        agent = replace(agent, command=(), url=url, recorded=None)
    elif recorded is not None:
        agent = replace(agent, command=(), url=None, recorded=recorded)
    return replace(case, agent=agent)


def _suite(
    cases: "list[EvalCase]",
    judge: "Judge | None",
    strictness: tuple[bool, bool],
    runs: int | None,
    baseline: tuple[Path | None, bool],
    *,
    as_json: bool,
    junit: Path | None,
    markdown: Path | None,
) -> None:
    from evalspan_evaluators.baseline import write_baselines
    from evalspan_evaluators.evalcases.judging import JudgingOptions
    from evalspan_evaluators.evalcases.report import case_text, junit_xml, summary_text
    from evalspan_evaluators.evalcases.report import markdown as markdown_of
    from evalspan_evaluators.evalcases.suite import run_suite

    path, update = baseline
    before = _baselines(path, update=update)

    def show(outcome: "CaseOutcome") -> None:
        if not as_json:
            console.print(clean(case_text(outcome), lines=True))

    compatible, strict = strictness
    suite = run_suite(
        cases,
        judge=judge,
        options=JudgingOptions(compatible=compatible, strict=strict),
        runs=runs,
        baselines=before,
        each=show,
    )
    if path is not None and update:
        write_baselines(path, [b for c in suite.cases if (b := c.baseline()) is not None])
    _write(junit, junit_xml(suite))
    _write(markdown, markdown_of(suite))
    if as_json:
        print_json(suite.to_json())
    else:
        console.print(clean(summary_text(suite), lines=True))
    if not suite.ok:
        raise typer.Exit(1)


def _baselines(path: Path | None, *, update: bool) -> "dict[str, Baseline] | None":
    from evalspan_evaluators.baseline import read_baselines

    return None if path is None or update else read_baselines(path)


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _dataset(
    paths: list[Path],
    metrics: list[str] | None,
    judge: "Judge | None",
    *,
    as_json: bool,
    junit: Path | None,
    markdown: Path | None,
) -> None:
    from evalspan_evaluators.dataset import Dataset
    from evalspan_evaluators.evaluate import evaluate as evaluate_all
    from evalspan_evaluators.results_report import results_junit, results_markdown

    names = metrics or list(_DATASET_METRICS)
    results = evaluate_all((case for path in paths for case in Dataset.read(path)), names, judge=judge)
    if not results.cases:
        raise InputError(f"{', '.join(map(str, paths))}: there are no cases to evaluate")
    _write(junit, results_junit(results))
    _write(markdown, results_markdown(results))
    if as_json:
        print_json({"passed": results.passed, **results.to_json()})
    else:
        _show(results)
    if not results.passed:
        raise typer.Exit(1)


def _show(results: "Results") -> None:
    for case in results.cases:
        if case.verdict in {"failed", "error"}:
            console.print(f"{case.verdict.upper()} {clean(case.name, limit=60)}: {clean(case.input, limit=120)}")
            for score in case.scores:
                if score.passed is False or score.error is not None:
                    console.print(f"  {clean(str(score))} {clean(score.reason, limit=300)}")
    print_table(
        "metrics",
        ("metric", "passed", "failed", "errors", "n/a", "mean", "pass rate"),
        (
            (
                m.metric,
                m.passed,
                m.failed,
                m.errors,
                m.not_applicable,
                "-" if m.average is None else f"{m.average:.2f}",
                "-"
                if m.pass_rate is None or m.interval is None
                else f"{m.pass_rate:.0%} ({m.interval.low:.0%} to {m.interval.high:.0%})",
            )
            for m in results.metrics
        ),
        numeric=("passed", "failed", "errors", "n/a", "mean"),
    )
    rate, average = results.pass_rate, results.average_score
    console.print(
        f"{len(results.cases)} cases: pass rate {'-' if rate is None else format(rate, '.2f')}, "
        f"average score {'-' if average is None else format(average, '.2f')}"
    )


def case(
    run_ids: Annotated[list[str], typer.Argument(help="Runs that were right.")],
    into: Annotated[Path, typer.Option("--into", help="Data set (JSON lines) to add them to.")],
    learn: Annotated[
        list[str] | None,
        typer.Option(
            "--learn", help="Expect this of the run: output, tools, sequence or calls.", show_default="output, sequence"
        ),
    ] = None,
    project: Project = None,
    data: Data = None,
    config: Config = None,
    store_url: StoreUrl = None,
) -> None:
    """Make stored runs into cases of a data set: what they did becomes what is expected.

    Example: evalspan case 4bf92f3577b34da6 --into regression.jsonl
    """
    from evalspan_evaluators.dataset import case_from_run, write_cases

    store = connect(read_settings(config=config, data=data, store_url=store_url))
    made: list[Case] = []
    for run_id in run_ids:
        run = find_run(store, project, run_id)
        try:
            made.append(case_from_run(run, learn=learn or ("output", "sequence")))
        except ValueError as error:
            raise InputError(f"--learn: {error}") from error
    written = write_cases(into, made, append=True)
    errors.print(f"{written} cases added to {into}")


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("eval")(evaluate)
    app.command("case")(case)
