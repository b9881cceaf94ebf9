"""Pricing: what a judge call cost by list price, None when the model has no known one."""

from collections.abc import Callable

__all__ = ["JudgePricer", "list_price"]

#: (provider, model, input tokens, output tokens, cache read tokens, cache write tokens) -> US dollars or None.
JudgePricer = Callable[[str, str, int, int, int, int], float | None]


def list_price(  # noqa: PLR0917  the order of `JudgePricer`
    provider: str, model: str, input_tokens: int, output_tokens: int, cache_read: int = 0, cache_write: int = 0
) -> float | None:
    """US dollars of a call; `input_tokens` includes the cached ones."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cache_read or None,
        cache_write_tokens=cache_write or None,
    )
    try:
        return float(calc_price(usage, model, provider_id=provider).total_price)
    except (LookupError, ValueError):
        return None
