"""Prices by rates are exactly the price list's own, for every model of the list."""

import random
from datetime import UTC, datetime

import pytest
from genai_prices import Usage as ListUsage
from genai_prices.data_snapshot import get_snapshot

from evalspan_collector.prices import Prices
from evalspan_collector.span import Usage

_MODELS = [(provider.id, model.id) for provider in get_snapshot().providers for model in provider.models]


@pytest.mark.parametrize("seed", range(4))
def test_a_price_is_the_one_the_list_itself_computes(seed: int) -> None:
    chance = random.Random(seed)
    prices = Prices()
    compared = 0
    for provider, model in chance.sample(_MODELS, 200):
        found = prices._find(provider, model)
        if found is None:  # names a look-up does not lead to
            continue
        for given in (0, 5, 5_000, 199_999, 200_000, 200_001, 1_500_000):
            read = chance.choice([0, chance.randint(0, given)])
            write = chance.choice([0, chance.randint(0, given - read)])
            made = chance.choice([0, 7, 20_000])
            at = datetime.fromtimestamp(chance.randint(1_690_000_000, 1_790_000_000), tz=UTC)
            priced = prices.cost(provider, model, Usage(given, made, read, write), int(at.timestamp()) * 10**9)
            parts = {"cache_read_tokens": read, "cache_write_tokens": write}
            usage = ListUsage(input_tokens=given, output_tokens=made, **{k: v for k, v in parts.items() if v})
            try:
                expected = float(found[1].calc_price(usage, found[0], genai_request_timestamp=at).total_price)
            except (ValueError, LookupError):
                assert priced is None
                continue
            assert priced is not None
            assert priced.usd == expected
            compared += 1
    assert compared > 1_000
