"""Steps: what a run did, one after another; the order of messages goes before the clock."""

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, cast

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.content import plain_input
from evalspan_collector.assemble.execution import Execution, Findings, owner
from evalspan_collector.assemble.failure import as_list, as_object, parsed
from evalspan_collector.assemble.names import agent_name
from evalspan_collector.assemble.node import RANK, Node
from evalspan_collector.assemble.reading import Reader
from evalspan_collector.assemble.roots import Draft
from evalspan_collector.assemble.status import error_text
from evalspan_collector.prices import Price, Prices
from evalspan_collector.run import Document, ModelCall, Retrieval, Step, ToolCall
from evalspan_collector.span import Span, SpanKind

__all__ = ["agent_label", "model_call", "price_of", "steps_of"]

_OTHER = frozenset({SpanKind.EMBEDDING, SpanKind.RERANKER, SpanKind.GUARDRAIL, SpanKind.MEMORY, SpanKind.PLAN})


@dataclass(eq=False, slots=True)
class _Item:
    """A step before it has its number; `thing` is what it tells of."""

    kind: str
    node: Node | None
    thing: Node | Call | Execution
    start: int
    end: int
    owner: Node | None


def agent_label(node: Node) -> str | None:
    """The name of an agent node: what the span says, else what its name says."""
    stated = node.span.agent_name
    label = agent_name(node.span.name) if stated is None or stated == node.span.name else stated
    if node.above_tool is not None and label in (None, "Task", node.above_tool.span.name):
        # The Claude agent SDK names the kind of sub-agent only in the arguments of its Task tool.
        kind = (as_object(parsed(node.above_tool.span.tool_arguments)) or {}).get("subagent_type")
        label = kind if isinstance(kind, str) and kind else label
    return label


def steps_of(found: Findings, prices: Prices | None) -> tuple[Step, ...]:
    """All steps of a run in order, sub-agents as steps with their own subtree."""
    agents = _agent_steps(found.draft, found.nodes)
    items = [_Item("agent", n, n, n.effective_start, n.end, n) for n in agents]
    items += [_Item("model_call", c.lead, c, c.lead.effective_start, c.lead.end, owner(c.lead)) for c in found.calls]
    items += [_tool_item(e) for e in found.executions]
    searches: set[Node] = set()  # below a retriever: a store's span describes the same search
    for node in found.nodes:
        inside = node.parent is not None and (node.parent in searches or node.parent.kind is SpanKind.RETRIEVER)
        if inside:
            searches.add(node)
        if node.hidden:
            continue
        if node.kind is SpanKind.RETRIEVER and not inside:
            items.append(_Item("retrieval", node, node, node.effective_start, node.end, owner(node)))
        elif node.kind in _OTHER:
            items.append(_Item("other", node, node, node.effective_start, node.end, owner(node)))
    items.sort(key=_by_clock)
    items = _by_messages(items)
    index = {item.node: i for i, item in enumerate(items) if item.kind == "agent" and item.node is not None}
    holders = _Holders(index)
    return tuple(_step(i, item, holders, found.reader, prices) for i, item in enumerate(items))


class _Holders:
    """Which sub-agent step holds a node, and how deep; each agent is looked at once."""

    def __init__(self, index: dict[Node, int]) -> None:
        self.index = index
        self._depth: dict[Node, int] = {}
        self._nearest: dict[Node, Node | None] = {}

    def nearest(self, rank: Node | None) -> Node | None:
        """The agent step at or above an agent node."""
        path: list[Node] = []
        while rank is not None and rank not in self.index and rank not in self._nearest:
            path.append(rank)
            rank = rank.above_rank
        found = rank if rank is None or rank in self.index else self._nearest[rank]
        for node in path:
            self._nearest[node] = found
        return found

    def depth(self, agent: Node | None) -> int:
        """How many agent steps lie at or above an agent step."""
        path: list[Node] = []
        while agent is not None and agent not in self._depth:
            path.append(agent)
            agent = self.nearest(agent.above_rank)
        depth = self._depth[agent] if agent is not None else 0
        for node in reversed(path):
            depth += 1
            self._depth[node] = depth
        return depth


def _by_clock(item: _Item) -> tuple[int, int, int, str]:
    rank = 0 if item.kind == "agent" else 1
    span_id = item.node.span.span_id if item.node is not None else ""
    position = item.thing.request.index if isinstance(item.thing, Execution) and item.thing.request else 0
    return (item.start, rank, item.node.order if item.node is not None else position, span_id)


def _tool_item(execution: Execution) -> _Item:
    node = execution.nodes[0] if execution.nodes else None
    start = node.effective_start if node is not None else execution.start
    return _Item("tool_call", node, execution, start, execution.end or start, execution.owner)


def _agent_steps(draft: Draft, nodes: list[Node]) -> list[Node]:
    """Agents below the root that are no second span of the agent above them."""
    agents: list[Node] = []
    for node in nodes:
        if node.kind is not SpanKind.AGENT or node.hidden or node in draft.roots:
            continue
        above = node.above_rank
        by_tool = node.above_tool is not None and node.above_tool.above_rank is above
        if above is not None and not by_tool and agent_label(above) == agent_label(node):
            continue
        agents.append(node)
    if len(agents) == 1 and draft.root.kind is not SpanKind.AGENT:
        return []  # the one agent of a workflow is the run itself
    return agents


def _by_messages(items: list[_Item]) -> list[_Item]:
    """Tools in the order in which the model asked for them, after the call that asked."""
    place = {id(item): i for i, item in enumerate(items)}
    position = {i.thing: place[id(i)] for i in items if isinstance(i.thing, Call)}
    groups: dict[Call, list[tuple[_Item, int]]] = defaultdict(list)
    for item in items:
        if isinstance(item.thing, Execution) and item.thing.request is not None:
            groups[item.thing.request.call].append((item, item.thing.request.index))
    keys = {id(item): (i, 0, 0) for i, item in enumerate(items)}
    for call, tools in groups.items():
        asked_at = position.get(call, -1)
        first = min(place[id(t)] for t, _ in tools)
        together = not _interleaved([t for t, _ in tools])
        for tool, index in tools:
            keys[id(tool)] = (max(first if together else place[id(tool)], asked_at), 1, index)
    return sorted(items, key=lambda i: keys[id(i)])


def _interleaved(tools: list[_Item]) -> bool:
    """True when one of the tools holds a subtree of its own: moving it would part it from its steps."""
    return any(t.node is not None and any(c.kind in RANK for c in t.node.children) for t in tools)


def _step(index: int, item: _Item, holders: _Holders, reader: Reader, prices: Prices | None) -> Step:
    above = item.node.above_rank if item.kind == "agent" and item.node is not None else item.owner
    top = holders.nearest(above)
    label = agent_label(item.owner) if item.owner is not None else None
    base: dict[str, Any] = {
        "index": index,
        "parent_index": holders.index[top] if top is not None else None,
        "depth": holders.depth(top),
        "agent": label,
        "started_ns": item.start,
        "span_id": item.node.span.span_id if item.node is not None else None,
        "trace_id": item.node.span.trace_id if item.node is not None else None,
    }
    if isinstance(item.thing, Call):
        call = model_call(item.thing, label, reader, prices)
        return Step(kind="model_call", name=call.model or "model", duration_s=call.duration_s, failed=call.failed,
                    error=call.error, model_call=call, **base)  # fmt: skip
    if isinstance(item.thing, Execution):
        tool = _tool_call(item.thing, label)
        return Step(kind="tool_call", name=tool.name, duration_s=tool.duration_s, failed=tool.failed,
                    error=tool.error, observed=tool.observed, tool=tool, **base)  # fmt: skip
    node = item.thing
    base |= {"duration_s": node.span.duration_s, "failed": node.span.is_error}
    base["error"] = error_text(node.span) if node.span.is_error else None
    if item.kind == "agent":
        return Step(kind="agent", name=label or "agent", **base)
    if item.kind == "retrieval":
        return Step(kind="retrieval", name=node.span.name, retrieval=_retrieval(node, label), **base)
    return Step(kind="other", name=node.span.name, **base)


def model_call(call: Call, agent: str | None, reader: Reader, prices: Prices | None) -> ModelCall:
    """The model call of a run's step, with its cost as carried or as computed."""
    span = call.lead.span
    model = call.first("model_response") or call.first("model_request")
    provider = call.first("provider")
    usage = call.usage
    carried = call.first("cost_carried")
    price: Price | None = None
    if carried is None and prices is not None:
        price = price_of(call, prices)
    cost = float(cast("float", carried)) if carried is not None else (price.usd if price is not None else None)
    first_token = call.first("time_to_first_token_s")
    return ModelCall(
        model=cast("str | None", model),
        provider=cast("str | None", provider),
        usage=usage,
        cost_usd=cost,
        cost_source="carried" if carried is not None else (price.source if price is not None else None),
        failed=call.failed,
        error=error_text(span) if call.failed else None,
        started_ns=span.start_ns,
        duration_s=span.duration_s,
        time_to_first_token_s=cast("float | None", first_token),
        response_id=cast("str | None", call.first("response_id")),
        agent=agent,
        span_id=span.span_id,
        finish_reasons=cast("tuple[str, ...]", call.first("finish_reasons") or ()),
        input_messages=reader.input_of(call),
        output_messages=reader.output_of(call),
    )


def price_of(call: Call, prices: Prices) -> Price | None:
    """The computed price: of the model that answered, else of the one asked for."""
    provider = cast("str | None", call.first("provider"))
    tier = cast("str | None", call.first("service_tier"))
    for field in ("model_response", "model_request"):
        model = cast("str | None", call.first(field))
        price = prices.cost(provider, model, call.usage, call.lead.start, tier)
        if price is not None:
            return price
    return None


def _tool_call(execution: Execution, agent: str | None) -> ToolCall:
    return ToolCall(
        name=execution.name,
        call_id=execution.call_id,
        arguments=execution.arguments,
        result=execution.result,
        failed=execution.failed,
        error=execution.error,
        started_ns=execution.start,
        duration_s=max(0, execution.end - execution.start) / 1e9 if execution.end is not None else None,
        observed=execution.observed,
        agent=agent,
        span_id=execution.nodes[0].span.span_id if execution.nodes else None,
        tool_type=execution.tool_type,
        pseudo=execution.pseudo,
        attempt=execution.attempt,
        content_captured=execution.arguments is not None or execution.result is not None,
    )


def _retrieval(node: Node, agent: str | None) -> Retrieval:
    spans = [node.span, *(c.span for c in node.children if c.kind is SpanKind.RETRIEVER)]
    return Retrieval(
        query=next((s.retrieval_query for s in spans if s.retrieval_query), None) or plain_input(node.span.input_value),
        documents=next((d for s in spans if (d := _documents(s))), ()),
        started_ns=node.span.start_ns,
        duration_s=node.span.duration_s,
        span_id=node.span.span_id,
        agent=agent,
    )


def _documents(span: Span) -> tuple[Document, ...]:
    found: list[Document] = []
    for item in as_list(parsed(span.documents)):
        fields = as_object(item)
        if fields is not None:
            found.append(
                Document(
                    id=_str(fields.get("id")), content=_str(fields.get("content")), score=_float(fields.get("score"))
                )
            )
    return tuple(found)


def _str(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _float(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None
