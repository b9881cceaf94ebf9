"""Pytest plugin: metrics as assertions in a test run.

`@pytest.mark.metric(metric, threshold=...)` names a metric that the cases of a test must meet; the fixtures
`record_run` and `check_case` hand cases over. Scores go into the terminal summary, the JUnit properties and,
when asked for, a JSON or Markdown report. Nothing asks a judge unless `--evalspan-judge` is given.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from evalspan_collector.run import Run
    from evalspan_evaluators.case import Case, Expected
    from evalspan_evaluators.evaluate import MetricLike
    from evalspan_evaluators.judge import Judge
    from evalspan_evaluators.metric import JudgeMetric, Metric
    from evalspan_evaluators.recording import Recording
    from evalspan_evaluators.score import Score

__all__ = [
    "CaseChecker",
    "RunRecorder",
    "check_case",
    "evalspan_judge",
    "marked_metrics",
    "pytest_addoption",
    "pytest_configure",
    "pytest_pyfunc_call",
    "pytest_runtest_makereport",
    "record_run",
]

_GROUP = "evalspan"
#: Attribute of a test report with its scores, as plain values so that xdist can carry them.
_REPORTED = "evalspan_scores"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--evalspan-judge`, `--evalspan-json`, `--evalspan-markdown` and the ini `evalspan_default_threshold`."""
    group = parser.getgroup(_GROUP, "evalspan: metrics of agent runs")
    group.addoption(
        "--evalspan-judge",
        action="store_true",
        help="ask the judge of evalspan.yaml; without it tests that need a judge are skipped",
    )
    group.addoption("--evalspan-json", metavar="FILE", default=None, help="write all scores as JSON")
    group.addoption("--evalspan-markdown", metavar="FILE", default=None, help="write all scores as Markdown")
    parser.addini("evalspan_default_threshold", "threshold of metrics that have none of their own", default="0.7")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the summary where the results of all workers come together."""
    config.addinivalue_line(
        "markers",
        "metric(metric, threshold=None): a metric, its class or its name, that every case of this test must meet",
    )
    config.stash[_DEFAULT] = _default_threshold(config)
    if not hasattr(config, "workerinput"):  # an xdist worker reports to its controller
        config.pluginmanager.register(_Summary(config), "evalspan-summary")


def _default_threshold(config: pytest.Config) -> float:
    text = str(config.getini("evalspan_default_threshold"))
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise pytest.UsageError(f"evalspan_default_threshold is {text!r}: a number between 0 and 1")
    return value


_DEFAULT = pytest.StashKey[float]()
_CHECKER = pytest.StashKey["CaseChecker"]()


class CaseChecker:
    """The fixture `check_case`: scores a case with the metrics of the test's markers, at once.

    Args:
        item: The test.
        judge: Gives the judge when a metric asks for one.
    """

    def __init__(self, item: pytest.Item, judge: "Callable[[], Judge | None]") -> None:
        self._item = item
        self._judge = judge
        self.pending: list[Case] = []
        self.scores: list[Score] = []
        self.checked = 0

    @property
    def name(self) -> str:
        """Name of the test, for messages."""
        return self._item.name

    @property
    def marked(self) -> bool:
        """Whether the test names a metric."""
        return next(self._item.iter_markers("metric"), None) is not None

    def __call__(self, case: "Case | Run", *metrics: "MetricLike", threshold: float | None = None) -> "list[Score]":
        """Score the case and assert that every metric is met.

        Args:
            case: A case or a run.
            metrics: Metrics beside those of the markers.
            threshold: For the metrics given here whose constructor sets none.

        Raises:
            AssertionError: A score is below its threshold, ended in an error, or there was nothing to check.
        """
        from evalspan_collector.run import Run
        from evalspan_evaluators.case import Case
        from evalspan_evaluators.evaluate import evaluate_each, failure_message, resolve_metric

        __tracebackhide__ = True
        subject = Case.from_run(case) if isinstance(case, Run) else case
        plan = [*marked_metrics(self._item), *((resolve_metric(m), threshold) for m in metrics)]
        if not plan:
            pytest.fail("no metric to check: give one to check_case, or mark the test with it", pytrace=False)
        found: list[Score] = []
        unjudged: list[str] = []
        default = self._item.config.stash[_DEFAULT]
        for metric, use in plan:
            judge = self._judge_for(metric)
            if judge is None and _needs_judge(metric):
                unjudged.append(metric.name)
                continue
            uses = {} if use is None else {metric.name: use}
            (result,) = evaluate_each([subject], [metric], judge=judge, thresholds=uses, default_threshold=default)
            found.extend(result.scores)
        self.scores.extend(found)
        self._item.user_properties.extend((f"evalspan.{score.metric}", _property(score)) for score in found)
        self.checked += 1
        failed = [failure_message(s, subject) for s in found if not s.passed]
        if failed:
            raise AssertionError("\n".join(failed))
        if unjudged:
            pytest.skip(
                f"{', '.join(unjudged)} asks a judge: run with --evalspan-judge, or define the fixture evalspan_judge"
            )
        return found

    def _judge_for(self, metric: "Metric | JudgeMetric") -> "Judge | None":
        return self._judge() if _needs_judge(metric) else None


def _needs_judge(metric: "Metric | JudgeMetric") -> bool:
    from evalspan_evaluators.metric import needs_judge

    return needs_judge(metric)


def marked_metrics(item: pytest.Item) -> "list[tuple[Metric | JudgeMetric, float | None]]":
    """Metrics and thresholds of the test's markers, the outermost first.

    A marker that names no metric fails the test.
    """
    from evalspan.errors import ConfigError
    from evalspan_evaluators.evaluate import resolve_metric

    found: list[tuple[Metric | JudgeMetric, float | None]] = []
    for marker in reversed(list(item.iter_markers("metric"))):
        arguments = dict(marker.kwargs)
        given = list(marker.args)
        metric = given.pop(0) if given else arguments.pop("metric", None)
        threshold = given.pop(0) if given else arguments.pop("threshold", None)
        if metric is None or given or arguments:
            pytest.fail(
                f"{item.nodeid}: write @pytest.mark.metric(metric, threshold=0.8), not {marker!r}", pytrace=False
            )
        problem = ""
        try:
            found.append((resolve_metric(metric), threshold))
        except ConfigError as error:
            problem = str(error)
        if problem:  # told outside the handler, so that no chain of tracebacks is shown
            pytest.fail(f"{item.nodeid}: {problem}", pytrace=False)
    return found


class RunRecorder:
    """The fixture `record_run`: records the agent inside its `with` block as a case of this test."""

    def __init__(self, checker: CaseChecker) -> None:
        self._checker = checker

    def __call__(self, *, expected: "Expected | None" = None) -> "AbstractContextManager[Recording]":
        """Record; when the test ends its case must meet the metrics of the test's markers.

        Args:
            expected: What the run should look like.
        """
        return self._record(expected)

    @contextmanager
    def _record(self, expected: "Expected | None") -> "Generator[Recording]":
        from evalspan_evaluators.recording import record_runs

        with record_runs() as recording:
            yield recording
        if recording.runs or self._checker.marked:
            cases = recording.cases(expected=expected)
            self._checker.pending.extend(replace(case, name=self._checker.name) for case in cases)


@pytest.fixture
def evalspan_judge(request: pytest.FixtureRequest) -> "Judge | None":
    """The judge of evalspan.yaml with `--evalspan-judge`, else None; override it to judge with your own."""
    if not request.config.getoption("--evalspan-judge"):
        return None
    from evalspan_evaluators.config import JudgeSettings, load_config
    from evalspan_evaluators.judges.opening import make_judge

    return make_judge(load_config().judge or JudgeSettings())


@pytest.fixture
def check_case(request: pytest.FixtureRequest) -> CaseChecker:
    """Call it with a case to score it with the metrics of the test's markers."""
    item = cast("pytest.Item", request.node)
    checker = CaseChecker(item, lambda: cast("Judge | None", request.getfixturevalue("evalspan_judge")))
    item.stash[_CHECKER] = checker
    return checker


@pytest.fixture
def record_run(check_case: CaseChecker) -> RunRecorder:
    """Record an agent: call this in a `with` statement, and the agent inside."""
    return RunRecorder(check_case)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """When the test function is through, the cases it recorded must meet its markers."""
    __tracebackhide__ = True
    result = yield
    marked = next(pyfuncitem.iter_markers("metric"), None) is not None
    checker = pyfuncitem.stash.get(_CHECKER, None)
    if not marked:
        return result
    if checker is None or not (checker.pending or checker.checked):
        pytest.fail(
            "the test has a metric and no case: record the agent with record_run, or hand a case to check_case",
            pytrace=False,
        )
    for case in checker.pending:
        checker(case)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the scores on the report, for the summary."""
    report = yield
    checker = item.stash.get(_CHECKER, None)
    if call.when == "call" and checker is not None and checker.scores:
        setattr(report, _REPORTED, [score.to_json() for score in checker.scores])
    return report


def _property(score: "Score") -> str:
    if score.value is None:
        return f"n/a: {score.reason}" if score.not_applicable else f"error: {score.error}"
    return f"{score.value:.4g} ({'PASS' if score.passed else 'FAIL'}, threshold {score.threshold:g}): {score.reason}"


class _Summary:
    """Gathers the scores of all tests, wherever they ran."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: list[tuple[str, list[dict[str, Any]]]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        scores = cast("list[dict[str, Any]] | None", getattr(report, _REPORTED, None))
        if report.when == "call" and scores:
            self._tests.append((report.nodeid, scores))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._tests:
            return
        terminalreporter.section("evalspan")
        terminalreporter.write_line(f"{'metric':28}{'passed':>8}{'failed':>8}{'errors':>8}{'n/a':>6}{'mean':>8}")
        for row in self._rows():
            terminalreporter.write_line(
                f"{row['metric']:28}{row['passed']:>8}{row['failed']:>8}{row['errors']:>8}{row['not_applicable']:>6}"
                f"{'-' if row['mean'] is None else format(row['mean'], '.2f'):>8}"
            )
        cost = sum(s["judge_cost_usd"] or 0.0 for _, scores in self._tests for s in scores)
        if cost:
            terminalreporter.write_line(f"judge cost ${cost:.4f}")

    def pytest_sessionfinish(self) -> None:
        for option, text in (("--evalspan-json", self._json), ("--evalspan-markdown", self._markdown)):
            path = self._config.getoption(option)
            if path:
                target = Path(str(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text(), encoding="utf-8")

    def _rows(self) -> list[dict[str, Any]]:
        by_metric: dict[str, list[dict[str, Any]]] = {}
        for _, scores in self._tests:
            for score in scores:
                by_metric.setdefault(score["metric"], []).append(score)
        return [_row(metric, scores) for metric, scores in sorted(by_metric.items())]

    def _json(self) -> str:
        import json

        tests = [{"test": test, "scores": scores} for test, scores in self._tests]
        return json.dumps({"metrics": self._rows(), "tests": tests}, indent=1, ensure_ascii=False) + "\n"

    def _markdown(self) -> str:
        lines = ["| metric | passed | failed | errors | n/a | mean |", "|---|---|---|---|---|---|"]
        for row in self._rows():
            middle = "-" if row["mean"] is None else f"{row['mean']:.2f}"
            counts = " | ".join(str(row[key]) for key in ("metric", "passed", "failed", "errors", "not_applicable"))
            lines.append(f"| {counts} | {middle} |")
        failed = [(t, s) for t, scores in self._tests for s in scores if not s["passed"]]
        if failed:
            lines += ["", "| test | metric | value | reason |", "|---|---|---|---|"]
        for test, score in failed:
            value = "-" if score["value"] is None else f"{score['value']:.2f}"
            lines.append(
                f"| {_cell(test)} | {score['metric']} | {value} | {_cell(score['error'] or score['reason'])} |"
            )
        return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _row(metric: str, scores: list[dict[str, Any]]) -> dict[str, Any]:
    values = [s["value"] for s in scores if s["value"] is not None]
    return {
        "metric": metric,
        "passed": sum(s["passed"] is True for s in scores),
        "failed": sum(s["passed"] is False for s in scores),
        "errors": sum(s["error"] is not None for s in scores),
        "not_applicable": sum(s["not_applicable"] for s in scores),
        "mean": sum(values) / len(values) if values else None,
    }
