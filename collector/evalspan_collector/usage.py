"""Usage: tokens summed over calls, unknown staying unknown."""

from collections.abc import Iterable

from evalspan_collector.span import Usage

__all__ = ["add_usage", "priced_usage"]


def _sum(values: Iterable[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def add_usage(usages: Iterable[Usage]) -> Usage:
    """The sum of usages; a field that no usage knows stays None.

    Every usage is in the inclusive form (input with cache, output with reasoning), so is the sum.
    """
    known = [u for u in usages if u.known]
    return Usage(
        input_tokens=_sum(u.input_tokens for u in known),
        output_tokens=_sum(u.output_tokens for u in known),
        cache_read_tokens=_sum(u.cache_read_tokens for u in known),
        cache_write_tokens=_sum(u.cache_write_tokens for u in known),
        reasoning_tokens=_sum(u.reasoning_tokens for u in known),
    )


def priced_usage(usage: Usage) -> tuple[Usage, bool]:
    """The usage with its parts cut to what fits into the totals, and whether anything was cut.

    Price tables subtract the cached part from the input, so a part larger than its total (a library that
    counts the cache beside the input and was not recognised) has no price; the total is believed.
    """
    total = usage.input_tokens or 0
    read = min(usage.cache_read_tokens or 0, total)
    write = min(usage.cache_write_tokens or 0, total - read)
    cut = read != (usage.cache_read_tokens or 0) or write != (usage.cache_write_tokens or 0)
    return (
        Usage(
            input_tokens=total,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=read,
            cache_write_tokens=write,
            reasoning_tokens=usage.reasoning_tokens,
        ),
        cut,
    )
