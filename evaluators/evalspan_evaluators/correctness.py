"""Correctness: G-Eval, a judge that follows explicit steps and grades the answer from 1 to 5."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from evalspan.errors import BudgetError, JudgeError, JudgeRefusedError
from evalspan_evaluators.bill import Bill
from evalspan_evaluators.case import Case
from evalspan_evaluators.judge import Judge, JudgeReply, JudgeRequest
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Score

__all__ = ["DEFAULT_CRITERIA", "DEFAULT_STEPS", "Correctness"]

#: The rubric when none is given.
DEFAULT_CRITERIA = (
    "Determine whether the actual output is factually correct compared with the expected output, "
    "and whether it leaves out anything the expected output says that matters for the input."
)

#: The steps when no judge can write some from the criteria.
DEFAULT_STEPS = (
    "Read the input and state in one sentence what is asked for.",
    "Compare every fact of the actual output with the expected output; note what contradicts it.",
    "Note what the expected output says and the actual output leaves out, and how much it matters for the input.",
    "Do not punish other wording, order or harmless further detail.",
    "Grade by the facts that are right, contradicted and missing together.",
)

_SCALE = (1, 2, 3, 4, 5)

_SCORE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "description": "Two or three sentences that name the specific facts."},
        "score": {"type": "integer", "enum": list(_SCALE)},
    },
    "required": ["reason", "score"],
    "additionalProperties": False,
}

_STEPS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"type": "string"}}},
    "required": ["steps"],
    "additionalProperties": False,
}

_STEPS_PROMPT = """You write the evaluation steps for grading the answer of an AI agent.
The grader will see these texts: {fields}.
Criteria: {criteria}

Write three to five short, concrete steps that a grader follows in order to grade by these criteria alone.
Do not mention scores or scales in the steps."""

_SCORE_PROMPT = """You grade the answer of an AI agent. You see these texts: {fields}.
Criteria: {criteria}

Follow these steps in order:
{steps}

Then grade on a scale of whole numbers from 1 to 5:
5 = meets the criteria in full; 4 = small flaws; 3 = partly; 2 = mostly fails; 1 = fails.
First write the reason, citing what in the texts decides, then the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correctness(MetricBase):
    """G-Eval (Liu et al. 2023, arXiv 2303.16634): a whole number from 1 to 5, value = (score - 1) / 4.

    Needs the case's input, output and expected output; with own criteria or steps the expected output is
    given to the judge where there is one, and required only by `reference`. A missing text is an error, before
    any call. A reply that cannot be used is an error too, never a made-up score.

    Attributes:
        criteria: What to grade; None takes a default correctness rubric.
        steps: Steps the judge follows as they are; empty lets the judge write them from the criteria, once.
        reference: Whether the expected output is required; None requires it unless criteria or steps are given.
        model: Another model than the judge's own.
        votes: Times to ask; the median of the scores counts (repeatability comes from votes, the API has no
            temperature).
    """

    name: ClassVar[str] = "correctness"
    requires: ClassVar[tuple[str, ...]] = ()
    default_threshold: ClassVar[float | None] = 0.5

    criteria: str | None = None
    steps: tuple[str, ...] = ()
    reference: bool | None = None
    model: str | None = None
    votes: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.votes <= 15:
            raise ValueError(f"votes is {self.votes!r}: a whole number from 1 to 15")
        if self.criteria is not None and not self.criteria.strip():
            raise ValueError("criteria is empty: leave it out for the default rubric")

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        """Ask the judge for steps where none are given, then for the score."""
        missing = self._missing(case)
        if missing:
            return self.fail(f"{self.name} requires non-empty {', '.join(missing)}")
        data = {"input": case.input or "", "actual_output": case.output or ""}
        if case.expected.output:
            data["expected_output"] = case.expected.output
        bill = Bill()
        try:
            steps = self.steps or await self._written_steps(judge, tuple(data), bill)
            grades = [await self._grade(judge, steps, data, bill) for _ in range(self.votes)]
        except JudgeError as error:
            return self.fail(str(error), judge=bill.with_failed(error))
        scores = sorted(score for score, _ in grades)
        raw = float(median(scores))
        reason = next((text for score, text in grades if score == raw), grades[0][1])
        extra = (("votes", float(self.votes)), ("spread", float(scores[-1] - scores[0]))) if self.votes > 1 else ()
        return self.score((raw - 1) / 4, reason or "the judge gave no reason", judge=bill.total(raw=raw), extra=extra)

    def _missing(self, case: Case) -> list[str]:
        texts = {"input": case.input, "output": case.output}
        own = self.criteria is not None or bool(self.steps)
        if self.reference or (self.reference is None and not own):
            texts["expected output"] = case.expected.output
        return [name for name, text in texts.items() if not text or not text.strip()]

    async def _written_steps(self, judge: Judge, names: tuple[str, ...], bill: Bill) -> tuple[str, ...]:
        """Steps the judge writes from the criteria; the fixed ones where it cannot."""
        request = JudgeRequest(
            purpose=f"{self.name}/steps",
            instructions=_STEPS_PROMPT.format(fields=", ".join(names), criteria=self.criteria or DEFAULT_CRITERIA),
            schema=_STEPS_SCHEMA,
            model=self.model,
            repeatable=True,
        )
        try:
            reply = await judge.ask(request)
        except (BudgetError, JudgeRefusedError):
            raise
        except JudgeError as error:
            bill.with_failed(error)
            return DEFAULT_STEPS
        bill.add(reply.usage)
        steps = tuple(s.strip() for s in reply.verdict.get("steps", ()) if isinstance(s, str) and s.strip())
        return steps[:10] or DEFAULT_STEPS

    async def _grade(
        self, judge: Judge, steps: tuple[str, ...], data: Mapping[str, str], bill: Bill
    ) -> tuple[int, str]:
        numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
        criteria = self.criteria or DEFAULT_CRITERIA
        request = JudgeRequest(
            purpose=f"{self.name}/score",
            instructions=_SCORE_PROMPT.format(fields=", ".join(data), criteria=criteria, steps=numbered),
            data=data,
            schema=_SCORE_SCHEMA,
            model=self.model,
        )
        reply = await judge.ask(request)
        bill.add(reply.usage)
        return _level(reply)


def _level(reply: JudgeReply) -> tuple[int, str]:
    """The whole number from 1 to 5; a judge need not check schemas, so it is checked here."""
    score: object = reply.verdict.get("score")
    if isinstance(score, bool) or not isinstance(score, int) or score not in _SCALE:
        raise JudgeError(f"judge {reply.usage.model!r} gave the score {score!r}: a whole number from 1 to 5 was asked")
    return score, str(reply.verdict.get("reason") or "").strip()
