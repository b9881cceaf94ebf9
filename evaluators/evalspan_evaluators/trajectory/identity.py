"""Identity: what was made of an object, remembered for as long as the object is the same one."""

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["ByIdentity"]

T = TypeVar("T")


class ByIdentity(Generic[T]):
    """Remembers what `make` returned for objects that have no hash, such as a tool's parameters.

    The object is kept beside its answer, so that its id cannot be taken over by another one.

    Args:
        make: Makes the answer; the object must not change afterwards.
        kept: Most answers kept; then all are forgotten.
    """

    def __init__(self, make: Callable[..., T], *, kept: int = 1024) -> None:
        self._make = make
        self._kept = kept
        self._known: dict[int, tuple[object, T]] = {}

    def __call__(self, thing: object) -> T:
        """The answer for this object, made when it is first asked for."""
        known = self._known.get(id(thing))
        if known is not None and known[0] is thing:
            return known[1]
        answer = self._make(thing)
        if len(self._known) >= self._kept:
            self._known.clear()
        self._known[id(thing)] = (thing, answer)
        return answer
