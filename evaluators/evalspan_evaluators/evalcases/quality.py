"""Quality: does the answer answer, is it right, well structured, and does it follow instructions?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from evalspan_evaluators.case import Case
from evalspan_evaluators.judge import Judge, JudgeRequest
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score

__all__ = ["OutputQuality"]

_QUESTIONS = {
    "answers": "Does the output answer the question?",
    "accurate": "Is it accurate and factual, going by the tool results where there are any?",
    "structured": "Is it well structured?",
    "follows": "Does it follow the instructions of the question?",
}

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "description": "Two or three sentences that name what decides."},
        # No bounds here: not every API takes them. They are checked when the reply is there.
        **{name: {"type": "integer"} for name in _QUESTIONS},
    },
    "required": ["reason", *_QUESTIONS],
    "additionalProperties": False,
}

_PROMPT = """You grade the answer of an AI agent. You see these texts: {fields}.
Answer four questions, each with a whole number from 0 (not at all) to 100 (fully):
{questions}
First write the reason, citing what in the texts decides, then the four numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputQuality(MetricBase):
    """Four questions to a judge, each 0 to 100: does it answer, is it accurate, well structured, as instructed?

    The value is their mean / 100. Texts the answer should or should not hold are told to the judge.

    Attributes:
        model: Another model than the judge's own.
    """

    name: ClassVar[str] = "output_quality"
    requires: ClassVar[tuple[str, ...]] = ("input", "output")

    model: str | None = None

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        """Ask the judge once."""
        data = {"input": case.input or "", "output": case.output or ""}
        if case.expected.output:
            data["expected_output"] = case.expected.output
        if case.expected.contains:
            data["should_mention"] = "\n".join(case.expected.contains)
        if case.expected.not_contains:
            data["should_not_mention"] = "\n".join(case.expected.not_contains)
        if case.tools:
            data["tool_results"] = "\n".join(f"{t.name}: {t.result}" for t in case.tools)
        questions = "\n".join(f"{name}: {text}" for name, text in _QUESTIONS.items())
        reply = await judge.ask(
            JudgeRequest(
                purpose="output_quality",
                instructions=_PROMPT.format(fields=", ".join(data), questions=questions),
                data=data,
                schema=_SCHEMA,
                model=self.model,
            )
        )
        grades = {name: reply.verdict[name] for name in _QUESTIONS}
        wrong = {n: g for n, g in grades.items() if not isinstance(g, int) or isinstance(g, bool) or not 0 <= g <= 100}
        if wrong:
            return self.fail(
                f"the judge graded {wrong!r}: whole numbers from 0 to 100 were asked for", judge=reply.usage
            )
        evidence = tuple(Evidence(verdict="info", claim=_QUESTIONS[n], value=str(g)) for n, g in grades.items())
        value = sum(grades.values()) / (100 * len(grades))
        return self.score(
            value,
            str(reply.verdict["reason"]),
            evidence=evidence,
            judge=reply.usage,
            extra=tuple((name, grade / 100) for name, grade in grades.items()),
        )
