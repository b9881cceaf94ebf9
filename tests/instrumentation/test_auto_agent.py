"""One import: an agent on the real anthropic SDK exports what happened, exactly, with nothing else added."""

import json
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from evalspan.testing import Sink
from evalspan_dashboard.demo.api_server import ScriptedApi
from evalspan_dashboard.demo.scenarios import Reply

ANSWERS = {
    "Weather in Oslo and Rome?": (
        Reply("Let me look.", (("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome", "days": 2}))),
        Reply(calls=(("book_hotel", {"city": "Rome"}),)),
        Reply("Oslo has 4 degrees, Rome 19; no hotel is free."),
    )
}

AGENT = """
    import json, sys
    import anthropic
    import evalspan.auto

    client = anthropic.Anthropic()

    @evalspan.tool
    def get_weather(city: str, days: int = 1) -> dict:
        return {"city": city, "celsius": {"Oslo": 4, "Rome": 19}[city]}

    @evalspan.tool
    def book_hotel(city: str) -> str:
        raise RuntimeError("no room in " + city)

    TOOLS = {"get_weather": get_weather, "book_hotel": book_hotel}

    def ask(messages):
        arguments = dict(model="claude-sonnet-4-6", max_tokens=500, messages=messages, tools=[
            {"name": name, "description": name, "input_schema": {"type": "object"}} for name in TOOLS],
            system=[{"type": "text", "text": "You know the weather. " * 20, "cache_control": {"type": "ephemeral"}}])
        if "stream" in sys.argv or STREAM:
            with client.messages.stream(**arguments) as stream:
                return stream.get_final_message()
        return client.messages.create(**arguments)

    @evalspan.agent
    def travel_agent(question: str) -> str:
        messages = [{"role": "user", "content": question}]
        while True:
            reply = ask(messages)
            if reply.stop_reason != "tool_use":
                return reply.content[-1].text
            results = []
            for block in reply.content:
                if block.type == "tool_use":
                    result = {"type": "tool_result", "tool_use_id": block.id}
                    try:
                        result["content"] = json.dumps(TOOLS[block.name](**block.input))
                    except RuntimeError as error:
                        result |= {"content": str(error), "is_error": True}
                    results.append(result)
            messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]

    with evalspan.session("trip-1", user_id="u1"):
        print(travel_agent("Weather in Oslo and Rome?"))
"""


def facts(span: Span) -> dict[str, Any]:
    return {a.key: getattr(a.value, str(a.value.WhichOneof("value"))) for a in span.attributes}


@pytest.mark.parametrize("stream", [False, True], ids=["create", "stream"])
def test_an_agent_with_one_import_exports_what_happened(run_script: Any, sink: Sink, stream: bool) -> None:
    with ScriptedApi(ANSWERS) as api:
        done = run_script(
            AGENT.replace("STREAM", str(stream)),
            OTEL_EXPORTER_OTLP_ENDPOINT=sink.endpoint,
            ANTHROPIC_BASE_URL=api.url,
            ANTHROPIC_API_KEY="test",
        )
    assert done.stdout == "Oslo has 4 degrees, Rome 19; no hotel is free.\n", done.stderr
    assert done.stderr == ""

    spans = sink.spans
    assert [span.name for span in spans] == [
        "invoke_agent travel_agent",
        "anthropic.messages.create",
        "execute_tool get_weather",
        "execute_tool get_weather",
        "anthropic.messages.create",
        "execute_tool book_hotel",
        "anthropic.messages.create",
    ]
    root = spans[0]
    assert {span.parent_span_id for span in spans[1:]} == {root.span_id}
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert facts(root) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "travel_agent",
        "gen_ai.conversation.id": "trip-1",
        "user.id": "u1",
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": "Weather in Oslo and Rome?"}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [
                {
                    "role": "assistant",
                    "parts": [{"type": "text", "content": "Oslo has 4 degrees, Rome 19; no hotel is free."}],
                    "finish_reason": "stop",
                }
            ]
        ),
    }
    tools = [facts(span) for span in spans if span.name.startswith("execute_tool")]
    assert [
        (t["gen_ai.tool.name"], t["gen_ai.tool.call.arguments"], t.get("gen_ai.tool.call.result")) for t in tools
    ] == [
        ("get_weather", '{"city": "Oslo"}', '{"city": "Oslo", "celsius": 4}'),
        ("get_weather", '{"city": "Rome", "days": 2}', '{"city": "Rome", "celsius": 19}'),
        ("book_hotel", '{"city": "Rome"}', None),
    ]
    failed = spans[5]
    assert (failed.status.code, failed.status.message) == (2, "RuntimeError: no room in Rome")
    assert tools[2]["error.type"] == "RuntimeError"
    assert [event.name for event in failed.events] == ["exception"]
    assert root.status.code == 0

    calls = [facts(span) for span in spans if span.name == "anthropic.messages.create"]
    assert {call["gen_ai.conversation.id"] for call in calls} == {"trip-1"}
    assert all("gen_ai.output.messages" in call and "gen_ai.input.messages" in call for call in calls)
    reported = [
        (
            c.response_id,
            c.input_tokens + c.cache_creation_input_tokens + c.cache_read_input_tokens,
            c.cache_creation_input_tokens,
            c.cache_read_input_tokens,
            c.output_tokens,
        )
        for c in api.calls
    ]
    names = (
        "response.id",
        "usage.input_tokens",
        "usage.cache_write.input_tokens",
        "usage.cache_read.input_tokens",
        "usage.output_tokens",
    )
    assert [tuple(call[f"gen_ai.{name}"] for name in names) for call in calls] == reported
    assert [type(call["gen_ai.usage.input_tokens"]) for call in calls] == [int, int, int]
    costs = [call["gen_ai.usage.cost"] for call in calls]
    expected = [
        (
            c.input_tokens * 3
            + c.cache_creation_input_tokens * 3.75
            + c.cache_read_input_tokens * 0.3
            + c.output_tokens * 15
        )
        / 1e6
        for c in api.calls
    ]
    assert costs == pytest.approx(expected, rel=1e-9)
    assert all(isinstance(cost, float) for cost in costs)
