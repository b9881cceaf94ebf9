"""Play: runs scenarios with the sample agents in this process and prints one JSON line per turn."""

import argparse
import json
import sys
from typing import Any

import evalspan
from evalspan_dashboard.demo.refund_bot import refund_bot
from evalspan_dashboard.demo.scenarios import SCENARIOS, Scenario
from evalspan_dashboard.demo.stock_analyst import stock_analyst

__all__ = ["main", "play"]

_AGENTS = {"refund_bot": refund_bot, "stock_analyst": stock_analyst}


def play(scenario: Scenario, session_id: str) -> list[dict[str, Any]]:
    """Ask the scenario's questions in one session.

    Returns:
        Per turn: scenario, agent, session_id, input, output.
    """
    agent = _AGENTS[scenario.agent]
    history: list[dict[str, Any]] = []
    played: list[dict[str, Any]] = []
    with evalspan.session(session_id, user_id="demo-user"):
        for turn in scenario.turns:
            output = agent(turn.question, history) if history else agent(turn.question)
            history += [{"role": "user", "content": turn.question}, {"role": "assistant", "content": output}]
            played.append(
                {
                    "scenario": scenario.name,
                    "agent": scenario.agent,
                    "session_id": session_id,
                    "input": turn.question,
                    "output": output,
                }
            )
    return played


def main() -> None:
    """Entry point of the demo's agent process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", default="demo", help="prefix of the session ids")
    parser.add_argument("scenarios", nargs="*", help="names of scenarios, once for each time, all by default")
    wanted = parser.parse_args()
    known = {scenario.name: scenario for scenario in SCENARIOS}
    for number, name in enumerate(wanted.scenarios or known):
        for turn in play(known[name], f"{wanted.session}-{number}"):
            sys.stdout.write(json.dumps(turn) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
