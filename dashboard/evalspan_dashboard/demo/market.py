"""Market: the invented companies the stock analyst may look up."""

from dataclasses import dataclass

__all__ = ["QUOTES", "Quote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One company at the close of one day; money in US dollars, growth in percent."""

    ticker: str
    name: str
    price: float
    previous_close: float
    earnings_per_share: float
    revenue_growth_pct: float
    debt_to_equity: float
    sector: str
    sector_pe: float
    as_of: str


QUOTES: dict[str, Quote] = {
    quote.ticker: quote
    for quote in (
        Quote(
            ticker="NWTX",
            name="Northwind Textiles",
            price=142.35,
            previous_close=139.5,
            earnings_per_share=5.1,
            revenue_growth_pct=18.4,
            debt_to_equity=0.42,
            sector="Consumer goods",
            sector_pe=24.6,
            as_of="2026-11-27",
        ),
        Quote(
            ticker="HLIO",
            name="Helio Grid",
            price=187.42,
            previous_close=190.1,
            earnings_per_share=6.25,
            revenue_growth_pct=9.7,
            debt_to_equity=0.88,
            sector="Utilities",
            sector_pe=27.3,
            as_of="2026-11-27",
        ),
        Quote(
            ticker="BRKW",
            name="Brookway Logistics",
            price=58.9,
            previous_close=58.15,
            earnings_per_share=3.8,
            revenue_growth_pct=4.2,
            debt_to_equity=1.15,
            sector="Transport",
            sector_pe=17.8,
            as_of="2026-11-27",
        ),
    )
}
