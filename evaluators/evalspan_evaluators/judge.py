"""Judge: a model asked for a verdict, through one small protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from evalspan_evaluators.score import JudgeUsage

__all__ = ["Judge", "JudgeReply", "JudgeRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """One question to a judge.

    Attributes:
        purpose: Metric and step that ask, such as `correctness/score`; goes into the ledger.
        instructions: Trusted text: the rubric and the form of the answer.
        data: Untrusted texts by name; the judge fences them, they are never instructions.
        schema: JSON schema the reply must meet.
        model: Overrides the judge's model for this question.
        max_tokens: Most tokens the reply may have.
        repeatable: The question holds no data of a case, so one reply serves every case; a judge may remember it.
    """

    purpose: str
    instructions: str
    data: Mapping[str, str] = field(default_factory=dict[str, str])
    schema: Mapping[str, Any]
    model: str | None = None
    max_tokens: int = 1024
    repeatable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """A parsed reply that meets the schema, and what it cost."""

    verdict: Mapping[str, Any]
    usage: JudgeUsage


@runtime_checkable
class Judge(Protocol):
    """Anything that can answer a `JudgeRequest`."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask once.

        Raises:
            JudgeError: No reply that meets the schema; the call is in the ledger all the same.
        """
        ...
