"""Scenarios: what is asked in the demo, what the scripted model says, and what is planted in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SCENARIOS", "Planted", "Reply", "Scenario", "Turn", "script"]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model: text, or tool calls with their arguments, or both."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and the model's answers to it, one per model call."""

    question: str
    replies: tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """A false figure put into an answer on purpose.

    Attributes:
        claim: The figure as the answer states it.
        tool: The tool that returned the true one.
        path: Where in that tool's result it stands.
        truth: The true value.
    """

    claim: str
    tool: str
    path: str
    truth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One conversation with one agent."""

    name: str
    agent: str
    shows: str
    turns: tuple[Turn, ...] = field(default=())
    planted: Planted | None = None


def _call(name: str, **arguments: Any) -> Reply:
    return Reply(calls=((name, arguments),))


def _analysis(ticker: str, headline: str, answer: str) -> tuple[Reply, ...]:
    return (
        _call("fetch_stock_data", ticker=ticker),
        _call("analyze_metrics", ticker=ticker),
        _call("write_summary", ticker=ticker, headline=headline),
        Reply(answer),
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="good analysis",
        agent="stock_analyst",
        shows="the right tools in the right order, every figure from a tool",
        turns=(
            Turn(
                "How does Northwind Textiles (NWTX) look today?",
                _analysis(
                    "NWTX",
                    "Northwind Textiles: growth at a premium",
                    "Northwind Textiles closed at $142.35, up 2.04% on the day. At a P/E of 27.91 it trades above its "
                    "sector's 24.6, with revenue growing 18.4% and moderate leverage.",
                ),
            ),
        ),
    ),
    Scenario(
        name="contradiction",
        agent="stock_analyst",
        shows="the answer states a price that the tool did not return",
        planted=Planted(claim="$197.42", tool="fetch_stock_data", path="price", truth=187.42),
        turns=(
            Turn(
                "Is Helio Grid (HLIO) still a buy?",
                _analysis(
                    "HLIO",
                    "Helio Grid: expensive for a utility",
                    "Helio Grid trades at $197.42, down 1.41% on the day. Its P/E of 29.99 is above the sector's 27.3. "
                    "Revenue grows 9.7%: I would hold rather than buy.",
                ),
            ),
        ),
    ),
    Scenario(
        name="good refund",
        agent="refund_bot",
        shows="order looked up, policy checked, refund paid",
        turns=(
            Turn(
                "I want to send back order A-1043, the shoes do not fit.",
                (
                    _call("lookup_order", order_id="A-1043"),
                    _call("check_policy", order_id="A-1043"),
                    _call("issue_refund", order_id="A-1043", amount=84.5),
                    Reply("Your refund of $84.50 for order A-1043 is on its way; the refund number is RF-1043."),
                ),
            ),
        ),
    ),
    Scenario(
        name="wrong order",
        agent="refund_bot",
        shows="the refund is paid before the policy is checked",
        turns=(
            Turn(
                "Please refund order A-2077, the jacket leaks.",
                (
                    _call("lookup_order", order_id="A-2077"),
                    _call("issue_refund", order_id="A-2077", amount=129.0),
                    _call("check_policy", order_id="A-2077"),
                    Reply("I have issued a refund of $129.00 for order A-2077 under number RF-2077."),
                ),
            ),
        ),
    ),
    Scenario(
        name="tool error",
        agent="refund_bot",
        shows="a tool fails on a mistyped number and the agent recovers",
        turns=(
            Turn(
                "Order A 3190 arrived frayed, can I get a refund?",
                (
                    _call("lookup_order", order_id="A3190"),
                    _call("lookup_order", order_id="A-3190"),
                    _call("check_policy", order_id="A-3190"),
                    _call("issue_refund", order_id="A-3190", amount=159.95),
                    Reply("I am sorry about the rope. Your refund of $159.95 for order A-3190 is issued as RF-3190."),
                ),
            ),
        ),
    ),
    Scenario(
        name="two turns",
        agent="stock_analyst",
        shows="one conversation with a follow-up question",
        turns=(
            Turn(
                "What moved Brookway Logistics (BRKW)?",
                _analysis(
                    "BRKW",
                    "Brookway Logistics: cheap, with debt",
                    "Brookway Logistics rose 1.29% to $58.90. Its P/E of 15.5 is below the sector's 17.8, but leverage "
                    "is high at a debt to equity of 1.15.",
                ),
            ),
            Turn(
                "And how does Northwind compare?",
                _analysis(
                    "NWTX",
                    "Northwind Textiles: faster than Brookway",
                    "Northwind Textiles grows faster, 18.4% a year, and closed at $142.35; its debt to equity is 0.42.",
                ),
            ),
        ),
    ),
)


def script() -> dict[str, tuple[Reply, ...]]:
    """Every question with the model's answers to it."""
    return {turn.question: turn.replies for scenario in SCENARIOS for turn in scenario.turns}
