"""Evaluator peers: the workload through another library, run by the Python of that library's own environment.

`python evaluator_peers.py VARIANT COUNT` builds the library's objects, says `{"ready": ...}`, then measures once for
each line on standard input and answers with the CPU-seconds and how many runs passed. Libraries differ from
version to version and are not installed where the types are checked, so they are imported by name.
"""

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workload import Call, Pair, longest_common, pairs

#: Evaluates every run and says how many passed.
Pass = Callable[[], int]

_QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DO_NOT_TRACK": "1",
    "LANGSMITH_TEST_TRACKING": "false",
    "LANGSMITH_TRACING": "false",
    "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "OPENAI_API_KEY": "unused",
}


def _names(calls: list[Call]) -> list[str]:
    return [name for name, _ in calls]


def pydantic_evals(runs: list[Pair]) -> Pass:
    """An evaluator of one's own, since the library has none for trajectories: the floor inside its machinery."""
    library: Any = importlib.import_module("pydantic_evals")
    evaluators: Any = importlib.import_module("pydantic_evals.evaluators")

    def evaluate(_: object, ctx: Any) -> bool:
        return longest_common(ctx.expected_output, ctx.output) == len(ctx.expected_output)

    kind: Any = dataclass(type("InOrder", (evaluators.Evaluator,), {"evaluate": evaluate, "__module__": __name__}))
    cases = [library.Case(name=f"c{i}", inputs=i, expected_output=_names(e)) for i, (e, _) in enumerate(runs)]
    dataset = library.Dataset(name="runs", cases=cases, evaluators=[kind()])
    actual = [_names(made) for _, made in runs]

    async def task(index: int) -> list[str]:
        return actual[index]

    def measured() -> int:
        report = dataset.evaluate_sync(task, progress=False)
        return sum(all(found.value for found in case.assertions.values()) for case in report.cases)

    return measured


def agentevals(runs: list[Pair], mode: str) -> Pass:
    """LangChain's trajectory match over OpenAI-style messages."""
    match: Any = importlib.import_module("agentevals.trajectory.match")
    evaluator = match.create_trajectory_match_evaluator(trajectory_match_mode=mode)

    def messages(calls: list[Call]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{"role": "user", "content": "Where is my order?"}]
        for index, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"c{index}", "type": "function", "function": function}
            found.append({"role": "assistant", "content": "", "tool_calls": [call]})
            found.append({"role": "tool", "content": "ok", "tool_call_id": f"c{index}"})
        return [*found, {"role": "assistant", "content": "Done."}]

    items = [(messages(expected), messages(made)) for expected, made in runs]
    return lambda: sum(bool(evaluator(outputs=made, reference_outputs=wanted)["score"]) for wanted, made in items)


def agentevals_cli(runs: list[Pair]) -> Pass:
    """The metric alone (Google ADK's trajectory score, in order), without loading traces."""
    types: Any = importlib.import_module("google.genai.types")
    cases: Any = importlib.import_module("google.adk.evaluation.eval_case")
    metric: Any = importlib.import_module("agentevals.builtin_metrics").evaluate_builtin_metric

    def invocation(calls: list[Call]) -> Any:
        return cases.Invocation(
            user_content=types.Content(role="user", parts=[types.Part(text="hi")]),
            final_response=types.Content(role="model", parts=[types.Part(text="Done.")]),
            intermediate_data=cases.IntermediateData(
                tool_uses=[types.FunctionCall(name=name, args=arguments) for name, arguments in calls]
            ),
        )

    items = [(invocation(expected), invocation(made)) for expected, made in runs]

    async def all_of_them() -> int:
        passed = 0
        for wanted, made in items:
            found = await metric("tool_trajectory_avg_score", [made], [wanted], None, 1.0, "IN_ORDER")
            passed += found.score == 1.0
        return passed

    return lambda: asyncio.run(all_of_them())


def deepeval(runs: list[Pair]) -> Pass:
    """Tool correctness with ordering."""
    metrics: Any = importlib.import_module("deepeval.metrics")
    cases: Any = importlib.import_module("deepeval.test_case")

    def called(calls: list[Call]) -> list[Any]:
        return [cases.ToolCall(name=name, input_parameters=arguments) for name, arguments in calls]

    items = [
        cases.LLMTestCase(input="q", actual_output="Done.", tools_called=called(made), expected_tools=called(wanted))
        for wanted, made in runs
    ]
    metric = metrics.ToolCorrectnessMetric(async_mode=False, include_reason=True, should_consider_ordering=True)
    return lambda: sum(metric.measure(item, _show_indicator=False) == 1.0 for item in items)


def evalview(runs: list[Pair]) -> Pass:
    """The bare sequence comparison."""
    types: Any = importlib.import_module("evalview.core.types")
    evaluators: Any = importlib.import_module("evalview.evaluators.sequence_evaluator")
    now = datetime.now(tz=UTC)

    def case(index: int, wanted: list[Call]) -> Any:
        expected = types.ExpectedBehavior(tools=_names(wanted), tool_sequence=_names(wanted))
        limits = types.Thresholds(min_score=50)
        return types.TestCase(name=f"t{index}", input=types.TestInput(query="q"), expected=expected, thresholds=limits)

    def trace(made: list[Call]) -> Any:
        steps = [
            types.StepTrace(
                step_id=str(at), step_name=name, tool_name=name, parameters=arguments, output="ok", success=True,
                metrics=types.StepMetrics(),
            )
            for at, (name, arguments) in enumerate(made)
        ]  # fmt: skip
        used = types.ExecutionMetrics(total_cost=0, total_latency=1)
        return types.ExecutionTrace(
            session_id="s", start_time=now, end_time=now, final_output="Done.", metrics=used, steps=steps
        )

    items = [(case(index, wanted), trace(made)) for index, (wanted, made) in enumerate(runs)]
    evaluator = evaluators.SequenceEvaluator()
    return lambda: sum(evaluator.evaluate(wanted, made).correct for wanted, made in items)


VARIANTS: dict[str, Callable[[list[Pair]], Pass]] = {
    "pydantic-evals": pydantic_evals,
    "agentevals": lambda runs: agentevals(runs, "strict"),
    "agentevals-cli": agentevals_cli,
    "deepeval": deepeval,
    "evalview": evalview,
}


def main() -> None:
    os.environ.update(_QUIET)
    variant, count = sys.argv[1], int(sys.argv[2])
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print what they like
    measured = VARIANTS[variant](pairs(count))
    print(json.dumps({"ready": variant}), file=answers, flush=True)
    for _ in sys.stdin:
        started = time.process_time()
        passed = measured()
        took = time.process_time() - started
        print(json.dumps({"cpu_s": took, "passed": passed}), file=answers, flush=True)


if __name__ == "__main__":
    main()
