"""Repairs: small named corrections of what a dialect gets wrong, run in order over each span's draft."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from evalspan_collector import evaluation_results
from evalspan_collector.conventions import NAME_PATTERNS, NOT_PROVIDERS, PROVIDERS
from evalspan_collector.converters import integer
from evalspan_collector.lenient_json import dump, parse_object, unwrap
from evalspan_collector.message import Message
from evalspan_collector.messages import dumps, from_value, loads, tool_result
from evalspan_collector.raw import RawSpan
from evalspan_collector.span import SpanKind, Usage
from evalspan_collector.usage_objects import usage_of

__all__ = ["REPAIRS", "Draft", "Repair"]


class Draft:
    """A span while it is being normalised."""

    __slots__ = ("dialect", "fields", "flags", "kind", "raw")

    def __init__(self, raw: RawSpan, kind: SpanKind, dialect: str, fields: dict[str, Any]) -> None:
        self.raw = raw
        self.kind = kind
        self.dialect = dialect
        self.fields = fields
        self.flags: list[str] = []


@dataclass(frozen=True, slots=True)
class Repair:
    """One correction.

    Attributes:
        name: What `--explain` calls it.
        apply: Changes the draft; True when it did.
        dialects: Dialects it is for; None for all.
        kinds: Kinds it is for; None for all.
        needs: Fields or attribute keys of which the span must have one; None for nothing.
    """

    name: str
    apply: Callable[[Draft], bool]
    dialects: frozenset[str] | None = None
    kinds: frozenset[SpanKind] | None = None
    needs: frozenset[str] | None = None

    def concerns(self, names: frozenset[str], dialect: str, kind: SpanKind) -> bool:
        """True when a span with these fields and keys may need it."""
        if self.dialects is not None and dialect not in self.dialects:
            return False
        if self.kinds is not None and kind not in self.kinds:
            return False
        return self.needs is None or not self.needs.isdisjoint(names)


_NAMED_KINDS = tuple((re.compile(pattern), kind) for pattern, kind in NAME_PATTERNS)
_AGENT_NAMES = re.compile(
    r"^(?:invoke_agent|create_agent|invoke_workflow) (.+)$|^agent_run \[(.+)\]$|^(.+)\.(?:agent|workflow)$"
)
_TOOL_NAMES = re.compile(
    r"^(?:execute_tool|running tool:|tools/call|MCP send tools/call|Function:|tool) +(.+)$|^(.+)\.(?:tool|__call__|run|acall)$"
)
_MODEL_KEYS = ("model_request", "model_response")


def kind_from_name(draft: Draft) -> bool:
    """No attribute told the kind: the span's name may."""
    if draft.kind is not SpanKind.UNKNOWN:
        return False
    for name in (draft.raw.name, draft.raw.attributes.get("logfire.msg")):
        if isinstance(name, str):
            for pattern, kind in _NAMED_KINDS:
                if pattern.search(name):
                    draft.kind = kind
                    return True
    return False


def kind_from_fields(draft: Draft) -> bool:
    """Neither attribute nor name told the kind: a tool's name, a query or a model may."""
    if draft.kind is not SpanKind.UNKNOWN:
        return False
    fields, attributes = draft.fields, draft.raw.attributes
    has_model = any(k in fields for k in _MODEL_KEYS)
    if ("tool_name" in fields or "tool_call_id" in fields) and not has_model and "input_messages" not in fields:
        draft.kind = SpanKind.TOOL
    elif "litellm.guardrail.name" in attributes or "guard.name" in attributes:
        draft.kind = SpanKind.GUARDRAIL
    elif "documents" in fields or "gen_ai.retrieval.query.text" in attributes or "db.vector.query.top_k" in attributes:
        draft.kind = SpanKind.RETRIEVER
    elif has_model and ("input_tokens" in fields or "output_tokens" in fields or "output_messages" in fields):
        draft.kind = SpanKind.LLM
    else:
        return False
    return True


_TOOL_FIELDS = ("tool_name", "tool_call_id", "tool_arguments", "tool_result", "tool_type", "tool_description")


def tool_words_of_a_chat(draft: Draft) -> bool:
    """A model call that names the tools it asked for (OpenLIT) is no tool."""
    if draft.kind is SpanKind.TOOL or draft.kind is SpanKind.MCP:
        return False
    fields = draft.fields
    if draft.kind in {SpanKind.LLM, SpanKind.AGENT} and (
        "tool_name" in fields or "tool_arguments" in fields or "tool_call_id" in fields
    ):
        for key in _TOOL_FIELDS:
            fields.pop(key, None)
        return True
    return False


def names_from_span_name(draft: Draft) -> bool:
    """Agent and tool names that only the span's name says."""
    fields, name = draft.fields, draft.raw.name
    if draft.kind is SpanKind.TOOL:
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
    if draft.kind in {SpanKind.AGENT, SpanKind.WORKFLOW} and "agent_name" not in fields:
        found = _AGENT_NAMES.match(name)
        if found:
            fields["agent_name"] = found[1] or found[2] or found[3]
            return True
        if draft.kind is SpanKind.AGENT and name and name not in _NO_NAMES:
            fields["agent_name"] = name.removesuffix(".run") if draft.dialect == "openinference" else name
            return True
    return False


_NO_NAMES = frozenset(
    {"invoke_agent", "agent run", "agent_turn", "start_agent_activity", "ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject",
     "claude_code.interaction", "ClaudeAgentSDK.query", "ClaudeAgentSDK.ClaudeSDKClient", "anthropic.messages.tool_runner", "Agent workflow", "Agent Workflow", "create_agent"}
)  # fmt: skip


def dotted_tool_names(draft: Draft) -> bool:
    """dspy and llama-index name the span `search.__call__` and leave out the tool's name; class names are no names."""
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
    if stated is None:
        if draft.kind is not SpanKind.LLM:
            return False
        low = ""
    else:
        low = stated.lower()
        if low in PROVIDERS:
            draft.fields["provider"] = PROVIDERS[low]
            return PROVIDERS[low] != stated
    if low and low not in NOT_PROVIDERS:
        known = PROVIDERS.get(low.partition(".")[0]) if "." in low else None
        if known:
            draft.fields["provider"] = known
        return known is not None
    draft.fields.pop("provider", None)
    host = draft.raw.attributes.get("server.address")
    if isinstance(host, str):
        for part, name in _HOSTS:
            if part in host:
                draft.fields["provider"] = name
                return True
    model = draft.fields.get("model_response") or draft.fields.get("model_request") or ""
    head = PROVIDERS.get(model.partition("/")[0].lower()) if "/" in model else None
    if head is None:
        head = next((name for prefix, name in _MODELS if model.startswith(prefix)), None)
    if head:
        draft.fields["provider"] = head
    return bool(low or head)


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


def unwrapped_result(draft: Draft) -> bool:
    """A tool result inside a serialised message, a list of text blocks or an MCP result; its status is the tool's."""
    result = draft.fields.get("tool_result")
    if not isinstance(result, str) or result[:1] not in '[{"':
        return _handled_error(draft, result)
    value = unwrap(result)
    inner, failed = tool_result(value)
    if failed:
        draft.fields["failed"] = True
    elif failed is False:
        draft.fields.setdefault("failed", False)
    if inner is value or inner == value:
        return _handled_error(draft, value)
    draft.fields["tool_result"] = inner if isinstance(inner, str) else dump(inner)
    return True


def _handled_error(draft: Draft, value: Any) -> bool:
    """A result object that says by itself that the tool failed."""
    if isinstance(value, dict) and (value.get("isError") is True or value.get("is_error") is True):
        draft.fields["failed"] = True
        return True
    return False


def exclusive_usage(draft: Draft) -> bool:
    """Input that leaves out the cache, output that leaves out the reasoning: made inclusive."""
    fields = draft.fields
    tokens_in, tokens_out = fields.get("input_tokens"), fields.get("output_tokens")
    read, write = fields.get("cache_read_tokens"), fields.get("cache_write_tokens")
    reasoning, total = fields.get("reasoning_tokens"), fields.get("total_tokens")
    fired = False
    cached = (read or 0) + (write or 0)
    if cached and tokens_in is not None and _leaves_cache_out(draft, tokens_in, tokens_out or 0, cached, total):
        fields["input_tokens"] = tokens_in + cached
        fired = True
    if reasoning and tokens_out is not None and reasoning > tokens_out:
        fields["output_tokens"] = tokens_out + reasoning
        fired = True
    if tokens_in is None and tokens_out is not None and total is not None and total > tokens_out:
        fields["input_tokens"] = total - tokens_out
    if fired:
        draft.flags.append("usage_repaired")
    return fired


def _leaves_cache_out(draft: Draft, tokens_in: int, tokens_out: int, cached: int, total: int | None) -> bool:
    if total is not None:
        if total == tokens_in + tokens_out + cached:
            return True
        if total == tokens_in + tokens_out:
            return cached > tokens_in
    if cached > tokens_in:
        return True
    return draft.dialect in _EXCLUSIVE and not (
        draft.dialect == "langfuse" and "langfuse.observation.usage_details" in draft.raw.attributes
    )


#: Dialects that report Anthropic and Bedrock input without the cache.
_EXCLUSIVE = frozenset({"claude_code"})


def no_usage_of_its_own(draft: Draft) -> bool:
    """`fetch_response` reads an answer again: its tokens were counted before."""
    if draft.fields.get("operation") != "fetch_response":
        return False
    for key in (
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "total_tokens",
    ):
        draft.fields.pop(key, None)
    return True


def aggregate_usage(draft: Draft) -> bool:
    """pydantic-ai keeps the totals of a run under keys of their own: a check value like any agent's usage."""
    fields = draft.fields
    moved = False
    for ours, theirs in _AGGREGATES:
        value = fields.pop(theirs, None)
        if value is not None and ours not in fields:
            fields[ours] = value
            moved = True
    return moved


_AGGREGATES = (
    ("input_tokens", "aggregate_input"),
    ("output_tokens", "aggregate_output"),
    ("cache_read_tokens", "aggregate_cache_read"),
    ("cache_write_tokens", "aggregate_cache_write"),
    ("reasoning_tokens", "aggregate_reasoning"),
)


def milliseconds_of_strands(draft: Draft) -> bool:
    """Strands writes the time to the first token in milliseconds where the key means seconds."""
    value = draft.fields.get("time_to_first_token_s")
    if value is None:
        return False
    draft.fields["time_to_first_token_s"] = value / 1000
    return True


def no_arguments_of_adk(draft: Draft) -> bool:
    """ADK writes `{}` or `N/A` for arguments it did not capture."""
    if (
        draft.fields.get("tool_arguments") == "{}"
        and draft.raw.attributes.get("gcp.vertex.agent.tool_call_args") == "{}"
    ):
        del draft.fields["tool_arguments"]
        return True
    return False


def schema_is_no_arguments(draft: Draft) -> bool:
    """`tool.parameters` is the schema for some and the arguments for others: only the latter is taken."""
    stated = draft.raw.attributes.get("tool.parameters")
    if stated is None or draft.kind is not SpanKind.TOOL or "tool_arguments" in draft.fields:
        return False
    found = parse_object(stated)
    if found is None or "properties" in found or found.get("type") == "object":
        return False
    draft.fields["tool_arguments"] = dump(found)
    return True


def pending_spans_of_logfire(draft: Draft) -> bool:
    """Logfire announces a span by a placeholder with an id of its own; the span itself comes later."""
    if draft.raw.attributes.get("logfire.span_type") != "pending_span":
        return False
    draft.flags.append("placeholder")
    return True


def merged_tools_of_adk(draft: Draft) -> bool:
    """ADK repeats the results of parallel tools in one more span."""
    if draft.raw.name != "execute_tool (merged tools)" and draft.raw.attributes.get("gen_ai.tool.name") != "(merged tools)":
        return False
    draft.flags.append("duplicate")
    return True


_LITELLM_RAW = re.compile(r"^llm\.[a-z_0-9]+\.(messages|choices|content|usage|id|model|system|tools|input|output|contents|candidates|usageMetadata)$")


def raw_request_of_litellm(draft: Draft) -> bool:
    """LiteLLM's child span holds the provider's own request and answer: the same call once more, by response id."""
    if "gen_ai.request.model" in draft.raw.attributes:
        return False
    raw = {m[1]: unwrap(v, python=True) for k, v in draft.raw.attributes.items() if (m := _LITELLM_RAW.match(k))}
    fields = draft.fields
    if not raw:
        return False
    draft.kind = SpanKind.LLM
    fields["operation"] = "chat"
    asked = from_value({k: raw[k] for k in ("messages", "system", "input", "contents") if k in raw}, "user")
    if asked:
        fields.setdefault("input_messages", dumps(asked))
    answer = {k: raw[k] for k in ("choices", "output", "candidates") if k in raw}
    answered = from_value(answer or {"role": "assistant", "content": raw.get("content")}, "assistant")
    if any(m.parts for m in answered):
        fields.setdefault("output_messages", dumps(answered))
    for ours, theirs in (("model_response", "model"), ("response_id", "id")):
        if isinstance(raw.get(theirs), str):
            fields.setdefault(ours, raw[theirs])
    if isinstance(raw.get("usage"), dict):
        for ours, count in usage_of(raw["usage"]).items():
            fields.setdefault(ours, count)
    return True


def agent_that_looks_like_a_call(draft: Draft) -> bool:
    """ADK under OpenInference: the model calls of an agent overwrite each other on the agent's own span."""
    if draft.kind is not SpanKind.LLM or not draft.raw.name.startswith("invoke_agent"):
        return False
    draft.kind = SpanKind.AGENT
    draft.fields["operation"] = "invoke_agent"
    return True


def preparation_is_no_call(draft: Draft) -> bool:
    """llama-index marks the preparation of a request as a model call; nothing was asked of a model."""
    if "._prepare_" not in draft.raw.name:
        return False
    draft.kind = SpanKind.CHAIN
    return True


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


def input_of_logfire(draft: Draft) -> bool:
    """Logfire's first version wraps the arguments of Anthropic's tool calls once more: `{"input": {...}}`."""
    if "response_data" not in draft.raw.attributes or "output_messages" not in draft.fields:
        return False
    fired = False
    found: list[Message] = []
    for held in loads(draft.fields["output_messages"], "assistant"):
        parts = []
        for part in held.parts:
            inner = part.arguments.get("input") if isinstance(part.arguments, dict) and len(part.arguments) == 1 else None
            fired = fired or isinstance(inner, dict)
            parts.append(replace(part, arguments=inner) if part.type == "tool_call" and isinstance(inner, dict) else part)
        found.append(replace(held, parts=tuple(parts)))
    if fired:
        draft.fields["output_messages"] = dumps(found)
    return fired


def history_of_pydantic_ai(draft: Draft) -> bool:
    """The agent span holds the whole history: this run's question and answer are behind `new_message_index`."""
    if "pydantic_ai.all_messages" not in draft.raw.attributes or "input_messages" not in draft.fields:
        return False
    history = loads(draft.fields["input_messages"])
    start = integer(draft.raw.attributes.get("pydantic_ai.new_message_index")) or 0
    fresh = history[start:] if start < len(history) else history
    asked = next((m.text for m in fresh if m.role == "user" and m.text), None)
    answered = next((m.text for m in reversed(fresh) if m.role == "assistant" and m.text), None)
    if asked:
        draft.fields.setdefault("run_input", asked)
    if answered:
        draft.fields.setdefault("run_output", answered)
    return bool(asked or answered)


def vercel_answer(draft: Draft) -> bool:
    """The AI SDK keeps text, reasoning and tool calls of one answer in three attributes."""
    attributes = draft.raw.attributes
    answer = attributes.get("ai.response.text", attributes.get("ai.result.text"))
    calls = attributes.get("ai.response.toolCalls", attributes.get("ai.result.toolCalls"))
    thought = attributes.get("ai.response.reasoning")
    made = attributes.get("ai.response.object", attributes.get("ai.result.object"))
    content: list[dict[str, Any]] = []
    if isinstance(thought, str) and thought:
        content.append({"type": "reasoning", "text": thought})
    if isinstance(answer, str) and answer:
        content.append({"type": "text", "text": answer})
    elif isinstance(made, str) and made:
        content.append({"type": "text", "text": made})
    listed = unwrap(calls)
    content.extend({"type": "tool-call", **c} for c in listed or () if isinstance(c, dict)) if isinstance(
        listed, list
    ) else None
    if not content or "output_messages" in draft.fields:
        return False
    body: dict[str, Any] = {"role": "assistant", "content": content}
    reasons = draft.fields.get("finish_reasons")
    if reasons:
        body["finish_reason"] = reasons[0]
    draft.fields["output_messages"] = dumps(from_value([body], "assistant"))
    return True




def system_of_the_messages(draft: Draft) -> bool:
    """The system prompt is the first system message where nothing else states it."""
    if draft.kind is not SpanKind.LLM or "system_prompt" in draft.fields:
        return False
    stated = draft.fields.get("input_messages")
    if stated is None or '"system"' not in stated:
        return False
    found = next((m.text for m in loads(stated) if m.role == "system" and m.text), None)
    if found:
        draft.fields["system_prompt"] = found
    return found is not None


def evaluations(draft: Draft) -> bool:
    """Scores that travel on a span become received evaluations."""
    attributes = draft.raw.attributes
    found: list[dict[str, Any]] = []
    for prefix, scope in _EVALUATION_FAMILIES:
        flat = {k[len(prefix) :]: v for k, v in attributes.items() if k.startswith(prefix)}
        if flat:
            found.extend(evaluation_results.from_indexed(flat, scope))
    legacy = {k[5:]: v for k, v in attributes.items() if k.startswith("eval.")}
    found.extend(evaluation_results.from_legacy(legacy))
    if "guard.verdict" in attributes or "guard.classification" in attributes:
        guard = evaluation_results.from_guard(attributes)
        found.extend([guard] if guard else [])
    if not found:
        return False
    draft.fields["evaluations"] = dump(found)
    return True


_EVALUATION_FAMILIES = (
    ("evaluations.", "span"),
    ("annotations.", "span"),
    ("trace.evaluations.", "trace"),
    ("trace.annotations.", "trace"),
    ("session.evaluations.", "session"),
    ("session.annotations.", "session"),
)


def verdict_of_an_evaluator(draft: Draft) -> bool:
    """An EVALUATOR span without evaluation keys: its output is the verdict, its one link the target."""
    if "evaluations" in draft.fields:
        return False
    links = draft.raw.links
    target = links[0].span_id if len(links) == 1 else None
    verdict = evaluation_results.from_evaluator_span(draft.raw.name, draft.fields.get("output_value"), target)
    if verdict is None:
        return False
    draft.fields["evaluations"] = dump([verdict])
    return True


def usage_struct(draft: Draft) -> bool:
    """The counts as one Usage."""
    fields = draft.fields
    pop = fields.pop
    counts = [pop(k, None) for k in _COUNTS]
    if counts != _NO_COUNTS:
        fields["usage"] = Usage(*counts)
    return False


_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_NO_COUNTS: list[int | None] = [None] * 5
_TOOLS = frozenset({SpanKind.TOOL})

_USAGE = frozenset({*_COUNTS, "total_tokens", *(theirs for _, theirs in _AGGREGATES)})
_EVALUATIONS = frozenset({"evaluation_list", "guard_verdict"})

#: In this order; a repair may rely on the ones before it.
REPAIRS: tuple[Repair, ...] = (
    Repair("tool_words_of_a_chat", tool_words_of_a_chat, kinds=frozenset({SpanKind.LLM, SpanKind.AGENT}), needs=frozenset(_TOOL_FIELDS)),
    Repair("agent_that_looks_like_a_call", agent_that_looks_like_a_call, frozenset({"adk", "openinference"}), frozenset({SpanKind.LLM})),
    Repair("preparation_is_no_call", preparation_is_no_call, frozenset({"openinference"}), frozenset({SpanKind.LLM})),
    Repair("agent_of_llama_index", agent_of_llama_index, frozenset({"openinference"}), frozenset({SpanKind.CHAIN}), frozenset({"input.value", "output.value"})),
    Repair("raw_request_of_litellm", raw_request_of_litellm, frozenset({"litellm"})),
    Repair("names_from_span_name", names_from_span_name, kinds=frozenset({SpanKind.TOOL, SpanKind.AGENT, SpanKind.WORKFLOW})),
    Repair("dotted_tool_names", dotted_tool_names, kinds=_TOOLS),
    Repair("real_provider", real_provider, needs=frozenset({"provider", "model_request", "model_response"})),
    Repair("schema_is_no_arguments", schema_is_no_arguments, kinds=_TOOLS, needs=frozenset({"tool.parameters"})),
    Repair("no_arguments_of_adk", no_arguments_of_adk, frozenset({"adk"})),
    Repair("unwrapped_result", unwrapped_result, kinds=_TOOLS),
    Repair("no_usage_of_its_own", no_usage_of_its_own, kinds=frozenset({SpanKind.LLM}), needs=_USAGE),
    Repair("aggregate_usage", aggregate_usage, needs=frozenset(theirs for _, theirs in _AGGREGATES)),
    Repair("exclusive_usage", exclusive_usage, needs=frozenset({"cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "total_tokens"})),
    Repair("milliseconds_of_strands", milliseconds_of_strands, frozenset({"strands"})),
    Repair("pending_spans_of_logfire", pending_spans_of_logfire, needs=frozenset({"logfire.span_type"})),
    Repair("merged_tools_of_adk", merged_tools_of_adk, kinds=_TOOLS),
    Repair("input_of_logfire", input_of_logfire, needs=frozenset({"response_data"})),
    Repair("history_of_pydantic_ai", history_of_pydantic_ai, needs=frozenset({"pydantic_ai.all_messages"})),
    Repair("vercel_answer", vercel_answer, frozenset({"vercel"})),
    Repair("evaluations", evaluations, needs=_EVALUATIONS),
    Repair("verdict_of_an_evaluator", verdict_of_an_evaluator, kinds=frozenset({SpanKind.EVALUATOR})),
    Repair("usage_struct", usage_struct),
)
