"""Calls: each model call once, however many spans describe it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from evalspan_collector.assemble.node import Node
from evalspan_collector.assemble.tree import Trace
from evalspan_collector.span import Span, SpanKind, Usage

__all__ = ["CALL_SLACK_NS", "Call", "CallFacts", "call_facts", "could_be_one_call", "find_calls"]

#: How many earlier, still running calls are looked at for each call: bounds hostile traces.
_LOOK_BACK = 64
#: Two descriptions of one call may differ by this much in time.
CALL_SLACK_NS = 5_000_000


@dataclass(eq=False, slots=True)
class Call:
    """One model call.

    Attributes:
        lead: The span that stands for it in the tree: the outermost one.
        members: All spans that describe it, the lead first, then outer to inner.
    """

    lead: Node
    members: list[Node]
    _usage: Usage | None = None

    @property
    def failed(self) -> bool:
        """True when the call as its caller saw it failed."""
        return self.lead.span.is_error

    @property
    def usage(self) -> Usage:
        """Tokens as the innermost span counted them (nearest to the provider), gaps filled from outer ones."""
        if self._usage is not None:
            return self._usage
        usage = Usage()
        for node in reversed(self.members):
            own = node.span.usage
            if own.known and not usage.known:
                usage = own
            elif own.known:
                usage = _filled(usage, own)
        self._usage = usage
        return usage

    def first(self, field: str) -> object:
        """The first value that a member states for a span field, outer spans first; None when none does."""
        for node in self.members:
            value: object = getattr(node.span, field)
            if value not in (None, "", ()):
                return value
        return None


def _filled(usage: Usage, other: Usage) -> Usage:
    def known(one: int | None, two: int | None, limit: int | None) -> int | None:
        # A detail of another instrumentation is taken only where it can be a part of this total.
        return two if one is None and two is not None and (limit is None or two <= limit) else one

    return Usage(
        input_tokens=known(usage.input_tokens, other.input_tokens, None),
        output_tokens=known(usage.output_tokens, other.output_tokens, None),
        cache_read_tokens=known(usage.cache_read_tokens, other.cache_read_tokens, usage.input_tokens),
        cache_write_tokens=known(usage.cache_write_tokens, other.cache_write_tokens, usage.input_tokens),
        reasoning_tokens=known(usage.reasoning_tokens, other.reasoning_tokens, usage.output_tokens),
    )


class _Groups:
    """Union-find over nodes: which spans describe one call."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._up: dict[Node, Node] = {n: n for n in nodes}

    def find(self, node: Node) -> Node:
        up = self._up
        while up[node] is not node:
            up[node] = up[up[node]]
            node = up[node]
        return node

    def join(self, one: Node, other: Node) -> None:
        a, b = self.find(one), self.find(other)
        if a is not b:
            low, high = (a, b) if a.key <= b.key else (b, a)
            self._up[high] = low

    def sets(self) -> list[list[Node]]:
        sets: dict[Node, list[Node]] = defaultdict(list)
        for node in self._up:
            sets[self.find(node)].append(node)
        return list(sets.values())


def find_calls(traces: Iterable[Trace], loose: frozenset[str]) -> list[Call]:
    """Every model call of the traces, once.

    Args:
        traces: Trees of the traces, settled.
        loose: Ids of traces that hold model calls and nothing that runs them; such a trace may be the
            second description of a call in another trace.

    Returns:
        The calls in order of start.
    """
    nodes = [n for t in traces for n in t.nodes.values() if n.kind is SpanKind.LLM and not n.hidden]
    nodes.sort(key=lambda n: n.key)
    groups = _Groups(nodes)
    above = {n: n.above_call for n in nodes}
    _join_by_response_id(nodes, groups)
    _join_beside(nodes, groups, loose)
    wrappers = _join_above(above, groups)
    calls: list[Call] = []
    for members in groups.sets():
        members = [m for m in members if m not in wrappers]  # noqa: PLW2901 - the rest of the same set
        if members:
            members.sort(key=lambda n: (n.span.trace_id in loose, n.start, -n.end, n.order, n.key))
            calls.append(Call(members[0], members))
    for node in wrappers:
        node.hidden = True
    return sorted(_real(calls), key=lambda c: c.lead.key)


def _join_by_response_id(nodes: list[Node], groups: _Groups) -> None:
    by_id: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.span.response_id:
            by_id[node.span.response_id].append(node)
    for same in by_id.values():
        for one, other in pairwise(same):
            # The provider's ids are unique; those of caches and of fakes are not, so the times must agree too.
            if other.start <= one.end + CALL_SLACK_NS:
                groups.join(one, other)


def _join_beside(nodes: list[Node], groups: _Groups, loose: frozenset[str]) -> None:
    """Join a call with the one around it in time that another library recorded, not above it in the tree."""
    running: list[Node] = []
    taken: set[tuple[Node, str]] = set()
    for node in nodes:
        running = [n for n in running if n.end + CALL_SLACK_NS >= node.start][-_LOOK_BACK:]
        fits = [n for n in running if _is_beside(n, node, loose) and (n, node.span.scope_name) not in taken]
        fits = [n for n in fits if groups.find(n) is not groups.find(node)]
        if fits:
            best = min(fits, key=lambda n: (_distance(n, node), n.key))
            groups.join(best, node)
            taken.add((best, node.span.scope_name))
            taken.add((node, best.span.scope_name))
        running.append(node)


def _is_beside(outer: Node, inner: Node, loose: frozenset[str]) -> bool:
    one, two = outer.span, inner.span
    if one.scope_name == two.scope_name or one.project != two.project:
        return False
    if not (outer.contains(inner) or inner.contains(outer)):
        return False
    if one.trace_id == two.trace_id:
        related = inner.is_below(outer) or outer.is_below(inner)
        return not related and _alike(one, two)
    apart = one.trace_id in loose or two.trace_id in loose
    return apart and one.service_instance_id == two.service_instance_id and _alike(one, two)


class CallFacts(NamedTuple):
    """What a span says of its call that two descriptions of one call must agree in."""

    response_id: str | None
    failed: bool
    output_tokens: int | None
    model: str | None


def call_facts(span: Span) -> CallFacts:
    """Those of one span."""
    return CallFacts(
        span.response_id, span.is_error, span.usage.output_tokens, span.model_response or span.model_request
    )


def could_be_one_call(one: CallFacts, two: CallFacts) -> bool:
    """True unless a fact of the two spans speaks against their being one call."""
    if one.response_id and two.response_id and one.response_id != two.response_id:
        return False
    if one.failed != two.failed:
        return False
    if one.output_tokens is not None and two.output_tokens is not None:
        return one.output_tokens == two.output_tokens
    models = [m for m in (one.model, two.model) if m]
    return len(models) < 2 or _same_model(*models)


def _alike(one: Span, two: Span) -> bool:
    return could_be_one_call(call_facts(one), call_facts(two))


def _same_model(one: str, two: str) -> bool:
    one, two = (m.rsplit("/", 1)[-1].lower() for m in (one, two))
    return one.startswith(two) or two.startswith(one)


def _distance(outer: Node, inner: Node) -> tuple[bool, bool, int]:
    same_id = bool(outer.span.response_id) and outer.span.response_id == inner.span.response_id
    return (not same_id, outer.parent is not inner.parent, abs(outer.start - inner.start) + abs(outer.end - inner.end))


def _join_above(above: dict[Node, Node | None], groups: _Groups) -> set[Node]:
    """Join a call with the one span above it that describes it too.

    Returns:
        Spans above several calls: wrappers, whose usage is only a sum.
    """
    inside: dict[Node, list[Node]] = defaultdict(list)
    for node, outer in above.items():
        if outer is not None:
            inside[outer].append(node)
    wrappers: set[Node] = set()
    for outer in sorted(inside, key=lambda n: (-n.order, n.key)):
        below = sorted(inside[outer], key=lambda n: n.key)
        done = [n for n in below if not n.span.is_error]
        kinds = {groups.find(n) for n in (done or below[-1:])}
        if len(kinds) == 1:
            groups.join(outer, (done or below)[-1])
        else:
            wrappers.add(outer)
    return wrappers


def _real(calls: list[Call]) -> list[Call]:
    """Without spans that only prepare a call: no sign of an answer, another name than the calls that have one."""
    shown: dict[tuple[str, str], set[str]] = defaultdict(set)
    for call in calls:
        if _was_answered(call):
            for node in call.members:
                shown[(node.span.trace_id, node.span.scope_name)].add(node.span.name)
    kept: list[Call] = []
    for call in calls:
        span = call.lead.span
        names = shown.get((span.trace_id, span.scope_name), set())
        if names and not call.failed and not _was_answered(call) and span.name not in names:
            call.lead.hidden = True
            continue
        kept.append(call)
    return kept


def _was_answered(call: Call) -> bool:
    return call.usage.known or call.first("response_id") is not None or call.first("finish_reasons") is not None
