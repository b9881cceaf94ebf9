"""Content: what a run was asked, what it answered, and what was said in between."""

import json
import re
from typing import Any

from evalspan_collector.assemble.calls import Call
from evalspan_collector.assemble.execution import Execution, Findings, owner
from evalspan_collector.assemble.failure import as_list, as_object, parsed
from evalspan_collector.assemble.names import is_pseudo_tool
from evalspan_collector.assemble.node import Node
from evalspan_collector.assemble.reading import Reader, last_user_index
from evalspan_collector.message import Message, Part, Role
from evalspan_collector.messages import last_text
from evalspan_collector.run import ToolDefinition
from evalspan_collector.span import SpanKind

__all__ = ["Content", "content_of", "plain_input", "plain_output", "tool_definitions"]

_INPUT_KEYS = (
    "input", "query", "question", "prompt", "user_prompt", "user_input", "user_message", "user_msg", "task",
    "message", "messages", "content", "text", "inputs", "request", "data", "kwargs", "args", "value",
)  # fmt: skip
_OUTPUT_KEYS = (
    "output", "final_output", "answer", "response", "result", "final_answer", "final_result", "content", "text",
    "message", "messages", "outputs", "raw", "replies", "last_message", "generated_text", "value", "data", "return",
)  # fmt: skip
_ROLES_OF_USERS = frozenset({"user", "human"})
_ROLES_OF_MODELS = frozenset({"assistant", "ai", "model"})
_HIDDEN = frozenset({"__REDACTED__", "[REDACTED]", "<REDACTED>"})


class Content:
    """Input, output and conversation of one run."""

    __slots__ = ("conversation", "input", "output", "sources", "system_prompt")

    def __init__(self) -> None:
        self.input: str | None = None
        self.output: str | None = None
        self.conversation: tuple[Message, ...] = ()
        self.system_prompt: str | None = None
        self.sources: dict[str, str] = {}


def content_of(found: Findings) -> Content:
    """Find what the run was asked and what it answered, and say in `sources` where it stood."""
    content = Content()
    tops = _tops(found)
    own = [c for c in found.calls if c.lead.above_tool is None] or found.calls
    for name, finders in (("input", _INPUT_FINDERS), ("output", _OUTPUT_FINDERS)):
        for source, find in finders:
            text = find(tops, own, found)
            if text and text.strip() and text.strip() not in _HIDDEN:
                setattr(content, name, text)
                content.sources[name] = source
                break
    content.conversation = _conversation(own, tops, found.reader)
    content.system_prompt = _system_prompt(own, tops, found.calls)
    return content


def _tops(found: Findings) -> list[Node]:
    """The spans that can speak for the whole run: its root, then single wrappers below it, outermost first."""
    draft = found.draft
    tops: list[Node] = list(draft.roots[:1])
    at = tops[0]
    while len(draft.roots) == 1:
        inner = [
            c for c in at.children if c.kind in (SpanKind.AGENT, SpanKind.WORKFLOW, SpanKind.CHAIN) and not c.hidden
        ]
        busy = [c for c in at.children if c.kind in (SpanKind.LLM, SpanKind.TOOL) and not c.hidden]
        if len(inner) != 1 or busy:
            break
        at = inner[0]
        tops.append(at)
    if len(draft.roots) > 1:
        tops = [n for n in found.nodes if n.kind is SpanKind.AGENT and not n.hidden] or tops
    return tops


# --- finders: each returns text or None


def _stated_input(tops: list[Node], _own: list[Call], _found: Findings) -> str | None:
    return next((plain_input(n.span.run_input) for n in tops if n.span.run_input), None)


def _top_messages_input(tops: list[Node], _own: list[Call], found: Findings) -> str | None:
    for node in tops:
        if node.kind is not SpanKind.LLM:
            text = _last_user_text(found.reader.messages(node.span.input_messages))
            if text:
                return text
    return None


def _first_call_input(_spans: list[Node], own: list[Call], found: Findings) -> str | None:
    for call in own[:3]:
        text = _last_user_text(found.reader.input_of(call))
        if text:
            return text
    return None


def _top_value_input(tops: list[Node], own: list[Call], found: Findings) -> str | None:
    """The root's generic input; of it, exactly what the first model call shows to be the user's words."""
    asked = _first_call_input(tops, own, found)
    for node in tops:
        raw = node.span.input_value
        text = plain_input(raw)
        if raw and text:
            return asked if asked and _holds(raw, asked) else text
    return None


def _holds(raw: str, text: str) -> bool:
    """True when a generic value contains a text, be it JSON-escaped or in a Python repr."""
    if text in raw:
        return True
    return any(
        form in raw for form in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1])
    )


def _stated_output(tops: list[Node], _own: list[Call], _found: Findings) -> str | None:
    return next((plain_output(n.span.run_output) for n in tops if n.span.run_output), None)


def _top_messages_output(tops: list[Node], _own: list[Call], found: Findings) -> str | None:
    for node in tops:
        if node.kind is not SpanKind.LLM:
            text = _last_answer(found.reader.messages(node.span.output_messages))
            if text:
                return text
    return None


def _last_call_output(_spans: list[Node], own: list[Call], found: Findings) -> str | None:
    if not own:
        return None
    last = max(own, key=lambda c: (c.lead.end, c.lead.key))
    if last.failed:
        return None
    messages = found.reader.output_of(last)
    answer = _last_answer(messages)
    if (
        answer is None
        and messages
        and all(_done(p, found.executions, last) for m in messages[-1:] for p in m.tool_calls)
    ):
        return messages[-1].text or None
    return answer


def _done(part: Part, executions: list[Execution], call: Call) -> bool:
    """The tool that this answer still asks for ran before the answer was complete: a leftover of an earlier call."""
    return any(e.call_id == part.id and e.end is not None and e.end <= call.lead.end for e in executions)


def _top_value_output(tops: list[Node], own: list[Call], found: Findings) -> str | None:
    """The root's generic output; of it, exactly what the last model call answered."""
    answered = _last_call_output(tops, own, found)
    for node in tops:
        raw = node.span.output_value
        text = None if node.span.is_error else plain_output(raw)
        if raw and text:
            return answered if answered and (_holds(raw, answered) or _REPR.match(raw)) else text
    return None


#: A Python object printed: nothing a user was shown.
_REPR = re.compile(r"^<?[A-Z]\w*\(\w+=|^<[\w.]+ object at 0x")


def _answer_tool_output(_spans: list[Node], _own: list[Call], found: Findings) -> str | None:
    """Agents that answer by a pseudo-tool (`final_answer`) say it in its arguments or its result."""
    for execution in reversed(found.executions):
        if execution.pseudo and not execution.name.startswith(("transfer", "hand", "Hand")) and not execution.failed:
            return plain_output(execution.result) or plain_output(execution.arguments)
    return None


_INPUT_FINDERS = (
    ("run_input of the root", _stated_input),
    ("messages of the root", _top_messages_input),
    ("input value of the root", _top_value_input),
    ("first model call", _first_call_input),
)
_OUTPUT_FINDERS = (
    ("run_output of the root", _stated_output),
    ("messages of the root", _top_messages_output),
    ("output value of the root", _top_value_output),
    ("answer tool", _answer_tool_output),
    ("last model call", _last_call_output),
)


# --- messages to text


def _last_user_text(messages: tuple[Message, ...]) -> str | None:
    index = last_user_index(messages)
    while index is not None:
        text = messages[index].text
        if text:
            return _unwrapped(text)
        index = last_user_index(messages[:index])
    return None


def _unwrapped(text: str) -> str:
    """The user's words without the sentence a framework put around them."""
    for pattern in _TEMPLATES:
        match = pattern.match(text)
        if match is not None:
            return match[1]
    return text


#: How smolagents and CrewAI hand a task to the model.
_TEMPLATES = (
    re.compile(r"^New task:\n(.+)$", re.DOTALL),
    re.compile(r"^\s*Current Task: (.+?)\n\n(?:This is the expected criteria|You MUST return|Begin!).*$", re.DOTALL),
)


def _last_answer(messages: tuple[Message, ...]) -> str | None:
    """Text of the last message when a model speaks in it and asks for nothing more."""
    for message in reversed(messages):
        if message.role not in ("assistant", "tool"):
            continue
        asked = [p for p in message.tool_calls if not p.server_side]
        final = next(
            (p for p in asked if is_pseudo_tool(p.name or "") and not (p.name or "").startswith("transfer")), None
        )
        if final is not None:
            return plain_output(final.arguments)
        if asked:
            return None
        text = "".join(p.content or "" for p in message.parts if p.type == "text")
        return text or None
    return None


def plain_input(value: Any) -> str | None:
    """The words of a user in a generic input: text, messages, or the arguments of a function."""
    return _spoken(value, "user") or _plain(value, _INPUT_KEYS, _ROLES_OF_USERS, 0)


def plain_output(value: Any) -> str | None:
    """The words of an answer in a generic output: text, messages, or an object around them."""
    return _spoken(value, "assistant") or _plain(value, _OUTPUT_KEYS, _ROLES_OF_MODELS, 0)


def _spoken(value: Any, role: Role) -> str | None:
    """The last words of a role where the value holds messages in any known shape."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return None
    text = last_text(value, role)
    return text if text and text.strip() != value.strip() and text.lstrip()[:1] not in ("{", "[") else None


def _plain(value: Any, keys: tuple[str, ...], roles: frozenset[str], depth: int) -> str | None:
    value = parsed(value)
    if isinstance(value, str):
        return value or None
    if depth > 6 or value is None or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return str(value) if depth else None
    fields = as_object(value)
    if fields is not None:
        return _plain_object(fields, keys, roles, depth)
    return _plain_list(as_list(value), keys, roles, depth)


def _plain_list(items: list[Any], keys: tuple[str, ...], roles: frozenset[str], depth: int) -> str | None:
    spoken = [(i, role) for i in items if (role := _role(i))]
    if spoken:
        mine = [i for i, role in spoken if role in roles]
        return next((t for i in reversed(mine) if (t := _plain(i, keys, roles, depth + 1))), None)
    texts = [t for i in items if (t := _plain(i, keys, roles, depth + 1))]
    if not texts:
        return None
    parts = all((fields := as_object(i)) is not None and ("text" in fields or "content" in fields) for i in items)
    return "\n".join(texts) if parts else texts[0]


def _role(value: Any) -> str | None:
    item = as_object(value) or {}
    role = item.get("role") or item.get("type") or item.get("_role")
    return role.lower() if isinstance(role, str) and role.lower() in _KNOWN_ROLES else None


_KNOWN_ROLES = _ROLES_OF_USERS | _ROLES_OF_MODELS | {"system", "tool", "developer", "function"}


def _plain_object(value: dict[str, Any], keys: tuple[str, ...], roles: frozenset[str], depth: int) -> str | None:
    for key in keys:
        if value.get(key) not in (None, "", [], {}):
            text = _plain(value[key], keys, roles, depth + 1)
            if text:
                return text
    texts = [v for v in value.values() if isinstance(v, str) and v]
    if len(value) == 1 and texts:
        return texts[0]
    if len(value) != 1:
        return None
    lone = next(iter(value.values()))
    return _plain(lone, keys, roles, depth + 1) if as_object(lone) is not None or as_list(lone) else None


# --- conversation, system prompt, tools offered


def _conversation(calls: list[Call], tops: list[Node], reader: Reader) -> tuple[Message, ...]:
    """The longest history any call was given and what came after it; else what the top span says."""
    best: list[Message] = []
    for call in calls:
        whole = [*reader.input_of(call), *reader.output_of(call)]
        if _starts_with(whole, best) or (len(whole) > len(best) and not _is_continuation(whole, best)):
            best = whole
        elif whole and not _starts_with(best, whole):
            best.extend(whole)
    if best:
        return tuple(best)
    for node in tops:
        said = (*reader.messages(node.span.input_messages), *reader.messages(node.span.output_messages))
        if said:
            return said
    return ()


def _starts_with(whole: list[Message], start: list[Message]) -> bool:
    if not start:
        return True
    return len(whole) > len(start) and whole[0] == start[0] and whole[len(start) - 2 : len(start) - 1] == start[-2:-1]


def _is_continuation(whole: list[Message], before: list[Message]) -> bool:
    """True when `whole` has only new messages (the provider keeps the thread) that answer what `before` asked."""
    asked = {p.id for m in before[-1:] for p in m.tool_calls if p.id}
    return bool(asked) and any(p.id in asked for m in whole[:3] for p in m.tool_responses)


def _system_prompt(own: list[Call], tops: list[Node], calls: list[Call]) -> str | None:
    for call in [*own, *calls]:
        text = call.first("system_prompt")
        if isinstance(text, str) and text:
            return text
    return next((n.span.system_prompt for n in tops if n.span.system_prompt), None)


def tool_definitions(nodes: list[Node], calls: list[Call]) -> tuple[ToolDefinition, ...]:
    """Every tool that a model of the run was offered, once per agent and name, in order of first offer."""
    found: dict[tuple[str | None, str], ToolDefinition] = {}
    leads = {m: c.lead for c in calls for m in c.members}
    for node in nodes:
        if not node.span.tool_definitions:
            continue
        definitions = parsed(node.span.tool_definitions)
        top = owner(leads.get(node, node))
        agent = top.span.agent_name if top is not None else None
        for item in as_list(definitions):
            definition = _definition(item, agent)
            if definition is not None:
                found.setdefault((agent, definition.name), definition)
    return tuple(found.values())


def _definition(item: Any, agent: str | None) -> ToolDefinition | None:
    fields = as_object(item) or {}
    fields = as_object(fields.get("function")) or fields
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        return None
    parameters = parsed(fields.get("parameters") or fields.get("input_schema"))
    description = fields.get("description")
    return ToolDefinition(
        name=name,
        description=description if isinstance(description, str) else None,
        parameters=as_object(parameters),
        agent=agent,
    )
