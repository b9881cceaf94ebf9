"""Cost: US dollars of a model-call span, by the price list of the `genai-prices` package where it is installed.

The SDK's on-ending hook runs after a span's attributes are sealed, so the price is added to the copy that is
exported. That also keeps the look-up off the agent's thread and leaves other processors' spans alone.
"""

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from opentelemetry.sdk.trace import ReadableSpan

from evalspan import attributes as names
from evalspan._guard import Guard

__all__ = ["Pricer", "Tokens", "with_cost"]

#: Scopes known to count cache reads and writes as part of the input. Where a span has cache tokens and its scope is
#: not among them the sum is ambiguous, and the collector, which knows every dialect, is left to price it.
_INCLUSIVE_SCOPES = (
    "com.anthropic.sdk",
    "opentelemetry.instrumentation.",
    "opentelemetry.util.genai",
    "pydantic-ai",
    "evalspan",
)
_PROBE = 1_000
_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class Tokens:
    """Usage of one call: `read`, `write` and `write_1h` are parts of `given`; `write_1h` is a part of `write`."""

    given: int
    made: int
    read: int = 0
    write: int = 0
    write_1h: int = 0

    def keywords(self) -> dict[str, int]:
        """The same in the words of genai-prices; a part that is 0 is not said."""
        parts = {
            "cache_read_tokens": self.read,
            "cache_write_tokens": self.write,
            "cache_write_1h_tokens": self.write_1h,
        }
        return {"input_tokens": self.given, "output_tokens": self.made, **{k: v for k, v in parts.items() if v}}


class Pricer:
    """Prices model calls; every answer is None when genai-prices is not installed.

    The package is imported at the first model call, not before: agents that are not priced never pay for it.
    """

    def __init__(self) -> None:
        self._found: bool | None = None
        # Objects of the package are untyped here, so that a bare install type-checks too.
        self._prices: Any = None
        self._models: dict[tuple[str, str | None], Any] = {}
        self._rates: dict[int, _Rates | None] = {}  # by identity of a price in the package's list, which stays

    def cost(self, span: ReadableSpan) -> float | None:
        """US dollars of the call, None when it is no model call or its price is unknown."""
        facts = span.attributes or {}
        if facts.get(names.OPERATION_NAME) not in names.MODEL_OPERATIONS or names.COST_USD in facts:
            return None
        scope = span.instrumentation_scope.name if span.instrumentation_scope else ""
        tokens = _tokens(facts, inclusive=scope.startswith(_INCLUSIVE_SCOPES))
        model = facts.get(names.RESPONSE_MODEL) or facts.get(names.REQUEST_MODEL)
        if tokens is None or not isinstance(model, str) or not self._available():
            return None
        provider = facts.get(names.PROVIDER_NAME) or facts.get(names.SYSTEM)
        return self._price(tokens, model, provider if isinstance(provider, str) else None, span.start_time)

    def _available(self) -> bool:
        if self._found is None:
            self._found = importlib.util.find_spec("genai_prices") is not None
            if self._found:
                self._prices = importlib.import_module("genai_prices")
        return self._found

    def _price(self, tokens: Tokens, model: str, provider: str | None, start_ns: int | None) -> float | None:
        key = (model, provider)
        if key not in self._models:
            self._models[key] = self._find(model, provider)
        found = self._models[key]
        if found is None:
            return None
        at = datetime.now(UTC) if start_ns is None else datetime.fromtimestamp(start_ns / 1e9, tz=UTC)
        price: Any = found.model.get_prices(at)
        if id(price) not in self._rates:
            self._rates[id(price)] = _rates_of(found, price, at)
        rates = self._rates[id(price)]
        return rates.cost(tokens) if rates is not None and tokens.given <= rates.below else _ask(found, tokens, at)

    def _find(self, model: str, provider: str | None) -> Any:
        try:
            return self._prices.calc_price(self._prices.Usage(input_tokens=1), model, provider_id=provider)
        except (LookupError, ValueError):  # the list does not have it
            return None


def _ask(found: Any, tokens: Tokens, at: datetime) -> float | None:
    """The price list's own answer."""
    usage = importlib.import_module("genai_prices").Usage(**tokens.keywords())
    try:
        return float(found.model.calc_price(usage, found.provider, genai_request_timestamp=at).total_price)
    except (LookupError, ValueError):  # usage it cannot price
        return None


def _rates_of(found: Any, price: Any, at: datetime) -> "_Rates | None":
    """Dollars per token, asked of the list once: asking takes it about 200 us, more than the rest of our overhead.

    Where the price rises with the size of the input, the rates hold below the first step.
    """
    kinds = list(cast("dict[str, Any]", vars(price)).values())
    below: int = min((tier.start for kind in kinds for tier in getattr(kind, "tiers", ())), default=_UNLIMITED)
    probes = (
        Tokens(_PROBE, 0),
        Tokens(0, _PROBE),
        Tokens(_PROBE, 0, read=_PROBE),
        Tokens(_PROBE, 0, write=_PROBE),
        Tokens(_PROBE, 0, write=_PROBE, write_1h=_PROBE),
    )
    known = [total for probe in probes if (total := _ask(found, probe, at)) is not None]
    if below < _PROBE or len(known) < len(probes):
        return None
    given, made, read, write, write_1h = (total / _PROBE for total in known)
    return _Rates(given, made, read, write, write_1h, below)


@dataclass(frozen=True, slots=True)
class _Rates:
    """Dollars per token of each kind, for inputs of at most `below` tokens."""

    given: float
    made: float
    read: float
    write: float
    write_1h: float
    below: int

    def cost(self, tokens: Tokens) -> float:
        plain = tokens.given - tokens.read - tokens.write
        return round(
            plain * self.given
            + tokens.made * self.made
            + tokens.read * self.read
            + (tokens.write - tokens.write_1h) * self.write
            + tokens.write_1h * self.write_1h,
            12,
        )


def with_cost(span: ReadableSpan, pricer: Pricer) -> ReadableSpan:
    """The span with its cost on it when that is known, else the span as it is. Never raises."""
    with Guard("price a model call"):
        # A copy would forget how much was dropped from the span; the collector prices such a span instead.
        cost = None if span.dropped_attributes or span.dropped_events or span.dropped_links else pricer.cost(span)
        if cost is not None:
            return ReadableSpan(
                name=span.name,
                context=span.context,
                parent=span.parent,
                resource=span.resource,
                attributes={**(span.attributes or {}), names.COST_USD: cost},
                events=span.events,
                links=span.links,
                kind=span.kind,
                status=span.status,
                start_time=span.start_time,
                end_time=span.end_time,
                instrumentation_scope=span.instrumentation_scope,
            )
    return span


def _tokens(facts: Mapping[str, object], *, inclusive: bool) -> Tokens | None:
    given, made = _count(facts, names.USAGE_INPUT), _count(facts, names.USAGE_OUTPUT)
    read = _count(facts, names.USAGE_CACHE_READ) or 0
    write = _count(facts, names.USAGE_CACHE_WRITE) or _count(facts, names.USAGE_CACHE_CREATION) or 0
    if given is None or (made is None and facts.get(names.OPERATION_NAME) != "embeddings"):
        return None
    if (read or write) and (not inclusive or read + write > given):
        return None
    return Tokens(given, made or 0, read, write, min(_count(facts, names.USAGE_CACHE_WRITE_1H) or 0, write))


def _count(facts: Mapping[str, object], name: str) -> int | None:
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
