"""Usage: token counts made inclusive, and put together."""

from evalspan_collector.repairs._draft import Draft
from evalspan_collector.span import Usage
from evalspan_collector.unguarded import unguarded

__all__ = ["aggregate_usage", "exclusive_usage", "milliseconds_of_strands", "no_usage_of_its_own", "usage_struct"]


def exclusive_usage(draft: Draft) -> bool:
    """Input that leaves out the cache, output that leaves out the reasoning: made inclusive."""
    fields = draft.fields
    tokens_in, tokens_out = fields.get("input_tokens"), fields.get("output_tokens")
    read, write = fields.get("cache_read_tokens"), fields.get("cache_write_tokens")
    reasoning, total = fields.get("reasoning_tokens"), fields.get("total_tokens")
    fired = False
    cached = (read or 0) + (write or 0)
    if cached and tokens_in is not None and _leaves_cache_out(draft, tokens_in, tokens_out or 0, cached, total):
        fields["input_tokens"] = tokens_in + cached
        fired = True
    if reasoning and tokens_out is not None and reasoning > tokens_out:
        fields["output_tokens"] = tokens_out + reasoning
        fired = True
    if tokens_in is None and tokens_out is not None and total is not None and total > tokens_out:
        fields["input_tokens"] = total - tokens_out
    if fired:
        draft.flags.append("usage_repaired")
    return fired


def _leaves_cache_out(draft: Draft, tokens_in: int, tokens_out: int, cached: int, total: int | None) -> bool:
    if total is not None:
        if total == tokens_in + tokens_out + cached:
            return True
        if total == tokens_in + tokens_out:
            return cached > tokens_in
    if cached > tokens_in:
        return True
    return draft.dialect in _EXCLUSIVE and not (
        draft.dialect == "langfuse" and "langfuse.observation.usage_details" in draft.raw.attributes
    )


#: Dialects that report Anthropic and Bedrock input without the cache.
_EXCLUSIVE = frozenset({"claude_code"})


def no_usage_of_its_own(draft: Draft) -> bool:
    """`fetch_response` reads an answer again: its tokens were counted before."""
    if draft.fields.get("operation") != "fetch_response":
        return False
    for key in (
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "total_tokens",
    ):
        draft.fields.pop(key, None)
    return True


def aggregate_usage(draft: Draft) -> bool:
    """pydantic-ai keeps the totals of a run under keys of their own: a check value like any agent's usage."""
    fields = draft.fields
    moved = False
    for ours, theirs in AGGREGATES:
        value = fields.pop(theirs, None)
        if value is not None and ours not in fields:
            fields[ours] = value
            moved = True
    return moved


AGGREGATES = (
    ("input_tokens", "aggregate_input"),
    ("output_tokens", "aggregate_output"),
    ("cache_read_tokens", "aggregate_cache_read"),
    ("cache_write_tokens", "aggregate_cache_write"),
    ("reasoning_tokens", "aggregate_reasoning"),
)


def milliseconds_of_strands(draft: Draft) -> bool:
    """Strands writes the time to the first token in milliseconds where the key means seconds."""
    value = draft.fields.get("time_to_first_token_s")
    if value is None:
        return False
    draft.fields["time_to_first_token_s"] = value / 1000
    return True


def usage_struct(draft: Draft) -> bool:
    """The counts as one Usage."""
    fields = draft.fields
    if not fields.keys().isdisjoint(COUNTS):
        pop = fields.pop
        usage = _OpenUsage(
            pop("input_tokens", None),
            pop("output_tokens", None),
            pop("cache_read_tokens", None),
            pop("cache_write_tokens", None),
            pop("reasoning_tokens", None),
        )
        usage.__class__ = Usage
        fields["usage"] = usage
    return False


COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_OpenUsage = unguarded(Usage, *COUNTS)
