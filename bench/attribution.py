"""Attribution accuracy on Who&When beside its floors: `python bench/attribution.py FILE.jsonl [--json]`."""

import argparse
import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evalspan_evaluators.attribution import Move, attribute_moves, moves_of_log

Guess = tuple[str, int]


def entries(row: dict[str, Any]) -> list[dict[str, Any]]:
    log = row["trajectory"]
    if isinstance(log, str):
        try:
            log = json.loads(log)
        except ValueError:
            log = ast.literal_eval(log)
    return list(log)


def ours(moves: tuple[Move, ...]) -> Guess:
    found = attribute_moves(moves)
    return ("", -1) if found is None else (found.agent, found.step)


def last_agent(moves: tuple[Move, ...]) -> Guess:
    return moves[-1].agent, moves[-1].index


def first_step(moves: tuple[Move, ...]) -> Guess:
    at = min(1, len(moves) - 1)
    return moves[at].agent, moves[at].index


GUESSES: dict[str, Callable[[tuple[Move, ...]], Guess]] = {
    "ours": ours, "last agent": last_agent, "always step 1": first_step,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="rows with task, trajectory and label {mistake_agent, mistake_step}")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.file.read_text(encoding="utf-8").splitlines() if line.strip()]
    table: dict[str, dict[str, dict[str, float]]] = {}
    for name, guess in GUESSES.items():
        for row in rows:
            moves = moves_of_log((entry["name"], entry["content"]) for entry in entries(row))
            agent, step = guess(moves)
            for group in (row["task"], "all"):
                cell = table.setdefault(name, {}).setdefault(group, {"rows": 0, "agent": 0, "step": 0})
                cell["rows"] += 1
                cell["agent"] += agent == row["label"]["mistake_agent"]
                cell["step"] += step == row["label"]["mistake_step"]
    shares = {
        name: {
            group: {"rows": c["rows"]} | {k: round(c[k] / c["rows"], 3) for k in ("agent", "step")}
            for group, c in groups.items()
        }
        for name, groups in table.items()
    }
    if options.json:
        print(json.dumps(shares))
        return
    for name, groups in shares.items():
        for group, cell in groups.items():
            print(f"{name:16}{group:22}agent {cell['agent']:.3f}  step {cell['step']:.3f}  ({cell['rows']} rows)")


if __name__ == "__main__":
    main()
