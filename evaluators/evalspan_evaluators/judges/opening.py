"""Opening: the judge that a configuration names."""

import os
import time
from collections.abc import Mapping

from evalspan.errors import ConfigError
from evalspan_collector.prices import Prices
from evalspan_collector.span import Usage
from evalspan_evaluators.config import JudgeSettings
from evalspan_evaluators.judge import Judge
from evalspan_evaluators.judges.pricing import JudgePricer

__all__ = ["make_judge", "priced_by"]


def make_judge(
    settings: JudgeSettings | None, env: Mapping[str, str] | None = None, *, prices: Prices | None = None
) -> Judge | None:
    """The judge of a configuration; None when none is configured.

    Args:
        settings: The `judge` section.
        env: Environment variables; None takes the process's.
        prices: Prices its calls; None takes the list prices without the user's overrides.

    Raises:
        ConfigError: The variable with its key is named and not set.
        MissingExtraError: Its library is not installed.
    """
    if settings is None:
        return None
    environment = os.environ if env is None else env
    from evalspan_evaluators.judges.anthropic_judge import DEFAULT_MODEL, AnthropicJudge
    from evalspan_evaluators.judges.model_judge import JudgeLimits
    from evalspan_evaluators.judges.openai_judge import OpenAIJudge
    from evalspan_evaluators.judges.pricing import list_price
    from evalspan_evaluators.judges.replay import ReplayJudge

    if settings.provider == "replay":
        if settings.replies is None:
            raise ConfigError(f"{settings.place}.replies is missing: name the file with recorded replies")
        return ReplayJudge.read(settings.replies)
    api_key = None
    if settings.api_key_env is not None:
        api_key = environment.get(settings.api_key_env)
        if not api_key:
            raise ConfigError(
                f"environment variable {settings.api_key_env!r} of {settings.place}.api_key_env is not set: set it"
            )
    limits = JudgeLimits(concurrency=settings.concurrency)
    pricer = list_price if prices is None else priced_by(prices)
    if settings.provider == "anthropic":
        return AnthropicJudge(
            settings.model or DEFAULT_MODEL, api_key=api_key, base_url=settings.base_url, limits=limits, pricer=pricer
        )
    if settings.model is None:
        raise ConfigError(f"{settings.place}.model is missing: name the model of the OpenAI-compatible API")
    return OpenAIJudge(settings.model, api_key=api_key, base_url=settings.base_url, limits=limits, pricer=pricer)


def priced_by(prices: Prices) -> JudgePricer:
    """Prices judge calls with these prices, at the time of the call."""

    def price(  # noqa: PLR0917  the order of `JudgePricer`
        provider: str, model: str, input_tokens: int, output_tokens: int, cache_read: int, cache_write: int
    ) -> float | None:
        usage = Usage(input_tokens, output_tokens, cache_read or None, cache_write or None)
        found = prices.cost(provider, model, usage, time.time_ns())
        return None if found is None else found.usd

    return price
