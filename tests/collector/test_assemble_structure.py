"""Structure: runs from spans of every shape, hostile ones too; each test is one habit or one attack."""

import json
import random
from dataclasses import replace
from typing import Any

from golden.handmade import agent, asks, llm, says, span, told, tool, tool_result

from evalspan_collector.assemble import assemble
from evalspan_collector.run import Run
from evalspan_collector.span import Span, SpanKind, SpanLink, Usage


def one(*spans: Span, **options: Any) -> Run:
    runs = assemble(spans, **options)
    assert len(runs) == 1, [r.agent for r in runs]
    return runs[0]


def kinds(run: Run) -> list[str]:
    return [s.kind for s in run.steps]


# --- roots


def test_an_agent_without_an_agent_above_is_a_run() -> None:
    root = agent("desk", 0, 100)
    run = one(root, llm(1, 50, root))
    assert (run.agent, run.root_span_id, run.status) == ("desk", root.span_id, "ok")
    assert run.duration_s == 0.1


def test_two_agents_side_by_side_are_two_runs() -> None:
    http = span("POST /batch", 0, 300, otel_kind=2, attributes={"http.route": "/batch"})
    first, second = agent("a", 1, 100, http), agent("b", 110, 200, http)
    runs = assemble([http, first, second, llm(2, 50, first), llm(111, 150, second)])
    assert [r.agent for r in runs] == ["a", "b"]
    assert runs[0].run_id != runs[1].run_id


def test_a_gateway_above_the_agent_is_context_and_gives_the_session() -> None:
    http = span("POST /ask", 0, 900, otel_kind=2, session_id="s-1", attributes={"http.route": "/ask"})
    run = one(http, root := agent("desk", 500, 800, http), llm(510, 700, root))
    assert run.duration_s == 0.3
    assert run.session_id == "s-1"


def test_a_sub_agent_is_a_step_with_its_own_steps() -> None:
    root = agent("boss", 0, 500)
    call = tool("ask_helper", 100, 400, root)
    sub = agent("helper", 110, 390, call)
    run = one(root, llm(1, 90, root), call, sub, llm(120, 200, sub), tool("look", 210, 220, sub), llm(410, 490, root))
    assert run.agents == ("boss", "helper")
    helper = next(s for s in run.steps if s.kind == "agent")
    assert [s.name for s in run.steps if s.parent_index == helper.index] == ["gpt-4o-mini", "look"]
    assert helper.depth == 0
    assert [t.name for t in run.tools] == ["ask_helper", "look"]


def test_create_agent_is_no_run() -> None:
    setup = span("create_agent desk", 0, 1, kind=SpanKind.AGENT, operation="create_agent", agent_name="desk")
    assert assemble([setup]) == ()


def test_a_workflow_that_was_only_built_is_no_run() -> None:
    assert assemble([span("workflow.build", 0, 1, kind=SpanKind.WORKFLOW)]) == ()


def test_http_spans_alone_are_no_run() -> None:
    assert assemble([span("GET /", 0, 1, otel_kind=2, attributes={"http.route": "/"})]) == ()


def test_a_lone_model_call_is_a_run_of_one_step() -> None:
    run = one(llm(0, 10))
    assert kinds(run) == ["model_call"]


def test_without_an_agent_the_users_own_span_around_the_work_is_the_run() -> None:
    root = span("answer", 0, 100)
    run = one(root, llm(1, 40, root), tool("look", 41, 50, root), llm(51, 90, root))
    assert run.root_span_id == root.span_id
    assert run.agent == "answer"


def test_a_library_chain_above_its_agents_is_the_run() -> None:
    scope = "openinference.instrumentation.langchain"
    root = span("LangGraph", 0, 300, kind=SpanKind.CHAIN, scope_name=scope)
    first = agent("a", 1, 100, root, scope_name=scope)
    second = agent("b", 110, 200, root, scope_name=scope)
    run = one(root, first, second, llm(2, 90, first), llm(111, 190, second))
    assert run.root_span_id == root.span_id
    assert run.agents == ("a", "b")


def test_one_trace_block_with_two_calls_of_the_runner_is_two_runs() -> None:
    scope = "opentelemetry.instrumentation.openai_agents"
    block = span("Nightly", 0, 500, kind=SpanKind.WORKFLOW, scope_name=scope)
    first, second = agent("a", 1, 200, block, scope_name=scope), agent("b", 230, 400, block, scope_name=scope)
    runs = assemble([block, first, second, llm(2, 90, first), llm(231, 300, second)])
    assert [r.agent for r in runs] == ["a", "b"]


def test_a_hand_off_inside_one_call_is_one_run() -> None:
    scope = "opentelemetry.instrumentation.openai_agents"
    block = span("Agent workflow", 0, 500, kind=SpanKind.WORKFLOW, scope_name=scope)
    first, second = agent("a", 0, 200, block, scope_name=scope), agent("b", 200.5, 400, block, scope_name=scope)
    run = one(block, first, second, llm(2, 90, first), llm(231, 300, second))
    assert run.agents == ("a", "b")


# --- missing and late


def test_a_root_that_never_came_gives_one_incomplete_run_under_the_parents_id() -> None:
    missing = agent("gone", 0, 500)
    run = one(llm(1, 90, missing), tool("look", 100, 150, missing))
    assert run.root_span_id == missing.span_id
    assert {"incomplete", "orphans"} <= set(run.flags)
    assert run.status == "error"
    late = one(missing, llm(1, 90, missing), tool("look", 100, 150, missing))
    assert late.run_id == run.run_id, "the root came late: the same run"
    assert late.status == "ok"


def test_what_the_model_asked_for_when_the_process_died_is_a_failed_tool() -> None:
    missing = agent("gone", 0, 500)
    answer = told(asks(("c1", "look", {"id": 7})))
    run = one(llm(1, 90, missing, output_messages=answer), llm_before := llm(0, 1, missing))
    assert llm_before.span_id
    assert [(t.name, t.failed, t.observed) for t in run.tools] == [("look", True, "message")]


def test_a_remote_parent_elsewhere_is_not_waited_for() -> None:
    root = agent("desk", 0, 100, parent_id="elsewhere", span_flags=0x300)
    run = one(root, llm(1, 50, root))
    assert "incomplete" not in run.flags


def test_a_child_that_ends_after_its_parent_belongs_to_the_run() -> None:
    root = agent("desk", 0, 100)
    run = one(root, llm(1, 90, root), tool("slow", 50, 400, root))
    assert [t.name for t in run.tools] == ["slow"]


def test_a_skewed_clock_of_another_host_is_flagged_and_not_believed() -> None:
    root = agent("desk", 10_000, 20_000)
    ahead = tool("remote", 1, 2, root, service_instance_id="process-2")
    run = one(root, llm(10_001, 10_100, root), ahead)
    assert "clock_skew" in run.flags
    assert kinds(run)[0] != "tool_call" or run.steps[0].started_ns >= root.start_ns


# --- hostile shapes


def test_a_ring_of_parents_is_cut_and_flagged() -> None:
    a = agent("a", 0, 100)
    b = llm(1, 50, a)
    c = tool("look", 2, 3, b)
    run = one(replace(a, parent_id=c.span_id), b, c)
    assert "cycle" in run.flags


def test_a_span_that_is_its_own_parent_is_a_root() -> None:
    a = agent("a", 0, 100)
    run = one(replace(a, parent_id=a.span_id), llm(1, 50, a))
    assert "cycle" in run.flags


def test_the_same_span_twice_counts_once() -> None:
    root = agent("desk", 0, 100)
    call = llm(1, 50, root)
    run = one(root, call, call, replace(call, received_ns=call.received_ns + 5))
    assert run.usage.input_tokens == 10
    assert "duplicate_span_id" not in run.flags


def test_one_span_id_for_two_spans_is_flagged() -> None:
    root = agent("desk", 0, 100)
    call = llm(1, 50, root)
    other = replace(call, end_ns=call.end_ns + 7, usage=Usage(input_tokens=99, output_tokens=1))
    forth, back = one(root, call, other), one(other, call, root)
    assert forth == back
    assert "duplicate_span_id" in forth.flags


def test_times_at_the_ends_of_the_range_do_no_harm() -> None:
    root = replace(agent("desk", 0, 100), start_ns=2**64 - 1, end_ns=0)
    run = one(root, replace(llm(0, 1, root), start_ns=0, end_ns=2**64 - 1))
    assert run.to_json()["started_at"]
    assert run.duration_s == 0.0


def test_a_chain_of_fifty_thousand_spans_is_walked_without_recursion() -> None:
    spans = [agent("desk", 0, 1e9)]
    for depth in range(50_000):
        spans.append(span(f"s{depth}", depth, 1e9, spans[-1]))
    spans.append(llm(60_000, 60_001, spans[-1]))
    run = one(*spans)
    assert run.usage.output_tokens == 2


def test_a_large_shuffled_trace_keeps_every_step() -> None:
    root = agent("desk", 0, 1e9)
    spans = [root]
    for i in range(10_000):
        spans.append(llm(2 * i, 2 * i + 1, root))
        spans.append(tool("look", 2 * i + 1, 2 * i + 2, root, tool_arguments=f'{{"i": {i}}}'))
    random.Random(1).shuffle(spans)
    run = one(*spans)
    assert [t.arguments["i"] for t in run.tools] == list(range(10_000))
    assert len(run.model_calls) == 10_000


def test_many_running_calls_at_once_stay_many() -> None:
    root = agent("desk", 0, 1e9)
    calls = [llm(i, 1e6, root, scope_name=f"lib{i % 3}", name=f"c{i}", response_id=f"r{i}") for i in range(3_000)]
    assert len(one(root, *calls).model_calls) == 3_000


# --- one call, several spans


def test_a_call_recorded_by_two_libraries_one_below_the_other_counts_once() -> None:
    root = agent("desk", 0, 100)
    outer = llm(1, 90, root, output_messages=told(says("assistant", "hi")))
    inner = llm(2, 89, outer, scope_name="sdk", name="sdk.create", usage=Usage(input_tokens=12, output_tokens=2))
    run = one(root, outer, inner)
    assert len(run.model_calls) == 1
    assert run.usage.input_tokens == 12, "the span nearest to the provider counts"
    assert run.output == "hi"


def test_a_call_recorded_by_two_libraries_side_by_side_counts_once() -> None:
    root = agent("desk", 0, 100)
    run = one(root, llm(1, 90, root), llm(2, 89, root, scope_name="sdk", name="sdk.create"))
    assert len(run.model_calls) == 1


def test_calls_of_two_libraries_with_different_answers_stay_two() -> None:
    root = agent("desk", 0, 100)
    other = llm(2, 89, root, scope_name="sdk", usage=Usage(input_tokens=10, output_tokens=50))
    assert len(one(root, llm(1, 90, root), other).model_calls) == 2


def test_a_second_description_in_a_trace_of_its_own_is_no_second_run() -> None:
    root = agent("desk", 0, 100)
    call = llm(1, 90, root)
    shadow = llm(2, 89, trace_id="t2", scope_name="sdk", name="sdk.create", response_id="r-1")
    run = one(root, call, shadow)
    assert run.trace_ids == ("t1", "t2")
    assert run.model_calls[0].response_id == "r-1"


def test_one_response_id_is_one_call_and_reused_ids_at_other_times_are_not() -> None:
    root = agent("desk", 0, 500)
    first, again = llm(1, 90, root, response_id="r"), llm(2, 89, root, response_id="r", name="inner")
    later = llm(200, 300, root, response_id="r")
    assert len(one(root, first, again, later).model_calls) == 2


def test_a_wrapper_around_several_calls_is_only_a_sum() -> None:
    root = agent("desk", 0, 500)
    wrapper = llm(1, 400, root, usage=Usage(input_tokens=20, output_tokens=4), name="generate")
    run = one(root, wrapper, llm(2, 100, wrapper, name="a"), llm(200, 300, wrapper, name="b"))
    assert run.usage == Usage(input_tokens=20, output_tokens=4)
    assert len(run.model_calls) == 2


def test_a_failed_attempt_below_a_call_that_succeeded_stays_a_failed_call() -> None:
    root = agent("desk", 0, 500)
    outer = llm(1, 400, root, name="chat")
    failed = llm(2, 100, outer, name="try", status="error", usage=Usage(), scope_name="sdk")
    good = llm(200, 390, outer, name="try", scope_name="sdk")
    run = one(root, outer, failed, good)
    assert [c.failed for c in run.model_calls].count(False) == 1
    assert run.status == "ok"


def test_an_agents_total_counts_only_where_no_call_has_tokens() -> None:
    total = Usage(input_tokens=500, output_tokens=50)
    root = agent("desk", 0, 100, usage=total)
    alone = one(root)
    assert (alone.usage, "usage_aggregate" in alone.flags) == (total, True)
    with_calls = one(root, llm(1, 90, root))
    assert with_calls.usage.input_tokens == 10, "cumulative totals are not trusted over the calls"
    assert "usage_mismatch" in with_calls.flags


def test_embeddings_are_kept_apart_from_model_calls() -> None:
    root = agent("desk", 0, 100)
    embedding = span("embeddings", 1, 5, root, kind=SpanKind.EMBEDDING, usage=Usage(input_tokens=56))
    run = one(root, embedding, llm(6, 90, root))
    assert (run.usage.input_tokens, run.embedding_tokens, len(run.model_calls)) == (10, 56, 1)


def test_counting_tokens_is_no_model_call() -> None:
    root = agent("desk", 0, 100)
    count = llm(1, 5, root, name="anthropic.messages.count_tokens", usage=Usage())
    assert len(one(root, count, llm(6, 90, root)).model_calls) == 1


# --- tools


def test_client_and_server_spans_of_an_mcp_call_are_one_tool() -> None:
    root = agent("desk", 0, 100)
    outer = tool("look", 10, 50, root)
    client = span("MCP send tools/call look", 11, 49, outer, kind=SpanKind.TOOL, tool_name="look", tool_type="mcp")
    server = span(
        "tools/call look", 12, 40, client, kind=SpanKind.TOOL, tool_name="look", tool_type="mcp", otel_kind=2,
        status="error", service_instance_id="server",
    )  # fmt: skip
    run = one(root, llm(1, 9, root), outer, client, server)
    assert [t.name for t in run.tools] == ["look"]
    assert run.tools[0].failed, "only the server's span knew"


def test_one_mcp_execution_at_two_places_of_the_tree_is_one_tool() -> None:
    root = agent("desk", 0, 200)
    sub = agent("helper", 10, 190, root)
    outer = tool("mcp__shop__look", 20, 60, sub, tool_arguments='{"id": 1}')
    elsewhere = span("tools/call look", 21, 59, root, kind=SpanKind.TOOL, tool_name="look", tool_type="mcp")
    run = one(root, sub, outer, elsewhere, llm(11, 19, sub))
    assert [(t.name, t.arguments) for t in run.tools] == [("look", {"id": 1})]


def test_arguments_and_results_come_from_messages_where_the_span_has_none() -> None:
    root = agent("desk", 0, 300)
    asked = llm(1, 90, root, output_messages=told(asks(("c1", "look", {"id": 7}))))
    answered = llm(
        200, 290, root,
        input_messages=told(says("user", "hi"), asks(("c1", "look", {"id": 7})), tool_result("c1", {"ok": True})),
    )  # fmt: skip
    run = one(root, asked, tool("look", 100, 150, root, tool_call_id="c1"), answered)
    assert (run.tools[0].arguments, run.tools[0].result) == ({"id": 7}, {"ok": True})
    assert run.tools[0].observed == "span"


def test_tools_that_only_messages_show_become_steps() -> None:
    root = agent("desk", 0, 300)
    history = told(says("user", "hi"), asks(("c1", "look", {"id": 7})), tool_result("c1", "gone", is_error=True))
    run = one(
        root,
        llm(1, 90, root, output_messages=told(asks(("c1", "look", {"id": 7})))),
        llm(200, 290, root, input_messages=history, output_messages=told(says("assistant", "sorry"))),
    )
    assert [(t.name, t.observed, t.failed) for t in run.tools] == [("look", "message", True)]
    assert kinds(run) == ["model_call", "tool_call", "model_call"]


def test_a_tool_span_whose_arguments_were_cut_never_ran() -> None:
    root = agent("desk", 0, 300)
    cut = tool("look", 100, 100, root, tool_arguments='{"id": ', status="error")
    assert one(root, llm(1, 90, root), cut).tools == ()


def test_parallel_tools_follow_the_order_of_the_request_not_the_clock() -> None:
    root = agent("desk", 0, 300)
    asked = llm(1, 90, root, output_messages=told(asks(("c1", "look", {"id": 1}), ("c2", "look", {"id": 2}))))
    second = tool("look", 100, 150, root, tool_call_id="c2")
    first = tool("look", 101, 150, root, tool_call_id="c1")
    run = one(root, asked, second, first, llm(200, 290, root))
    assert [t.call_id for t in run.tools] == ["c1", "c2"]


def test_a_tool_that_reports_its_failure_in_its_result_failed() -> None:
    root = agent("desk", 0, 300)
    run = one(root, llm(1, 9, root), tool("pay", 10, 20, root, tool_result='{"isError": true, "content": "refused"}'))
    assert (run.tools[0].failed, run.tools[0].error) == (True, "refused")
    assert run.status == "ok", "the agent may survive a failed tool"


def test_a_tool_that_speaks_about_errors_did_not_fail() -> None:
    root = agent("desk", 0, 300)
    text = '"The error rate fell to 2%. Error handling was improved."'
    run = one(root, llm(1, 9, root), tool("news", 10, 20, root, tool_result=text))
    assert not run.tools[0].failed


def test_the_same_call_after_its_failure_is_the_next_attempt() -> None:
    root = agent("desk", 0, 300)
    first = tool("pay", 10, 20, root, tool_arguments='{"a": 1}', status="error")
    run = one(root, llm(1, 9, root), first, tool("pay", 30, 40, root, tool_arguments='{"a": 1}'))
    assert [t.attempt for t in run.tools] == [1, 2]


def test_answers_and_hand_offs_dressed_as_tools_are_not_counted() -> None:
    root = agent("desk", 0, 300)
    final = tool("final_answer", 10, 20, root, tool_arguments='{"answer": "42"}')
    run = one(root, llm(1, 9, root), final, tool("transfer_to_billing", 30, 40, root))
    assert run.tools == ()
    assert [s.tool.pseudo for s in run.steps if s.tool is not None] == [True, True]
    assert run.output == "42"


def test_a_provider_side_tool_needs_no_span() -> None:
    answer = (
        '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "srv1", "name": "web_search",'
        ' "arguments": {"q": "x"}, "builtin": true}, {"type": "tool_call_response", "id": "srv1", "response": ["r"]},'
        ' {"type": "text", "content": "done"}]}]'
    )
    root = agent("desk", 0, 300)
    run = one(root, llm(1, 90, root, output_messages=answer))
    assert [(t.name, t.tool_type, t.result) for t in run.tools] == [("web_search", "builtin", ["r"])]
    assert run.output == "done"


# --- errors


def test_a_run_that_ends_while_the_model_waits_for_a_tool_failed() -> None:
    root = agent("desk", 0, 300)
    run = one(root, llm(1, 90, root, output_messages=told(asks(("c1", "no_such_tool", {})))))
    assert run.status == "error"
    assert "no_such_tool" in (run.error or "")


def test_a_failed_last_model_call_fails_the_run_whatever_the_root_says() -> None:
    root = agent("desk", 0, 300, status="ok")
    run = one(root, llm(1, 9, root), llm(10, 20, root, status="error", status_message="500", usage=Usage()))
    assert (run.status, run.error) == ("error", "500")


def test_a_retried_model_call_does_not_fail_the_run() -> None:
    root = agent("desk", 0, 300)
    run = one(root, llm(1, 9, root, status="error", usage=Usage()), llm(10, 20, root))
    assert run.status == "ok"


# --- evaluations, retrievals, stitching


def test_an_evaluation_on_a_span_of_its_own_reaches_the_run_it_points_at() -> None:
    root = agent("desk", 0, 300)
    call = llm(1, 90, root)
    carrier = span(
        "eval", 400, 401, trace_id="t9", kind=SpanKind.EVALUATOR, scope_name="phoenix",
        evaluations='[{"name": "toxicity", "score": 0.1, "label": "ok"}]',
        links=(SpanLink(trace_id="t1", span_id=call.span_id),),
    )  # fmt: skip
    runs = assemble([root, call, carrier])
    found = next(r for r in runs if r.agent == "desk").evaluations
    assert [(e.name, e.value, e.label) for e in found] == [("toxicity", 0.1, "ok")]


def test_a_retrieval_keeps_its_documents() -> None:
    root = agent("desk", 0, 300)
    search = span(
        "retrieve", 1, 5, root, kind=SpanKind.RETRIEVER, retrieval_query="gift cards",
        documents='[{"id": "d1", "content": "No refunds.", "score": 0.8}]',
    )  # fmt: skip
    run = one(root, search, llm(6, 90, root))
    assert run.retrievals[0].query == "gift cards"
    assert run.retrievals[0].documents[0].content == "No refunds."


def test_bare_calls_that_answer_each_others_requests_are_one_run() -> None:
    ask = says("user", "where is 7?")
    first = llm(0, 10, input_messages=told(ask), output_messages=told(asks(("c1", "look", {"id": 7}))))
    second = llm(
        50, 60, trace_id="t2", span_id="x2",
        input_messages=told(ask, asks(("c1", "look", {"id": 7})), tool_result("c1", {"at": "home"})),
        output_messages=told(says("assistant", "at home")),
    )  # fmt: skip
    run = one(first, second)
    assert run.trace_ids == ("t1", "t2")
    assert "stitched" in run.flags
    assert (run.stitch_confidence or 0) > 0.9
    assert (run.input, run.output) == ("where is 7?", "at home")
    assert [t.name for t in run.tools] == ["look"]


def test_the_next_turn_of_a_bare_conversation_is_another_run() -> None:
    ask, answer = says("user", "hello"), says("assistant", "hi")
    first = llm(0, 10, input_messages=told(ask), output_messages=told(answer))
    second = llm(50, 60, trace_id="t2", input_messages=told(ask, answer, says("user", "and now?")))
    assert len(assemble([first, second])) == 2


def test_bare_calls_without_content_are_joined_by_what_ended_them_with_little_confidence() -> None:
    first = llm(0, 10, finish_reasons=("tool_calls",))
    second = llm(50, 60, trace_id="t2", finish_reasons=("stop",))
    run = one(first, second)
    assert run.stitch_confidence == 0.5


def test_bare_calls_of_other_processes_are_never_joined() -> None:
    first = llm(0, 10, finish_reasons=("tool_calls",))
    second = llm(50, 60, trace_id="t2", service_instance_id="process-2")
    assert len(assemble([first, second])) == 2


def test_projects_are_never_mixed() -> None:
    root = agent("desk", 0, 100)
    runs = assemble(
        [root, replace(root, project="other"), llm(1, 50, root), replace(llm(1, 50, root), project="other")]
    )
    assert sorted(r.project for r in runs) == ["default", "other"]
    assert runs[0].run_id != runs[1].run_id


def test_what_an_agent_says_only_in_its_generic_output_is_read() -> None:
    said = {
        "messages": [
            {"role": "user", "content": "where is 7?"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "look", "arguments": {"id": 7}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "at home"},
            {"role": "assistant", "content": "At home."},
        ]
    }
    root = span("Agent.run", 0, 100, kind=SpanKind.CHAIN, output_value=json.dumps(said))
    run = one(root, llm(1, 9, root))
    assert [(t.name, t.arguments, t.result, t.observed) for t in run.tools] == [
        ("look", {"id": 7}, "at home", "message")
    ]
    assert run.output == "At home."


def test_a_sub_agent_named_only_by_its_tools_arguments_gets_that_name() -> None:
    root = span("ClaudeAgentSDK.query", 0, 300, kind=SpanKind.AGENT)
    task = tool("Task", 10, 200, root, tool_arguments='{"subagent_type": "risk", "prompt": "look at NWTX"}')
    sub = agent("Task", 11, 190, task)
    run = one(root, task, sub, tool("look", 20, 30, sub))
    assert run.agents == ("risk",)
    assert [s.name for s in run.steps if s.kind == "agent"] == ["risk"]
