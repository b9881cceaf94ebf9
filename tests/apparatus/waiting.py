"""Waiting: poll with a deadline, never sleep blindly."""

import time
from collections.abc import Callable

__all__ = ["until"]


def until(condition: Callable[[], object], *, within_s: float = 20.0, what: str = "the condition") -> None:
    """Return once `condition()` is true.

    Raises:
        AssertionError: It did not become true in time.
    """
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not hold within {within_s} s")
        time.sleep(0.02)
