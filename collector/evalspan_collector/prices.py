"""Prices: what a model call costs at the time it was made.

The bundled tables of `genai-prices` are asked for the price that was valid when the call started; a file of the
user overrides them, for models they host, negotiated rates, or models the tables do not know:

```yaml
models:
  - model: "my-llama-.*"          # regular expression for the whole model name, case does not matter
    provider: vllm                # optional; any provider when left out
    input_per_million: 0.10       # US dollars per million tokens that were not read from or written to a cache
    output_per_million: 0.40
    cache_read_per_million: 0.01  # optional, default: the input price
    cache_write_per_million: 0.12 # optional, default: the input price
    from: 2026-01-01              # optional: first and last moment (UTC) at which the price is valid
    until: 2026-06-30
```
The first entry that fits is taken.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspan.errors import MissingExtraError
from evalspan_collector.rates import Rates, rates_of
from evalspan_collector.span import Usage
from evalspan_collector.usage import priced_usage

if TYPE_CHECKING:
    from genai_prices import Usage as PricedUsage
    from genai_prices.types import ModelInfo, ModelPrice, Provider

__all__ = ["Override", "Price", "Prices", "read_overrides"]

#: Provider words in the field to the ids of the price tables; None where the words name a framework.
_PROVIDERS: dict[str, str | None] = {
    "openai.chat": "openai", "openai.responses": "openai", "openai_agents": None,
    "azure.ai.openai": "azure", "az.ai.openai": "azure", "azure_openai": "azure", "azure-openai": "azure",
    "azure.ai.inference": "azure", "az.ai.inference": "azure", "azure_ai": "azure", "azure_ai_inference": "azure",
    "aws.bedrock": "aws", "bedrock": "aws", "aws_bedrock": "aws", "amazon-bedrock": "aws",
    "gcp.vertex_ai": "google", "vertex_ai": "google", "vertexai": "google", "google.vertex": "google",
    "google-vertex": "google", "google_vertexai": "google", "gcp.gemini": "google", "gemini": "google",
    "google-gla": "google", "google.generative-ai": "google", "google_genai": "google", "gcp.gen_ai": "google",
    "anthropic.messages": "anthropic",
    "mistral_ai": "mistral", "mistralai": "mistral",
    "x_ai": "xai", "x-ai": "xai", "grok": "xai",
    "moonshot_ai": "moonshotai", "moonshot": "moonshotai",
    "together_ai": "together", "hugging_face": "huggingface",
    "ibm.watsonx.ai": None, "ibm.watson.ai": None, "watsonx": None,
    "strands-agents": None, "autogen": None, "gcp.vertex.agent": None, "langchain": None, "langgraph": None,
    "crewai": None, "litellm": None, "llama_index": None, "haystack": None, "pydantic_ai": None,
    "claude_agent_sdk": None, "agent_framework": None, "microsoft.agent_framework": None, "agno": None, "ag2": None,
    "smolagents": None, "_other": None, "unknown": None,
}  # fmt: skip
#: Tiers that change a price, as response or request state them.
_TIERS = frozenset({"flex", "priority", "batch", "fast", "scale"})
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """A price and where it comes from.

    Attributes:
        usd: US dollars.
        source: `genai-prices VERSION` or `override`.
        clamped: The usage did not add up and its parts were cut to fit.
    """

    usd: float
    source: str
    clamped: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """One entry of the user's price file, US dollars per million tokens."""

    model: re.Pattern[str]
    provider: str | None
    input_per_million: float
    output_per_million: float
    cache_read_per_million: float
    cache_write_per_million: float
    from_ns: int | None
    until_ns: int | None

    def fits(self, provider: str | None, model: str, at_ns: int) -> bool:
        """True when this entry prices the model at that time."""
        if self.model.fullmatch(model) is None:
            return False
        if self.provider is not None and self.provider != (provider or "").lower():
            return False
        return (self.from_ns is None or at_ns >= self.from_ns) and (self.until_ns is None or at_ns <= self.until_ns)

    def usd(self, usage: Usage) -> float:
        """Price of a usage whose parts fit into its totals."""
        read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        plain = (usage.input_tokens or 0) - read - write
        parts = (
            (plain, self.input_per_million),
            (usage.output_tokens or 0, self.output_per_million),
            (read, self.cache_read_per_million),
            (write, self.cache_write_per_million),
        )
        return float(sum(Decimal(n) * Decimal(str(p)) for n, p in parts) / _MILLION)


def read_overrides(path: Path) -> tuple[Override, ...]:
    """Read a price file (YAML or JSON).

    Raises:
        ConfigError: The file cannot be read or an entry is wrong; the message names file, line and field.
    """
    try:
        from pydantic import BaseModel, ConfigDict, Field, field_validator
    except ImportError as error:
        raise MissingExtraError("pydantic", "server") from error
    from evalspan_collector.config_file import load_model

    class Entry(BaseModel):
        model_config = ConfigDict(extra="forbid")
        model: str
        provider: str | None = None
        input_per_million: float = Field(ge=0)
        output_per_million: float = Field(ge=0)
        cache_read_per_million: float | None = Field(default=None, ge=0)
        cache_write_per_million: float | None = Field(default=None, ge=0)
        from_: datetime | date | None = Field(default=None, alias="from")
        until: datetime | date | None = None

        @field_validator("model")
        @classmethod
        def _compiles(cls, value: str) -> str:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{value!r} is no regular expression: {error}") from error
            return value

    class File(BaseModel):
        model_config = ConfigDict(extra="forbid")
        models: list[Entry]

    file, _ = load_model(path, File)
    return tuple(
        Override(
            model=re.compile(e.model, re.IGNORECASE),
            provider=e.provider.lower() if e.provider else None,
            input_per_million=e.input_per_million,
            output_per_million=e.output_per_million,
            cache_read_per_million=_or(e.cache_read_per_million, e.input_per_million),
            cache_write_per_million=_or(e.cache_write_per_million, e.input_per_million),
            from_ns=_ns(e.from_, end=False),
            until_ns=_ns(e.until, end=True),
        )
        for e in file.models
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _ns(moment: datetime | date | None, *, end: bool) -> int | None:
    """Nanoseconds since the epoch; a date alone means its first or its last moment, UTC."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        hour = (23, 59, 59, 999999) if end else (0, 0, 0, 0)
        moment = datetime(moment.year, moment.month, moment.day, *hour)  # noqa: DTZ001 - the zone is set below
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1e9)


class Prices:
    """Prices of model calls; give one object to many assemblies, it remembers what it looked up.

    Args:
        overrides_path: The user's price file, None for the bundled tables alone.
        overrides: Entries made by hand, looked at after those of the file.

    Raises:
        ConfigError: The file is wrong.
    """

    def __init__(self, overrides_path: Path | str | None = None, *, overrides: Sequence[Override] = ()) -> None:
        read = read_overrides(Path(overrides_path)) if overrides_path is not None else ()
        self._overrides = (*read, *overrides)
        self._found: dict[tuple[str | None, str], tuple[Provider, ModelInfo] | None] = {}
        #: By identity of a price in the list, which is kept beside so that the identity stays its own.
        self._rates: dict[int, tuple[ModelPrice, Rates | None]] = {}

    def cost(
        self, provider: str | None, model: str | None, usage: Usage, at_ns: int, service_tier: str | None = None
    ) -> Price | None:
        """What a call cost.

        Args:
            provider: Who served it, in any spelling of the field.
            model: Name of the model that answered.
            usage: Tokens, inclusive form.
            at_ns: When the call started; old calls have old prices.
            service_tier: As the response states it (`priority`, `flex`, `batch`...).

        Returns:
            The price, or None when the usage is not known or nobody knows the model's price.
        """
        if not model or not usage.known:
            return None
        counted, clamped = priced_usage(usage)
        for override in self._overrides:
            if override.fits(provider, model, at_ns):
                return Price(override.usd(counted), "override", clamped)
        found = self._find(provider, model)
        if found is None:
            return None
        usd = self._bundled(found, counted, at_ns, service_tier)
        return None if usd is None else Price(float(usd), _source(), clamped)

    def _bundled(
        self, found: tuple["Provider", "ModelInfo"], usage: Usage, at_ns: int, tier: str | None
    ) -> Decimal | None:
        """The price by the bundled tables: by the rates of the standard tier where they cover it."""
        at = datetime.fromtimestamp(min(max(at_ns, 0) / 1e9, 253402300799.0), tz=UTC)
        if tier and tier.lower() in _TIERS:
            return _ask(found, usage, at, {"service_tier": tier.lower()})
        price = found[1].get_prices(at)
        if id(price) not in self._rates:
            self._rates[id(price)] = price, rates_of(price, lambda probe: _ask(found, probe, at))
        rates = self._rates[id(price)][1]
        usd = None if rates is None else rates.usd(usage)
        return _ask(found, usage, at) if usd is None else usd

    def _find(self, provider: str | None, model: str) -> tuple["Provider", "ModelInfo"] | None:
        word = (provider or "").lower() or None
        key = (word, model)
        if key not in self._found:
            self._found[key] = _look_up(_PROVIDERS.get(word, word) if word else None, model)
        return self._found[key]


def _look_up(provider: str | None, model: str) -> tuple["Provider", "ModelInfo"] | None:
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError as error:
        raise MissingExtraError("genai-prices", "server") from error
    snapshot = get_snapshot()
    tries = [(provider, model), (None, model)]
    if "/" in model:
        head, tail = model.split("/", 1)
        tries[1:1] = [(_PROVIDERS.get(head.lower(), head.lower()), tail)]
        tries.append((None, tail))
    for who, name in tries:
        try:
            return snapshot.find_provider_model(name, None, who, None)
        except LookupError:
            continue
    return None


def _ask(found: tuple["Provider", "ModelInfo"], usage: Usage, at: datetime, context: Any = None) -> Decimal | None:
    """The price list's own answer."""
    provider, model = found
    try:
        price = model.calc_price(_priced(usage), provider, genai_request_timestamp=at, price_context=context)
    except (ValueError, LookupError):
        return None
    return price.total_price


def _priced(usage: Usage) -> "PricedUsage":
    from genai_prices import Usage as PricedUsage

    parts = {"cache_read_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return PricedUsage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, **{k: v for k, v in parts.items() if v}
    )


@cache
def _source() -> str:
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"
