"""Oddities: what real libraries do that a reconstruction must see through; one test each, on real traffic."""

import pytest
from golden.captures import capture

from evalspan_collector.run import Run


def runs(library: str, scenario: str) -> tuple[Run, ...]:
    return capture(f"{library}__{scenario}").runs()


def one(library: str, scenario: str) -> Run:
    found = runs(library, scenario)
    assert len(found) == 1
    return found[0]


def true_input_tokens(library: str, scenario: str) -> int:
    truth = capture(f"{library}__{scenario}").truth["runs"]
    return sum(r["usage"]["input_tokens"] for r in truth)


def names(run: Run) -> list[str]:
    return [t.name for t in run.tools]


# --- calls and their tokens


def test_the_sdks_own_span_below_an_instrumentors_is_the_same_call() -> None:
    run = one("openinference-anthropic", "stock_analyst")
    assert len(run.model_calls) == 4
    assert run.usage.input_tokens == true_input_tokens("openinference-anthropic", "stock_analyst")


def test_the_sdks_own_span_beside_an_instrumentors_is_the_same_call() -> None:
    run = one("openllmetry-traceloop-sdk", "handoff")
    assert run.usage.input_tokens == true_input_tokens("openllmetry-traceloop-sdk", "handoff")


def test_sdk_spans_in_traces_of_their_own_belong_to_the_run_around_them() -> None:
    run = one("langchain-openinference", "stock_analyst")
    assert len(run.trace_ids) == 5
    assert len(run.model_calls) == 4


def test_three_layers_of_totals_are_counted_once() -> None:
    run = one("pydantic-ai-v2-fmt5", "parallel_tools")
    assert run.usage.input_tokens == true_input_tokens("pydantic-ai-v2-fmt5", "parallel_tools")
    old = one("pydantic-ai-v1-fmt1", "handoff")
    assert old.usage.input_tokens == true_input_tokens("pydantic-ai-v1-fmt1", "handoff")


@pytest.mark.parametrize("library", ["openlit-anthropic", "langfuse-v5", "openllmetry-traceloop-sdk-0.47"])
def test_input_tokens_include_the_cache_whatever_the_library_thinks(library: str) -> None:
    run = one(library, "handoff")
    assert run.usage.input_tokens == true_input_tokens(library, "handoff")


def test_a_cache_write_that_one_library_lost_comes_from_the_other() -> None:
    run = one("langchain-openllmetry", "refund_bot")
    assert (run.usage.cache_write_tokens or 0) > 1000


def test_counting_tokens_before_a_call_is_no_call() -> None:
    assert len(one("crewai-openinference", "refund_bot").model_calls) == 3


def test_a_framework_span_around_the_providers_span_is_the_same_call() -> None:
    run = one("openai-agents__mlflow", "agent_as_tool")
    assert run.usage.input_tokens == true_input_tokens("openai-agents__mlflow", "agent_as_tool")


def test_agent_totals_that_grow_over_a_session_are_not_believed() -> None:
    for library in ("strands", "smolagents__openinference"):
        found = runs(library, "multi_turn_chat")
        assert sum(r.usage.input_tokens or 0 for r in found) == true_input_tokens(library, "multi_turn_chat")


def test_a_span_that_prepares_a_call_is_no_call() -> None:
    assert len(one("llama-index__openinference", "handoff").model_calls) == 4


def test_embeddings_use_the_same_keys_and_are_no_model_calls() -> None:
    run = one("genai-openai__agent", "rag")
    assert (run.usage.input_tokens, run.embedding_tokens) == (210, 56)


def test_a_retried_call_is_one_good_call_and_maybe_a_failed_one() -> None:
    run = one("openinference-anthropic", "llm_429_retry")
    assert run.status == "ok"
    vercel = one("vercel-ai-sdk5", "rate_limit_retry")
    assert [c.failed for c in vercel.model_calls].count(True) == 1
    assert vercel.status == "ok", "a red child in a green run"


def test_no_tokens_at_all_are_unknown_and_not_zero() -> None:
    run = one("dspy__openinference", "stock_analyst")
    assert run.usage.input_tokens is None
    assert "usage_partial" in run.flags
    chat = one("openai-agents__openllmetry", "stock_analyst_chatapi")
    assert chat.usage.input_tokens is None


def test_details_of_usage_keep_their_meaning_across_vocabularies() -> None:
    run = (
        one("openai__openinference", "reasoning_cached")
        if len(runs("openai__openinference", "reasoning_cached")) == 1
        else None
    )
    assert run is not None
    assert (run.usage.cache_read_tokens, run.usage.reasoning_tokens) == (2176, 512)


def test_calls_that_overwrite_each_other_on_one_span_come_back_from_the_log() -> None:
    run = one("google-adk__openinference", "handoff")
    assert run.usage.input_tokens == true_input_tokens("google-adk__openinference", "handoff")


# --- runs and traces


@pytest.mark.parametrize(
    "library", ["openllmetry-anthropic-bare", "openinference-anthropic-bare", "otel-genai-anthropic-bare"]
)
def test_a_trace_per_call_is_one_run_by_its_growing_history(library: str) -> None:
    run = one(library, "stock_analyst")
    assert "stitched" in run.flags
    assert names(run) == ["search", "fetch_stock_data", "analyze_metrics"]


def test_turns_of_a_bare_conversation_are_runs_of_their_own() -> None:
    assert len(runs("openai__openinference", "multi_turn_chat")) == 3


def test_queue_hops_of_a_team_are_one_run() -> None:
    run = one("autogen-agentchat", "handoff")
    assert run.agents == ("triageagent", "refundagent")
    assert run.input == "Can I still return order ORD-1042?"
    assert run.usage.input_tokens == 1257


def test_create_agent_traces_are_no_runs() -> None:
    assert one("langchain-openllmetry", "handoff").agent == "coordinator"
    assert one("autogen-agentchat", "tool_error").agent == "SupportBot"


def test_agent_and_what_it_did_may_be_siblings() -> None:
    run = one("langchain-openllmetry", "handoff")
    helper = next(s for s in run.steps if s.kind == "agent")
    assert [s.kind for s in run.steps if s.parent_index == helper.index] == ["model_call", "tool_call", "model_call"]


@pytest.mark.parametrize(
    "library",
    ["openai-agents__openinference", "openai-agents__openllmetry", "openai-agents__mlflow", "openai-agents__otel-genai",
     "openai-agents__otel-genai-agents-only"],
)  # fmt: skip
def test_one_trace_block_holds_two_runs(library: str) -> None:
    assert [r.agent for r in runs(library, "workflow_trace")] == ["StockAnalyst", "Writer"]


@pytest.mark.parametrize(
    "library",
    ["openai-agents__openinference", "openai-agents__openllmetry", "openai-agents__otel-genai",
     "openai-agents__otel-genai-agents-only"],
)  # fmt: skip
def test_a_hand_off_is_one_run_though_its_agents_are_siblings(library: str) -> None:
    run = one(library, "handoff")
    assert {"TriageAgent", "RefundAgent"} <= set(run.agents)
    assert names(run) == ["lookup_order", "get_refund_policy"]


def test_a_gateway_in_another_service_is_not_the_run() -> None:
    run = one("openai-agents__openinference", "edge_cross_service")
    assert run.agent == "StockAnalyst"
    assert run.started_ns > min(
        s.start_ns for s in capture("openai-agents__openinference__edge_cross_service").read()[0]
    )


@pytest.mark.parametrize("library", ["openinference-anthropic", "openllmetry-traceloop-sdk", "otel-genai-anthropic"])
def test_a_root_that_never_came_is_an_incomplete_failed_run(library: str) -> None:
    run = one(library, "killed_mid_run")
    assert {"incomplete", "orphans"} <= set(run.flags)
    assert run.status == "error"
    assert run.session_id == "sess-stock-009"
    assert [(t.name, t.failed) for t in run.tools][-1] == ("analyze_metrics", True)


def test_a_root_that_is_dropped_when_the_run_raises_is_missed() -> None:
    run = one("smolagents__openinference", "llm_500")
    assert run.status == "error"
    assert names(run) == ["lookup_order"]


@pytest.mark.parametrize("library", ["openinference-anthropic", "langchain-openinference", "logfire-anthropic"])
def test_runs_at_the_same_time_are_told_apart(library: str) -> None:
    found = runs(library, "concurrent_runs")
    assert len(found) == 3
    assert all(len(r.tools) == 1 for r in found)


def test_a_request_per_span_is_the_same_run() -> None:
    assert len(one("otel-genai-anthropic", "simple_processor").tools) == 3


def test_a_chain_at_the_root_is_the_agent() -> None:
    assert one("langchain-openinference", "tool_raises").agent == "refund_bot"
    assert one("crewai-openinference", "refund_bot").agents == ("refund_bot",)
    assert one("dspy__openinference", "stock_analyst").input == "Is Acme Robotics a good buy right now?"


def test_agents_of_a_graph_are_one_run() -> None:
    for library, scenario in (
        ("strands", "graph_multiagent"),
        ("agent-framework", "workflow"),
        ("google-adk", "sequential_agents"),
    ):
        run = one(library, scenario)
        assert run.output in ("ACMX: hold.", None), "ADK sends no content unless asked to"
        assert len(run.agents) >= 2


def test_a_sub_agents_own_conversation_id_is_not_the_runs() -> None:
    run = one("pydantic-ai-v1-fmt1", "handoff")
    assert run.agents[:2] == ("coordinator", "risk_analyst")


def test_a_run_that_ended_at_the_first_text_keeps_the_tool_that_still_ran() -> None:
    run = one("pydantic-ai-v2-fmt5", "stock_analyst_streaming_early_end")
    assert run.tools


# --- tools


def test_tools_without_spans_come_from_the_next_calls_input() -> None:
    run = one("openinference-anthropic-bare", "parallel_tools")
    assert [t.observed for t in run.tools] == ["message"] * 4
    assert all(t.arguments and t.result is not None for t in run.tools)


@pytest.mark.parametrize("library", ["otel-genai-anthropic", "pydantic-ai-v2-fmt5"])
def test_a_provider_side_tool_has_no_span_and_counts(library: str) -> None:
    run = one(library, "server_tool")
    assert any(t.observed == "message" and t.tool_type == "builtin" for t in run.tools)


def test_client_and_server_span_of_an_mcp_call_are_one_tool() -> None:
    run = one("openinference-mcp", "refund_bot")
    assert names(run) == ["lookup_order", "get_refund_policy"]
    assert all(t.arguments for t in run.tools), "the spans carry none, the messages do"


def test_only_the_mcp_servers_span_knows_of_the_failure() -> None:
    assert [t.failed for t in one("openinference-mcp", "tool_raises").tools][-1]


@pytest.mark.parametrize("library", ["langchain-openinference", "langchain-openllmetry"])
def test_a_handled_tool_error_is_seen_in_the_result(library: str) -> None:
    run = one(library, "tool_raises")
    assert [(t.name, t.failed) for t in run.tools][-1] == ("issue_refund", True)
    assert run.status == "ok"


def test_a_tool_name_on_the_asking_span_makes_it_no_tool() -> None:
    assert len(one("openlit-anthropic", "parallel_tools").tools) == 4


def test_decorated_functions_are_tools_and_agents_though_nothing_says_so() -> None:
    run = one("openlit-anthropic", "handoff")
    assert run.agents == ("coordinator", "risk_analyst")
    assert names(run) == ["delegate_to_risk_analyst", "fetch_stock_data"]
    assert names(one("logfire-anthropic", "tool_raises_unhandled")) == ["lookup_order", "issue_refund"]


def test_a_python_repr_of_arguments_is_read() -> None:
    assert all(isinstance(t.arguments, dict) for t in one("openlit-anthropic", "no_content").tools)


def test_a_lone_argument_gets_its_name_back() -> None:
    run = one("langchain-openinference", "stock_analyst")
    assert run.tools[1].arguments == {"ticker": "NWTX"}


@pytest.mark.parametrize(
    "library", ["openai-agents__openllmetry", "openai-agents__otel-genai", "openai__openlit", "openai-v2__default"]
)
def test_cut_arguments_are_no_execution(library: str) -> None:
    tools = [t for r in runs(library, "bad_args") for t in r.tools]
    assert [t.name for t in tools] == ["fetch_stock_data"]


def test_an_unknown_tool_is_no_execution_and_fails_the_run() -> None:
    run = one("openai-agents__openinference", "unknown_tool")
    assert run.tools == ()
    assert run.status == "error"


def test_tools_of_generated_code_are_tools() -> None:
    run = one("smolagents__openinference", "code_agent")
    assert names(run) == ["fetch_stock_data", "analyze_metrics"]


@pytest.mark.parametrize(
    ("library", "scenario", "tool"),
    [
        ("semantic-kernel", "tool_error", "lookup_order"),
        ("dspy__openinference", "tool_error", "lookup_order"),
        ("llama-index__openinference", "tool_error", "lookup_order"),
        ("crewai-openinference", "refund_bot", "lookup_order"),
        ("openllmetry-traceloop-sdk", "handoff", "delegate_to_risk_analyst"),
    ],
)
def test_wrapper_words_around_tool_names_are_gone(library: str, scenario: str, tool: str) -> None:
    assert names(one(library, scenario))[0] == tool


def test_pseudo_tools_are_marked_and_not_counted() -> None:
    for library, scenario in (
        ("smolagents__openinference", "managed_agent"),
        ("google-adk", "handoff"),
        ("dspy__openinference", "stock_analyst"),
    ):
        run = one(library, scenario)
        assert any(s.tool is not None and s.tool.pseudo for s in run.steps)
        assert not {"final_answer", "finish", "transfer_to_agent"} & set(names(run))


def test_an_agent_as_tool_keeps_the_tool_and_the_sub_agent() -> None:
    for library in ("strands", "agent-framework", "openai-agents__openinference"):
        run = one(library, "agent_as_tool")
        assert "ask_analyst" in names(run)
        assert any(s.kind == "agent" and s.name == "StockAnalyst" for s in run.steps)


def test_renamed_call_ids_are_paired_in_order() -> None:
    tools = [t for r in runs("openai__openlit", "stock_analyst_responses") for t in r.tools]
    assert [t.name for t in tools] == ["search_company", "fetch_stock_data", "analyze_metrics"]


# --- content


def test_content_that_was_not_captured_is_none_and_flagged() -> None:
    run = one("openinference-anthropic", "no_content")
    assert (run.input, run.output) == (None, None)
    assert {"content_not_captured", "redacted"} & set(run.flags)
    assert names(run) == ["search", "fetch_stock_data", "analyze_metrics"]


def test_a_thread_kept_by_the_provider_is_joined_from_its_pieces() -> None:
    found = runs("anthropic-sdk-native-toolrunner", "multi_turn_chat")
    assert all(r.conversation for r in found)


def test_content_in_log_records_is_content() -> None:
    tools = [t for r in runs("openai-v2__event", "stock_analyst") for t in r.tools]
    assert all(t.arguments and t.result is not None for t in tools)


def test_the_task_of_an_agent_object_is_the_one_of_this_turn() -> None:
    assert [r.input for r in runs("smolagents__openinference", "multi_turn_chat")][1] == "It is order ORD-1042."


# --- errors


@pytest.mark.parametrize(
    ("library", "scenario"),
    [
        ("openai-agents__openinference", "guardrail_tripwire"),
        ("openai-agents__openinference", "unknown_tool"),
        ("openai-agents__openllmetry", "loop_max_turns"),
        ("openai-agents__otel-genai", "llm_500"),
        ("openai-agents__otel-genai-agents-only", "guardrail_tripwire"),
    ],
)
def test_a_root_that_says_ok_does_not_hide_the_failure(library: str, scenario: str) -> None:
    assert one(library, scenario).status == "error"


def test_a_failed_call_without_a_span_fails_the_run_by_the_agents_span() -> None:
    run = one("openllmetry-traceloop-sdk-0.47", "llm_500")
    assert run.status == "error"
    assert len(run.model_calls) == 1


def test_one_failure_is_told_in_many_words_and_always_told() -> None:
    for library in ("langchain-openllmetry", "semantic-kernel", "autogen-agentchat", "llama-index__openinference"):
        run = one(library, "llm_500")
        assert run.status == "error"
        assert run.error


def test_a_failed_tool_does_not_fail_the_run_unless_it_ends_it() -> None:
    assert one("strands", "tool_error").status == "ok"
    assert one("google-adk", "tool_error").status == "error"
    assert one("logfire-anthropic", "tool_raises_unhandled").status == "error"
