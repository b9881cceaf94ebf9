"""Case: what a metric reads, built from a run or by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from evalspan_collector.message import Message
from evalspan_collector.run import Document, ModelCall, Run, ToolCall, ToolDefinition
from evalspan_collector.span import Usage

__all__ = ["Case", "Expected", "Turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a case should look like; None means nothing is expected there.

    Attributes:
        output: The reference answer.
        tools: Names of tools that must be called, in no order.
        sequence: Names of tools in the order they should be called.
        calls: Expected calls with arguments, each {"name", "arguments"}.
        categories: Kinds of tools that must be used, such as `search`.
        contains: Texts the output must hold.
        not_contains: Texts it must not hold.
    """

    output: str | None = None
    tools: tuple[str, ...] | None = None
    sequence: tuple[str, ...] | None = None
    calls: tuple[Mapping[str, Any], ...] | None = None
    categories: tuple[str, ...] | None = None
    contains: tuple[str, ...] | None = None
    not_contains: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One earlier turn of the session, as text."""

    input: str | None = None
    output: str | None = None
    tools: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything a metric may read; unknown is None.

    Attributes:
        input: What the user asked.
        output: What the agent answered.
        expected: The reference, where there is one.
        tools: Tool calls in order; None when it is unknown which tools ran.
        documents: Retrieved documents.
        context: Further texts that count as true (facts given by hand).
        conversation: All messages, user turns among them.
        turns: Earlier turns of the session, oldest first.
        tool_definitions: Tools the model was offered; None when unknown.
        flags: The run's flags.
        name: Of a case by hand or from a data set.
    """

    input: str | None = None
    output: str | None = None
    expected: Expected = field(default_factory=Expected)
    tools: tuple[ToolCall, ...] | None = None
    documents: tuple[Document, ...] = ()
    context: tuple[str, ...] = ()
    conversation: tuple[Message, ...] = ()
    turns: tuple[Turn, ...] = ()
    system_prompt: str | None = None
    tool_definitions: tuple[ToolDefinition, ...] | None = None
    model_calls: tuple[ModelCall, ...] | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    cost_unknown_calls: int = 0
    duration_s: float | None = None
    status: str | None = None
    error: str | None = None
    agent: str | None = None
    flags: tuple[str, ...] = ()
    name: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    run: Run | None = None

    @classmethod
    def from_run(cls, run: Run, *, expected: Expected | None = None, turns: tuple[Turn, ...] = ()) -> Self:
        """The case of a stored run; `turns` are the earlier runs of its session."""
        return cls(
            input=run.input,
            output=run.output,
            expected=expected or Expected(),
            tools=run.tools,
            documents=tuple(d for r in run.retrievals for d in r.documents),
            conversation=run.conversation,
            turns=turns,
            system_prompt=run.system_prompt,
            tool_definitions=run.tool_definitions or None,
            model_calls=run.model_calls,
            usage=run.usage,
            cost_usd=run.cost_usd,
            cost_unknown_calls=run.cost_unknown_calls,
            duration_s=run.duration_s,
            status=run.status,
            error=run.error,
            agent=run.agent,
            flags=run.flags,
            name=run.run_id,
            run=run,
        )
