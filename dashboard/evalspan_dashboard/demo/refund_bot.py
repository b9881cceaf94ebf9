"""Refund bot: a sample agent that looks an order up, checks the policy and pays money back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anthropic.types import ToolParam

import evalspan
import evalspan.auto  # pyright: ignore[reportUnusedImport]  # importing it turns tracing on
from evalspan_dashboard.demo.conversation import converse
from evalspan_dashboard.demo.orders import ORDERS, WINDOW_DAYS, Order

__all__ = ["check_policy", "issue_refund", "lookup_order", "refund_bot"]

SYSTEM = (
    "You handle refunds of an outdoor shop. Always look the order up, then check the policy, and only then "
    "issue the refund. Tell the customer the amount and the refund number."
)


def _order(order_id: str) -> Order:
    if order_id not in ORDERS:
        raise LookupError(f"there is no order {order_id!r}: check its number")
    return ORDERS[order_id]


@evalspan.tool
def lookup_order(order_id: str) -> dict[str, Any]:
    """Find one order by its number."""
    return asdict(_order(order_id))


@evalspan.tool
def check_policy(order_id: str) -> dict[str, Any]:
    """Say whether an order may still be refunded, and how much of it."""
    order = _order(order_id)
    eligible = order.days_since_delivery <= WINDOW_DAYS
    return {
        "order_id": order_id,
        "eligible": eligible,
        "window_days": WINDOW_DAYS,
        "days_since_delivery": order.days_since_delivery,
        "refundable_amount": order.total if eligible else 0.0,
    }


@evalspan.tool
def issue_refund(order_id: str, amount: float) -> dict[str, Any]:
    """Pay an amount back to the customer."""
    order = _order(order_id)
    if amount > order.total:
        raise ValueError(f"cannot refund {amount!r}: the order cost {order.total!r}")
    return {"refund_id": f"RF-{order_id[2:]}", "order_id": order_id, "amount": amount, "status": "issued"}


TOOLS: list[ToolParam] = [
    {
        "name": "lookup_order",
        "description": "Find one order by its number.",
        "input_schema": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    },
    {
        "name": "check_policy",
        "description": "Say whether an order may still be refunded, and how much of it.",
        "input_schema": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    },
    {
        "name": "issue_refund",
        "description": "Pay an amount back to the customer.",
        "input_schema": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
            "required": ["order_id", "amount"],
        },
    },
]


@evalspan.agent
def refund_bot(question: str, history: Sequence[Mapping[str, Any]] = ()) -> str:
    """Refunds orders that the shop's policy allows."""
    messages = [*history, {"role": "user", "content": question}]
    functions: dict[str, Callable[..., object]] = {
        "lookup_order": lookup_order,
        "check_policy": check_policy,
        "issue_refund": issue_refund,
    }
    return converse(SYSTEM, messages, TOOLS, functions)
