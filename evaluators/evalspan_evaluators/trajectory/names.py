"""Tool names: near matches for remedies, and lists of names a person can read."""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

__all__ = ["listing", "near_name", "normal_name", "shown"]

_SHOWN = 8
_LONGEST = 60
_CANDIDATES = 64
_COMPARED = 120
_CLOSE = 0.78
_NAMESPACE = re.compile(r"__|[./:]")


@lru_cache(maxsize=4096)
def normal_name(name: str) -> str:
    """The name in lower case without `-`, `_` and spaces, as forbidden tools are compared."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def shown(name: str) -> str:
    """The name, cut where it is too long for a sentence."""
    return name if len(name) <= _LONGEST else name[:_LONGEST] + "…"


def listing(names: Iterable[str]) -> str:
    """The names in brackets, the first eight of them."""
    kept = names if isinstance(names, list) else list(names)
    if len(kept) <= _SHOWN:
        text = ", ".join(kept)
        if len(text) <= _SHOWN * _LONGEST:
            return f"[{text}]"
    more = f", … {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
    first = kept[:_SHOWN]
    if max(map(len, first)) > _LONGEST:
        first = [shown(name) for name in first]
    return f"[{', '.join(first)}{more}]"


def near_name(name: str, candidates: Sequence[str]) -> str | None:
    """The candidate that is most likely meant by this name, None when none is near.

    Same letters in another spelling (`searchWeb`, `search-web`), the same name in another namespace
    (`mcp__web__search`, `web.search`), then a small typing difference.
    """
    if not candidates:
        return None
    few = tuple(candidates[:_CANDIDATES])
    longest = max(map(len, few))
    if longest > _COMPARED:  # names are remembered, so a megabyte of noise must not be one
        few = tuple(c[:_COMPARED] for c in few)
    return _near(name[:_COMPARED], few)


@lru_cache(maxsize=2048)
def _near(name: str, candidates: tuple[str, ...]) -> str | None:
    others = [c for c in dict.fromkeys(candidates) if c != name]
    for key in (normal_name, _last_part):
        same = [c for c in others if key(c) == key(name)]
        if same:
            return same[0]
    matcher = SequenceMatcher(None, "", normal_name(name), autojunk=False)
    best, best_ratio = None, _CLOSE
    for candidate in others:
        matcher.set_seq1(normal_name(candidate))
        if matcher.real_quick_ratio() >= best_ratio and matcher.quick_ratio() >= best_ratio:
            ratio = matcher.ratio()
            if ratio >= best_ratio:
                best, best_ratio = candidate, ratio
    return best


def _last_part(name: str) -> str:
    return normal_name(_NAMESPACE.split(name)[-1]) or normal_name(name)
