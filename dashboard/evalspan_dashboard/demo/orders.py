"""Orders: the invented orders the refund bot may look up, and the shop's policy about them."""

from dataclasses import dataclass

__all__ = ["ORDERS", "WINDOW_DAYS", "Order"]

#: Days after delivery in which goods may come back.
WINDOW_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One delivered order; money in US dollars."""

    order_id: str
    item: str
    total: float
    delivered_on: str
    days_since_delivery: int


ORDERS: dict[str, Order] = {
    order.order_id: order
    for order in (
        Order(
            order_id="A-1043",
            item="Trail running shoes, size 42",
            total=84.5,
            delivered_on="2026-11-12",
            days_since_delivery=18,
        ),
        Order(
            order_id="A-2077",
            item="Rain jacket, green, M",
            total=129.0,
            delivered_on="2026-11-21",
            days_since_delivery=9,
        ),
        Order(
            order_id="A-3190",
            item="Climbing rope, 60 m",
            total=159.95,
            delivered_on="2026-11-18",
            days_since_delivery=12,
        ),
    )
}
