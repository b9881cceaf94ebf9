"""Log records joined to their spans, in any order."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evalspan_collector.join import join_logs
from evalspan_collector.messages import loads
from evalspan_collector.span import LogRecord, Span, SpanKind, Usage

TRACE, SPAN = "1" * 32, "2" * 16
CHAT = Span(trace_id=TRACE, span_id=SPAN, name="chat m", start_ns=1, end_ns=9, kind=SpanKind.LLM, model_request="m")


def log(name: str, time_ns: int, body: Any = None, sequence: int = 0, **attributes: Any) -> LogRecord:
    """A record of the span."""
    return LogRecord(
        project="default",
        trace_id=TRACE,
        span_id=SPAN,
        event_name=name,
        time_ns=time_ns,
        received_ns=time_ns,
        body=None if body is None else json.dumps(body),
        attributes={k.replace("__", "."): v if isinstance(v, str) else json.dumps(v) for k, v in attributes.items()},
        sequence=sequence,
    )


CONVERSATION = [
    log("gen_ai.system.message", 1, {"content": "Be brief."}, 0),
    log("gen_ai.user.message", 1, {"content": "Hi"}, 1),
    log("gen_ai.assistant.message", 2, {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]}, 2),
    log("gen_ai.tool.message", 2, {"id": "c", "content": '{"n": 1}'}, 3),
    log("gen_ai.choice", 3, {"index": 0, "finish_reason": "stop", "message": {"content": "Yo"}}, 4),
]


@given(st.permutations([*CONVERSATION, *CONVERSATION]))
def test_records_in_any_order_and_twice_give_one_conversation(logs: list[LogRecord]) -> None:
    (span,) = join_logs([CHAT], logs)
    asked = loads(span.input_messages)
    assert [m.role for m in asked] == ["system", "user", "assistant", "tool"]
    assert asked[3].tool_responses[0].response == {"n": 1}
    assert (span.system_prompt, loads(span.output_messages)[0].text, span.finish_reasons) == (
        "Be brief.",
        "Yo",
        ("stop",),
    )
    assert span.content == "captured"


def test_joining_twice_changes_nothing() -> None:
    once = join_logs([CHAT], CONVERSATION)
    assert join_logs(once, CONVERSATION) == once


def test_what_the_span_says_itself_wins() -> None:
    stated = replace(CHAT, input_messages='[{"role":"user","parts":[{"type":"text","content":"mine"}]}]')
    (span,) = join_logs([stated], CONVERSATION)
    assert loads(span.input_messages)[0].text == "mine"
    assert loads(span.output_messages)[0].text == "Yo"


def test_whole_messages_in_one_record_are_read() -> None:
    record = log(
        "gen_ai.client.inference.operation.details",
        5,
        gen_ai__input__messages=[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}],
        gen_ai__output__messages=[{"role": "assistant", "parts": [{"type": "text", "content": "Yo"}]}],
        gen_ai__system_instructions=[{"type": "text", "content": "Be brief."}],
    )
    (span,) = join_logs([CHAT], [record])
    assert (loads(span.input_messages)[0].text, loads(span.output_messages)[0].text, span.system_prompt) == (
        "Hi",
        "Yo",
        "Be brief.",
    )


def test_a_body_that_is_json_text_is_read() -> None:
    (span,) = join_logs([CHAT], [log("gen_ai.user.message", 1, json.dumps({"role": "user", "content": "Hi"}))])
    assert loads(span.input_messages)[0].text == "Hi"


def test_tool_definitions_sent_as_a_user_message_are_no_message() -> None:
    definitions = [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]
    (span,) = join_logs([CHAT], [log("gen_ai.user.message", 1, {"content": definitions})])
    assert span.input_messages is None
    assert json.loads(span.tool_definitions or "")[0]["name"] == "f"


def test_usage_that_only_a_log_line_tells_fills_the_gaps() -> None:
    line = (
        "OpenAI usage: CompletionUsage(completion_tokens=2, prompt_tokens=10, prompt_tokens_details=P(cached_tokens=4))"
    )
    chat = replace(CHAT, usage=Usage(input_tokens=10, output_tokens=2))
    (span,) = join_logs([chat], [log("semantic_kernel.usage", 1, line)])
    assert span.usage == Usage(10, 2, 4)


def test_several_calls_logged_on_an_agent_become_its_calls() -> None:
    agent = replace(CHAT, kind=SpanKind.AGENT, name="invoke_agent bot", agent_name="bot")
    records = [
        log(
            "gen_ai.client.inference.operation.details",
            t,
            gen_ai__usage__input_tokens="10",
            gen_ai__usage__output_tokens="2",
        )
        for t in (3, 5)
    ]
    spans = join_logs([agent], records)
    assert [s.kind for s in spans] == [SpanKind.AGENT, SpanKind.LLM, SpanKind.LLM]
    assert {s.parent_id for s in spans[1:]} == {SPAN}
    assert [s.usage.input_tokens for s in spans[1:]] == [10, 10]
    assert len({s.span_id for s in spans}) == 3
    assert spans == join_logs([agent], records[::-1])


def test_an_agent_with_call_spans_of_its_own_gets_no_more() -> None:
    agent = replace(CHAT, kind=SpanKind.AGENT, name="invoke_agent bot")
    child = replace(CHAT, span_id="3" * 16, parent_id=SPAN)
    record = log("gen_ai.client.inference.operation.details", 3, gen_ai__usage__input_tokens="10")
    assert len(join_logs([agent, child], [record])) == 2


def test_records_of_other_spans_and_names_are_left_alone() -> None:
    other = replace(CONVERSATION[0], span_id="9" * 16)
    assert join_logs([CHAT], [other, log("an.unknown.event", 1, {"content": "x"})]) == [CHAT]
