"""Evaluators: runs per CPU-second of every deterministic trajectory metric, beside a floor and beside peers.

The same 1,000 runs of 10 tool calls (three in ten with two calls swapped) go through every metric with its defaults,
through a plain-Python longest common subsequence (the floor: no result objects at all), and through the peers that
`python bench/peers.py install evaluators` has brought, each in its own environment. All are measured once per
round, in turn, so that a busy machine slows all of them alike; the figures are medians over the rounds. Objects
are built beforehand, result objects are made and counted.

`grounding` has runs of its own (`grounded.py`): ten results of 4 kB and an answer with eight claims.

    python bench/evaluators.py [--quick] [--json] [--runs 1000] [--rounds 5] [--only sequence,writes]

With `--json` the last line is the result as one JSON object.
"""

import argparse
import contextlib
import itertools
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grounded import grounded_cases
from peers import EVALUATORS, Library
from workload import TOOLS, Call, Pair, longest_common, pairs

from evalspan_collector.run import ToolCall, ToolDefinition
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.metric import create, evaluate_metric

__all__ = ["main"]

FLOOR = "plain LCS"
_RULES = (
    "search_kb* get_order* send_email*",
    "at most 9 of calc",
    "never delete_* after refund_payment",
    "archive_* between open_case and close_case",
    "(get_order | lookup_user | !drop_table)+",
)
_OWN_CATEGORIES = {"lookup": ("search_kb", "get_order", "lookup_user"), "action": ("refund_payment", "send_email")}
#: Names in the table, each with the metric and its parameters.
METRICS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"sequence {mode}": ("sequence", {"mode": mode}) for mode in ("exact", "unordered", "subset", "multiset")},
    "sequence": ("sequence", {}),
    "tool_accuracy": ("tool_accuracy", {}),
    "tool_selection": ("tool_selection", {"counted": True}),
    "tool_categories": ("tool_categories", {"own_categories": _OWN_CATEGORIES, "expected": list(_OWN_CATEGORIES)}),
    "tool_arguments": ("tool_arguments", {}),
    "writes": ("writes", {}),
    "trajectory 1 rule": ("trajectory", {"rules": ["search_kb* get_order* send_email*"]}),
    "trajectory 5 rules": ("trajectory", {"rules": list(_RULES)}),
    "trajectory data flow": ("trajectory", {"rules": ["never get_order[id != from any.next_id] after calc"]}),
    "forbidden_tools": ("forbidden_tools", {"tools": ["drop_table", "delete_user"]}),
    "allowed_tools": ("allowed_tools", {"tools": list(TOOLS)}),
    "tool_schema": ("tool_schema", {}),
    "argument_provenance": ("argument_provenance", {}),
    "tool_errors": ("tool_errors", {}),
    "error_acknowledged": ("error_acknowledged", {}),
    "loops": ("loops", {}),
    "stalls": ("stalls", {}),
    "identical_retries": ("identical_retries", {}),
    "redundant_calls": ("redundant_calls", {}),
    "max_tool_calls": ("max_tool_calls", {"limit": 10}),
    "max_steps": ("max_steps", {"limit": 20}),
}
_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["id", "limit"],
}


@dataclass(slots=True)
class Measured:
    """One contender: measures itself once per call, in CPU-seconds and runs passed."""

    once: Callable[[], tuple[float, int]]
    seconds: list[float] = field(default_factory=list[float])
    passed: int = 0
    #: Runs of one turn, where they are not the table's.
    runs: int | None = None

    def measure(self) -> None:
        took, self.passed = self.once()
        self.seconds.append(took)


def case_of(pair: Pair) -> Case:
    """A run in which the user names the first id and every result the next one; one in ten has a failed call."""
    expected, made = pair
    definitions = tuple(ToolDefinition(name=name, parameters=_SCHEMA) for name in TOOLS)
    failing = sum(arguments["limit"] for _, arguments in made) % 10
    return Case(
        input=f"Please work on {expected[0][1]['id']} and whatever follows from it.",
        output="All done. One step did not work, sorry." if failing == 0 else "All done.",
        tools=tuple(_call(at, made, expected, failed=failing == 0 and at == 9) for at in range(len(made))),
        expected=Expected(
            tools=tuple(name for name, _ in expected),
            sequence=tuple(name for name, _ in expected),
            calls=tuple({"name": name, "arguments": dict(arguments)} for name, arguments in expected),
        ),
        tool_definitions=definitions,
    )


def _call(at: int, made: list[Call], expected: list[Call], *, failed: bool) -> ToolCall:
    name, arguments = made[at]
    following = expected[at + 1][1]["id"] if at + 1 < len(expected) else None
    result = {"status": "ok", "id": arguments["id"], "next_id": following, "total": 20.5 * arguments["limit"]}
    return ToolCall(
        name=name,
        arguments=dict(arguments),
        result=result,
        failed=failed,
        error="timeout" if failed else None,
        span_id=f"{at:016x}",
    )


def ours(parameters: tuple[str, dict[str, Any]], cases: list[Case]) -> Measured:
    """One of our metrics over all cases, errors refused."""
    metric = create(*parameters)

    def once() -> tuple[float, int]:
        started = time.process_time()
        scores = [evaluate_metric(metric, case) for case in cases]
        took = time.process_time() - started
        broken = next((score.error for score in scores if score.error), None)
        if broken:
            raise RuntimeError(f"{metric.name}: {broken}")
        return took, sum(score.passed is True for score in scores)

    return Measured(once)


def floor(runs: list[Pair]) -> Measured:
    """The comparison alone."""

    def once() -> tuple[float, int]:
        started = time.process_time()
        passed = sum(longest_common([n for n, _ in e], [n for n, _ in a]) == len(e) for e, a in runs)
        return time.process_time() - started, passed

    return Measured(once)


@contextlib.contextmanager
def peer(library: Library, count: int) -> Generator[Measured, None, None]:
    """A peer as a process that waits between its turns."""
    script = Path(__file__).with_name("evaluator_peers.py")
    child = subprocess.Popen(
        [str(library.python), str(script), library.name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def answer() -> dict[str, Any]:
        line = child.stdout.readline() if child.stdout else ""
        if not line:
            raise RuntimeError(f"peer {library.name} ended: run {library.python} {script} {library.name} 10 to see why")
        found: dict[str, Any] = json.loads(line)
        return found

    def once() -> tuple[float, int]:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        found = answer()
        return float(found["cpu_s"]), int(found["passed"])

    try:
        answer()
        yield Measured(once)
    finally:
        child.kill()
        child.wait()


def grounding(count: int) -> Measured:
    """`grounding` over runs of its own, whose results are 4 kB each; every round sees new ones, so no cache helps."""
    rounds = itertools.count(1)
    metric = create("grounding", {})

    def once() -> tuple[float, int]:
        cases = grounded_cases(count, seed=next(rounds))
        started = time.process_time()
        scores = [evaluate_metric(metric, case) for case in cases]
        took = time.process_time() - started
        broken = next((score.error for score in scores if score.error), None)
        if broken:
            raise RuntimeError(f"grounding: {broken}")
        return took, sum(score.passed is True for score in scores)

    return Measured(once, runs=count)


def measure(count: int, rounds: int, only: set[str]) -> tuple[dict[str, Measured], list[str]]:
    """Every contender `rounds` times, in turn, after one round that is not counted; and the peers among them."""
    runs = pairs(count)
    cases = [case_of(pair) for pair in runs]
    contenders = {FLOOR: floor(runs)}
    contenders |= {name: ours(made, cases) for name, made in METRICS.items() if not only or made[0] in only}
    if not only or "grounding" in only:
        contenders["grounding"] = grounding(max(20, count // 10))
    peers = [library for library in EVALUATORS if library.installed]
    with contextlib.ExitStack() as stack:
        contenders |= {library.name: stack.enter_context(peer(library, count)) for library in peers}
        for _ in range(rounds + 1):
            for contender in contenders.values():
                contender.measure()
    for contender in contenders.values():
        del contender.seconds[0]
    return contenders, [library.name for library in peers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="300 runs, 2 rounds")
    parser.add_argument("--json", action="store_true", help="the result as one JSON object on the last line")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="metrics to measure, with commas between them")
    wanted = parser.parse_args()
    count, rounds = (300, 2) if wanted.quick else (wanted.runs, wanted.rounds)
    contenders, peers = measure(count, rounds, {name for name in wanted.only.split(",") if name})
    speed = {name: (c.runs or count) / statistics.median(c.seconds) for name, c in contenders.items()}
    against = speed.get("pydantic-evals")
    rows = {
        name: {
            "runs_per_cpu_s": round(rate),
            "vs_floor": round(rate / speed[FLOOR], 3),
            "vs_pydantic_evals": None if against is None else round(rate / against, 2),
            "passed": contenders[name].passed,
        }
        for name, rate in speed.items()
    }
    print(f"{count} runs of 10 tool calls, {rounds} rounds, medians; CPU-seconds of the measuring process")
    print(f"{'':<24}{'runs/CPU-s':>12}{'us/run':>9}{'of floor':>10}{'x pydantic-evals':>18}{'passed':>8}")
    for name, row in rows.items():
        times = "" if row["vs_pydantic_evals"] is None else f"{row['vs_pydantic_evals']:.2f}"
        rate = speed[name]
        print(f"{name:<24}{rate:>12,.0f}{1e6 / rate:>9.1f}{row['vs_floor']:>10.2f}{times:>18}{row['passed']:>8}")
    missing = [library.name for library in EVALUATORS if not library.installed]
    if missing:
        print(f"not installed: {', '.join(missing)} (python bench/peers.py install evaluators)")
    if wanted.json:
        metrics = {name: row for name, row in rows.items() if name != FLOOR and name not in peers}
        found = {name: rows[name] for name in peers}
        print(json.dumps({"runs": count, "rounds": rounds, "floor": rows[FLOOR], "metrics": metrics, "peers": found}))


if __name__ == "__main__":
    main()
