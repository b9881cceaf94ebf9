"""Scoring: from a run to its case, from a score to its row, and what a score depended on."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, cast

from evalspan_collector.records import ScoreRecord
from evalspan_collector.run import Run
from evalspan_evaluators.case import Case, Expected, Turn
from evalspan_evaluators.metric import JudgeMetric, Metric
from evalspan_evaluators.score import Score

__all__ = ["RECEIVED_RULE", "Fingerprints", "case_of", "inputs_of", "received_records", "score_record"]

#: Stands in the `rule` of scores that others' evaluators put on the spans of a run.
RECEIVED_RULE = "received"

#: Key under `extra` of a score row: a number that changes when what the metric read has changed.
_INPUTS = "inputs"
#: Facts that come with each assembly and that no metric judges.
_UNREAD = {"run", "name"}


def case_of(run: Run, *, expected: Expected, earlier: Iterable[Run] = ()) -> Case:
    """The case of a run; `earlier` are the runs of its session before it, oldest first."""
    turns = tuple(Turn(input=turn.input, output=turn.output, tools=turn.tools) for turn in earlier)
    return Case.from_run(run, expected=expected, turns=turns)


class Fingerprints:
    """Numbers that tell whether what a metric reads has changed since it scored.

    A metric that declares `reads`, a tuple of case fields, depends on those alone; any other on the whole case.
    """

    def __init__(self, case: Case) -> None:
        self._digests = {f.name: _digest(getattr(case, f.name)) for f in fields(case) if f.name not in _UNREAD}

    def of(self, metric: Metric | JudgeMetric) -> int:
        """48 bits, so that the number survives JSON."""
        reads = cast("tuple[str, ...]", getattr(type(metric), "reads", ())) or tuple(self._digests)
        # `expected.tools` depends on `expected`; a metric that reads the run itself depends on everything.
        names = {name.split(".", maxsplit=1)[0] for name in reads}
        if not names <= set(self._digests):
            names = set(self._digests)
        text = "|".join(f"{name}={self._digests[name]}" for name in sorted(names))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def inputs_of(record: ScoreRecord) -> int | None:
    """The fingerprint a stored score was made from; None when the row has none."""
    try:
        extra = json.loads(record.extra)
    except ValueError:
        return None
    found: object = cast("dict[str, object]", extra).get(_INPUTS) if isinstance(extra, dict) else None
    return found if isinstance(found, int) else None


def score_record(score: Score, run: Run, *, rule: str, created_ns: int, inputs: int | None = None) -> ScoreRecord:
    """The row of a score."""
    extra: dict[str, float | int] = dict(score.extra)
    if inputs is not None:
        extra[_INPUTS] = inputs
    judge = score.judge
    return ScoreRecord(
        project=run.project,
        run_id=run.run_id,
        metric=score.metric,
        rule=rule,
        run_revision=run.revision,
        metric_version=score.metric_version,
        created_ns=created_ns,
        value=score.value,
        threshold=score.threshold,
        passed=score.passed,
        label=_text(score.label),
        reason=_text(score.reason) or "",
        error=_text(score.error),
        not_applicable=score.not_applicable,
        evidence=json.dumps([e.to_json() for e in score.evidence], default=str),
        extra=json.dumps(extra),
        agent=run.agent,
        run_started_ns=run.started_ns,
        duration_s=score.duration_s,
        judge_model=judge.model if judge else None,
        judge_input_tokens=judge.input_tokens if judge else None,
        judge_output_tokens=judge.output_tokens if judge else None,
        judge_cost_usd=judge.cost_usd if judge else None,
    )


def received_records(run: Run, *, created_ns: int) -> list[ScoreRecord]:
    """The rows of the evaluations that arrived with a run's spans, on the sender's own scale.

    Several of one name are kept apart by the span they are about.
    """
    names = [evaluation.name for evaluation in run.evaluations]
    rows: dict[tuple[str, str], ScoreRecord] = {}
    for evaluation in run.evaluations:
        alone = names.count(evaluation.name) == 1
        rule = RECEIVED_RULE if alone else f"{RECEIVED_RULE}:{evaluation.source}:{evaluation.span_id or ''}"
        nothing = evaluation.value is None and evaluation.label is None and evaluation.error is None
        rows[evaluation.name, rule] = ScoreRecord(
            project=run.project,
            run_id=run.run_id,
            metric=evaluation.name,
            rule=rule,
            run_revision=run.revision,
            metric_version="",
            created_ns=created_ns,
            value=evaluation.value,
            passed=_passed(evaluation.label),
            label=_text(evaluation.label),
            reason=_text(evaluation.explanation) or "",
            error=_text(evaluation.error),
            not_applicable=nothing,
            source="received",
            span_id=evaluation.span_id,
            agent=run.agent,
            run_started_ns=run.started_ns,
        )
    return list(rows.values())


def _passed(label: str | None) -> bool | None:
    """A verdict only where the sender's label says so in so many words."""
    words: Mapping[str, bool] = {"pass": True, "passed": True, "fail": False, "failed": False}
    return words.get(label.strip().lower()) if label else None


def _text(text: str | None) -> str | None:
    """Lone surrogates cannot be stored as UTF-8."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _digest(value: Any) -> str:
    import orjson

    try:
        raw = orjson.dumps(value, default=repr, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # integers past 64 bits, lone surrogates
        raw = repr(value).encode("utf-8", "replace")
    return hashlib.sha256(raw).hexdigest()[:16]
