"""Unguarded: a frozen class of slots as an open twin, for places that make very many of its objects."""

from dataclasses import fields, make_dataclass
from typing import Any

__all__ = ["unguarded"]


def unguarded(frozen: type, *first: str) -> Any:
    """A class with the same slots as a frozen dataclass, without the guard that makes each assignment a call.

    Its objects cost a quarter; assign `frozen` to their `__class__` and they are frozen objects like any other.

    Args:
        frozen: A frozen dataclass with slots.
        first: Fields that its positional arguments begin with; the others follow in their order.
    """
    others = [f.name for f in fields(frozen) if f.name not in first]
    return make_dataclass(f"_Open{frozen.__name__}", [(name, object) for name in (*first, *others)], slots=True)
