"""Prices: computed costs equal the price tables asked directly, at the time of the call; users may override."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from golden.captures import capture, captures

from evalspan.errors import ConfigError
from evalspan_collector.assemble import assemble
from evalspan_collector.prices import Prices
from evalspan_collector.span import Usage
from evalspan_collector.usage import add_usage, priced_usage

AT = datetime(2026, 3, 1, tzinfo=UTC)
AT_NS = int(AT.timestamp()) * 1_000_000_000

#: Usage as providers state it: Anthropic's input without cache, OpenAI's and Gemini's with it.
_RECORDED = [
    ("anthropic", "claude-sonnet-4-5-20250929", Usage(5_000, 700, 3_000, 1_000, None)),
    ("anthropic.messages", "claude-haiku-4-5", Usage(1_200, 30, 0, 1_100, None)),
    ("anthropic", "claude-sonnet-4-5", Usage(300_000, 1_000, None, None, None)),
    ("openai", "gpt-4o-mini-2024-07-18", Usage(2_660, 552, 2_176, None, 512)),
    ("openai.responses", "gpt-5-mini", Usage(1_000, 900, 128, None, 800)),
    ("gcp.gemini", "gemini-2.5-flash", Usage(10_000, 500, 4_000, None, 300)),
    ("google-gla", "gemini-2.5-pro", Usage(250_000, 500, None, None, None)),
    ("amazon-bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", Usage(900, 90, None, None, None)),
]
_IDS = {"anthropic.messages": "anthropic", "openai.responses": "openai", "gcp.gemini": "google", "google-gla": "google",
        "amazon-bedrock": "aws"}  # fmt: skip


@pytest.mark.parametrize(("provider", "model", "usage"), _RECORDED)
def test_a_computed_cost_is_what_the_price_table_says_for_the_providers_usage(
    provider: str, model: str, usage: Usage
) -> None:
    parts = {"cache_read_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    own = PricedUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
                      **{k: v for k, v in parts.items() if v})  # fmt: skip
    direct = calc_price(own, model, provider_id=_IDS.get(provider, provider), genai_request_timestamp=AT)
    price = Prices().cost(provider, model, usage, AT_NS)
    assert price is not None
    assert price.usd == pytest.approx(float(direct.total_price), rel=1e-9)
    assert price.source.startswith("genai-prices ")


def test_a_service_tier_changes_the_price_as_the_table_says() -> None:
    usage = Usage(10_000, 1_000)
    direct = calc_price(PricedUsage(input_tokens=10_000, output_tokens=1_000), "gpt-5", provider_id="openai",
                        genai_request_timestamp=AT, price_context={"service_tier": "flex"})  # fmt: skip
    price = Prices().cost("openai", "gpt-5", usage, AT_NS, "flex")
    assert price is not None
    assert price.usd == pytest.approx(float(direct.total_price))


@pytest.mark.parametrize("provider", ["x_ai", "gcp.gen_ai", "azure.ai.inference", "litellm", "nobody", None])
def test_provider_words_that_the_tables_refuse_never_raise(provider: str | None) -> None:
    assert Prices().cost(provider, "gpt-4o-mini", Usage(100, 10), AT_NS) is not None


def test_an_unknown_model_has_no_price_and_not_zero() -> None:
    assert Prices().cost("openai", "my-own-model-9", Usage(100, 10), AT_NS) is None
    assert Prices().cost("openai", "gpt-4o-mini", Usage(), AT_NS) is None, "nor has an unknown usage"
    assert Prices().cost("openai", None, Usage(1, 1), AT_NS) is None


def test_usage_that_does_not_add_up_is_cut_and_said() -> None:
    price = Prices().cost("anthropic", "claude-sonnet-4-5", Usage(100, 10, 500, 20), AT_NS)
    assert price is not None
    assert price.clamped
    assert priced_usage(Usage(100, 10, 500, 20))[0] == Usage(100, 10, 100, 0)


def test_a_users_file_overrides_the_tables(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(
        "models:\n"
        "  - {model: 'gpt-4o-mini.*', input_per_million: 1.0, output_per_million: 2.0, until: 2026-01-31}\n"
        "  - {model: 'llama.*', provider: vllm, input_per_million: 0, output_per_million: 0}\n"
        "  - {model: 'gpt-4o-mini.*', input_per_million: 3.0, output_per_million: 4.0, cache_read_per_million: 1.0}\n"
    )
    prices = Prices(file)
    usage = Usage(1_000_000, 1_000_000, 500_000)
    before = prices.cost("openai", "gpt-4o-mini", usage, int(datetime(2026, 1, 31, 23, tzinfo=UTC).timestamp() * 1e9))
    after = prices.cost("openai", "GPT-4o-mini-2024", usage, AT_NS)
    assert before is not None
    assert after is not None
    assert (before.usd, after.usd, after.source) == (3.0, 6.0, "override")
    free = prices.cost("vllm", "llama-3-70b", usage, AT_NS)
    assert free is not None
    assert free.usd == 0.0


@pytest.mark.parametrize("text", ["models:\n  - {model: '['}\n", "models:\n  - {model: x, input_per_million: -1}\n"])
def test_a_wrong_price_file_is_named_by_its_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"prices\.yaml:2"):
        Prices(file)


def test_sums_of_usage_keep_what_nobody_knows() -> None:
    total = add_usage([Usage(1, 2), Usage(3, None, 1), Usage()])
    assert total == Usage(4, 2, 1, None, None)
    assert add_usage([]) == Usage()


def test_no_capture_counts_a_call_twice() -> None:
    prices = Prices()
    for name in captures():
        one = capture(name)
        spans, logs = one.read()
        for run in assemble(spans, logs, prices=prices):
            known = [c.cost_usd for c in run.model_calls if c.cost_usd is not None]
            if known and run.embedding_tokens is None:
                assert run.cost_usd == pytest.approx(sum(known)), name
            assert run.cost_unknown_calls <= len(run.model_calls)
        answered = sum(r["model_calls_ok"] for r in one.truth["runs"])
        made = sum(1 for r in assemble(spans, logs) for c in r.model_calls if not c.failed)
        assert made <= max(answered, 0) or answered == 0, name
