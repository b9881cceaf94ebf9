"""Tools: every execution of a tool once, from spans, from messages, or from both."""

import json
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import islice
from typing import Any

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.execution import Execution, Request, owner
from evalspan_collector.assemble.failure import as_list, as_object, parsed, says_failed
from evalspan_collector.assemble.names import agent_name, bare_name, is_pseudo_tool, same_tool, tool_name
from evalspan_collector.assemble.node import RANK, Node
from evalspan_collector.assemble.reading import Reader, last_user_index
from evalspan_collector.assemble.requests import canonical, mark_followed, requests_of
from evalspan_collector.lenient_json import parse_object
from evalspan_collector.message import Message, Part
from evalspan_collector.messages import loads
from evalspan_collector.span import Span, SpanKind

__all__ = ["find_executions"]

_SLACK_NS = 5_000_000
#: How many candidates a match looks at: bounds hostile traces.
_LOOK_BACK = 32


def _was_running(request: Request, offered: set[str]) -> bool:
    known = not offered or request.name in offered
    return not request.followed and request.response is None and known and not is_pseudo_tool(request.name)


def _unfinished(request: Request) -> Execution:
    execution = _from_request(request)
    execution.failed = True
    execution.error = "did not finish: the process ended while the tool ran"
    return execution


def find_executions(nodes: list[Node], calls: list[Call], reader: Reader, *, died: bool = False) -> list[Execution]:
    """The executions of one run, in order of start.

    Args:
        nodes: Nodes of the run, parents first.
        calls: Its model calls in order.
        reader: Reads messages.
        died: The run's root never came: what the model asked for last was running when the process ended.
    """
    executions = _from_spans(nodes)
    requests = requests_of(calls, reader)
    _claim(executions, requests)
    executions = [e for e in executions if not _never_ran(e)]
    agents = {agent_name(n.span.name) for n in nodes if n.kind is SpanKind.AGENT}
    agents |= {n.span.agent_name for n in nodes if n.kind is SpanKind.AGENT}
    by_span = any(not e.pseudo for e in executions)
    offered = _offered(calls, nodes)
    mark_followed(requests, calls)
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
    arounds: dict[Node, Node | None] = {}
    containers: set[Execution] = set()
    for node in nodes:
        around = arounds[node] = _around(node, arounds)
        if node.hidden or not _is_tool(node):
            continue
        outer = by_node.get(around) if around is not None else None
        if outer is not None and (same_tool(outer.name, _name(node.span)) or _is_mcp(node.span)):
            outer.nodes.append(node)
            by_node[node] = outer
            continue
        if outer is not None and around is not None and _is_container(around.span):
            containers.add(outer)
        execution = Execution(_name(node.span), [node], owner=owner(node))
        by_node[node] = execution
        found.append(execution)
    return [_filled(e) for e in _joined_mcp([e for e in found if e not in containers])]


def _is_tool(node: Node) -> bool:
    if node.kind is SpanKind.TOOL:
        return True
    return node.kind is SpanKind.MCP and "tools/call" in node.span.name


def _is_mcp(span: Span) -> bool:
    return span.tool_type == "mcp" or span.dialect == "mcp" or "tools/call" in span.name


def _around(node: Node, known: dict[Node, Node | None]) -> Node | None:
    """The tool span around `node`, unless an agent or a model call lies in between."""
    parent = node.parent
    if parent is None or parent.kind in RANK or parent.kind is SpanKind.LLM:
        return None
    return parent if _is_tool(parent) else known.get(parent)


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
        outer = _seen_elsewhere(execution, own[bare_name(execution.name)]) if _is_mcp(execution.nodes[0].span) else None
        if outer is not None:
            outer.nodes.extend(execution.nodes)
        else:
            kept.append(execution)
    return kept


def _seen_elsewhere(execution: Execution, others: list[Execution]) -> Execution | None:
    node = execution.nodes[0]
    until = bisect_right(others, node.start + _SLACK_NS, key=lambda e: e.nodes[0].start)
    near = others[max(0, until - _LOOK_BACK) : until]
    return next((e for e in near if e.nodes[0].contains(node) and len(e.nodes) == 1), None)


def _filled(execution: Execution) -> Execution:
    for node in execution.nodes:
        span = node.span
        execution.call_id = execution.call_id or span.tool_call_id
        execution.tool_type = execution.tool_type or span.tool_type
        if execution.arguments is None:
            execution.arguments = _arguments(span)
        if execution.result is None:
            execution.result = _result(span)
        if span.is_error and not execution.failed:
            execution.failed = True
            execution.error = span.error_message or span.status_message or span.error_type
    first = execution.nodes[0]
    execution.start, execution.end = first.start, first.end
    execution.pseudo = is_pseudo_tool(execution.name) or is_pseudo_tool(first.span.name)
    return execution


def _arguments(span: Span) -> Any:
    """The arguments of a tool span; those of a decorated function may be a Python repr."""
    if span.tool_arguments is not None:
        return parsed(span.tool_arguments)
    if span.kind is SpanKind.TOOL or span.input_value is None:
        return None
    return parse_object(span.input_value)


def _result(span: Span) -> Any:
    """The result of a tool span, also of a decorated function that says it in another field."""
    for text in (span.tool_result, span.output_value, span.attributes.get("gen_ai.output.messages")):
        if text is not None:
            return parsed(text)
    answers = loads(span.output_messages, "assistant")
    return parsed(answers[-1].text) if answers and answers[-1].text else None


# --- matching


def _claim(executions: list[Execution], requests: list[Request]) -> None:
    """Match executions with requests: by call id, else by name and arguments, else by name in order."""
    by_id = {r.part.id: r for r in requests if r.part.id}
    by_call: dict[str, deque[Request]] = defaultdict(deque)
    by_name: dict[str, deque[Request]] = defaultdict(deque)
    for request in requests:
        arguments = parsed(request.part.arguments)
        by_call[f"{bare_name(request.name)}\0{canonical(arguments)}"].append(request)
        fields = as_object(arguments)
        if fields is not None and len(fields) == 1:
            by_call[f"{bare_name(request.name)}\0{canonical(next(iter(fields.values())))}"].append(request)
        by_name[bare_name(request.name)].append(request)
    for execution in executions:
        match = by_id.get(execution.call_id) if execution.call_id else None
        if match is not None and not match.claimed:
            _take(execution, match)
    left = sorted((e for e in executions if e.request is None), key=lambda e: e.start)
    for execution in left:
        if execution.arguments is not None:
            key = f"{bare_name(execution.name)}\0{canonical(execution.arguments)}"
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
    fields = as_object(asked) or {}
    return len(fields) == 1 and as_object(own) is None and bool(own == next(iter(fields.values())))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _ran(request: Request, *, by_span: bool, agents: set[str | None], offered: set[str]) -> bool:
    """True when messages show that a request was carried out, though no span does."""
    if request.part.server_side:
        return True
    if _is_cut(request.part.arguments) or _ends_cut(request) or request.name in agents:
        return False
    if offered and request.name not in offered:
        return False
    if request.response is None:
        return request.followed and not by_span
    failed = bool(request.response.is_error) or says_failed(request.response.response) is not None
    return not (by_span and failed)


def _is_cut(arguments: Any) -> bool:
    """Arguments that were meant to be JSON and are none: nothing can have been called with them."""
    fields = as_object(arguments)
    if fields is not None and len(fields) == 1:
        arguments = fields.get("raw", fields.get("_raw"))
    return isinstance(arguments, str) and arguments.lstrip()[:1] in ("{", "[") and isinstance(parsed(arguments), str)


def _ends_cut(request: Request) -> bool:
    """The answer was cut off inside this request, so its arguments (not captured) were never whole."""
    if request.part.arguments is not None or request.response is not None:
        return False
    reasons = {r for n in request.call.members for r in n.span.finish_reasons}
    return bool(reasons & {"length", "max_tokens", "MAX_TOKENS"})


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
    holders = [n for n in nodes if n.kind in RANK or n.kind is SpanKind.CHAIN]
    texts = [(n, t) for n in holders for t in (n.span.input_messages, n.span.output_messages)]
    texts += [(c.lead, c.lead.span.input_messages) for c in calls]
    # Haystack's agent says what happened only in its generic output.
    texts += [(n, n.span.output_value) for n in holders if "tool_call" in (n.span.output_value or "")]
    found: dict[str, Execution] = {}
    for node, text in texts:
        messages = reader.messages(text)
        begin = last_user_index(messages) or 0
        for execution in _from_history(node, messages[begin:]):
            signature = execution.call_id or f"{execution.name}\0{canonical(execution.arguments)}"
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
    for span in [n.span for c in calls for n in c.members] + [n.span for n in nodes if n.kind in RANK]:
        definitions = [as_object(d) for d in as_list(parsed(span.tool_definitions))]
        names |= {str(d["name"]) for d in definitions if d and d.get("name")}
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
        signature = f"{execution.name}\0{canonical(execution.arguments)}"
        execution.attempt = failed.get(signature, 0) + 1
        if execution.failed:
            failed[signature] = execution.attempt
        else:
            failed.pop(signature, None)
