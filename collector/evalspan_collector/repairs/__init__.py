"""Repairs: small named corrections of what a dialect gets wrong, run in order over each span's draft."""

from evalspan_collector.repairs._content import (
    answer_of_livekit,
    evaluations,
    history_of_pydantic_ai,
    input_of_logfire,
    no_arguments_of_adk,
    raw_request_of_litellm,
    schema_is_no_arguments,
    system_of_the_messages,
    unwrapped_result,
    vercel_answer,
    verdict_of_an_evaluator,
    wrapping_of_langsmith,
)
from evalspan_collector.repairs._draft import Draft, Repair
from evalspan_collector.repairs._kinds import (
    agent_that_looks_like_a_call,
    kind_from_fields,
    kind_from_name,
    merged_tools_of_adk,
    pending_spans_of_logfire,
    preparation_is_no_call,
)
from evalspan_collector.repairs._naming import (
    TOOL_FIELDS,
    agent_of_llama_index,
    dotted_tool_names,
    model_of_llama_index,
    names_from_span_name,
    real_provider,
    tool_words_of_a_chat,
)
from evalspan_collector.repairs._usage import (
    AGGREGATES,
    COUNTS,
    aggregate_usage,
    exclusive_usage,
    milliseconds_of_strands,
    no_usage_of_its_own,
    usage_struct,
)
from evalspan_collector.span import SpanKind

__all__ = ["REPAIRS", "Draft", "Repair", "kind_from_fields", "kind_from_name"]

_TOOLS = frozenset({SpanKind.TOOL})


_USAGE = frozenset({*COUNTS, "total_tokens", *(theirs for _, theirs in AGGREGATES)})


_EVALUATIONS = frozenset({"evaluation_list", "guard_verdict"})


#: In this order; a repair may rely on the ones before it.
REPAIRS: tuple[Repair, ...] = (
    Repair(
        "tool_words_of_a_chat",
        tool_words_of_a_chat,
        kinds=frozenset({SpanKind.LLM, SpanKind.AGENT}),
        needs=frozenset(TOOL_FIELDS),
    ),
    Repair(
        "agent_that_looks_like_a_call",
        agent_that_looks_like_a_call,
        frozenset({"adk", "openinference"}),
        frozenset({SpanKind.LLM}),
    ),
    Repair("preparation_is_no_call", preparation_is_no_call, frozenset({"openinference"}), frozenset({SpanKind.LLM})),
    Repair(
        "agent_of_llama_index",
        agent_of_llama_index,
        frozenset({"openinference"}),
        frozenset({SpanKind.CHAIN}),
        frozenset({"input.value", "output.value"}),
    ),
    Repair(
        "raw_request_of_litellm",
        raw_request_of_litellm,
        frozenset({"litellm"}),
        gives=frozenset({*COUNTS, "total_tokens", "model_response"}),
    ),
    Repair(
        "names_from_span_name",
        names_from_span_name,
        kinds=frozenset({SpanKind.TOOL, SpanKind.AGENT, SpanKind.WORKFLOW}),
    ),
    Repair("dotted_tool_names", dotted_tool_names, kinds=_TOOLS),
    Repair("real_provider", real_provider, needs=frozenset({"provider", "model_request", "model_response"})),
    Repair(
        "model_of_llama_index",
        model_of_llama_index,
        frozenset({"openinference"}),
        frozenset({SpanKind.CHAIN}),
        frozenset({"input.value", "output.value"}),
    ),
    Repair("schema_is_no_arguments", schema_is_no_arguments, kinds=_TOOLS, needs=frozenset({"tool.parameters"})),
    Repair("no_arguments_of_adk", no_arguments_of_adk, frozenset({"adk"})),
    Repair("wrapping_of_langsmith", wrapping_of_langsmith, frozenset({"langsmith"}), _TOOLS),
    Repair("answer_of_livekit", answer_of_livekit, needs=frozenset({"lk.response.function_calls"})),
    Repair("unwrapped_result", unwrapped_result, kinds=_TOOLS),
    Repair("no_usage_of_its_own", no_usage_of_its_own, kinds=frozenset({SpanKind.LLM}), needs=_USAGE),
    Repair(
        "aggregate_usage",
        aggregate_usage,
        needs=frozenset(theirs for _, theirs in AGGREGATES),
        gives=frozenset(COUNTS),
    ),
    Repair(
        "exclusive_usage",
        exclusive_usage,
        needs=frozenset({"cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "total_tokens"}),
    ),
    Repair("milliseconds_of_strands", milliseconds_of_strands, frozenset({"strands"})),
    Repair("pending_spans_of_logfire", pending_spans_of_logfire, needs=frozenset({"logfire.span_type"})),
    Repair("merged_tools_of_adk", merged_tools_of_adk, kinds=_TOOLS),
    Repair("input_of_logfire", input_of_logfire, needs=frozenset({"response_data"})),
    Repair("history_of_pydantic_ai", history_of_pydantic_ai, needs=frozenset({"pydantic_ai.all_messages"})),
    Repair("vercel_answer", vercel_answer, frozenset({"vercel"})),
    Repair("system_of_the_messages", system_of_the_messages, kinds=frozenset({SpanKind.LLM})),
    Repair("evaluations", evaluations, needs=_EVALUATIONS),
    Repair("verdict_of_an_evaluator", verdict_of_an_evaluator, kinds=frozenset({SpanKind.EVALUATOR})),
    Repair("usage_struct", usage_struct),
)
