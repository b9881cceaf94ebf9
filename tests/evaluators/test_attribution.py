"""The step and the agent most responsible for a failure."""

from hypothesis import given
from hypothesis import strategies as st

from evalspan_collector.message import Message, Part
from evalspan_collector.run import ModelCall, Run, Step, ToolCall
from evalspan_evaluators.attribution import attribute, attribute_moves, moves_of, moves_of_log
from evalspan_evaluators.score import Evidence, Score

LOG = (
    ("Planner", "Find the price of the ticket and multiply it by four, then report to the user what you found."),
    ("Researcher", "I will look it up with the tool and report back what the page says about the ticket price."),
    ("Researcher", "```python\nprice = fetch('ticket')\n```"),
    ("Computer_terminal", "exitcode: 1 (execution failed)\nNameError: name 'fetch' is not defined"),
    ("Writer", "The ticket costs 45 USD, so four of them cost 180 USD in total for the family."),
    ("Writer", "TERMINATE"),
)


def test_code_that_failed_when_it_was_run_is_looked_at_first() -> None:
    found = attribute_moves(moves_of_log(LOG))

    assert found is not None
    assert (found.step, found.agent) == (2, "Researcher")
    assert "CAUSED_FAILURE" in {e.code for e in found.evidence}
    assert "NameError" in (found.evidence[-1].value or "")
    assert "failed when it was run" in str(found)


def test_a_guess_comes_before_a_plain_statement() -> None:
    log = (("A", "Here is the task for all of you: find the population of the city."),
           ("B", "I have looked at the page of the city and read the table on it."),
           ("C", "Let's assume the population is 1,000,000 for the sake of the argument."))  # fmt: skip

    found = attribute_moves(moves_of_log(log))

    assert found is not None
    assert found.agent == "C"
    assert "GUESS" in {e.code for e in found.evidence}


def test_the_environment_the_user_and_a_manager_beside_others_are_not_blamed() -> None:
    log = (("human", "How many?"), ("Orchestrator (thought)", "Ask the surfer to open the page and count the 12 rows."),
           ("Orchestrator (-> Surfer)", "Please open the page and count the rows of the table on it."),
           ("Surfer", "I opened the page, and there are 14 rows in the table."), ("Terminal", "error: no"))  # fmt: skip

    found = attribute_moves(moves_of_log(log))

    assert found is not None
    assert found.agent == "Surfer"
    assert {s.agent for s in found.suspects} == {"Orchestrator", "Surfer"}


def tool_step(index: int, name: str, **fields: object) -> Step:
    call = ToolCall(name=name, span_id=f"s{index}", **fields)  # type: ignore[arg-type]  # fields by name
    return Step(index=index, kind="tool_call", name=name, span_id=f"s{index}", agent=call.agent, tool=call)


def test_a_failed_tool_of_a_run_is_looked_at_first() -> None:
    answer = Message(role="assistant", parts=(Part(type="text", content="The order was refunded, all of the 12 USD."),))
    steps = (
        tool_step(0, "lookup", result={"ok": True}),
        tool_step(1, "refund", failed=True, error="card refused"),
        Step(index=2, kind="model_call", name="m", model_call=ModelCall(output_messages=(answer,))),
    )
    run = Run(run_id="r", trace_id="t", agent="bot", steps=steps)

    found = attribute(run)

    assert found is not None
    assert (found.step, found.agent) == (1, "bot")
    assert found.evidence[0].value == "card refused"
    assert found.evidence[0].tool == "refund"


def test_the_span_a_failed_metric_points_at_is_looked_at_first() -> None:
    run = Run(run_id="r", trace_id="t", agent="bot", steps=tuple(tool_step(i, f"t{i}") for i in range(4)))
    evidence = Evidence(verdict="mismatch", span_id="s2")
    score = Score.of("tool_schema", 0.0, threshold=1.0, reason="wrong type", evidence=(evidence,))

    found = attribute(run, [score])

    assert found is not None
    assert found.step == 2
    assert "'tool_schema' points at it" in str(found)


def test_the_agent_that_hands_out_work_is_blamed_after_those_that_do_it() -> None:
    say = Message(role="assistant", parts=(Part(type="text", content="It will be 15 degrees in the city tomorrow."),))
    steps = (
        Step(index=0, kind="model_call", name="m", agent="boss", model_call=ModelCall(output_messages=(say,))),
        Step(index=1, kind="agent", name="worker", agent="worker"),
        Step(index=2, kind="model_call", name="m", agent="worker", parent_index=1,
             model_call=ModelCall(output_messages=(say,))),
    )  # fmt: skip

    found = attribute(Run(run_id="r", trace_id="t", agent="boss", steps=steps))

    assert found is not None
    assert found.agent == "worker"


def test_a_run_without_steps_has_nobody_to_blame() -> None:
    assert attribute(Run(run_id="r", trace_id="t")) is None
    assert moves_of(Run(run_id="r", trace_id="t")) == ()


@given(st.lists(st.tuples(st.sampled_from(["A", "B", "Terminal", "user", ""]), st.text(max_size=80)), max_size=12))
def test_any_log_has_a_suspect_among_those_who_acted(log: list[tuple[str, str]]) -> None:
    moves = moves_of_log(log)
    found = attribute_moves(moves)

    acted = [m for m in moves if not m.environment]
    assert (found is None) is (not acted)
    if found is not None:
        assert sorted(s.step for s in found.suspects) == [m.index for m in acted]
