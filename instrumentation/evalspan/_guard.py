"""Guard: an error inside evalspan is logged once and swallowed; under pytest or EVALSPAN_STRICT it is raised."""

import logging
import os
from types import TracebackType

__all__ = ["Guard", "is_strict", "report"]

_log = logging.getLogger("evalspan")
_seen: set[tuple[str, str]] = set()  # what was logged already: an agent in a loop must not flood its log


def is_strict() -> bool:
    """True when internal errors must surface: `EVALSPAN_STRICT` is set to a true word, or a pytest test runs."""
    setting = os.environ.get("EVALSPAN_STRICT", "").strip().lower()
    if setting:
        return setting not in {"0", "false", "no", "off"}
    return "PYTEST_CURRENT_TEST" in os.environ


def report(where: str, error: BaseException) -> None:
    """Log an internal error, the first time it is seen at this place."""
    key = (where, type(error).__qualname__)
    if key not in _seen:
        _seen.add(key)
        _log.warning("evalspan could not %s (the agent goes on; said once): %s: %s", where, type(error).__name__, error)
        _log.debug("the traceback of that", exc_info=error)


class Guard:
    """Context manager around code of ours that runs inside somebody's agent.

    Attributes:
        where: What the block does, to finish the sentence "evalspan could not ...".
    """

    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> bool:
        if error is None or not isinstance(error, Exception) or is_strict():
            return False
        report(self.where, error)
        return True
