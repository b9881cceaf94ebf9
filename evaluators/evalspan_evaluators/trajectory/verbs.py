"""Verbs: telling tools that change something from tools that only look, by their names."""

from functools import lru_cache

__all__ = ["changes_state"]

#: First words of tools that only look.
_READING = frozenset(
    (
        "analyse",
        "analyze",
        "ask",
        "browse",
        "calc",
        "calculate",
        "can",
        "cat",
        "check",
        "classify",
        "compare",
        "compute",
        "convert",
        "count",
        "describe",
        "details",
        "detect",
        "estimate",
        "evaluate",
        "explain",
        "extract",
        "fetch",
        "find",
        "forecast",
        "get",
        "glob",
        "goto",
        "grep",
        "has",
        "head",
        "help",
        "info",
        "inspect",
        "is",
        "list",
        "load",
        "look",
        "lookup",
        "ls",
        "navigate",
        "open",
        "parse",
        "ping",
        "predict",
        "preview",
        "query",
        "rank",
        "read",
        "recommend",
        "retrieve",
        "scan",
        "score",
        "search",
        "select",
        "show",
        "status",
        "suggest",
        "summarise",
        "summarize",
        "tail",
        "think",
        "translate",
        "validate",
        "verify",
        "view",
        "web",
    )
)
#: Names that hand the conversation over; they change who talks, not the world.
_HANDING_OVER = ("transfer_to_", "handoff", "hand_off", "escalate", "delegate_to_")


def changes_state(name: str) -> bool:
    """Whether a tool of this name probably changes something, told by its verb."""
    return _changes_state(name[-200:])


@lru_cache(maxsize=4096)
def _changes_state(name: str) -> bool:
    plain = _words(name)
    if "_".join(plain).startswith(_HANDING_OVER):
        return False
    return not (plain and plain[0] in _READING)


def _words(name: str) -> list[str]:
    """The words of the last part of a name: `mcp__db__getUser` gives get, user."""
    last = name.rsplit("__", 1)[-1].rsplit(".", 1)[-1].rsplit("/", 1)[-1]
    split_capitals = not last.isupper()
    spaced = "".join(f" {c.lower()}" if split_capitals and c.isupper() else c.lower() for c in last)
    return spaced.replace("-", " ").replace("_", " ").split()
