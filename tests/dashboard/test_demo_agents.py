"""Demo agents: what they play, exported over gRPC, rebuilt and scored by the rules that ship with them."""

import json
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anthropic
import pytest

from evalspan.errors import EvalspanError
from evalspan.testing import Sink
from evalspan_collector.assemble import assemble
from evalspan_collector.intake import read_traces
from evalspan_collector.run import Run
from evalspan_collector.span import Span
from evalspan_dashboard.demo.api_server import ScriptedApi
from evalspan_dashboard.demo.runs import DemoResult, DemoTurn, run_demo, write_config
from evalspan_dashboard.demo.scenarios import SCENARIOS, Reply
from evalspan_evaluators.case import Case
from evalspan_evaluators.config import load_config
from evalspan_evaluators.grounding import Grounding
from evalspan_evaluators.metric import Metric


@dataclass(frozen=True)
class Played:
    result: DemoResult
    runs: tuple[tuple[DemoTurn, Run], ...]


@pytest.fixture(scope="module")
def played() -> Played:
    with Sink() as sink:
        result = run_demo(sink.endpoint, latency_s=0)
        spans: list[Span] = []
        for request in sink.requests:
            spans += read_traces(request.SerializeToString(), project="default", received_ns=1).spans
    runs = sorted(assemble(spans), key=lambda run: run.started_ns)
    return Played(result, tuple(zip(result.turns, runs, strict=True)))


def by_scenario(played: Played, name: str) -> list[tuple[DemoTurn, Run]]:
    return [(turn, run) for turn, run in played.runs if turn.scenario == name]


def test_every_turn_is_one_run_with_its_input_output_session_and_tools(played: Played) -> None:
    assert [turn.scenario for turn, _ in played.runs] == [s.name for s in SCENARIOS for _ in s.turns]
    for turn, run in played.runs:
        assert (run.agent, run.session_id, run.input, run.output) == (
            turn.agent,
            turn.session_id,
            turn.input,
            turn.output,
        )
        assert tuple(tool.name for tool in run.tools) == turn.tools
        assert run.user_id == "demo-user"
        assert run.service == "demo-agents"


def test_tokens_and_cost_are_what_the_api_reported(played: Played) -> None:
    for turn, run in played.runs:
        calls = turn.calls
        read, written = sum(c.cache_read_input_tokens for c in calls), sum(c.cache_creation_input_tokens for c in calls)
        fresh, made = sum(c.input_tokens for c in calls), sum(c.output_tokens for c in calls)
        usage = run.usage
        assert (usage.input_tokens, usage.output_tokens) == (fresh + read + written, made)
        assert (usage.cache_read_tokens, usage.cache_write_tokens) == (read, written)
        assert run.cost_usd == pytest.approx((fresh * 3 + written * 3.75 + read * 0.3 + made * 15) / 1e6, rel=1e-9)
        assert len(run.model_calls) == len(calls)


def test_the_planted_figure_and_no_other_is_found_with_its_true_value(played: Played) -> None:
    found: list[tuple[str, Any, Any, Any, Any]] = []
    for turn, run in played.runs:
        score = Grounding().evaluate(Case.from_run(run))
        assert score.passed is (turn.planted is None), (turn.scenario, score.reason)
        found += [
            (turn.scenario, e.claim, e.tool, e.path, e.expected) for e in score.evidence if e.verdict == "contradicted"
        ]
    (planted,) = [s.planted for s in SCENARIOS if s.planted is not None]
    assert found == [("contradiction", planted.claim, planted.tool, f"$.{planted.path}", str(planted.truth))]


def test_the_planted_figure_is_nowhere_in_the_tool_results(played: Played) -> None:
    ((turn, run),) = by_scenario(played, "contradiction")
    assert turn.planted is not None
    assert turn.planted.claim in turn.output
    results = [json.loads(tool.result) if isinstance(tool.result, str) else tool.result for tool in run.tools]
    assert turn.planted.claim.lstrip("$") not in json.dumps(results)
    (named,) = [r for tool, r in zip(run.tools, results, strict=True) if tool.name == turn.planted.tool]
    assert named[turn.planted.path] == turn.planted.truth


def test_the_handled_tool_error_is_on_its_tool_and_not_on_the_run(played: Played) -> None:
    ((_, run),) = by_scenario(played, "tool error")
    assert [tool.failed for tool in run.tools] == [True, False, False, False]
    assert "A3190" in str(run.tools[0].error)
    assert run.status == "ok"


def test_the_follow_up_question_shares_the_session_and_sees_the_first_turn(played: Played) -> None:
    (first, first_run), (second, second_run) = by_scenario(played, "two turns")
    assert first_run.session_id == second_run.session_id
    assert len({turn.session_id for turn, _ in played.runs}) == len(SCENARIOS)
    first_call = min(second.calls, key=lambda call: call.input_tokens)
    assert first_call.input_tokens > first.calls[0].input_tokens


def test_the_rules_of_the_demo_fail_exactly_what_is_planted(played: Played, tmp_path: Path) -> None:
    rules = load_config(write_config(tmp_path), {}).rules
    failed: list[tuple[str, str]] = []
    for turn, run in played.runs:
        (rule,) = [rule for rule in rules if rule.filters.mismatch(run) is None]
        case = replace(Case.from_run(run), expected=rule.expected)
        for metric in rule.metrics:
            assert isinstance(metric, Metric)
            score = metric.evaluate(case)
            assert score.passed is not None, (turn.scenario, metric.name, score.reason, score.error)
            if not score.passed:
                failed.append((turn.scenario, metric.name))
    assert failed == [("contradiction", "grounding"), ("wrong order", "sequence")]


def test_a_webhook_is_added_to_the_configuration_on_request(tmp_path: Path) -> None:
    quiet, loud = (load_config(write_config(tmp_path, hook), {}) for hook in (None, "http://127.0.0.1:9000/hook"))
    assert (quiet.channels, quiet.alerts[0].channels) == ((), ())
    assert [channel.name for channel in loud.channels] == list(loud.alerts[0].channels)


def test_an_unknown_scenario_is_named() -> None:
    with pytest.raises(EvalspanError, match="nonsense"):
        run_demo("http://127.0.0.1:1", scenarios=["nonsense"])


def ask(api: ScriptedApi, messages: Sequence[Any], **more: Any) -> Any:
    with anthropic.Anthropic(base_url=api.url, api_key="k", max_retries=0) as client:
        create: Any = client.messages.create  # its overloads do not fit arguments passed on
        return create(model="claude-haiku-4-5", max_tokens=10, messages=list(messages), **more)


def test_the_scripted_api_is_deterministic_and_remembers_its_usage() -> None:
    answers = {"hi": (Reply("hello"),)}
    replies: list[tuple[str, str]] = []
    for _ in range(2):
        with ScriptedApi(answers) as api:
            reply = ask(api, [{"role": "user", "content": "hi"}])
            replies.append((reply.id, reply.content[0].text))
            with urllib.request.urlopen(api.url + "/usage") as page:
                (call,) = json.loads(page.read())
            assert (call["response_id"], call["input_tokens"], call["output_tokens"]) == (
                reply.id,
                reply.usage.input_tokens,
                reply.usage.output_tokens,
            )
    assert replies[0] == replies[1]
    assert replies[0][1] == "hello"


def test_the_scripted_api_streams_the_same_answer() -> None:
    answers = {"hi": (Reply("a longer text than one piece of the stream holds, on purpose", (("t", {"x": 1}),)),)}
    with ScriptedApi(answers) as api, anthropic.Anthropic(base_url=api.url, api_key="k") as client:
        with client.messages.stream(model="m", max_tokens=10, messages=[{"role": "user", "content": "hi"}]) as stream:
            streamed = stream.get_final_message()
        whole = ask(api, [{"role": "user", "content": "hi"}])
    assert streamed.content[0].to_dict() == whole.content[0].to_dict()
    assert streamed.content[1].to_dict()["input"] == whole.content[1].to_dict()["input"] == {"x": 1}
    assert streamed.stop_reason == whole.stop_reason == "tool_use"
    assert streamed.usage.output_tokens == whole.usage.output_tokens


def test_the_scripted_api_refuses_what_it_has_no_answer_to() -> None:
    with ScriptedApi({}) as api, pytest.raises(anthropic.BadRequestError, match="no answer"):
        ask(api, [{"role": "user", "content": "something else"}])


def test_a_cached_prefix_is_written_once_and_then_read() -> None:
    answers = {"hi": (Reply("hello"),)}
    system = [{"type": "text", "text": "Be brief. " * 30, "cache_control": {"type": "ephemeral"}}]
    with ScriptedApi(answers) as api:
        usages = [ask(api, [{"role": "user", "content": "hi"}], system=system).usage for _ in range(2)]
    written = usages[0].cache_creation_input_tokens
    assert written > 0
    assert [(u.cache_creation_input_tokens, u.cache_read_input_tokens) for u in usages] == [(written, 0), (0, written)]
