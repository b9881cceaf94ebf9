"""Cost: the price on a model-call span equals the price list's own answer."""

import importlib.util
from datetime import UTC, datetime
from typing import Any

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.util.types import AttributeValue

from evalspan._cost import Pricer, with_cost

USAGE: dict[str, AttributeValue] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.response.model": "claude-sonnet-4-6",
    "gen_ai.usage.input_tokens": 1147,
    "gen_ai.usage.output_tokens": 36,
    "gen_ai.usage.cache_write.input_tokens": 1117,
    "gen_ai.usage.cache_read.input_tokens": 0,
}


def span(_scope: str = "com.anthropic.sdk.python", /, **changed: Any) -> ReadableSpan:
    facts = {name: value for name, value in {**USAGE, **changed}.items() if value is not None}
    return ReadableSpan(
        "chat",
        attributes=facts,
        start_time=1_790_000_000_000_000_000,
        instrumentation_scope=InstrumentationScope(_scope),
    )


def cost(found: ReadableSpan) -> object:
    return (with_cost(found, Pricer()).attributes or {}).get("gen_ai.usage.cost")


def test_a_model_call_carries_its_price_as_a_double() -> None:
    found = cost(span())
    assert isinstance(found, float)
    # 30 plain at $3, 1117 written to the cache at $3.75, 36 out at $15, each per million
    assert found == pytest.approx((30 * 3 + 1117 * 3.75 + 36 * 15) / 1e6, rel=1e-9)


def test_the_other_attributes_and_the_span_itself_are_left_alone() -> None:
    before = span()
    after = with_cost(before, Pricer())
    assert {k: v for k, v in (after.attributes or {}).items() if k != "gen_ai.usage.cost"} == before.attributes
    assert "gen_ai.usage.cost" not in (before.attributes or {})
    assert after.start_time == before.start_time
    assert after.instrumentation_scope == before.instrumentation_scope


@pytest.mark.parametrize(
    "changed",
    [
        {"gen_ai.operation.name": "execute_tool"},
        {"gen_ai.operation.name": "invoke_agent"},
        {"gen_ai.operation.name": None},
        {"gen_ai.response.model": "a-model-nobody-sells"},
        {"gen_ai.response.model": None},
        {"gen_ai.usage.input_tokens": None},
        {"gen_ai.usage.output_tokens": None},
        {"gen_ai.usage.input_tokens": 100},  # less than its cached part: not the inclusive count
        {"gen_ai.usage.input_tokens": "1147"},
    ],
    ids=repr,
)
def test_what_is_not_known_for_sure_gets_no_price(changed: dict[str, Any]) -> None:
    assert cost(span(**changed)) is None


def test_cache_tokens_of_an_unknown_library_are_left_to_the_collector() -> None:
    assert cost(span("some.other.library")) is None
    plain = {"gen_ai.usage.cache_write.input_tokens": None, "gen_ai.usage.cache_read.input_tokens": None}
    assert cost(span("some.other.library", **plain)) is not None


def test_a_price_on_the_span_stays() -> None:
    assert cost(span(**{"gen_ai.usage.cost": 0.5})) == 0.5


def test_a_one_hour_cache_write_costs_its_own_price() -> None:
    dearer = cost(span(**{"anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 1117}))
    assert dearer == pytest.approx((30 * 3 + 1117 * 6 + 36 * 15) / 1e6, rel=1e-9)


def _models() -> list[tuple[str, str]]:
    wanted = {"anthropic", "openai", "google", "mistral", "deepseek"}
    return [(p.id, m.id) for p in get_snapshot().providers if p.id in wanted for m in p.models]


@pytest.mark.parametrize("size", [2_000, 250_000], ids=["small", "beyond-the-first-step"])
def test_every_model_of_five_providers_is_priced_as_the_list_itself_does(size: int) -> None:
    pricer = Pricer()
    at = datetime.fromtimestamp(1_790_000_000, tz=UTC)
    compared = 0
    for provider, model in _models():
        changed = {
            "gen_ai.provider.name": provider,
            "gen_ai.response.model": model,
            "gen_ai.usage.input_tokens": size,
            "gen_ai.usage.cache_read.input_tokens": 500,
        }
        usage = genai_prices.Usage(input_tokens=size, cache_write_tokens=1117, cache_read_tokens=500, output_tokens=36)
        try:
            expected = genai_prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=at)
        except (LookupError, ValueError):
            continue
        assert pricer.cost(span(**changed)) == pytest.approx(float(expected.total_price), rel=1e-9), (provider, model)
        compared += 1
    assert compared > 150


def test_without_the_price_list_there_is_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    assert cost(span()) is None


def test_a_span_that_lost_attributes_is_left_as_it_is() -> None:
    from opentelemetry.sdk.trace import SpanLimits

    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=len(USAGE)), shutdown_on_exit=False)
    live = provider.get_tracer("com.anthropic.sdk.python").start_span("chat", attributes={"first": 1, **USAGE})
    live.end()
    assert isinstance(live, ReadableSpan)
    assert live.dropped_attributes == 1
    assert with_cost(live, Pricer()) is live
