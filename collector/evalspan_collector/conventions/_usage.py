"""Usage: token counts and carried cost in every dialect."""

from typing import Any

from evalspan_collector.conventions._source import Rows, Source, rows
from evalspan_collector.converters import integer, number, path
from evalspan_collector.lenient_json import parse_object
from evalspan_collector.span import SpanKind

__all__ = ["USAGE"]

_DETAILS = "langfuse.observation.usage_details"
_MLFLOW = ("mlflow.chat.tokenUsage",)
_ADK = "gcp.vertex.agent.llm_response"
_GENKIT = "genkit:output"


def _bucket(prefix: str, *parts: str) -> Any:
    """Sum of the Langfuse buckets whose name starts with the prefix, or of the named ones."""

    def convert(value: Any) -> int | None:
        found = parse_object(value)
        if found is None:
            return None
        counts = [integer(v) for k, v in found.items() if (k in parts if parts else _is_bucket(k, prefix))]
        known = [c for c in counts if c is not None]
        return sum(known) if known else None

    return convert


_BUCKETS = {
    "input": ("input", "prompt", "cache_read", "cache_creation", "cached"),
    "output": ("output", "completion"),
}


def _is_bucket(key: str, prefix: str) -> bool:
    return key.startswith(_BUCKETS[prefix]) and "total" not in key


def _detail(name: str) -> Any:
    """A number inside `mlflow.chat.tokenUsage` and the like."""
    return path(name, then=integer)


def _sum_of(*names: str) -> Any:
    """Sum of the counts under `usage_metadata` that are there (Gemini keeps thoughts apart)."""

    def convert(value: Any) -> int | None:
        usage = parse_object(path("usage_metadata|usageMetadata|usage", then=lambda v: v)(value))
        if usage is None:
            return None
        counts = [integer(usage.get(name)) for name in names]
        known = [c for c in counts if c is not None]
        return sum(known) if known else None

    return convert


def _raw_usage(*keys: str) -> Any:
    """A count in the provider's own answer, which smolagents keeps as a repr under `raw`."""
    return path("raw", "usage", *keys, then=integer)


_MODEL = frozenset({SpanKind.LLM})
_ANSWERS = ("response_data",)
_INPUT = "input_tokens|prompt_tokens|inputTokens|promptTokens"
_OUTPUT = "output_tokens|completion_tokens|outputTokens|completionTokens"

USAGE: Rows = {
    "input_tokens": (
        Source(_DETAILS, _bucket("input")),
        *rows("gen_ai.usage.input_tokens", "llm.token_count.prompt", "gen_ai.usage.prompt_tokens", convert=integer),
        *rows("ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens", convert=integer),
        *rows(*_MLFLOW, convert=_detail(_INPUT)),
        *rows("llm.usage.prompt_tokens", "usage.prompt_tokens", "usage.input_tokens", "input_tokens", convert=integer),
        Source(_ADK, _sum_of("prompt_token_count", "tool_use_prompt_token_count")),
        Source(_GENKIT, path("usage", _INPUT, then=integer)),
        Source("gen_ai.usage.input_token_details", path("total|input_tokens", then=integer)),
        Source("usage", _detail(_INPUT)),
        *rows(*_ANSWERS, convert=path("usage", _INPUT, then=integer)),
        *rows("genkit:metadata:usage:inputTokens", convert=integer),
    ),
    "output_tokens": (
        Source(_DETAILS, _bucket("output")),
        *rows(
            "gen_ai.usage.output_tokens",
            "llm.token_count.completion",
            "gen_ai.usage.completion_tokens",
            convert=integer,
        ),
        *rows("ai.usage.outputTokens", "ai.usage.completionTokens", convert=integer),
        *rows(*_MLFLOW, convert=_detail(_OUTPUT)),
        *rows(
            "llm.usage.completion_tokens",
            "usage.completion_tokens",
            "usage.output_tokens",
            "output_tokens",
            convert=integer,
        ),
        Source(_ADK, _sum_of("candidates_token_count", "thoughts_token_count")),
        Source(_GENKIT, path("usage", _OUTPUT, then=integer)),
        Source("usage", _detail(_OUTPUT)),
        *rows(*_ANSWERS, convert=path("usage", _OUTPUT, then=integer)),
    ),
    "total_tokens": (
        *rows(
            "gen_ai.usage.total_tokens",
            "llm.usage.total_tokens",
            "llm.token_count.total",
            "ai.usage.totalTokens",
            convert=integer,
        ),
        *rows(*_MLFLOW, convert=_detail("total_tokens")),
        Source(_DETAILS, path("total", then=integer)),
    ),
    "cache_read_tokens": (
        *rows("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens", convert=integer),
        *rows(
            "gen_ai.usage.details.cache_read_tokens",
            "gen_ai.usage.details.cache_read_input_tokens",
            "gen_ai.usage.cache_read_tokens",
            convert=integer,
        ),
        *rows(
            "llm.token_count.prompt_details.cache_read", "llm.token_count.prompt_details.cache_input", convert=integer
        ),
        *rows("ai.usage.cachedInputTokens", "ai.usage.inputTokenDetails.cacheReadTokens", convert=integer),
        Source(
            "ai.response.providerMetadata",
            path("anthropic|bedrock|openai", "usage", "cache_read_input_tokens|cacheReadInputTokens", then=integer),
        ),
        Source(
            "ai.response.providerMetadata",
            path("anthropic|openai|azure", "cacheReadInputTokens|cachedPromptTokens", then=integer),
        ),
        *rows(*_MLFLOW, convert=_detail("cache_read_input_tokens|cached_tokens")),
        *rows("cache_read_tokens", convert=integer),
        Source(_ADK, _sum_of("cached_content_token_count")),
        Source(_GENKIT, path("usage", "cachedContentTokens|cachedTokens", then=integer)),
        *rows(*_ANSWERS, convert=path("usage", "cache_read_input_tokens", then=integer)),
        *rows(
            *_ANSWERS,
            convert=path("usage", "prompt_tokens_details|input_tokens_details", "cached_tokens", then=integer),
        ),
        Source(
            _DETAILS,
            _bucket(
                "",
                "input_cached_tokens",
                "cache_read_input_tokens",
                "input_cache_read",
                "input_cached",
                "cache_read",
                "input_cache_read_tokens",
                "input_cached_text_tokens",
                "cached_tokens",
            ),
        ),
        *rows(
            "gen_ai.usage.prompt_tokens_details.cached_tokens",
            "gen_ai.usage.details.cached_tokens",
            "gen_ai.usage.cached_tokens",
            convert=integer,
        ),
        *rows("llm.usage.cache_read_input_tokens", "llm.usage.cached_tokens", convert=integer),
        Source("gen_ai.usage.raw", path("cache_read_input_tokens", then=integer)),
        Source("gen_ai.usage.raw", path("input_tokens_details|prompt_tokens_details", "cached_tokens", then=integer)),
        Source("gen_ai.usage.input_token_details", path("cache_read", then=integer)),
        Source("usage", path("input_tokens_details|prompt_tokens_details", "cached_tokens", then=integer)),
        Source("usage", path("cached_input_tokens", then=integer)),
        Source(
            "metadata.usage_object", path("prompt_tokens_details|input_tokens_details", "cached_tokens", then=integer)
        ),
        Source("output.value", _raw_usage("prompt_tokens_details|input_tokens_details", "cached_tokens"), _MODEL),
    ),
    "cache_write_tokens": (
        *rows("gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens", convert=integer),
        *rows("gen_ai.usage.cache_creation_input_tokens", "gen_ai.usage.cache_write_input_tokens", convert=integer),
        *rows(
            "gen_ai.usage.details.cache_write_tokens",
            "gen_ai.usage.details.cache_creation_input_tokens",
            "gen_ai.usage.cache_write_tokens",
            convert=integer,
        ),
        *rows(
            "llm.token_count.prompt_details.cache_write", "ai.usage.inputTokenDetails.cacheWriteTokens", convert=integer
        ),
        Source(
            "ai.response.providerMetadata",
            path("anthropic|bedrock", "usage", "cache_creation_input_tokens|cacheWriteInputTokens", then=integer),
        ),
        Source("ai.response.providerMetadata", path("anthropic", "cacheCreationInputTokens", then=integer)),
        *rows(*_MLFLOW, convert=_detail("cache_creation_input_tokens")),
        *rows("cache_creation_tokens", "gen_ai.usage.prompt_tokens_details.cache_creation_tokens", convert=integer),
        Source(
            _DETAILS,
            _bucket(
                "",
                "input_cache_creation",
                "input_cache_creation_5m",
                "input_cache_creation_1h",
                "cache_creation_input_tokens",
                "cache_write",
                "input_cache_write",
            ),
        ),
        Source("gen_ai.usage.raw", path("cache_creation_input_tokens", then=integer)),
        Source("gen_ai.usage.input_token_details", path("cache_creation", then=integer)),
    ),
    "reasoning_tokens": (
        *rows(
            "gen_ai.usage.reasoning.output_tokens",
            "llm.token_count.completion_details.reasoning",
            "gen_ai.usage.reasoning_tokens",
            convert=integer,
        ),
        *rows(
            "llm.usage.reasoning_tokens",
            "gen_ai.usage.details.reasoning_tokens",
            "gen_ai.usage.reasoning_output_tokens",
            convert=integer,
        ),
        *rows("ai.usage.reasoningTokens", "ai.usage.outputTokenDetails.reasoningTokens", convert=integer),
        Source("ai.response.providerMetadata", path("openai", "reasoningTokens", then=integer)),
        Source(_ADK, _sum_of("thoughts_token_count")),
        Source(_GENKIT, path("usage", "thoughtsTokens|reasoningTokens", then=integer)),
        Source(_DETAILS, _bucket("", "output_reasoning", "output_reasoning_tokens", "reasoning", "reasoning_tokens")),
        *rows("gen_ai.usage.completion_tokens_details.reasoning_tokens", convert=integer),
        Source(
            "gen_ai.usage.raw",
            path("output_tokens_details|completion_tokens_details", "reasoning_tokens", then=integer),
        ),
        Source("gen_ai.usage.output_token_details", path("reasoning", then=integer)),
        Source("usage", path("output_tokens_details|completion_tokens_details", "reasoning_tokens", then=integer)),
        Source(
            "metadata.usage_object",
            path("completion_tokens_details|output_tokens_details", "reasoning_tokens", then=integer),
        ),
        Source(
            "output.value", _raw_usage("completion_tokens_details|output_tokens_details", "reasoning_tokens"), _MODEL
        ),
    ),
    "aggregate_input": rows("gen_ai.aggregated_usage.input_tokens", convert=integer),
    "aggregate_output": rows("gen_ai.aggregated_usage.output_tokens", convert=integer),
    "aggregate_cache_read": rows("gen_ai.aggregated_usage.cache_read.input_tokens", convert=integer),
    "aggregate_cache_write": rows(
        "gen_ai.aggregated_usage.cache_write.input_tokens",
        "gen_ai.aggregated_usage.cache_creation.input_tokens",
        convert=integer,
    ),
    "aggregate_reasoning": rows(
        "gen_ai.aggregated_usage.reasoning.output_tokens",
        "gen_ai.aggregated_usage.details.reasoning_tokens",
        convert=integer,
    ),
    "cost_carried": (
        Source("langfuse.observation.cost_details", path("total", then=number)),
        *rows("operation.cost", "gen_ai.usage.cost", "llm.cost.total", "litellm.cost.total", convert=number),
        Source("mlflow.llm.cost", path("total_cost", then=number)),
        *rows("gen_ai.token.cost.total", "gen_ai.cost.total_cost", "gen_ai.usage.total_cost", convert=number),
    ),
}
