"""Messages of every vendor to one normal form."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan_collector.message import Message, Part
from evalspan_collector.messages import dumps, last_text, loads, system_text, tool_result, unflatten

CALL = Part(type="tool_call", id="c1", name="search", arguments={"q": "x"})
ANSWER = Part(type="tool_call_response", id="c1", response={"n": 1})
ASKED = Message(role="user", parts=(Part(type="text", content="Hi"),))

#: (name of the shape, what travels): each is the question, a call of `search` and its result.
CONVERSATIONS: list[tuple[str, Any]] = [
    (
        "semantic conventions",
        [
            {"role": "user", "parts": [{"type": "text", "content": "Hi"}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "search", "arguments": '{"q": "x"}'}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": '{"n": 1}'}]},
        ],
    ),
    (
        "OpenAI chat",
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}]},
                {"role": "tool", "tool_call_id": "c1", "content": '{"n": 1}'},
            ],
        },
    ),
    (
        "OpenAI Responses",
        {
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
                {"type": "function_call", "id": "fc_9", "call_id": "c1", "name": "search", "arguments": '{"q": "x"}'},
                {"type": "function_call_output", "call_id": "c1", "output": '{"n": 1}'},
            ]
        },
    ),
    (
        "Anthropic",
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": '{"n": 1}'}]}]},
        ],
    ),
    (
        "Bedrock and Strands",
        [
            {"role": "user", "content": [{"text": "Hi"}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "search", "input": {"q": "x"}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"json": {"n": 1}}]}}]},
        ],
    ),
    (
        "Gemini and ADK",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Hi"}]},
                {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "search", "args": {"q": "x"}}}]},
                {"role": "user", "parts": [{"function_response": {"id": "c1", "response": {"n": 1}}}]},
            ]
        },
    ),
    (
        "LangChain constructors in a batch",
        {
            "messages": [
                [
                    {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "Hi"}},
                    {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": {"content": "", "tool_calls": [{"name": "search", "args": {"q": "x"}, "id": "c1"}]}},
                    {"lc": 1, "type": "constructor", "id": ["langchain", "ToolMessage"], "kwargs": {"content": '{"n": 1}', "tool_call_id": "c1", "status": "success"}},
                ]
            ]
        },
    ),
    (
        "LangChain dumped",
        [
            {"type": "human", "data": {"content": "Hi"}},
            {"type": "ai", "data": {"content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}}], "tool_calls": [{"name": "search", "args": {"q": "x"}, "id": "c1"}]}},
            {"type": "tool", "data": {"content": '{"n": 1}', "tool_call_id": "c1"}},
        ],
    ),
    (
        "Vercel",
        [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "search", "input": {"q": "x"}}]},
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "json", "value": {"n": 1}}}]},
        ],
    ),
    (
        "pydantic-ai's own",
        [
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Hi"}]},
            {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "search", "args": '{"q": "x"}', "tool_call_id": "c1"}]},
            {"kind": "request", "parts": [{"part_kind": "tool-return", "content": {"n": 1}, "tool_call_id": "c1"}]},
        ],
    ),
    (
        "pydantic-ai events",
        [
            {"event.name": "gen_ai.user.message", "content": "Hi", "role": "user", "gen_ai.message.index": 0},
            {"event.name": "gen_ai.assistant.message", "role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {"q": "x"}}}]},
            {"event.name": "gen_ai.tool.message", "content": {"n": 1}, "role": "tool", "id": "c1"},
        ],
    ),
    (
        "haystack",
        {
            "messages": [
                {"role": "user", "meta": {}, "name": None, "content": [{"text": "Hi"}]},
                {"role": "assistant", "meta": {}, "name": None, "content": [{"tool_call": {"tool_name": "search", "arguments": {"q": "x"}, "id": "c1"}}]},
                {"role": "tool", "meta": {}, "name": None, "content": [{"tool_call_result": {"result": '{"n": 1}', "error": False, "origin": {"id": "c1"}}}]},
            ]
        },
    ),
    (
        "Genkit",
        {
            "messages": [
                {"role": "user", "content": [{"text": "Hi"}]},
                {"role": "model", "content": [{"toolRequest": {"ref": "c1", "name": "search", "input": {"q": "x"}}}]},
                {"role": "tool", "content": [{"toolResponse": {"ref": "c1", "output": {"n": 1}}}]},
            ]
        },
    ),
    (
        "LiteLLM's half of the semantic conventions",
        [
            {"role": "user", "parts": [{"type": "text", "content": "Hi"}]},
            {"role": "assistant", "parts": [], "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}]},
            {"role": "tool", "parts": [{"type": "text", "content": '{"n": 1}'}], "tool_call_id": "c1"},
        ],
    ),
    (
        "AutoGen",
        [
            {"type": "UserMessage", "content": "Hi", "source": "user"},
            {"type": "AssistantMessage", "content": [{"id": "c1", "name": "search", "arguments": '{"q": "x"}'}], "source": "a"},
            {"type": "FunctionExecutionResultMessage", "content": [{"call_id": "c1", "content": '{"n": 1}'}]},
        ],
    ),
    (
        "OpenAI Agents SDK in Python reprs",
        [
            "ChatMessage(role=<MessageRole.USER: 'user'>, blocks=[TextBlock(block_type='text', text='Hi')])",
            "ChatMessage(role='assistant', tool_calls=[ToolCall(id='c1', name='search', arguments={'q': 'x'})])",
            "ChatMessage(role='tool', content='{\"n\": 1}', tool_call_id='c1')",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "value"), CONVERSATIONS, ids=[c[0] for c in CONVERSATIONS])
def test_every_shape_gives_the_same_conversation(shape: str, value: Any) -> None:
    for text in (json.dumps(value), json.dumps(json.dumps(value))):
        found = loads(text)
        assert [m.role for m in found] == ["user", "assistant", "tool"], shape
        assert found[0].text == "Hi"
        assert found[1].tool_calls == (CALL,)
        assert [(p.id, p.response) for p in found[2].tool_responses] == [("c1", {"n": 1})]


#: Whole answers of every vendor, each saying "Done".
ANSWERS: list[Any] = [
    {"choices": [{"message": {"role": "assistant", "content": "Done"}, "finish_reason": "stop"}]},
    {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Done"}], "stop_reason": "stop"},
    {"output": [{"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done"}]}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Done"}]}, "finishReason": "STOP"}]},
    {"generations": [[{"text": "Done", "message": {"lc": 1, "type": "constructor", "id": ["AIMessage"], "kwargs": {"content": "Done"}}}]]},
    {"content": {"role": "model", "parts": [{"text": "Done"}]}, "finish_reason": "STOP"},
    {"message": {"role": "model", "content": [{"text": "Done"}]}, "finishReason": "stop", "usage": {"inputTokens": 3}},
    [{"update": {"messages": [{"type": "ai", "data": {"content": "Done"}}]}, "graph": None}],
    "Done",
    ["Done"],
]  # fmt: skip


@pytest.mark.parametrize("value", ANSWERS)
def test_the_answer_is_found_in_every_response(value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    assert last_text(text, "assistant") == "Done"


def test_a_request_keeps_its_system_prompt() -> None:
    found = loads(
        json.dumps({"system": [{"type": "text", "text": "Be brief."}], "messages": [{"role": "user", "content": "Hi"}]})
    )
    assert [(m.role, m.text) for m in found] == [("system", "Be brief."), ("user", "Hi")]


def test_a_reply_asked_as_role_and_text_is_a_message() -> None:
    assert loads('{"inputs": {"messages": [["user", "Hi"]]}}') == (ASKED,)


def test_streamed_deltas_are_put_together() -> None:
    text = "ChatMessageStreamDelta(content='Do', tool_calls=None)ChatMessageStreamDelta(content='ne', tool_calls=None)"
    assert last_text(text, "assistant") == "Done"


def test_provider_side_tools_are_marked_in_every_spelling() -> None:
    for parts in (
        [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}],
        [
            {
                "type": "server_tool_call",
                "id": "s1",
                "name": "web_search",
                "server_tool_call": {"type": "web_search", "query": "q"},
            }
        ],
        [{"type": "tool_call", "id": "srvtoolu_1", "name": "web_search", "arguments": {"query": "q"}, "builtin": True}],
        [{"type": "web_search_call", "id": "ws_1", "action": {"query": "q"}}],
    ):
        (call,) = loads(json.dumps([{"role": "assistant", "content": parts}]))[0].tool_calls
        assert (call.name, call.arguments, call.server_side) == ("web_search", {"query": "q"}, True)


def test_images_are_kept_as_references_only() -> None:
    data = "data:image/png;base64," + "A" * 9_000
    content = [
        {"type": "image_url", "image_url": {"url": data}},
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
    ]
    first, second = loads(json.dumps([{"role": "user", "content": content}]))[0].parts
    assert (first.type, first.mime_type, len(first.content or "")) == ("blob", "image/png", len("sha256:") + 64)
    assert (second.type, second.content) == ("uri", "https://x.example/a.png")


@pytest.mark.parametrize("mark", ["__REDACTED__", "[REDACTED]", "<REDACTED>"])
def test_a_redaction_mark_is_no_content(mark: str) -> None:
    (found,) = loads(json.dumps([{"role": "user", "content": mark}]))
    assert found.parts == (Part(type="text"),)


@pytest.mark.parametrize(
    ("value", "result", "failed"),
    [
        ('{"lc": 1, "type": "constructor", "id": ["ToolMessage"], "kwargs": {"content": "boom", "status": "error", "tool_call_id": "c"}}', "boom", True),
        ('{"type": "tool", "data": {"content": "{\\"a\\": 1}", "tool_call_id": "c", "status": "success"}}', {"a": 1}, None),
        ('{"output": {"type": "tool", "content": "x", "tool_call_id": "c", "status": "error"}, "kwargs": {"color": "green"}}', "x", True),
        ('{"content": [{"type": "text", "text": "no"}], "isError": true}', "no", True),
        ('{"blocks": [], "tool_name": "t", "raw_input": {}, "raw_output": "ok", "is_error": false}', "ok", False),
        ('{"id": "c", "name": "t", "response": {"result": "ok"}}', {"result": "ok"}, None),
        ('{"type": "error-text", "value": "no"}', "no", True),
        ("content='no' name='t' tool_call_id='c' status='error'", "no", True),
        ('"\\"a string of a string\\""', "a string of a string", None),
        ('{"content": "a page", "title": "kept whole"}', {"content": "a page", "title": "kept whole"}, None),
    ],
)  # fmt: skip
def test_a_tool_result_is_taken_out_of_its_wrapping(value: str, result: Any, failed: bool | None) -> None:
    assert tool_result(value) == (result, failed)


def test_indexed_attributes_become_lists_whatever_their_order_and_gaps() -> None:
    flat = {"10.message.role": "b", "2.message.role": "a", "2.message.tool_calls.0.tool_call.id": "c"}
    assert unflatten(flat) == [
        {"message": {"role": "a", "tool_calls": [{"tool_call": {"id": "c"}}]}},
        {"message": {"role": "b"}},
    ]


def test_a_key_that_is_value_and_branch_keeps_both() -> None:
    assert unflatten({"a": 1, "a.b": 2}) == {"a": {"": 1, "b": 2}}
    assert unflatten({"a.b": 2, "a": 1}) == {"a": {"b": 2, "": 1}}


def test_system_instructions_are_text_in_every_shape() -> None:
    for value in (
        "Be brief.",
        '[{"type": "text", "content": "Be brief."}]',
        [{"text": "Be brief."}],
        "[{'type': 'text', 'content': 'Be brief.'}]",
    ):
        assert system_text(value) == "Be brief."


WORDS = st.sampled_from(
    ["user", "tool", "assistant", "text", "tool_call", "tool_result", "tool_use", "tool-result", "thinking", "image_url", "json",
     "constructor", "function_call", "function_call_output", "error", "ai", "reasoning", "server_tool_call", "other", "blob",
     "__REDACTED__", '{"a": 1}', '"x"', "[]", '[{"type": "text", "text": "hi"}]', "{'a': (1, None)}", "content='x' name='y'", "f(a=1)"]
)  # fmt: skip
KEYS = st.sampled_from(
    ["role", "content", "parts", "type", "text", "id", "name", "input", "arguments", "tool_calls", "message", "messages", "output", "response",
     "status", "kwargs", "result", "function", "tool_call_id", "is_error", "value", "data", "source", "kind", "blocks", "event.name", "a"]
)  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=12),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(KEYS, children, max_size=6),
    max_leaves=24,
)


@given(JSON)
def test_the_normal_form_is_a_fixed_point(value: Any) -> None:
    once = loads(json.dumps(value))
    text = dumps(once)
    assert loads(text) == once
    assert dumps(loads(text)) == text


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    found = loads(text)
    assert loads(dumps(found)) == found
