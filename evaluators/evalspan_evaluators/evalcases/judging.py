"""Judging: the checks of one test case on one run, its overall score, and whether it passed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from evalspan_evaluators.case import Case
from evalspan_evaluators.evalcases.case import EvalCase
from evalspan_evaluators.evaluate import evaluate
from evalspan_evaluators.judge import Judge
from evalspan_evaluators.limits import MaxCost, MaxLatency
from evalspan_evaluators.metric import JudgeMetric, Metric, available, create
from evalspan_evaluators.output.contains import Contains, NotContains
from evalspan_evaluators.overall import OutputQuality, Weights, weighted
from evalspan_evaluators.results import ResultVerdict
from evalspan_evaluators.score import Score
from evalspan_evaluators.trajectory.sequence import Sequence as SequenceMetric
from evalspan_evaluators.trajectory.tools import ForbiddenTools, ToolAccuracy

__all__ = ["CaseReport", "Check", "JudgingOptions", "Part", "judge_case", "overall_score"]

CheckName = Literal[
    "forbidden_tools", "min_score", "contains", "not_contains", "json_schema", "cost", "latency", "hallucination", "pii"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingOptions:
    """How strictly to judge.

    Attributes:
        compatible: As EvalView does: a part for which nothing is expected counts as perfect, and missing or forbidden
            texts do not fail a case that a judge grades.
        strict: A check that could not be made fails the case; else it is left out and shown.
    """

    compatible: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the overall score.

    Attributes:
        value: 0 to 1; None when it does not apply, and then its weight is shared out.
        detail: What is behind it, in a few words.
    """

    name: str
    label: str
    weight: float
    value: float | None
    detail: str
    score: Score | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition of a case.

    Attributes:
        passed: None when it could not be decided.
        shown: What was found and what was allowed.
        blocking: Whether failing it fails the case.
    """

    name: CheckName
    label: str
    passed: bool | None
    shown: str
    blocking: bool = True
    score: Score | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReport:
    """One run of a test case, judged.

    Attributes:
        overall: 0 to 100; None when no part of it applies.
        reason: The first thing that decided, in the order of the checks.
        error: Why the agent could not be run; None otherwise.
    """

    spec: EvalCase
    case: Case | None
    verdict: ResultVerdict
    reason: str
    overall: float | None = None
    parts: tuple[Part, ...] = ()
    checks: tuple[Check, ...] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        """The case passed."""
        return self.verdict == "passed"

    @property
    def scores(self) -> tuple[Score, ...]:
        """Scores of the metrics behind parts and checks."""
        found = [*(p.score for p in self.parts), *(c.score for c in self.checks)]
        return tuple(score for score in found if score is not None)

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        case = self.case
        return {
            "name": self.spec.name,
            "file": str(self.spec.path),
            "verdict": self.verdict,
            "passed": self.passed,
            "reason": self.reason,
            "score": self.overall,
            "min_score": self.spec.min_score,
            "parts": {p.name: {"value": p.value, "weight": p.weight, "detail": p.detail} for p in self.parts},
            "checks": [
                {"name": c.name, "passed": c.passed, "detail": c.shown, "blocking": c.blocking} for c in self.checks
            ],
            "scores": [s.to_json() for s in self.scores],
            "input": self.spec.query,
            "output": case.output if case else None,
            "tools": None if case is None or case.tools is None else [t.name for t in case.tools],
            "cost_usd": case.cost_usd if case else None,
            "latency_s": case.duration_s if case else None,
            "error": self.error,
        }


def overall_score(parts: Sequence[Part]) -> float | None:
    """Weighted mean of the parts that apply, 0 to 100, rounded to 2 digits; None when none applies."""
    return weighted((part.value, part.weight) for part in parts)


def judge_case(
    spec: EvalCase, case: Case, *, judge: Judge | None = None, options: JudgingOptions | None = None
) -> CaseReport:
    """Judge one run of a test case."""
    how = options or JudgingOptions()
    subject = replace(case, expected=spec.expected, input=case.input or spec.query)
    parts = _parts(spec, subject, judge, how)
    overall = overall_score(parts)
    checks = tuple(_checks(spec, subject, overall, how, graded=judge is not None))
    verdict, reason = _verdict(parts, checks, how, blind=_expects_tools(spec) and subject.tools is None)
    return CaseReport(
        spec=spec, case=subject, verdict=verdict, reason=reason, overall=overall, parts=parts, checks=checks
    )


def _score(metric: Metric | JudgeMetric, case: Case, judge: Judge | None = None) -> Score:
    (score,) = evaluate(case, [metric], judge=judge)
    return score


def _parts(spec: EvalCase, case: Case, judge: Judge | None, how: JudgingOptions) -> tuple[Part, ...]:
    weights: Weights = spec.weights
    accuracy = _score(ToolAccuracy(), case)
    sequence = _score(SequenceMetric(mode=spec.sequence_mode), case)
    quality = None if judge is None else _score(OutputQuality(), case, judge)
    progress = dict(sequence.extra).get("progress", sequence.value)
    nothing = 1.0 if how.compatible else None
    silent = judge is not None and _is_silent(case)
    return (
        Part(
            name="tool_accuracy",
            label="Tool Accuracy",
            weight=weights.tool_accuracy,
            value=accuracy.value if accuracy.value is not None or not _nothing_expected(spec) else nothing,
            detail=_accuracy_detail(spec, accuracy),
            score=accuracy,
        ),
        Part(
            name="output_quality",
            label="Output Quality",
            weight=weights.output_quality,
            value=0.0 if silent else None if quality is None else quality.value,
            detail="the agent gave no answer" if silent else _quality_detail(quality),
            score=quality,
        ),
        Part(
            name="sequence_correctness",
            label="Sequence",
            weight=weights.sequence_correctness,
            value=progress if sequence.value is not None or spec.expected.sequence is not None else nothing,
            detail=_sequence_detail(spec, sequence),
            score=sequence,
        ),
    )


def _is_silent(case: Case) -> bool:
    """The agent answered nothing, which is not the same as an answer that was not captured."""
    return case.output is not None and not case.output.strip()


def _nothing_expected(spec: EvalCase) -> bool:
    return not spec.expected.tools and not spec.expected.categories


def _accuracy_detail(spec: EvalCase, score: Score) -> str:
    if score.value is None:
        return "no tools are expected" if _nothing_expected(spec) else score.reason
    tools, categories = spec.expected.tools or (), spec.expected.categories or ()
    total = len(set(tools)) + len(set(categories))
    what = "tools" if tools else "categories"
    return f"{round(score.value * total)}/{total} {what} called" + ("" if score.value >= 1 else f"; {score.reason}")


def _quality_detail(score: Score | None) -> str:
    if score is None:
        return "not judged: no judge, its weight is shared out"
    return "LLM-as-judge" if score.value is not None else (score.error or score.reason)


def _sequence_detail(spec: EvalCase, score: Score) -> str:
    if score.value is None:
        return "no sequence is expected" if spec.expected.sequence is None else score.reason
    return "correct order" if score.passed else score.reason


def _checks(spec: EvalCase, case: Case, overall: float | None, how: JudgingOptions, *, graded: bool) -> Sequence[Check]:
    """In the order that decides what the report says first."""
    found: list[Check] = []
    if spec.forbidden_tools:
        found.append(
            _of("forbidden_tools", "Forbidden tools", _score(ForbiddenTools(tools=spec.forbidden_tools), case))
        )
    found.append(
        Check(
            name="min_score",
            label="Score",
            passed=None if overall is None else overall >= spec.min_score,
            shown=f"{'unknown' if overall is None else format(overall, 'g')} (at least {spec.min_score:g})",
        )
    )
    blocking = not (how.compatible and graded)
    if spec.expected.contains:
        check = _of("contains", "Contains", _score(Contains(), case), blocking=blocking)
        found.append(replace(check, passed=False, shown="the agent gave no answer") if _is_silent(case) else check)
    if spec.expected.not_contains:
        found.append(_of("not_contains", "Does not contain", _score(NotContains(), case), blocking=blocking))
    if spec.json_schema is not None:
        found.append(_named("json_schema", "JSON schema", "json_schema", case, {"schema": spec.json_schema}))
    if spec.max_cost_usd is not None:
        score = _score(MaxCost(limit_usd=spec.max_cost_usd), case)
        found.append(_limit("cost", "Cost", score, f"${spec.max_cost_usd:.2f}"))
    if spec.max_latency_s is not None:
        score = _score(MaxLatency(limit_s=spec.max_latency_s), case)
        found.append(_limit("latency", "Latency", score, f"{spec.max_latency_s:g}s", blocking=not spec.generated))
    if spec.hallucination:
        found.append(_named("hallucination", "Hallucination", "grounding", case, {}))
    if spec.pii:
        found.append(_named("pii", "Personal data", "pii", case, {}))
    return found


def _of(name: CheckName, label: str, score: Score, *, blocking: bool = True) -> Check:
    shown = score.error or score.reason
    return Check(
        name=name,
        label=label,
        passed=score.passed,
        shown=shown.removeprefix(f"{label.lower()} "),
        blocking=blocking,
        score=score,
    )


def _limit(name: CheckName, label: str, score: Score, limit: str, *, blocking: bool = True) -> Check:
    check = _of(name, label, score, blocking=blocking)
    # What is unknown is neither within the limit nor beyond it.
    return replace(check, shown=f"unknown (limit {limit})") if score.not_applicable else check


def _named(name: CheckName, label: str, metric: str, case: Case, parameters: dict[str, Any]) -> Check:
    """A check by a metric that may not be installed."""
    if metric not in available():
        return Check(name=name, label=label, passed=None, shown=f"the metric {metric!r} is not installed")
    return _of(name, label, _score(create(metric, parameters), case))


def _expects_tools(spec: EvalCase) -> bool:
    return bool(spec.forbidden_tools) or not _nothing_expected(spec) or spec.expected.sequence is not None


def _verdict(
    parts: Sequence[Part], checks: Sequence[Check], how: JudgingOptions, *, blind: bool
) -> tuple[ResultVerdict, str]:
    """What the checks come to; `blind` says that tools are expected or forbidden and nobody knows which ran."""
    failed = next((c for c in checks if c.passed is False and c.blocking), None)
    if failed is not None:
        return "failed", f"{failed.label}: {failed.shown}"
    scored = [*((p.label, p.score) for p in parts), *((c.label, c.score) for c in checks)]
    for label, score in scored:
        if score is not None and score.error is not None:
            return "error", f"{label}: {score.error}"
    unknown = [c for c in checks if c.passed is None]
    if how.strict and unknown:
        return "failed", f"{unknown[0].label}: {unknown[0].shown}"
    if blind and not how.compatible:
        return "not_applicable", "tools are expected or forbidden, but nothing tells which ran: the agent sent no spans"
    if not any(c.passed for c in checks):
        return "not_applicable", "nothing could be checked: expect tools, a sequence or texts, or configure a judge"
    return "passed", "every check passed"
