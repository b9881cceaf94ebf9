"""Rates: what one token of each kind costs by one price of the price list, asked of the list once and checked.

The list takes about 100 microseconds per call, more than everything else that assembling a model call costs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from evalspan_collector.span import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

__all__ = ["Rates", "rates_of"]

_PROBE = 1_000
#: Parts of every kind at once: tells whether the price really is the sum of its parts.
_CHECK = Usage(997, 13, 101, 57)
_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars per token, exact, for inputs of less than `below` tokens.

    Attributes:
        plain: Input that was neither read from nor written to a cache.
    """

    plain: Decimal
    output: Decimal
    read: Decimal
    write: Decimal
    below: int

    def usd(self, usage: Usage) -> Decimal | None:
        """The price of a usage whose parts fit into its totals; None when these rates do not cover it."""
        given, made = usage.input_tokens, usage.output_tokens
        if given is None or made is None or given >= self.below:
            return None
        read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        total = (given - read - write) * self.plain + made * self.output
        return total + read * self.read + write * self.write if read or write else total


def rates_of(price: "ModelPrice", ask: Callable[[Usage], Decimal | None]) -> Rates | None:
    """The rates of a price; None where it is not the sum of its parts, or lacks one of them.

    Args:
        price: An entry of the price list.
        ask: The list's own answer by that entry.
    """
    parts: Iterable[Any] = vars(price).values()
    below: int = min((tier.start for part in parts for tier in getattr(part, "tiers", ())), default=_UNLIMITED)
    probes = (Usage(_PROBE, 0), Usage(0, _PROBE), Usage(_PROBE, 0, _PROBE), Usage(_PROBE, 0, None, _PROBE))
    known = [total / _PROBE for probe in probes if (total := ask(probe)) is not None]
    if below <= _PROBE or len(known) < len(probes):
        return None
    plain, output, read, write = known
    rates = Rates(plain, output, read, write, below)
    return rates if rates.usd(_CHECK) == ask(_CHECK) else None
