"""Build: a run written down from its nodes."""

import hashlib
import json
from itertools import islice
from typing import Any

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.content import Content, content_of, tool_definitions
from evalspan_collector.assemble.execution import Findings
from evalspan_collector.assemble.failure import as_list, as_object, parsed
from evalspan_collector.assemble.names import agent_name
from evalspan_collector.assemble.node import Node, ancestors
from evalspan_collector.assemble.reading import Reader
from evalspan_collector.assemble.roots import Draft
from evalspan_collector.assemble.status import error_of
from evalspan_collector.assemble.steps import agent_label, price_of, steps_of
from evalspan_collector.assemble.tools import find_executions
from evalspan_collector.prices import Prices
from evalspan_collector.run import ReceivedEvaluation, Run, Step
from evalspan_collector.span import Span, SpanKind, Usage
from evalspan_collector.usage import add_usage

__all__ = ["build_run", "run_id_of"]

_RANK = (SpanKind.AGENT, SpanKind.WORKFLOW)
_COUNTED = (SpanKind.EMBEDDING, SpanKind.RERANKER)
#: How many spans above a run are asked for its session and its user.
_CONTEXT = 64
#: Totals of spans and sums of calls may differ by rounding and by a missing span; more is said.
_TOLERANCE = 0.01


def run_id_of(project: str, trace_id: str, root_span_id: str) -> str:
    """The id of a run: the same for the same root, whatever arrived in what order."""
    return hashlib.sha256(f"{project}\0{trace_id}\0{root_span_id}".encode()).hexdigest()[:32]


def build_run(draft: Draft, calls: list[Call], extra: list[Span], reader: Reader, prices: Prices | None) -> Run:
    """Write a run down; `extra` are spans outside of it that evaluate it, without `prices` costs stay unknown."""
    nodes = list(draft.nodes())
    executions = find_executions(nodes, calls, reader, died=draft.root.virtual)
    found = Findings(draft, nodes, calls, executions, reader)
    content = content_of(found)
    steps = steps_of(found, prices)
    error = error_of(found, content)
    usage, usage_source = _usage(nodes, calls)
    # A provider's embedding span below a framework's is the same embedding.
    counted = [n for n in nodes if n.kind in _COUNTED and not n.hidden and n.span.usage.known]
    embeddings = _outermost(counted, nodes)
    cost, unknown = _cost(draft, steps, embeddings, prices, aggregate=usage_source == "aggregate")
    spans = _spans_of(nodes, calls)
    root = draft.root
    grouping = [root.span, *(s for s in _in_order(spans, root)), *(a.span for a in islice(ancestors(root), _CONTEXT))]
    agents = _agents(draft, nodes)
    start, end = min(r.start for r in draft.roots), max(r.end for r in draft.roots)
    return Run(
        run_id=run_id_of(root.span.project, root.span.trace_id, root.span.span_id),
        trace_id=root.span.trace_id,
        project=root.span.project,
        trace_ids=tuple(dict.fromkeys([root.span.trace_id, *sorted({s.trace_id for s in spans})])),
        root_span_id=root.span.span_id,
        agent=_agent(draft, agents, grouping),
        agents=agents,
        session_id=_first(grouping, "session_id"),
        user_id=_first(grouping, "user_id"),
        service=_service(grouping),
        environment=_first(grouping, "environment"),
        service_version=_first(grouping, "service_version"),
        agent_version=_first(grouping, "agent_version"),
        started_ns=start,
        duration_s=max(0, end - start) / 1e9,
        first_received_ns=min((s.received_ns for s in spans), default=0),
        last_received_ns=max((s.received_ns for s in spans), default=0),
        status="error" if error is not None else "ok",
        error=error[0] if error is not None else None,
        input=content.input,
        output=content.output,
        flags=_flags(found, content, usage_source),
        tags=tuple(sorted({t for s in spans for t in s.tags})),
        metadata=_metadata(grouping),
        steps=steps,
        usage=usage,
        cost_usd=cost,
        cost_unknown_calls=unknown,
        models=_models(calls, nodes),
        system_prompt=content.system_prompt,
        tool_definitions=tool_definitions(nodes, calls),
        conversation=content.conversation,
        evaluations=_evaluations([*spans, *extra]),
        stitch_confidence=draft.confidence,
        dialects=tuple(sorted({s.dialect for s in spans})),
        embedding_tokens=add_usage(n.span.usage for n in embeddings).input_tokens,
        waiting_calls=len(found.waiting),
        provenance={**content.sources, "usage": usage_source, **({"error": error[1]} if error is not None else {})},
    )


def _spans_of(nodes: list[Node], calls: list[Call]) -> list[Span]:
    """The spans of a run, those of its calls in other traces among them."""
    spans = [n.span for n in nodes if not n.virtual]
    held = {s.trace_id for s in spans}
    return spans + [m.span for c in calls for m in c.members if m.span.trace_id not in held]


def _in_order(spans: list[Span], root: Node) -> list[Span]:
    """The run's spans by start, those of its own agent before those of sub-agents with ids of their own."""
    mine = {root.span.span_id}
    return sorted(spans, key=lambda s: (s.span_id not in mine, s.start_ns, s.span_id))


def _first(spans: list[Span], field: str) -> str | None:
    return next((str(v) for s in spans if (v := getattr(s, field))), None)


def _service(spans: list[Span]) -> str | None:
    return next(
        (s.service_name for s in spans if s.service_name and not s.service_name.startswith("unknown_service")), None
    )


def _agents(draft: Draft, nodes: list[Node]) -> tuple[str, ...]:
    """Names of all agents of the run in order of start."""
    named: list[str] = []
    any_named = any(n.kind is SpanKind.AGENT and n.span.agent_name for n in nodes)
    for node in sorted(nodes, key=lambda n: (n.effective_start, n.order)):
        if node.hidden:
            continue
        if node.kind is SpanKind.AGENT:
            label = agent_label(node) if node.span.agent_name or not any_named or not _is_wrapper(node) else None
        else:
            label = node.span.agent_name if node.kind is not SpanKind.WORKFLOW else None
        if label:
            named.append(label)
    unsaid = draft.root.kind in (SpanKind.WORKFLOW, SpanKind.CHAIN, SpanKind.UNKNOWN) and not draft.bare
    if unsaid and (not named or _all_below_tools(nodes)):
        label = agent_label(draft.root)
        named = [*([label] if label else []), *named]
    return tuple(dict.fromkeys(named))


def _all_below_tools(nodes: list[Node]) -> bool:
    """True when every agent of the run was called by a tool: the one that calls tools has no agent span."""
    agents = [n for n in nodes if n.kind is SpanKind.AGENT and not n.hidden]
    return bool(agents) and all(n.above_tool is not None for n in agents)


def _is_wrapper(node: Node) -> bool:
    """An unnamed agent span around named ones: a library's name for the whole (`Agent workflow`)."""
    return any(c.kind in (*_RANK, SpanKind.CHAIN) for c in node.children)


def _agent(draft: Draft, agents: tuple[str, ...], spans: list[Span]) -> str | None:
    root = draft.root
    if root.kind is SpanKind.AGENT and root.span.agent_name and agent_label(root):
        return agent_label(root)
    if agents:
        return agents[0]
    return root.span.agent_name or agent_name(root.span.name) if draft.anchored else _service(spans)


def _models(calls: list[Call], nodes: list[Node]) -> tuple[str, ...]:
    found: list[str] = []
    for call in calls:
        for member in call.members:
            found += [m for m in (member.span.model_response,) if m]
        if not any(m.span.model_response for m in call.members):
            found += [m.span.model_request for m in call.members if m.span.model_request][:1]
    # Some libraries name the model that answered on the span around the call only.
    around = [n.span.model_response for n in nodes if n.kind is not SpanKind.LLM and n.span.model_response]
    found += [m for m in around if any(m.startswith(f) for f in found)]
    if not calls:
        found += [n.span.model_response or n.span.model_request or "" for n in nodes if n.kind in _RANK]
    return tuple(dict.fromkeys(m for m in found if m))


# --- usage and cost


def _usage(nodes: list[Node], calls: list[Call]) -> tuple[Usage, str]:
    """Usage of the model calls; where none is known, what agents state for themselves."""
    total = add_usage(c.usage for c in calls)
    if total.known:
        return total, "model calls"
    stated = [n for n in nodes if n.kind not in (SpanKind.LLM, *_COUNTED) and n.span.usage.known and not n.hidden]
    outermost = _outermost(stated, nodes)
    if outermost:
        return add_usage(n.span.usage for n in outermost), "aggregate"
    return Usage(), "unknown"


def _outermost(some: list[Node], nodes: list[Node]) -> list[Node]:
    """Those of `some` with none of them above; `nodes` has parents first."""
    wanted, below = set(some), set[Node]()
    for node in nodes:
        if node.parent is not None and (node.parent in wanted or node.parent in below):
            below.add(node)
    return [n for n in some if n not in below]


def _cost(
    draft: Draft, steps: tuple[Step, ...], embeddings: list[Node], prices: Prices | None, *, aggregate: bool
) -> tuple[float | None, int]:
    calls = [s.model_call for s in steps if s.model_call is not None]
    known = [c.cost_usd for c in calls if c.cost_usd is not None]
    unknown = sum(1 for c in calls if c.cost_usd is None and not (c.failed and not c.usage.known))
    if not known:
        carried = [r.span.cost_carried for r in draft.roots if r.span.cost_carried is not None]
        if carried and (aggregate or not calls):
            return sum(carried), 0
    if prices is not None:
        for node in embeddings:
            price = price_of(Call(node, [node]), prices)
            known += [price.usd] if price is not None else []
    return (sum(known) if known else None), unknown


# --- flags, grouping, evaluations


def _flags(found: Findings, content: Content, usage_source: str) -> tuple[str, ...]:
    draft, nodes, calls = found.draft, found.nodes, found.calls
    flags = set(draft.flags)
    for node in nodes:
        flags |= node.flags
        flags |= set(node.span.flags)
    real = [n for n in nodes if n.kind in (*_RANK, SpanKind.LLM, SpanKind.TOOL)]
    if content.input is None and content.output is None and not any(e.result is not None for e in found.executions):
        flags.add("content_not_captured")
    if any(n.span.content == "truncated" for n in real):
        flags.add("truncated")
    if any(n.span.content == "redacted" for n in real):
        flags.add("redacted")
    if usage_source == "aggregate":
        flags.add("usage_aggregate")
    if calls and any(not c.usage.known and not c.failed for c in calls):
        flags.add("usage_partial")
    if _mismatch(draft, calls):
        flags.add("usage_mismatch")
    return tuple(sorted(flags))


def _mismatch(draft: Draft, calls: list[Call]) -> bool:
    stated = draft.root.span.usage.input_tokens
    total = add_usage(c.usage for c in calls).input_tokens
    if stated is None or total is None or draft.root.kind is SpanKind.LLM:
        return False
    return abs(stated - total) > max(1, _TOLERANCE * total)


def _metadata(spans: list[Span]) -> dict[str, Any] | None:
    merged: dict[str, Any] = {}
    seen: set[str] = set()
    for span in spans:
        if not span.metadata or span.metadata in seen:
            continue
        seen.add(span.metadata)
        merged = {**(as_object(parsed(span.metadata)) or {}), **merged}
    return merged or None


def _evaluations(spans: list[Span]) -> tuple[ReceivedEvaluation, ...]:
    found: dict[str, ReceivedEvaluation] = {}
    for span in spans:
        for value in as_list(parsed(span.evaluations)):
            item = as_object(value)
            if item is not None and item.get("name"):
                evaluation = _evaluation(item, span)
                found.setdefault(json.dumps([item, evaluation.span_id], sort_keys=True, default=str), evaluation)
    return tuple(found.values())


def _evaluation(item: dict[str, Any], span: Span) -> ReceivedEvaluation:
    score = item.get("score")
    target = item.get("target")
    return ReceivedEvaluation(
        name=str(item["name"]),
        value=float(score) if isinstance(score, (int, float)) else None,
        label=str(item["label"]) if item.get("label") is not None else None,
        explanation=str(item["explanation"]) if item.get("explanation") is not None else None,
        source=str(item.get("annotator") or span.scope_name),
        span_id=target if isinstance(target, str) and target else span.span_id,
        error=str(item["error"]) if item.get("error") else None,
    )
