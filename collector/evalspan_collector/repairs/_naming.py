"""Naming: agents, tools and providers that a dialect misnames."""

import re
from typing import Any

from evalspan_collector.conventions import NOT_PROVIDERS, PROVIDERS
from evalspan_collector.lenient_json import is_list, unwrap
from evalspan_collector.messages import dumps, from_value
from evalspan_collector.repairs._draft import Draft
from evalspan_collector.span import SpanKind

__all__ = [
    "agent_of_llama_index",
    "dotted_tool_names",
    "model_of_llama_index",
    "names_from_span_name",
    "real_provider",
    "tool_words_of_a_chat",
]

_AGENT_NAMES = re.compile(
    r"^(?:invoke_agent|create_agent|invoke_workflow) (.+)$|^agent_run \[(.+)\]$|^(.+)\.(?:agent|workflow)$"
)


_TOOL_NAMES = re.compile(
    r"^(?:execute_tool|running tool:|tools/call|MCP send tools/call|Function:|tool) +(.+)$"
    r"|^(.+)\.(?:tool|__call__|run|acall)$"
)


TOOL_FIELDS = ("tool_name", "tool_call_id", "tool_arguments", "tool_result", "tool_type", "tool_description")


def tool_words_of_a_chat(draft: Draft) -> bool:
    """A model call that names the tools it asked for (OpenLIT) is no tool."""
    fields, kind = draft.fields, draft.kind
    if (kind is SpanKind.LLM or kind is SpanKind.AGENT) and (
        "tool_name" in fields or "tool_arguments" in fields or "tool_call_id" in fields
    ):
        if kind is SpanKind.LLM and "output_messages" not in fields:
            _ask(draft, str(fields.get("tool_name") or ""))
        for key in TOOL_FIELDS:
            fields.pop(key, None)
        return True
    return False


def _ask(draft: Draft, names: str) -> None:
    """The calls that a model asked for, from names, ids and arguments joined by commas."""
    attributes = draft.raw.attributes
    listed = [n for n in (n.strip() for n in names.split(",")) if n]
    ids = [i.strip() for i in str(attributes.get("gen_ai.tool.call.id") or "").split(",")]
    stated = unwrap(attributes.get("gen_ai.tool.call.arguments", attributes.get("gen_ai.tool.args")), python=True)
    if isinstance(stated, str) and stated[:1] == "{":
        stated = unwrap(f"[{stated}]")
    arguments: list[Any] = stated if is_list(stated) else [stated]
    calls = [
        {
            "name": name,
            "id": ids[n] if len(ids) == len(listed) else None,
            "arguments": arguments[n] if len(arguments) == len(listed) else None,
        }
        for n, name in enumerate(listed)
    ]
    asked = from_value([{"role": "assistant", "content": None, "tool_calls": calls}], "assistant")
    if any(m.parts for m in asked):
        draft.fields["output_messages"] = dumps(asked)


def names_from_span_name(draft: Draft) -> bool:
    """Agent and tool names that only the span's name says."""
    fields, name, kind = draft.fields, draft.raw.name, draft.kind
    if kind is SpanKind.TOOL:
        if "tool_name" in fields:
            return False
        message = draft.raw.attributes.get("logfire.msg")
        for candidate in (message, name):
            found = _TOOL_NAMES.match(candidate) if isinstance(candidate, str) else None
            if found:
                fields["tool_name"] = (found[1] or found[2]).strip()
                return True
        fields["tool_name"] = name
        return True
    if (kind is SpanKind.AGENT or kind is SpanKind.WORKFLOW) and "agent_name" not in fields:
        found = _AGENT_NAMES.match(name)
        if found:
            fields["agent_name"] = found[1] or found[2] or found[3]
            return True
        if kind is SpanKind.AGENT and name and name not in _NO_NAMES:
            fields["agent_name"] = name.removesuffix(".run") if draft.dialect == "openinference" else name
            return True
    return False


_NO_NAMES = frozenset(
    {
        "invoke_agent",
        "agent run",
        "agent_turn",
        "start_agent_activity",
        "ai.generateText",
        "ai.streamText",
        "ai.generateObject",
        "ai.streamObject",
        "claude_code.interaction",
        "ClaudeAgentSDK.query",
        "ClaudeAgentSDK.ClaudeSDKClient",
        "anthropic.messages.tool_runner",
        "Agent workflow",
        "Agent Workflow",
        "create_agent",
    }
)


def dotted_tool_names(draft: Draft) -> bool:
    """Dspy and llama-index name the span `search.__call__` and leave out the tool's name; class names are no names."""
    name = draft.fields.get("tool_name")
    if draft.kind is not SpanKind.TOOL or not isinstance(name, str):
        return False
    for suffix in (".__call__", ".tool"):
        if name.endswith(suffix) and len(name) > len(suffix):
            draft.fields["tool_name"] = name[: -len(suffix)]
            return True
    return False


def real_provider(draft: Draft) -> bool:
    """Canonical provider names; a framework's name there is dropped for the host that was called."""
    stated = draft.fields.get("provider")
    low = "" if stated is None else stated.lower()
    known = PROVIDERS.get(low)
    if known is None and low not in NOT_PROVIDERS and "." in low:
        known = PROVIDERS.get(low.partition(".")[0])
    if known is None and low and low not in NOT_PROVIDERS:
        return False
    if known is None:
        draft.fields.pop("provider", None)
        known = _provider_called(draft) if low or draft.kind is SpanKind.LLM else None
    if known is not None:
        draft.fields["provider"] = known
    return bool(known != stated)


def _provider_called(draft: Draft) -> str | None:
    """The provider that the host or the model's name tells."""
    host = draft.raw.attributes.get("server.address")
    if isinstance(host, str):
        for part, name in _HOSTS:
            if part in host:
                return name
    model = str(draft.fields.get("model_response") or draft.fields.get("model_request") or "")
    head = PROVIDERS.get(model.partition("/")[0].lower()) if "/" in model else None
    return head or next((name for prefix, name in _MODELS if model.startswith(prefix)), None)


_HOSTS = (
    (".openai.azure.com", "azure.ai.openai"),
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    ("bedrock", "aws.bedrock"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("openrouter.ai", "openrouter"),
    ("api.x.ai", "x_ai"),
    ("api.cohere", "cohere"),
)


_MODELS = (
    ("gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "gcp.gemini"),
)


_LLAMA_AGENT = re.compile(r"current_agent_name=(?:'([^']{1,200})'|\"([^\"]{1,200})\")")


def agent_of_llama_index(draft: Draft) -> bool:
    """llama-index names the agent only inside the reprs of its events."""
    if "agent_name" in draft.fields:
        return False
    for key in ("input.value", "output.value"):
        value = draft.raw.attributes.get(key)
        found = _LLAMA_AGENT.search(value) if isinstance(value, str) and "current_agent_name=" in value else None
        if found:
            draft.fields["agent_name"] = found[1] or found[2]
            return True
    return False


_ANSWERING_MODEL = re.compile(r"""(["'])model\1: ?(["'])([\w.:/@-]{1,100})\2""")


def model_of_llama_index(draft: Draft) -> bool:
    """llama-index names the model that answered only in the provider's answer, inside the repr of an agent's event."""
    if "model_response" in draft.fields:
        return False
    for key in ("output.value", "input.value"):
        value = draft.raw.attributes.get(key)
        if isinstance(value, str) and "current_agent_name=" in value:
            found = _ANSWERING_MODEL.findall(value)
            if found:
                draft.fields["model_response"] = found[-1][2]
                return True
    return False
