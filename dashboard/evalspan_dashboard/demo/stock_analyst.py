"""Stock analyst: a sample agent that looks a company up, analyses it and files a summary."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anthropic.types import ToolParam

import evalspan
import evalspan.auto  # pyright: ignore[reportUnusedImport]  # importing it turns tracing on
from evalspan_dashboard.demo.conversation import converse
from evalspan_dashboard.demo.market import QUOTES

__all__ = ["analyze_metrics", "fetch_stock_data", "stock_analyst", "write_summary"]

SYSTEM = (
    "You are a stock analyst. For every company: fetch its data, analyse its metrics, then file a summary. "
    "State only figures that a tool returned. Answer in a few sentences."
)


@evalspan.tool
def fetch_stock_data(ticker: str) -> dict[str, Any]:
    """Fetch the latest quote and fundamentals of one company."""
    if ticker not in QUOTES:
        raise LookupError(f"no company has the ticker {ticker!r}; known are {', '.join(sorted(QUOTES))}")
    fields = asdict(QUOTES[ticker])
    del fields["sector_pe"]  # the benchmark belongs to the analysis
    return fields


@evalspan.tool
def analyze_metrics(ticker: str) -> dict[str, Any]:
    """Derive valuation and movement from a company's data."""
    quote = QUOTES[ticker]
    ratio = quote.price / quote.earnings_per_share
    return {
        "ticker": ticker,
        "pe_ratio": round(ratio, 2),
        "sector_pe": quote.sector_pe,
        "day_change_pct": round((quote.price / quote.previous_close - 1) * 100, 2),
        "valuation": "above sector" if ratio > quote.sector_pe else "below sector",
        "leverage": "high" if quote.debt_to_equity > 1 else "moderate",
    }


@evalspan.tool
def write_summary(ticker: str, headline: str) -> dict[str, Any]:
    """File a one-line summary for the research desk."""
    return {"filed": True, "ticker": ticker, "headline": headline, "words": len(headline.split())}


TOOLS: list[ToolParam] = [
    {
        "name": "fetch_stock_data",
        "description": "Fetch the latest quote and fundamentals of one company.",
        "input_schema": {"type": "object", "properties": {"ticker": {"type": "string"}}, "required": ["ticker"]},
    },
    {
        "name": "analyze_metrics",
        "description": "Derive valuation and movement from a company's data.",
        "input_schema": {"type": "object", "properties": {"ticker": {"type": "string"}}, "required": ["ticker"]},
    },
    {
        "name": "write_summary",
        "description": "File a one-line summary for the research desk.",
        "input_schema": {
            "type": "object",
            "properties": {"ticker": {"type": "string"}, "headline": {"type": "string"}},
            "required": ["ticker", "headline"],
        },
    },
]


@evalspan.agent
def stock_analyst(question: str, history: Sequence[Mapping[str, Any]] = ()) -> str:
    """Answers questions about one company with figures from tools."""
    messages = [*history, {"role": "user", "content": question}]
    functions: dict[str, Callable[..., object]] = {
        "fetch_stock_data": fetch_stock_data,
        "analyze_metrics": analyze_metrics,
        "write_summary": write_summary,
    }
    return converse(SYSTEM, messages, TOOLS, functions)
