"""Execution: one run of a tool, and the request of a model that asked for it, while they are put together."""

from dataclasses import dataclass, field
from typing import Any, Literal

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.names import is_pseudo_tool
from evalspan_collector.assemble.node import RANK, Node
from evalspan_collector.assemble.reading import Reader
from evalspan_collector.assemble.roots import Draft
from evalspan_collector.message import Part

__all__ = ["Execution", "Findings", "Request", "owner"]


@dataclass(eq=False, slots=True)
class Execution:
    """One execution while it is being put together.

    Attributes:
        nodes: Spans that describe it, the outermost first; empty when only messages show it.
        request: The part of a model's answer that asked for it, with the call and its position there.
    """

    name: str
    nodes: list[Node] = field(default_factory=list[Node])
    call_id: str | None = None
    arguments: Any = None
    result: Any = None
    failed: bool = False
    error: str | None = None
    start: int = 0
    end: int | None = None
    observed: Literal["span", "message"] = "span"
    tool_type: str | None = None
    pseudo: bool = False
    attempt: int = 1
    owner: Node | None = None
    request: "Request | None" = None


@dataclass(eq=False, slots=True)
class Request:
    """A tool call that a model asked for, and the answer it got."""

    part: Part
    call: Call
    index: int
    owner: Node | None
    response: Part | None = None
    claimed: bool = False
    followed: bool = False

    @property
    def name(self) -> str:
        """Name of the tool as the model called it."""
        return self.part.name or ""


@dataclass(frozen=True, eq=False, slots=True)
class Findings:
    """What is known of one run before it is written down.

    Attributes:
        nodes: Its nodes, parents first.
        calls: Its model calls in order of start.
        executions: Its tool executions in order of start.
        reader: Reads messages.
    """

    draft: Draft
    nodes: list[Node]
    calls: list[Call]
    executions: list[Execution]
    reader: Reader

    @property
    def last_call(self) -> Call | None:
        """The model call that ended last."""
        return max(self.calls, key=lambda c: (c.lead.end, c.lead.key)) if self.calls else None

    @property
    def waiting(self) -> list[Part]:
        """Tools that the last model answer asked for and that nothing answered; pseudo-tools need no answer."""
        last = self.last_call
        if last is None:
            return []
        asked = [p for m in self.reader.output_of(last) for p in m.tool_calls if not p.server_side]
        answered = {id(e.request.part) for e in self.executions if e.request is not None}
        return [p for p in asked if id(p) not in answered and not is_pseudo_tool(p.name or "")]


def owner(node: Node) -> Node | None:
    """The nearest agent or workflow at or above `node`."""
    return node if node.kind in RANK and not node.hidden else node.above_rank
