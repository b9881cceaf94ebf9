"""Words of dialects that no golden capture speaks: hand-made spans, as the researched conventions describe them."""

import json
from typing import Any

import pytest

from evalspan_collector.assemble import assemble
from evalspan_collector.messages import loads
from evalspan_collector.normalise import normalise, origin
from evalspan_collector.raw import RawSpan
from evalspan_collector.span import Span, SpanKind, Usage


def read(attributes: dict[str, Any], *, name: str = "span", scope: str = "") -> Span:
    """A span with these attributes, as the collector reads it."""
    raw = RawSpan("1" * 32, "2" * 16, "", name, 1, 256, 1_000, 2_000, 0, "", attributes, (), ())
    return normalise(raw, origin({}, {"name": scope, "version": "1"}, project="p", received_ns=5))


def texts(messages: str | None) -> list[tuple[str, str]]:
    return [(m.role, m.text) for m in loads(messages)]


def test_livekit_keeps_context_text_and_tool_calls_apart() -> None:
    span = read(
        {
            "gen_ai.operation.name": "chat",
            "lk.chat_ctx": json.dumps({"items": [{"type": "message", "role": "user", "content": ["hi"]}]}),
            "lk.response.text": "hello",
            "lk.response.function_calls": json.dumps(
                [{"name": "weather", "call_id": "c", "arguments": '{"at": "Oslo"}'}]
            ),
        },
        name="llm_request",
        scope="livekit-agents",
    )
    assert texts(span.input_messages) == [("user", "hi")]
    (answer,) = loads(span.output_messages)
    assert (answer.text, [(p.name, p.id, p.arguments) for p in answer.tool_calls]) == (
        "hello", [("weather", "c", {"at": "Oslo"})],
    )  # fmt: skip


def test_langsmith_wraps_arguments_and_results() -> None:
    span = read(
        {
            "langsmith.span.kind": "tool",
            "gen_ai.prompt": json.dumps({"input": "{'a': None}"}),
            "gen_ai.completion": json.dumps({"output": "r"}),
        },
        name="search",
    )
    assert (span.kind, span.tool_name, span.tool_arguments, span.tool_result) == (
        SpanKind.TOOL, "search", '{"a":null}', "r",
    )  # fmt: skip


@pytest.mark.parametrize(
    "attributes",
    [
        {"mcp.method.name": "tools/call", "rpc.response.status_code": "-32602"},
        {"gen_ai.operation.name": "execute_tool", "adk.fn.exc_type": "ValueError"},
        {"gen_ai.operation.name": "execute_tool", "logfire.level_num": 17},
        {"langfuse.observation.type": "tool", "langfuse.observation.level": "ERROR"},
    ],
)
def test_a_failure_that_only_one_dialect_words_is_one(attributes: dict[str, Any]) -> None:
    assert read(attributes, name="tools/call search").failed is True


def test_a_call_that_went_well_is_no_failure() -> None:
    assert read({"mcp.method.name": "tools/call", "rpc.response.status_code": "OK"}, name="tools/call x").failed is None
    assert read({"gen_ai.operation.name": "execute_tool", "logfire.level_num": 9}, name="execute_tool x").failed is None


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"db.system": "chroma", "db.operation": "query"}, SpanKind.RETRIEVER),
        ({"db.system.name": "pinecone", "db.operation.name": "query"}, SpanKind.RETRIEVER),
        ({"db.system": "chroma", "db.operation": "add"}, SpanKind.UNKNOWN),
        ({"db.system": "postgresql", "db.operation": "select"}, SpanKind.UNKNOWN),
        ({"db.vector.query.top_k": 3}, SpanKind.RETRIEVER),
    ],
)
def test_a_search_in_a_store_of_vectors_is_a_retrieval(attributes: dict[str, Any], kind: SpanKind) -> None:
    assert read(attributes, name="store.call").kind is kind


def test_adk_holds_request_and_answer_of_gemini_whole() -> None:
    span = read(
        {
            "gen_ai.operation.name": "generate_content",
            "gcp.vertex.agent.llm_request": json.dumps({
                "config": {"system_instruction": "be brief", "tools": [{"function_declarations": [{"name": "f"}]}]},
                "contents": [{"role": "user", "parts": [{"text": "q"}]}],
            }),
            "gcp.vertex.agent.llm_response": json.dumps({
                "model_version": "gemini-2.5-pro-001",
                "content": {"role": "model", "parts": [{"text": "a"}]},
                "usage_metadata": {"prompt_token_count": 10, "candidates_token_count": 5, "thoughts_token_count": 3,
                                   "cached_content_token_count": 4, "total_token_count": 18},
            }),
        },
        scope="gcp.vertex.agent",
    )  # fmt: skip
    assert (span.model_response, span.system_prompt) == ("gemini-2.5-pro-001", "be brief")
    assert span.usage == Usage(input_tokens=10, output_tokens=8, cache_read_tokens=4, reasoning_tokens=3)
    assert texts(span.input_messages) == [("system", "be brief"), ("user", "q")]
    assert texts(span.output_messages) == [("assistant", "a")]


def test_genkit_and_laminar_say_a_call_in_words_of_their_own() -> None:
    genkit = read(
        {
            "genkit:metadata:subtype": "model",
            "genkit:name": "googleai/gemini-2.5-pro",
            "genkit:input": json.dumps({"messages": [{"role": "user", "content": [{"text": "q"}]}]}),
            "genkit:output": json.dumps(
                {
                    "message": {"role": "model", "content": [{"text": "a"}]},
                    "usage": {"inputTokens": 3, "outputTokens": 2},
                }
            ),
        }
    )
    laminar = read(
        {
            "lmnr.span.type": "LLM",
            "lmnr.span.input": json.dumps([{"role": "user", "content": "q"}]),
            "lmnr.span.output": json.dumps("a"),
        }
    )
    assert (genkit.model_request, genkit.usage) == ("gemini-2.5-pro", Usage(input_tokens=3, output_tokens=2))
    for span in (genkit, laminar):
        assert span.kind is SpanKind.LLM
        assert (texts(span.input_messages), texts(span.output_messages)) == ([("user", "q")], [("assistant", "a")])


def test_claude_code_counts_its_calls_with_the_cache_apart() -> None:
    span = read(
        {"span.type": "llm_request", "model": "claude-sonnet-4-5", "input_tokens": 4, "output_tokens": 2,
         "cache_read_tokens": 10, "cache_creation_tokens": 3},
        name="claude_code.llm_request", scope="com.anthropic.claude_code.tracing",
    )  # fmt: skip
    assert span.usage == Usage(input_tokens=17, output_tokens=2, cache_read_tokens=10, cache_write_tokens=3)


def test_litellm_under_a_parent_writes_its_call_onto_that_span() -> None:
    span = read(
        {
            "http.method": "POST", "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.usage.input_tokens": 298, "gen_ai.usage.output_tokens": 9, "gen_ai.provider.name": "openai",
            "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "q"}]}]),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "a"}]}]),
        },
        name="POST /ask", scope="my.app",
    )  # fmt: skip
    assert (span.kind, span.usage.input_tokens, span.model_request) == (SpanKind.LLM, 298, "gpt-4o-mini")
    (run,) = assemble([span])
    assert (run.input, run.output, run.usage.input_tokens) == ("q", "a", 298)
    assert [s.kind for s in run.steps] == ["model_call"]


def test_the_first_version_of_logfire_keeps_request_and_answer_whole() -> None:
    span = read(
        {
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.operation.name": "chat",
            "request_data": json.dumps({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "q"}]}),
            "response_data": json.dumps(
                {
                    "message": {"role": "assistant", "content": "a"},
                    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
                }
            ),
            "logfire.msg": "Chat Completion with 'gpt-4o-mini'",
        },
        name="Chat Completion with {request_data[model]!r}",
        scope="logfire.openai",
    )
    assert (texts(span.input_messages), texts(span.output_messages)) == ([("user", "q")], [("assistant", "a")])
    assert span.usage == Usage(input_tokens=7, output_tokens=2)
