"""Tools: every execution of a tool once, from spans, from messages, or from both."""

import json
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.failure import parsed, says_failed
from evalspan_collector.assemble.names import agent_name, bare_name, is_pseudo_tool, same_tool, tool_name
from evalspan_collector.assemble.node import Node, ancestors
from evalspan_collector.assemble.reading import Reader, last_user_index
from evalspan_collector.message import Message, Part
from evalspan_collector.messages import loads
from evalspan_collector.span import Span, SpanKind

__all__ = ["Execution", "find_executions", "owner"]

_SLACK_NS = 5_000_000
#: How many candidates a match looks at: bounds hostile traces.
_LOOK_BACK = 32
_RANK = (SpanKind.AGENT, SpanKind.WORKFLOW)


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


def owner(node: Node) -> Node | None:
    """The nearest agent or workflow at or above `node`."""
    if node.kind in _RANK and not node.hidden:
        return node
    return next((a for a in ancestors(node) if a.kind in _RANK and not a.hidden), None)


def find_executions(nodes: list[Node], calls: list[Call], reader: Reader, *, died: bool = False) -> list[Execution]:
    """The executions of one run, in order of start.

    Args:
        nodes: Nodes of the run, parents first.
        calls: Its model calls in order.
        reader: Reads messages.
        died: The run's root never came: what the model asked for last was running when the process ended.
    """
    executions = _from_spans(nodes)
    requests = _requests(calls, reader)
    _claim(executions, requests)
    executions = [e for e in executions if not _never_ran(e)]
    agents = {agent_name(n.span.name) for n in nodes if n.kind is SpanKind.AGENT}
    agents |= {n.span.agent_name for n in nodes if n.kind is SpanKind.AGENT}
    by_span = any(not e.pseudo for e in executions)
    offered = _offered(calls, nodes)
    _mark_followed(requests, calls)
    for request in requests:
        if not request.claimed and _ran(request, by_span=by_span, agents=agents, offered=offered):
            executions.append(_from_request(request))
        elif died and _was_running(request, offered):
            executions.append(_unfinished(request))
    if not executions and not requests:
        executions = _from_histories(nodes, calls, reader)
    for execution in executions:
        _judge(execution)
    executions.sort(key=lambda e: (e.start, e.request.index if e.request else 0, e.nodes[0].order if e.nodes else 0))
    _number_attempts(executions)
    return executions


# --- from spans


def _from_spans(nodes: Iterable[Node]) -> list[Execution]:
    by_node: dict[Node, Execution] = {}
    found: list[Execution] = []
    for node in nodes:
        if node.hidden or not _is_tool(node):
            continue
        around = _tool_around(node)
        outer = by_node.get(around) if around is not None else None
        if outer is not None and (same_tool(outer.name, _name(node.span)) or _is_mcp(node.span)):
            outer.nodes.append(node)
            by_node[node] = outer
            continue
        if outer is not None and around is not None and _is_container(around.span):
            found.remove(outer)
        execution = Execution(_name(node.span), [node], owner=owner(node))
        by_node[node] = execution
        found.append(execution)
    return [_filled(e) for e in _joined_mcp(found)]


def _is_tool(node: Node) -> bool:
    if node.kind is SpanKind.TOOL:
        return True
    return node.kind is SpanKind.MCP and "tools/call" in node.span.name


def _is_mcp(span: Span) -> bool:
    return span.tool_type == "mcp" or span.dialect == "mcp" or "tools/call" in span.name


def _tool_around(node: Node) -> Node | None:
    for above in ancestors(node):
        if _is_tool(above):
            return above
        if above.kind in (*_RANK, SpanKind.LLM):
            return None
    return None


def _is_container(span: Span) -> bool:
    """A span of the machinery that runs tools, named after its class."""
    return span.tool_name is None and span.tool_arguments is None and span.name in _MACHINERY


_MACHINERY = frozenset({"tools", "ToolNode", "running tools", "Tool Usage", "tool_executor", "FunctionTool"})


def _name(span: Span) -> str:
    return tool_name(span.tool_name or span.name, dialect=span.dialect)


def _joined_mcp(found: list[Execution]) -> list[Execution]:
    """Without the second view of one call at another place of the tree (MCP spans beside a tool span)."""
    kept: list[Execution] = []
    own: dict[str, list[Execution]] = defaultdict(list)
    for execution in sorted(found, key=lambda e: e.nodes[0].key):
        if not _is_mcp(execution.nodes[0].span):
            own[bare_name(execution.name)].append(execution)
    for execution in found:
        outer = _around(execution, own[bare_name(execution.name)]) if _is_mcp(execution.nodes[0].span) else None
        if outer is not None:
            outer.nodes.extend(execution.nodes)
        else:
            kept.append(execution)
    return kept


def _around(execution: Execution, others: list[Execution]) -> Execution | None:
    node = execution.nodes[0]
    until = bisect_right(others, node.start + _SLACK_NS, key=lambda e: e.nodes[0].start)
    near = others[max(0, until - _LOOK_BACK) : until]
    return next((e for e in near if e.nodes[0].contains(node) and len(e.nodes) == 1), None)


def _filled(execution: Execution) -> Execution:
    for node in execution.nodes:
        span = node.span
        execution.call_id = execution.call_id or span.tool_call_id
        execution.tool_type = execution.tool_type or span.tool_type
        if execution.arguments is None and span.tool_arguments is not None:
            execution.arguments = parsed(span.tool_arguments)
        if execution.result is None:
            execution.result = _result(span)
        if span.is_error and not execution.failed:
            execution.failed = True
            execution.error = span.error_message or span.status_message or span.error_type
    first = execution.nodes[0]
    execution.start, execution.end = first.start, first.end
    execution.pseudo = is_pseudo_tool(execution.name) or is_pseudo_tool(first.span.name)
    return execution


def _result(span: Span) -> Any:
    """The result of a tool span, also of a decorated function that says it in another field."""
    for text in (span.tool_result, span.output_value, span.attributes.get("gen_ai.output.messages")):
        if text is not None:
            return parsed(text)
    answers = loads(span.output_messages, "assistant")
    return parsed(answers[-1].text) if answers and answers[-1].text else None


# --- from messages


def _requests(calls: list[Call], reader: Reader) -> list[Request]:
    """What the models asked for, each with its answer from the messages that later calls were given."""
    requests: list[Request] = []
    known: set[str] = set()
    for call in calls:
        parts = [p for m in reader.output_of(call) for p in m.tool_calls]
        for index, part in enumerate(parts):
            if part.id and part.id in known:
                continue
            known.add(part.id or "")
            requests.append(Request(part, call, index, owner(call.lead)))
    by_id, unnamed = _answers(calls, reader)
    for request in requests:
        part = request.part
        if part.id and part.id in by_id:
            request.response = by_id[part.id]
        elif answers := unnamed.get(_signature(part)):
            request.response = answers.pop(0)
    _answer_in_order(requests, calls, reader)
    return requests


def _answer_in_order(requests: list[Request], calls: list[Call], reader: Reader) -> None:
    """Pair answers whose ids nobody asked for with open requests in order: some libraries rename the ids."""
    asked = {r.part.id for r in requests}
    stray: dict[str, Part] = {}
    for call in calls:
        messages = reader.input_of(call)
        known = {p.id for m in messages for p in m.tool_calls}
        for part in (p for m in messages for p in m.tool_responses):
            if part.id and part.id not in asked and part.id not in known:
                stray.setdefault(part.id, part)
    waiting = [r for r in requests if r.response is None and not r.part.server_side]
    if len(stray) > len(waiting):
        return
    for request, part in zip(waiting, stray.values(), strict=False):
        request.response = part


def _mark_followed(requests: list[Request], calls: list[Call]) -> None:
    """A request was followed when the same agent asked its model again: it had the tool's answer by then."""
    last: dict[Node | None, int] = {}
    for call in calls:
        top = owner(call.lead)
        last[top] = max(last.get(top, 0), call.lead.start)
    for request in requests:
        request.followed = last.get(request.owner, 0) >= request.call.lead.end


def _was_running(request: Request, offered: set[str]) -> bool:
    known = not offered or request.name in offered
    return not request.followed and request.response is None and known and not is_pseudo_tool(request.name)


def _unfinished(request: Request) -> Execution:
    execution = _from_request(request)
    execution.failed = True
    execution.error = "did not finish: the process ended while the tool ran"
    return execution


def _signature(part: Part) -> str:
    return f"{part.name}\0{_canonical(part.arguments)}"


def _canonical(value: Any) -> str:
    return json.dumps(parsed(value), sort_keys=True, default=str)


def _answers(calls: list[Call], reader: Reader) -> tuple[dict[str, Part], dict[str, list[Part]]]:
    """Tool responses by call id, and those without an id by what was called, in order."""
    by_id: dict[str, Part] = {}
    longest: dict[str, list[Part]] = {}
    seen: set[int] = set()
    for call in calls:
        for messages in (reader.input_of(call), reader.output_of(call)):
            for message in messages:
                for part in message.tool_responses:
                    if part.id:
                        by_id.setdefault(part.id, part)
            if id(messages) in seen:
                continue
            seen.add(id(messages))
            for signature, parts in _paired(messages).items():
                if len(parts) > len(longest.get(signature, [])):
                    longest[signature] = parts
    return by_id, longest


def _paired(messages: tuple[Message, ...]) -> dict[str, list[Part]]:
    """Responses that carry no id, paired with the calls before them by name, else by order."""
    pairs: dict[str, list[Part]] = defaultdict(list)
    waiting: list[Part] = []
    for message in messages:
        waiting.extend(p for p in message.tool_calls)
        for response in message.tool_responses:
            if response.id or not waiting:
                continue
            named = next((p for p in waiting if response.name and p.name == response.name), waiting[0])
            waiting.remove(named)
            pairs[_signature(named)].append(response)
    return pairs


def _claim(executions: list[Execution], requests: list[Request]) -> None:
    """Match executions with requests: by call id, else by name and arguments, else by name in order."""
    by_id = {r.part.id: r for r in requests if r.part.id}
    by_call: dict[str, deque[Request]] = defaultdict(deque)
    by_name: dict[str, deque[Request]] = defaultdict(deque)
    for request in requests:
        arguments = parsed(request.part.arguments)
        by_call[f"{bare_name(request.name)}\0{_canonical(arguments)}"].append(request)
        if isinstance(arguments, dict) and len(arguments) == 1:
            by_call[f"{bare_name(request.name)}\0{_canonical(next(iter(arguments.values())))}"].append(request)
        by_name[bare_name(request.name)].append(request)
    for execution in executions:
        match = by_id.get(execution.call_id) if execution.call_id else None
        if match is not None and not match.claimed:
            _take(execution, match)
    left = sorted((e for e in executions if e.request is None), key=lambda e: e.start)
    for execution in left:
        if execution.arguments is not None:
            key = f"{bare_name(execution.name)}\0{_canonical(execution.arguments)}"
            _take_first(execution, by_call.get(key))
    for execution in left:
        if execution.request is None:
            _take_first(execution, by_name.get(bare_name(execution.name)))


def _take_first(execution: Execution, queue: deque[Request] | None) -> None:
    while queue and queue[0].claimed:
        queue.popleft()
    for request in islice(queue or (), _LOOK_BACK):
        if not request.claimed and _in_time(request, execution):
            _take(execution, request)
            return


def _in_time(request: Request, execution: Execution) -> bool:
    if execution.call_id and request.part.id and execution.call_id != request.part.id:
        return False
    return request.call.lead.start <= execution.start + _SLACK_NS


def _take(execution: Execution, request: Request) -> None:
    request.claimed = True
    execution.request = request
    execution.call_id = execution.call_id or request.part.id
    asked = parsed(request.part.arguments)
    if execution.arguments is None or _is_lone_value(execution.arguments, asked):
        execution.arguments = asked
    response = request.response
    if response is None:
        return
    if execution.result is None and response.response is not None:
        execution.result = parsed(response.response)
    if response.is_error and not execution.failed:
        execution.failed = True
        execution.error = says_failed(response.response) or _text(response.response)


def _is_lone_value(own: Any, asked: Any) -> bool:
    """Some libraries record the only argument by its value alone; the request has its name too."""
    return isinstance(asked, dict) and len(asked) == 1 and not isinstance(own, dict) and own == next(iter(asked.values()))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _ran(request: Request, *, by_span: bool, agents: set[str | None], offered: set[str]) -> bool:
    """True when messages show that a request was carried out, though no span does."""
    if request.part.server_side:
        return True
    if _is_cut(request.part.arguments) or request.name in agents:
        return False
    if offered and request.name not in offered:
        return False
    if request.response is None:
        return request.followed and not by_span
    failed = bool(request.response.is_error) or says_failed(request.response.response) is not None
    return not (by_span and failed)


def _is_cut(arguments: Any) -> bool:
    """Arguments that were meant to be JSON and are none: nothing can have been called with them."""
    if isinstance(arguments, dict) and len(arguments) == 1 and next(iter(arguments)) in ("raw", "_raw"):
        arguments = next(iter(arguments.values()))
    return isinstance(arguments, str) and arguments.lstrip()[:1] in ("{", "[") and isinstance(parsed(arguments), str)


def _never_ran(execution: Execution) -> bool:
    request = execution.request
    asked = request.part.arguments if request is not None else None
    return execution.failed and (_is_cut(execution.arguments) or _is_cut(asked))


def _from_request(request: Request) -> Execution:
    start = request.call.lead.end
    execution = Execution(
        tool_name(request.name, dialect=request.call.lead.span.dialect),
        start=start,
        observed="message",
        tool_type="builtin" if request.part.server_side else None,
        owner=request.owner,
        pseudo=is_pseudo_tool(request.name),
    )
    _take(execution, request)
    return execution


def _from_histories(nodes: list[Node], calls: list[Call], reader: Reader) -> list[Execution]:
    """Executions that only a history shows: no model call and no tool span of the run carries them."""
    texts = [(n, n.span.input_messages) for n in nodes if n.kind in _RANK]
    texts += [(n, n.span.output_messages) for n in nodes if n.kind in _RANK]
    texts += [(c.lead, c.lead.span.input_messages) for c in calls]
    found: dict[str, Execution] = {}
    for node, text in texts:
        messages = reader.messages(text)
        begin = last_user_index(messages) or 0
        for execution in _from_history(node, messages[begin:]):
            signature = execution.call_id or f"{execution.name}\0{_canonical(execution.arguments)}"
            found.setdefault(signature, execution)
    return list(found.values())


def _from_history(node: Node, messages: tuple[Message, ...]) -> list[Execution]:
    waiting: list[Part] = []
    found: list[Execution] = []
    for message in messages:
        waiting.extend(message.tool_calls)
        for response in message.tool_responses:
            part = next((p for p in waiting if p.id == response.id), None)
            if part is None or _is_cut(part.arguments):
                continue
            waiting.remove(part)
            failed = bool(response.is_error)
            found.append(
                Execution(
                    tool_name(part.name or ""),
                    call_id=part.id,
                    arguments=parsed(part.arguments),
                    result=parsed(response.response),
                    failed=failed,
                    error=_text(response.response) if failed else None,
                    start=node.start,
                    observed="message",
                    owner=owner(node),
                    pseudo=is_pseudo_tool(part.name or ""),
                )
            )
    return found


def _offered(calls: list[Call], nodes: list[Node]) -> set[str]:
    """Names of the tools that any model of the run was offered; empty when unknown."""
    names: set[str] = set()
    for span in [n.span for c in calls for n in c.members] + [n.span for n in nodes if n.kind in _RANK]:
        definitions = parsed(span.tool_definitions)
        if isinstance(definitions, list):
            names |= {str(d["name"]) for d in definitions if isinstance(d, dict) and d.get("name")}
    return names


# --- verdicts


def _judge(execution: Execution) -> None:
    if execution.failed or execution.result is None:
        return
    message = says_failed(execution.result)
    if message is not None:
        execution.failed = True
        execution.error = message


def _number_attempts(executions: list[Execution]) -> None:
    """A call like one that failed before it is its next attempt."""
    failed: dict[str, int] = {}
    for execution in executions:
        signature = f"{execution.name}\0{_canonical(execution.arguments)}"
        execution.attempt = failed.get(signature, 0) + 1
        if execution.failed:
            failed[signature] = execution.attempt
        else:
            failed.pop(signature, None)
