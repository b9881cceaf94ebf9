"""Grounded: runs whose answers rest on tool results, for measuring `grounding`; standard library only.

Each run has ten calls with results of about 4 kB (lists of orders, flights, forecasts, invoices and search hits, every
second one as JSON text), and an answer of about 600 characters with eight figures, dates and ids, one in five of them
wrong somewhere. No two runs share a result.
"""

import json
import random
from typing import Any

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case

__all__ = ["grounded_cases"]

_CITIES = (
    "Lyon",
    "Porto",
    "Graz",
    "Turku",
    "Leeds",
    "Osaka",
    "Quito",
    "Denver",
    "Bergen",
    "Malaga",
    "Sapporo",
    "Tampa",
)
_NAMES = ("Mia Olsen", "Noah Becker", "Ana Ruiz", "Liam Ward", "Yuki Mori", "Eva Novak", "Omar Haddad", "Ines Costa")
_STATES = ("open", "shipped", "delivered", "cancelled", "on_hold")
_PROMPT = (
    "You are the assistant of a trading company. Answer from tool results only. Orders may be cancelled within 24 "
    "hours; refunds take 5 to 7 business days. Name amounts with their currency and dates with their month. "
) * 3
_WORDS = (
    "report", "quarter", "supplier", "warehouse", "delivery", "route", "margin", "contract", "harbour", "customs",
    "invoice", "agent", "forecast", "market", "region", "manager", "partner", "volume", "season", "demand", "review",
)  # fmt: skip

Record = dict[str, Any]


def _orders(rng: random.Random) -> list[Record]:
    return [
        {
            "order_id": f"ORD-{rng.randrange(10000, 99999)}",
            "customer": rng.choice(_NAMES),
            "status": rng.choice(_STATES),
            "total": round(rng.uniform(20, 9000), 2),
            "currency": "EUR",
            "items": rng.randrange(1, 12),
            "ship_date": f"2025-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
            "city": rng.choice(_CITIES),
        }
        for _ in range(26)
    ]


def _forecast(rng: random.Random) -> Record:
    hours = [
        {
            "time": f"2025-06-{day:02d} {hour:02d}:00:00",
            "temp_c": round(rng.uniform(4, 34), 1),
            "wind_kmh": rng.randrange(2, 60),
            "humidity": rng.randrange(20, 99),
            "description": rng.choice(("light rain", "clear sky", "overcast clouds")),
        }
        for day in range(1, 5)
        for hour in range(0, 24, 3)
    ]
    return {"city": rng.choice(_CITIES), "country": "PT", "units": "metric", "list": hours}


def _hits(rng: random.Random) -> list[Record]:
    return [
        {
            "title": " ".join(rng.choices(_WORDS, k=6)).title(),
            "url": f"https://example.org/{rng.randrange(10**6)}",
            "snippet": f"{' '.join(rng.choices(_WORDS, k=26)).capitalize()} of {rng.randrange(100, 999)} units in "
            f"{rng.choice(_CITIES)}. {' '.join(rng.choices(_WORDS, k=14)).capitalize()}.",
            "score": round(rng.random(), 4),
        }
        for _ in range(9)
    ]


def _made(rng: random.Random) -> tuple[list[ToolCall], str]:
    orders = [_orders(rng) for _ in range(4)]
    forecasts = [_forecast(rng) for _ in range(3)]
    hits = [_hits(rng) for _ in range(3)]
    results: list[tuple[str, Record, Any]] = [
        *(("list_orders", {"page": at}, {"page": at, "orders": rows}) for at, rows in enumerate(orders)),
        *(("get_forecast", {"city": f["city"]}, f) for f in forecasts),
        *(("web_search", {"query": " ".join(rng.choices(_WORDS, k=3))}, {"results": rows}) for rows in hits),
    ]
    tools = [
        ToolCall(name=name, arguments=asked, result=json.dumps(result) if at % 2 else result, span_id=f"{at:016x}")
        for at, (name, asked, result) in enumerate(results)
    ]
    first, second = rng.sample(orders[rng.randrange(4)], 2)
    weather = forecasts[rng.randrange(3)]
    hour = weather["list"][rng.randrange(16)]
    wrong = 113.7 if rng.random() < 0.2 else 0.0
    return tools, (
        f"I looked at both orders. Order {first['order_id']} of {first['customer']} is {first['status']} with a total "
        f"of {first['total'] + wrong:.2f} EUR for {first['items']} items, and it ships on {first['ship_date']}. Order "
        f"{second['order_id']} of {second['customer']} comes to {second['total']:.2f} EUR and is {second['status']}; "
        f"it goes to {second['city']}. For the delivery to {weather['city']} the forecast shows {hour['temp_c']} °C "
        f"with wind of {hour['wind_kmh']} km/h and {hour['description']}, so the truck can leave as planned.\n\n"
        "Refunds take 5 to 7 business days. Please tell me whether I should change anything about these orders, and "
        "whether you want the customers to be told about the new dates by mail."
    )


def grounded_cases(count: int, seed: int = 7) -> list[Case]:
    """Runs of ten calls with an answer about them."""
    rng = random.Random(seed)
    made = [_made(rng) for _ in range(count)]
    return [
        Case(
            input="How are my two orders doing, and will the weather hold?",
            output=answer,
            system_prompt=_PROMPT,
            tools=tuple(tools),
        )
        for tools, answer in made
    ]
