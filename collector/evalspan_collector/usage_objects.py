"""Usage objects: the token counts in a provider's own answer, under our field names."""

from typing import Any

from evalspan_collector.converters import integer
from evalspan_collector.lenient_json import is_object

__all__ = ["usage_of"]


def usage_of(stated: dict[str, Any]) -> dict[str, int]:
    """Token counts in a provider's own usage object, by our field names; input and output are inclusive."""
    found: dict[str, int] = {}
    for ours, paths in _PROVIDER_USAGE:
        for keys in paths:
            node: Any = stated
            for key in keys:
                node = node.get(key) if is_object(node) else None
            count = integer(node)
            if count is not None:
                found[ours] = count
                break
    return found


_PROVIDER_USAGE: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("input_tokens", (("prompt_tokens",), ("input_tokens",), ("promptTokenCount",))),
    ("output_tokens", (("completion_tokens",), ("output_tokens",), ("candidatesTokenCount",))),
    ("total_tokens", (("total_tokens",), ("totalTokenCount",))),
    (
        "cache_read_tokens",
        (
            ("cache_read_input_tokens",),
            ("prompt_tokens_details", "cached_tokens"),
            ("input_tokens_details", "cached_tokens"),
            ("cachedContentTokenCount",),
        ),
    ),
    ("cache_write_tokens", (("cache_creation_input_tokens",), ("prompt_tokens_details", "cache_write_tokens"))),
    (
        "reasoning_tokens",
        (
            ("completion_tokens_details", "reasoning_tokens"),
            ("output_tokens_details", "reasoning_tokens"),
            ("thoughtsTokenCount",),
        ),
    ),
)
