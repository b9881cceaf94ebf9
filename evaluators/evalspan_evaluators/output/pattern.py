"""Pattern: regular expressions in linear time, so that no text can hang a worker."""

from functools import lru_cache
from importlib import import_module
from typing import Any

from evalspan.errors import MissingExtraError

__all__ = ["compiled", "search"]

_LONGEST_PATTERN = 10_000


@lru_cache(maxsize=256)
def compiled(pattern: str, *, ignore_case: bool = False, lines: bool = False) -> Any:
    """The pattern compiled by RE2: no backtracking, so no backreferences and no look-around.

    Raises:
        MissingExtraError: google-re2 is not installed.
        ValueError: The pattern is not one, or uses what RE2 leaves out.
    """
    try:
        re2: Any = import_module("re2")
    except ImportError as error:
        raise MissingExtraError("google-re2", "server") from error
    if len(pattern) > _LONGEST_PATTERN:
        raise ValueError(f"the pattern has {len(pattern)} characters: at most {_LONGEST_PATTERN}")
    options: Any = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.one_line = not lines
    try:
        return re2.compile(("(?m)" if lines else "") + pattern, options=options)
    except re2.error as error:
        raise ValueError(f"{pattern!r} is no regular expression of RE2: {error}") from error


def search(pattern: str, text: str, *, ignore_case: bool = False, lines: bool = False) -> tuple[int, int] | None:
    """Offsets of the first match anywhere in the text; None when there is none."""
    found: Any = compiled(pattern, ignore_case=ignore_case, lines=lines).search(text)
    return None if found is None else (found.start(), found.end())
