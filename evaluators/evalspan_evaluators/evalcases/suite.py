"""Suite: test cases run, judged, repeated where asked, and compared with their baselines."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalspan_evaluators.attribution import Attribution, attribute
from evalspan_evaluators.baseline import Baseline, CaseDiff, PairedComparison, compare_paired, diff
from evalspan_evaluators.evalcases.agent import AgentRun, run_agent
from evalspan_evaluators.evalcases.case import EvalCase, StatisticsSpec
from evalspan_evaluators.evalcases.judging import CaseReport, JudgingOptions, judge_case
from evalspan_evaluators.judge import Judge
from evalspan_evaluators.results import ResultVerdict
from evalspan_evaluators.statistics import (
    Flakiness,
    Interval,
    bootstrap_interval,
    flakiness,
    mean,
    pass_at_k,
    pass_hat_k,
    percentile,
    standard_deviation,
    wilson_interval,
)

__all__ = ["CaseOutcome", "RunStatistics", "SuiteReport", "run_suite", "statistics_of"]

#: Runs an agent this many times.
Runner = Callable[[EvalCase, int], Iterable[AgentRun]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatistics:
    """Several runs of one case.

    Attributes:
        mean_score: Mean overall score, points; None when no run has one. The others likewise.
        interval: Wilson interval of the pass rate.
        score_interval: Bootstrap interval of the mean score.
        pass_at_k: Chance that one of k runs passes, for k from 1 to the runs.
        pass_hat_k: Chance that all of k runs pass, likewise.
        problems: Why the case does not pass; empty when it does.
    """

    spec: StatisticsSpec
    runs: int
    passes: int
    interval: Interval
    mean_score: float | None
    std_dev: float | None
    median: float | None
    p95: float | None
    score_interval: Interval | None
    pass_at_k: tuple[float, ...]
    pass_hat_k: tuple[float, ...]
    flakiness: Flakiness
    problems: tuple[str, ...]

    @property
    def pass_rate(self) -> float:
        """Share of the runs that passed."""
        return self.passes / self.runs

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        scored = self.score_interval
        return {
            "runs": self.runs,
            "passes": self.passes,
            "pass_rate": self.pass_rate,
            "pass_rate_interval": [self.interval.low, self.interval.high],
            "confidence": self.interval.confidence,
            "required_pass_rate": self.spec.pass_rate,
            "mean_score": self.mean_score,
            "mean_score_interval": None if scored is None else [scored.low, scored.high],
            "std_dev": self.std_dev,
            "median": self.median,
            "p95": self.p95,
            "pass_at_k": list(self.pass_at_k),
            "pass_hat_k": list(self.pass_hat_k),
            "flakiness": self.flakiness.value,
            "flakiness_label": self.flakiness.label,
            "problems": list(self.problems),
        }


def statistics_of(reports: Sequence[CaseReport], spec: StatisticsSpec) -> RunStatistics:
    """What these runs of one case come to."""
    passed = [r.passed for r in reports]
    scores = [r.overall for r in reports if r.overall is not None]
    patterns = {tuple(t.name for t in r.case.tools) for r in reports if r.case is not None and r.case.tools is not None}
    runs, passes = len(reports), sum(passed)
    middle, deviation = mean(scores), standard_deviation(scores)
    problems: list[str] = []
    if passes / runs < spec.pass_rate:
        problems.append(f"{passes} of {runs} runs passed, fewer than {spec.pass_rate:.0%}")
    if spec.min_mean_score is not None and (middle is None or middle < spec.min_mean_score):
        shown = "unknown" if middle is None else f"{middle:.1f}"
        problems.append(f"the mean score is {shown}, below {spec.min_mean_score:g}")
    if spec.max_std_dev is not None and deviation is not None and deviation > spec.max_std_dev:
        problems.append(f"the scores' standard deviation is {deviation:.1f}, above {spec.max_std_dev:g}")
    return RunStatistics(
        spec=spec,
        runs=runs,
        passes=passes,
        interval=wilson_interval(passes, runs, confidence=spec.confidence),
        mean_score=middle,
        std_dev=deviation,
        median=percentile(scores, 0.5),
        p95=percentile(scores, 0.95),
        score_interval=bootstrap_interval(scores, confidence=spec.confidence),
        pass_at_k=tuple(pass_at_k(passes, runs, k) for k in range(1, runs + 1)),
        pass_hat_k=tuple(pass_hat_k(passes, runs, k) for k in range(1, runs + 1)),
        flakiness=flakiness(passed, scores, len(patterns)),
        problems=tuple(problems),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """A test case with all its runs.

    Attributes:
        runs: Reports of its runs, at least one.
        statistics: Set when it ran more than once.
        diff: Against its baseline; None without one.
        blame: Where to look first; None when it passed or nothing can be said.
    """

    spec: EvalCase
    runs: tuple[CaseReport, ...]
    statistics: RunStatistics | None = None
    diff: CaseDiff | None = None
    blame: Attribution | None = None

    @property
    def report(self) -> CaseReport:
        """The run that stands for the case: the first that failed where the case failed, else the first."""
        if self.statistics is not None and self.statistics.problems:
            return next((r for r in self.runs if not r.passed), self.runs[0])
        return self.runs[0]

    @property
    def verdict(self) -> ResultVerdict:
        """Of the run, or of all runs together."""
        if self.statistics is None:
            return self.runs[0].verdict
        return "failed" if self.statistics.problems else "passed"

    @property
    def ok(self) -> bool:
        """It passed and did not get worse."""
        return self.verdict == "passed" and not (self.diff is not None and self.diff.regressed)

    @property
    def score(self) -> float | None:
        """Overall score, or the mean over its runs."""
        return self.runs[0].overall if self.statistics is None else self.statistics.mean_score

    def baseline(self) -> Baseline | None:
        """What a baseline file keeps of it; None when the agent could not be run."""
        report = self.report
        if report.case is None:
            return None
        return Baseline.of(
            report.case,
            name=self.spec.name,
            passed=self.verdict == "passed",
            score=self.score,
            scores={s.metric: s.value for s in report.scores if s.value is not None},
        )

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        found = self.report.to_json()
        found["verdict"], found["passed"], found["score"] = self.verdict, self.verdict == "passed", self.score
        if self.statistics is not None:
            found["statistics"] = self.statistics.to_json()
            found["reason"] = "; ".join(self.statistics.problems) or "enough runs passed"
        if self.diff is not None:
            found["diff"] = self.diff.to_json()
        if self.blame is not None:
            found["look_first_at"] = {
                "step": self.blame.step,
                "agent": self.blame.agent,
                "evidence": [e.to_json() for e in self.blame.evidence],
            }
        found["warnings"] = list(self.spec.warnings)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteReport:
    """All test cases of one call.

    Attributes:
        paired: The whole suite against its baselines; None without them.
    """

    cases: tuple[CaseOutcome, ...]
    paired: PairedComparison | None = None

    @property
    def ok(self) -> bool:
        """There are cases, all passed, none got worse."""
        return bool(self.cases) and all(c.ok for c in self.cases)

    @property
    def counts(self) -> dict[str, int]:
        """Cases by verdict, and those that got worse."""
        found = {"passed": 0, "failed": 0, "error": 0, "not_applicable": 0, "regressed": 0}
        for case in self.cases:
            found[case.verdict] += 1
            found["regressed"] += case.diff is not None and case.diff.regressed
        return found

    def to_json(self) -> dict[str, Any]:
        """The stable JSON form of `evalspan eval --json`."""
        decided = self.counts["passed"] + self.counts["failed"]
        found: dict[str, Any] = {
            "passed": self.ok,
            "counts": self.counts,
            "pass_rate": self.counts["passed"] / decided if decided else None,
            "average_score": mean(c.score for c in self.cases if c.score is not None),
            "cases": [c.to_json() for c in self.cases],
        }
        if self.paired is not None:
            tests = [t for t in (self.paired.scores, self.paired.verdicts) if t is not None]
            found["paired_tests"] = [
                {"name": t.name, "pairs": t.pairs, "difference": t.difference, "p_value": t.p_value} for t in tests
            ]
        return found


def run_suite(
    cases: Iterable[EvalCase],
    *,
    judge: Judge | None = None,
    options: JudgingOptions | None = None,
    runs: int | None = None,
    baselines: Mapping[str, Baseline] | None = None,
    runner: Runner = run_agent,
    each: Callable[[CaseOutcome], None] | None = None,
) -> SuiteReport:
    """Run and judge test cases, one after the other.

    Args:
        cases: The cases.
        judge: Grades the quality of outputs; without it that part is left out.
        options: How strictly to judge.
        runs: How often to run every case; None takes it from each case.
        baselines: To compare with, by case name.
        runner: Runs the agent.
        each: Called with every outcome as soon as it is there.

    Raises:
        InputError: A case names no agent, or recorded runs that are not there.
    """
    outcomes: list[CaseOutcome] = []
    for spec in cases:
        outcome = _outcome(spec, judge, options, runs, baselines or {}, runner)
        outcomes.append(outcome)
        if each is not None:
            each(outcome)
    paired = None
    if baselines:
        paired = compare_paired(baselines, [b for o in outcomes if (b := o.baseline()) is not None])
    return SuiteReport(cases=tuple(outcomes), paired=paired)


def _outcome(  # noqa: PLR0917  the settings of one call, passed on
    spec: EvalCase,
    judge: Judge | None,
    options: JudgingOptions | None,
    runs: int | None,
    baselines: Mapping[str, Baseline],
    runner: Runner,
) -> CaseOutcome:
    wanted = runs if runs is not None else (spec.statistics.runs if spec.statistics else 1)
    reports = tuple(_reports(spec, runner(spec, wanted), judge, options))
    statistics = statistics_of(reports, spec.statistics or StatisticsSpec(runs=wanted)) if len(reports) > 1 else None
    outcome = CaseOutcome(spec=spec, runs=reports, statistics=statistics)
    before, now = baselines.get(spec.name), outcome.baseline()
    report = outcome.report
    run = report.case.run if report.case is not None else None
    blame = attribute(run, report.scores) if run is not None and outcome.verdict == "failed" and run.steps else None
    return CaseOutcome(
        spec=spec,
        runs=reports,
        statistics=statistics,
        diff=None if before is None or now is None else diff(before, now),
        blame=blame,
    )


def _reports(
    spec: EvalCase, runs: Iterable[AgentRun], judge: Judge | None, options: JudgingOptions | None
) -> Iterator[CaseReport]:
    for run in runs:
        if run.case is None:
            reason = run.error or "the agent gave nothing"
            yield CaseReport(spec=spec, case=None, verdict="error", reason=reason, error=reason)
        else:
            yield judge_case(spec, run.case, judge=judge, options=options)
