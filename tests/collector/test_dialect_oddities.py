"""Oddities of the dialects, one test each: what a span of that library says once it is read."""

import json
from dataclasses import replace
from typing import Any

import pytest

from evalspan_collector.conventions import FIELDS
from evalspan_collector.derived import with_derived
from evalspan_collector.join import join_logs
from evalspan_collector.messages import loads
from evalspan_collector.normalise import normalise, origin
from evalspan_collector.raw import RawEvent, RawLink, RawSpan
from evalspan_collector.span import Span, SpanKind, Usage


def read(
    attributes: dict[str, Any],
    *,
    name: str = "span",
    scope: str = "",
    resource: dict[str, Any] | None = None,
    events: list[RawEvent] | None = None,
    links: list[RawLink] | None = None,
    status: int = 0,
    dropped: int = 0,
    explain: bool = False,
) -> Span:
    """A span with these attributes, as the collector reads it."""
    raw = RawSpan(
        trace_id="1" * 32, span_id="2" * 16, parent_id="", name=name, otel_kind=1, flags=256, start_ns=1_000_000_000, end_ns=2_000_000_000,
        status_code=status, status_message="", attributes=attributes, events=events or [], links=links or [], dropped=dropped,
    )  # fmt: skip
    shared = origin(resource or {}, {"name": scope, "version": "1"}, project="p", received_ns=5)
    return normalise(raw, shared, explain=explain)


# kinds and names


@pytest.mark.parametrize(
    ("attributes", "name", "kind"),
    [
        ({"gen_ai.operation.name": "chat"}, "chat m", SpanKind.LLM),
        ({"gen_ai.operation.name": "invoke_agent"}, "x", SpanKind.AGENT),
        ({"gen_ai.operation.name": "agent_step"}, "step 1", SpanKind.CHAIN),
        ({"openinference.span.kind": "llm"}, "x", SpanKind.LLM),
        ({"openinference.span.kind": "CHAIN", "gen_ai.operation.name": "chat"}, "x", SpanKind.CHAIN),
        ({"traceloop.span.kind": "task"}, "x.task", SpanKind.CHAIN),
        ({"langfuse.observation.type": "generation"}, "x", SpanKind.LLM),
        ({"mlflow.spanType": '"CHAT_MODEL"'}, "x", SpanKind.LLM),
        ({"ai.operationId": "ai.generateText"}, "x", SpanKind.AGENT),
        ({"ai.operationId": "ai.generateText.doGenerate"}, "x", SpanKind.LLM),
        ({"ai.operationId": "ai.toolCall"}, "x", SpanKind.TOOL),
        ({"genkit:metadata:subtype": "tool"}, "x", SpanKind.TOOL),
        ({"genkit:type": "flowStep"}, "x", SpanKind.CHAIN),
        ({"mcp.method.name": "tools/call"}, "tools/call x", SpanKind.TOOL),
        ({"mcp.method.name": "tools/list"}, "tools/list", SpanKind.MCP),
        ({}, "agent run", SpanKind.AGENT),
        ({}, "running tool: search", SpanKind.TOOL),
        ({}, "running 3 tools", SpanKind.CHAIN),
        ({"logfire.msg": "Agent run: 'analyst'"}, "Agent run: {name!r}", SpanKind.AGENT),
        ({"gen_ai.operation.name": "a word of tomorrow", "tool.name": "t"}, "x", SpanKind.TOOL),
        ({"gen_ai.operation.name": "acompletion"}, "litellm_request", SpanKind.LLM),
        ({}, "GET /orders", SpanKind.UNKNOWN),
    ],
)  # fmt: skip
def test_the_kind_is_told_by_the_best_word_for_it(attributes: dict[str, Any], name: str, kind: SpanKind) -> None:
    assert read(attributes, name=name).kind is kind


@pytest.mark.parametrize(
    ("attributes", "name", "tool"),
    [
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}, "execute_tool search", "search"),
        ({"gen_ai.operation.name": "execute_tool"}, "execute_tool search", "search"),
        ({"traceloop.span.kind": "tool", "traceloop.entity.name": "search"}, "search.tool", "search"),
        ({"openinference.span.kind": "TOOL"}, "search.__call__", "search"),
        ({"openinference.span.kind": "TOOL", "tool.name": "search"}, "FunctionTool.acall", "search"),
        ({"logfire.msg": "running tool: search"}, "running tool", "search"),
        ({"mcp.method.name": "tools/call"}, "tools/call search", "search"),
        ({"openinference.span.kind": "TOOL"}, "search", "search"),
    ],
)  # fmt: skip
def test_tool_names_are_the_executed_ones_without_wrapper_suffixes(
    attributes: dict[str, Any], name: str, tool: str
) -> None:
    assert read(attributes, name=name).tool_name == tool


def test_a_tool_name_on_a_chat_span_is_a_request_and_no_tool() -> None:
    span = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.tool.name": "weather, rates",
            "gen_ai.tool.call.id": "a, b",
            "gen_ai.tool.args": '{"city": "Oslo"}, {"to": "USD"}',
        },
        scope="openlit.instrumentation.openai",
    )
    assert (span.kind, span.tool_name, span.tool_call_id, span.tool_arguments) == (SpanKind.LLM, None, None, None)
    (asked,) = loads(span.output_messages, "assistant")
    assert [(c.name, c.id, c.arguments) for c in asked.tool_calls] == [
        ("weather", "a", {"city": "Oslo"}),
        ("rates", "b", {"to": "USD"}),
    ]


def test_a_span_of_class_name_has_the_agent_of_its_reprs() -> None:
    span = read(
        {"openinference.span.kind": "CHAIN", "output.value": "AgentInput(input=[...], current_agent_name='Analyst')"},
        name="BaseWorkflowAgent.setup_agent",
        scope="openinference.instrumentation.llama_index",
    )
    assert span.agent_name == "Analyst"


def test_the_model_that_answered_is_read_from_the_repr_of_an_agents_event() -> None:
    event = (
        "{'ev': \"AgentOutput(response=ChatMessage(role=<MessageRole.ASSISTANT: 'assistant'>), current_agent_name='Analyst',"
        " raw={'id': 'c-1', 'created': 7, 'model': 'gpt-4o-mini-2024-07-18', 'object': 'chat.completion'})\"}"
    )
    span = read(
        {"openinference.span.kind": "CHAIN", "input.value": event},
        name="BaseWorkflowAgent.parse_agent_output",
        scope="openinference.instrumentation.llama_index",
    )
    assert (span.model_response, span.agent_name) == ("gpt-4o-mini-2024-07-18", "Analyst")
    assert read({"openinference.span.kind": "CHAIN", "input.value": "{'model': 'a toy car'}"}).model_response is None


@pytest.mark.parametrize(("start", "end"), [(0, 2**63 - 1), (0, 1_700_000_000_000_000_000), (9, 5)])
def test_a_time_from_nowhere_is_flagged(start: int, end: int) -> None:
    raw = RawSpan("1" * 32, "2" * 16, "", "x", 1, 0, start, end, 0, "", {"gen_ai.operation.name": "chat"}, [], [])
    shared = origin({}, {"name": "", "version": ""}, project="p", received_ns=5)
    assert normalise(raw, shared).flags == ("clock_skew",)
    raw.end_ns = raw.start_ns = 7
    assert normalise(raw, shared).flags == ()


def test_the_preparation_of_a_request_is_no_model_call() -> None:
    span = read(
        {"openinference.span.kind": "LLM", "llm.model_name": "m"},
        name="OpenAI._prepare_chat_with_tools",
        scope="openinference.x",
    )
    assert span.kind is SpanKind.CHAIN


def test_model_calls_that_overwrite_each_other_on_an_agent_leave_it_an_agent() -> None:
    span = read(
        {"openinference.span.kind": "LLM", "gen_ai.operation.name": "generate_content", "gen_ai.agent.name": "bot"},
        name="invoke_agent bot",
        scope="gcp.vertex.agent",
    )
    assert (span.kind, span.operation, span.agent_name) == (SpanKind.AGENT, "invoke_agent", "bot")


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({"logfire.span_type": "pending_span"}, "x"),
        ({"gen_ai.tool.name": "(merged tools)", "gen_ai.operation.name": "execute_tool"}, "x"),
    ],
)
def test_spans_that_repeat_another_are_marked(attributes: dict[str, Any], name: str) -> None:
    assert set(read(attributes, name=name).flags) & {"placeholder", "duplicate"}


# usage


@pytest.mark.parametrize(
    ("attributes", "usage"),
    [
        ({"gen_ai.usage.input_tokens": 1271, "gen_ai.usage.output_tokens": 48, "gen_ai.usage.cache_write.input_tokens": 1241, "gen_ai.usage.cache_read.input_tokens": 0}, Usage(1271, 48, 0, 1241)),
        ({"gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 2, "gen_ai.usage.cache_creation_input_tokens": 4}, Usage(10, 2, None, 4)),
        ({"llm.token_count.prompt": "10", "llm.token_count.completion": 2.0, "llm.token_count.prompt_details.cache_read": 4, "llm.token_count.completion_details.reasoning": 1}, Usage(10, 2, 4, None, 1)),
        ({"ai.usage.promptTokens": 10, "ai.usage.completionTokens": 2, "ai.response.providerMetadata": '{"openai": {"cachedPromptTokens": 4, "reasoningTokens": 1}}'}, Usage(10, 2, 4, None, 1)),
        ({"mlflow.chat.tokenUsage": '{"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 4}'}, Usage(10, 2, 4)),
        ({"langfuse.observation.usage_details": '{"input": 6, "input_cached_tokens": 4, "output": 2, "total": 12}'}, Usage(10, 2, 4)),
        ({"gcp.vertex.agent.llm_response": '{"usage_metadata": {"prompt_token_count": 10, "candidates_token_count": 2, "thoughts_token_count": 3}}'}, Usage(10, 5, None, None, 3)),
        ({"gen_ai.usage.input_tokens": 10}, Usage(10, None)),
    ],
)  # fmt: skip
def test_token_counts_are_read_under_every_name(attributes: dict[str, Any], usage: Usage) -> None:
    assert read({"gen_ai.operation.name": "chat", **attributes}).usage == usage


def test_input_without_the_cache_is_made_inclusive_and_flagged() -> None:
    span = read(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.usage.input_tokens": 30,
            "gen_ai.usage.output_tokens": 5,
            "gen_ai.usage.cache_read.input_tokens": 1241,
        }
    )
    assert span.usage.input_tokens == 1271
    assert "usage_repaired" in span.flags


def test_the_total_decides_whether_the_cache_is_in_the_input() -> None:
    counts = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 40,
    }
    assert read({**counts, "gen_ai.usage.total_tokens": 145}).usage.input_tokens == 140
    assert read({**counts, "gen_ai.usage.total_tokens": 105}).usage.input_tokens == 100


def test_output_without_the_reasoning_is_made_inclusive() -> None:
    span = read(
        {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 5, "gen_ai.usage.reasoning.output_tokens": 20}
    )
    assert span.usage.output_tokens == 25


def test_claude_code_counts_the_cache_apart() -> None:
    span = read(
        {"span.type": "llm_request", "input_tokens": 100, "output_tokens": 5, "cache_read_tokens": 40},
        scope="claude_code.tracing",
    )
    assert span.usage.input_tokens == 140


def test_unknown_usage_is_none_and_zero_is_a_value() -> None:
    assert read({"gen_ai.operation.name": "chat"}).usage == Usage()
    assert read({"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 0}).usage.output_tokens == 0


def test_reading_an_answer_again_costs_no_tokens() -> None:
    assert read({"gen_ai.operation.name": "fetch_response", "gen_ai.usage.input_tokens": 9}).usage == Usage()


def test_totals_of_a_run_are_the_agents_usage() -> None:
    span = read(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.aggregated_usage.input_tokens": 9,
            "gen_ai.aggregated_usage.output_tokens": 1,
        }
    )
    assert span.usage == Usage(9, 1)


def test_two_vocabularies_on_one_span_are_counted_once() -> None:
    span = read(
        {
            "openinference.span.kind": "LLM",
            "gen_ai.usage.input_tokens": 10,
            "llm.token_count.prompt": 10,
            "gen_ai.operation.name": "chat",
        }
    )
    assert span.usage.input_tokens == 10
    assert span.attributes == {}


def test_strands_measures_the_first_token_in_milliseconds() -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.server.time_to_first_token": 2498}
    assert read(attributes, scope="strands.telemetry.tracer").time_to_first_token_s == pytest.approx(2.498)
    assert read(attributes).time_to_first_token_s == 2498


@pytest.mark.parametrize("key", ["operation.cost", "gen_ai.usage.cost", "llm.cost.total", "gen_ai.cost.total_cost"])
def test_cost_that_travels_is_kept(key: str) -> None:
    assert read({key: 0.0012}).cost_carried == 0.0012


# arguments, results, failures


@pytest.mark.parametrize(
    ("attributes", "arguments"),
    [
        ({"gen_ai.tool.call.arguments": '{"q": 1}'}, {"q": 1}),
        ({"gen_ai.tool.call.arguments": {"q": 1}}, {"q": 1}),
        ({"tool_arguments": '{"q": 1}'}, {"q": 1}),
        ({"traceloop.entity.input": '{"args": [], "kwargs": {"q": 1}}'}, {"q": 1}),
        ({"langfuse.observation.input": '{"args": [], "kwargs": {"q": 1}}'}, {"q": 1}),
        ({"input.value": '{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"q": 1}}'}, {"q": 1}),
        ({"input.value": '{"kwargs": {"q": 1}}'}, {"q": 1}),
        ({"gen_ai.tool.call.arguments": '{"input_str": "{\'q\': 1}", "tags": ["s"], "metadata": {}, "inputs": {"q": 1}, "kwargs": {"color": "green", "tool_call_id": "t"}}'}, {"q": 1}),
        ({"ai.toolCall.args": '{"q": 1}'}, {"q": 1}),
        ({"mlflow.spanInputs": '{"q": 1}'}, {"q": 1}),
        ({"input.value": "LL-20417"}, "LL-20417"),
        ({"input.value": '{"city": "Oslo", "args": "kept"}'}, {"city": "Oslo", "args": "kept"}),
    ],
)  # fmt: skip
def test_arguments_are_taken_out_of_their_wrapping(attributes: dict[str, Any], arguments: Any) -> None:
    stated = read({"openinference.span.kind": "TOOL", "tool.name": "t", **attributes}).tool_arguments
    assert stated is not None
    assert (json.loads(stated) if stated[0] in "{[" else stated) == arguments


def test_tool_parameters_are_the_schema_or_the_arguments() -> None:
    schema = {
        "openinference.span.kind": "TOOL",
        "tool.parameters": '{"type": "object", "properties": {"q": {"type": "string"}}}',
    }
    assert read(schema).tool_arguments is None
    assert read({**schema, "input.value": '{"q": 1}'}).tool_arguments == '{"q": 1}'
    assert read({"openinference.span.kind": "TOOL", "tool.parameters": '{"q": 1}'}).tool_arguments == '{"q":1}'


@pytest.mark.parametrize(
    "result",
    [
        {"output.value": '{"type": "tool", "data": {"content": "no such order", "tool_call_id": "c9", "status": "error"}}'},
        {"output.value": '{"lc": 1, "type": "constructor", "id": ["ToolMessage"], "kwargs": {"content": "no such order", "tool_call_id": "c9", "status": "error"}}'},
        {"gen_ai.tool.call.result": '{"output": {"lc": 1, "type": "constructor", "id": ["ToolMessage"], "kwargs": {"content": "no such order", "tool_call_id": "c9", "status": "error"}}, "kwargs": {"color": "green"}}'},
        {"gen_ai.tool.call.result": '{"content": [{"type": "text", "text": "no such order"}], "isError": true}', "gen_ai.tool.call.id": "c9"},
        {"gen_ai.completion": '{"output": {"type": "tool", "content": "no such order", "tool_call_id": "c9", "status": "error"}}', "gen_ai.tool.call.id": "c9"},
        {"gen_ai.tool.call.result": "no such order", "gen_ai.tool.status": "error", "gen_ai.tool.call.id": "c9"},
    ],
)  # fmt: skip
def test_a_failed_tool_is_seen_though_its_status_is_fine(result: dict[str, Any]) -> None:
    span = read({"openinference.span.kind": "TOOL", "tool.name": "t", **result}, status=1)
    assert (span.tool_result, span.failed, span.tool_call_id) == ("no such order", True, "c9")
    assert span.is_error


def test_a_result_encoded_twice_is_undone_and_text_blocks_are_their_text() -> None:
    twice = read({"traceloop.span.kind": "tool", "traceloop.entity.output": json.dumps(json.dumps([{"a": 1}]))})
    assert json.loads(twice.tool_result or "") == [{"a": 1}]
    blocks = read(
        {
            "gen_ai.operation.name": "execute_tool",
            "anthropic.tool_result.content": '[{"type": "text", "text": "{\\"a\\": 1}"}]',
        }
    )
    assert json.loads(blocks.tool_result or "") == {"a": 1}


def test_a_result_that_is_a_map_attribute_becomes_json() -> None:
    assert (
        read({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": {"a": [1, None]}}).tool_result
        == '{"a":[1,null]}'
    )


def test_a_retried_tool_is_a_failure_with_its_cause() -> None:
    span = read(
        {"gen_ai.operation.name": "execute_tool", "pydantic_ai.tool.retry.cause": "ModelRetry"}, scope="pydantic-ai"
    )
    assert (span.failed, span.error_type) == (True, "ModelRetry")


@pytest.mark.parametrize(
    "attributes", [{"error.type": "api_error"}, {"langfuse.observation.level": "ERROR"}, {"success": False}]
)
def test_errors_that_only_attributes_tell_are_errors(attributes: dict[str, Any]) -> None:
    assert read(attributes).is_error


def test_an_exception_event_gives_type_and_message() -> None:
    event = RawEvent("exception", 5, {"exception.type": "TimeoutError", "exception.message": "too slow"})
    span = read({}, events=[event], status=2)
    assert (span.error_type, span.error_message, span.is_error) == ("TimeoutError", "too slow", True)


# content


def test_hidden_content_is_redacted_and_never_an_answer() -> None:
    span = read(
        {
            "openinference.span.kind": "LLM",
            "input.value": "__REDACTED__",
            "output.value": "__REDACTED__",
            "llm.model_name": "m",
        }
    )
    assert (span.content, span.input_messages, span.output_messages) == ("redacted", None, None)


def test_absent_content_is_not_captured() -> None:
    assert read({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}).content == "not_captured"


def test_dropped_attributes_mean_truncated_content() -> None:
    span = read(
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role": "user", "parts": []}]'}, dropped=3
    )
    assert span.content == "truncated"
    assert "truncated" in span.flags


def test_a_scrubbed_session_is_no_session() -> None:
    assert read({"session_id": "[Scrubbed due to 'session']"}).session_id is None


def test_flat_attributes_are_the_messages_they_were() -> None:
    span = read(
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "Hi",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.contents.0.message_content.type": "text",
            "llm.output_messages.0.message.contents.0.message_content.text": "Looking",
            "llm.output_messages.0.message.contents.1.message_content.type": "tool_use",
            "llm.output_messages.0.message.contents.1.tool_call.id": "c",
            "llm.output_messages.0.message.contents.1.tool_call.function.name": "search",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"q": 1}',
        }
    )
    (answer,) = loads(span.output_messages)
    assert loads(span.input_messages)[0].text == "Hi"
    assert answer.text == "Looking"
    assert [(c.id, c.name, c.arguments) for c in answer.tool_calls] == [("c", "search", {"q": 1})]
    assert span.attributes == {}


def test_indexed_prompts_hold_lists_of_blocks_as_text() -> None:
    span = read(
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": '[{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]',
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "Done",
            "gen_ai.completion.0.finish_reason": "end_turn",
        }
    )
    assert loads(span.input_messages)[0].tool_responses[0].response == "ok"
    assert loads(span.output_messages)[0].finish_reason == "end_turn"


def test_one_answer_in_three_attributes_is_one_message() -> None:
    span = read(
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.response.text": "Looking",
            "ai.response.reasoning": "hm",
            "ai.response.toolCalls": '[{"toolCallId": "c", "toolName": "search", "input": "{\\"q\\": 1}"}]',
            "ai.response.finishReason": "tool-calls",
        },
        scope="ai",
    )
    (answer,) = loads(span.output_messages)
    assert (answer.text, answer.finish_reason, answer.tool_calls[0].arguments) == ("Looking", "tool-calls", {"q": 1})
    assert [p.type for p in answer.parts] == ["reasoning", "text", "tool_call"]


def test_the_history_of_an_agent_gives_this_runs_question_and_answer() -> None:
    history = [
        {"role": "user", "parts": [{"type": "text", "content": "old"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "old answer"}]},
        {"role": "user", "parts": [{"type": "text", "content": "new"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "new answer"}]},
    ]
    span = read(
        {
            "gen_ai.operation.name": "invoke_agent",
            "pydantic_ai.all_messages": json.dumps(history),
            "pydantic_ai.new_message_index": 2,
        }
    )
    assert (span.run_input, span.run_output) == ("new", "new answer")


def test_arguments_that_logfire_wrapped_once_more_are_unwrapped() -> None:
    call = {"id": "c", "function": {"name": "search", "arguments": '{"input": {"q": 1}}'}}
    span = read(
        {
            "gen_ai.operation.name": "chat",
            "response_data": json.dumps({"message": {"role": "assistant", "content": "", "tool_calls": [call]}}),
        }
    )
    assert loads(span.output_messages)[0].tool_calls[0].arguments == {"q": 1}


def test_message_events_of_a_span_are_asked_and_answered() -> None:
    events = [
        {"event.name": "gen_ai.user.message", "content": "Hi", "role": "user"},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "Yo"}},
    ]
    span = read({"gen_ai.operation.name": "chat", "events": json.dumps(events)})
    assert [(m.role, m.text) for m in loads(span.input_messages)] == [("user", "Hi")]
    assert [(m.role, m.text) for m in loads(span.output_messages)] == [("assistant", "Yo")]


def test_span_events_are_messages_on_a_chat_and_arguments_on_a_tool() -> None:
    asked = RawEvent("gen_ai.tool.message", 1, {"role": "tool", "content": '{"q": 1}', "id": "c"})
    answered = RawEvent("gen_ai.choice", 2, {"message": '[{"text": "{\\"a\\": 2}"}]', "id": "c"})
    tool = read(
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"},
        events=[answered, asked],
        scope="strands.telemetry.tracer",
    )
    assert (json.loads(tool.tool_arguments or ""), json.loads(tool.tool_result or ""), tool.tool_call_id) == (
        {"q": 1},
        {"a": 2},
        "c",
    )
    system = RawEvent("gen_ai.system.message", 1, {"content": '[{"text": "Be brief."}]'})
    user = RawEvent("gen_ai.user.message", 1, {"content": '[{"text": "Hi"}]'}, None, 1)
    chat = read(
        {"gen_ai.operation.name": "chat"},
        events=[
            system,
            user,
            RawEvent("gen_ai.choice", 3, {"finish_reason": "end_turn", "message": '[{"text": "Yo"}]'}),
        ],
    )
    assert [(m.role, m.text) for m in loads(chat.input_messages)] == [("system", "Be brief."), ("user", "Hi")]
    assert (chat.system_prompt, loads(chat.output_messages)[0].text, chat.finish_reasons) == (
        "Be brief.",
        "Yo",
        ("end_turn",),
    )


def test_litellms_raw_child_is_the_call_with_its_ids() -> None:
    span = read(
        {
            "llm.openai.messages": "[{'role': 'user', 'content': 'Hi'}]",
            "llm.openai.id": "chatcmpl-1",
            "llm.openai.choices": "[{'finish_reason': 'tool_calls', 'message': {'content': None, 'role': 'assistant', 'tool_calls': [{'id': 'c', 'function': {'arguments': '{}', 'name': 'search'}, 'type': 'function'}]}}]",
            "llm.openai.usage": "{'completion_tokens': 2, 'prompt_tokens': 10, 'prompt_tokens_details': {'cached_tokens': 4}}",
        },
        scope="litellm",
    )  # fmt: skip
    assert (span.kind, span.response_id, span.usage) == (SpanKind.LLM, "chatcmpl-1", Usage(10, 2, 4))
    assert loads(span.output_messages)[0].tool_calls[0].id == "c"


def test_usage_in_a_repr_of_the_raw_answer_is_read() -> None:
    raw = "ChatCompletion(id='x', model='gpt-5-mini-2025-08-07', usage=CompletionUsage(completion_tokens=2, completion_tokens_details=Details(reasoning_tokens=192), prompt_tokens_details=Details(cached_tokens=1024)))"
    span = read(
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "gpt-5-mini",
            "llm.token_count.prompt": 1240,
            "llm.token_count.completion": 212,
            "output.value": json.dumps({"role": "assistant", "raw": raw}),
        }
    )
    assert span.usage == Usage(1240, 212, 1024, None, 192)
    assert (span.model_request, span.model_response) == ("gpt-5-mini", "gpt-5-mini-2025-08-07")


# models, providers, grouping


@pytest.mark.parametrize(
    ("attributes", "provider"),
    [
        ({"gen_ai.system": "az.ai.openai"}, "azure.ai.openai"),
        ({"ai.model.provider": "amazon-bedrock"}, "aws.bedrock"),
        ({"ai.model.provider": "openai.chat"}, "openai"),
        ({"gen_ai.system": "strands-agents", "gen_ai.request.model": "gpt-4o-mini"}, "openai"),
        ({"gen_ai.provider.name": "langgraph", "server.address": "api.anthropic.com"}, "anthropic"),
        ({"gen_ai.provider.name": "a new host"}, "a new host"),
        ({"gen_ai.system": "autogen"}, None),
    ],
)  # fmt: skip
def test_a_frameworks_name_is_no_provider(attributes: dict[str, Any], provider: str | None) -> None:
    assert read({"gen_ai.operation.name": "chat", **attributes}).provider == provider


@pytest.mark.parametrize(
    ("stated", "reasons"),
    [
        (["tool_calls"], ("tool_calls",)),
        ('["stop"]', ("stop",)),
        ("FinishReason.TOOL_CALLS", ("TOOL_CALLS",)),
        ("a,b", ("a", "b")),
    ],
)
def test_finish_reasons_are_a_list_in_every_spelling(stated: Any, reasons: tuple[str, ...]) -> None:
    assert read({"gen_ai.response.finish_reasons": stated}).finish_reasons == reasons


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.conversation.id": "s"},
        {"session.id": "s"},
        {"traceloop.association.properties.session_id": "s"},
        {"ai.telemetry.metadata.sessionId": "s"},
        {"mlflow.trace.session": '"s"'},
        {"metadata": '{"lc_agent_name": "a", "session_id": "s"}'},
        {"group_id": '"s"'},
        {"kwargs": '{"run_config": {"group_id": "s"}}'},
    ],
)
def test_sessions_are_found_under_every_name(attributes: dict[str, Any]) -> None:
    assert read(attributes).session_id == "s"


def test_the_word_null_is_nothing() -> None:
    assert read({"group_id": "null", "mlflow.spanType": "null", "user.id": ""}).session_id is None


def test_what_the_resource_says_is_the_last_word() -> None:
    resource = {
        "service.name": "shop",
        "service.version": "1.2",
        "deployment.environment.name": "test",
        "service.instance.id": "i",
    }
    span = read({"langfuse.environment": "prod"}, resource=resource)
    assert (span.service_name, span.service_version, span.service_instance_id, span.environment) == (
        "shop",
        "1.2",
        "i",
        "prod",
    )
    assert read({}, resource={"service.name": "unknown_service:python"}).service_name == ""


# retrieval and evaluations


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.retrieval.documents": '[{"id": "d1", "score": 0.5, "content": "text"}]'},
        {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.id": "d1", "retrieval.documents.0.document.score": 0.5, "retrieval.documents.0.document.content": "text"},
        {"openinference.span.kind": "RETRIEVER", "output.value": '[{"node": {"id_": "d1", "text": "text"}, "score": 0.5}]'},
        {"mlflow.spanType": '"RETRIEVER"', "mlflow.spanOutputs": '[{"page_content": "text", "id": "d1", "score": 0.5}]'},
    ],
)  # fmt: skip
def test_documents_are_found_in_every_shape(attributes: dict[str, Any]) -> None:
    (document,) = json.loads(read(attributes).documents or "[]")
    assert {k: document[k] for k in ("id", "content", "score")} == {"id": "d1", "content": "text", "score": 0.5}


def test_a_distance_is_no_score() -> None:
    event = RawEvent(
        "db.query.result",
        5,
        {"db.query.result.id": "d1", "db.query.result.distance": 0.9, "db.query.result.document": "text"},
    )
    (document,) = json.loads(read({"db.vector.query.top_k": 3}, events=[event]).documents or "[]")
    assert document == {"id": "d1", "content": "text", "score": None, "metadata": {"distance": 0.9}}


def test_evaluations_on_a_span_keep_name_score_and_scope() -> None:
    span = read(
        {
            "trace.evaluations.0.evaluation.name": "helpful",
            "trace.evaluations.0.evaluation.score": 1,
            "trace.evaluations.0.evaluation.annotator_kind": "LLM",
        }
    )
    assert json.loads(span.evaluations or "") == [
        {"name": "helpful", "score": 1.0, "annotator": "LLM", "scope": "trace"}
    ]
    event = RawEvent(
        "gen_ai.evaluation.result",
        5,
        {
            "gen_ai.evaluation.name": "relevance",
            "gen_ai.evaluation.score.value": 0.5,
            "gen_ai.evaluation.score.label": "pass",
        },
    )
    assert json.loads(read({}, events=[event]).evaluations or "")[0]["label"] == "pass"


def test_an_evaluator_span_judges_the_span_it_links_to() -> None:
    span = read(
        {"openinference.span.kind": "EVALUATOR", "output.value": '{"score": 0.25, "explanation": "no"}'},
        name="grounded",
        links=[RawLink("1" * 32, "3" * 16, {})],
    )
    assert json.loads(span.evaluations or "") == [
        {"name": "grounded", "score": 0.25, "explanation": "no", "scope": "span", "target": "3" * 16}
    ]


# the table itself


def test_every_field_tells_its_source_when_asked() -> None:
    span = read(
        {
            "gen_ai.operation.name": "chat",
            "llm.model_name": "m",
            "gen_ai.usage.input_tokens": 1,
            "gen_ai.usage.cache_read.input_tokens": 5,
        },
        explain=True,
    )
    assert span.sources["model_request"] == "llm.model_name"
    assert span.sources["kind"] == "gen_ai.operation.name"
    assert span.sources["repair exclusive_usage"] == "fired"


def test_attributes_that_no_field_takes_are_kept_as_text() -> None:
    assert read({"my.key": {"a": [1]}, "n": 3, "f": 0.5, "b": True}).attributes == {
        "my.key": '{"a":[1]}',
        "n": "3",
        "f": "0.5",
        "b": "true",
    }


def test_a_losing_source_with_another_value_is_kept() -> None:
    assert read({"session.id": "b", "gen_ai.conversation.id": "a"}).attributes == {"session.id": "b"}


def test_the_table_names_each_source_once() -> None:
    for field, sources in FIELDS.items():
        seen = [(s.key, s.when, s.convert) for s in sources]
        assert len(seen) == len(set(seen)), field


def chat_message(role: str, content: str, meta: str = "{}") -> str:
    """A message as haystack prints it."""
    return f"ChatMessage(_role=<ChatRole.{role.upper()}: '{role}'>, _content=[{content}], _name=None, _meta={meta})"


CALLED = "ToolCall(tool_name='f', arguments={'q': 1}, id='c', extra=None)"
HISTORY = [
    chat_message("user", "TextContent(text='Hi')"),
    chat_message("assistant", CALLED, "{'model': 'm', 'usage': {'prompt_tokens': 10, 'completion_tokens': 2}}"),
    chat_message("tool", f"ToolCallResult(result='ok', origin={CALLED}, error=False)"),
    chat_message(
        "assistant", "TextContent(text='Yo')", "{'model': 'm', 'usage': {'prompt_tokens': 20, 'completion_tokens': 3}}"
    ),
]
HAYSTACK = {
    "openinference.span.kind": "CHAIN",
    "input.value": json.dumps({"messages": HISTORY[:1]}),
    "output.value": json.dumps({"messages": HISTORY}),
}


def test_an_agent_that_tells_its_calls_in_messages_only_gets_them_as_spans() -> None:
    scope = "openinference.instrumentation.haystack"
    agent, first, second = with_derived([read(HAYSTACK, name="Agent.run", scope=scope)], scope)
    assert agent.kind is SpanKind.AGENT
    assert [c.usage for c in (first, second)] == [Usage(10, 2), Usage(20, 3)]
    assert loads(first.output_messages)[0].tool_calls[0].arguments == {"q": 1}
    assert loads(second.input_messages)[-1].tool_responses[0].response == "ok"
    assert len({agent.span_id, first.span_id, second.span_id}) == 3


def test_calls_told_in_messages_give_way_to_real_ones() -> None:
    scope = "openinference.instrumentation.haystack"
    spans = with_derived([read(HAYSTACK, name="Agent.run", scope=scope)], scope)
    real = replace(read({"gen_ai.operation.name": "chat"}), span_id="7" * 16, parent_id="2" * 16)
    assert [s.span_id for s in join_logs([*spans, real], [])] == ["2" * 16, "7" * 16]
    assert join_logs(spans, []) == spans


def test_a_function_of_the_agents_sdk_in_logfire_is_a_tool_and_its_chat_has_messages() -> None:
    tool = read(
        {"logfire.msg": "Function: f", "name": "f", "input": '{"q": 1}', "output": "ok"},
        name="Function: {name}",
        scope="logfire.openai_agents",
    )
    assert (tool.kind, tool.tool_name, tool.tool_arguments, tool.tool_result) == (SpanKind.TOOL, "f", '{"q": 1}', "ok")
    chat = read(
        {
            "gen_ai.request.model": "m",
            "input": '[{"role": "user", "content": "Hi"}]',
            "output": '[{"role": "assistant", "content": "Yo"}]',
        },
        name="Chat completion with {gen_ai.request.model!r}",
        scope="logfire.openai_agents",
    )
    assert (chat.kind, loads(chat.input_messages)[0].text, loads(chat.output_messages)[0].text) == (
        SpanKind.LLM,
        "Hi",
        "Yo",
    )
