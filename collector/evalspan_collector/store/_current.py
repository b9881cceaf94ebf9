"""Current rows: how the newest row of every run and score in a window is read without merging the whole table."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

from collections.abc import Iterable
from typing import Any, Final

from evalspan_collector.store.run_rows import AHEAD_NS

__all__ = ["DAY_NS", "WIDE_NS", "current_runs", "current_scores", "project_condition", "written_since"]

DAY_NS: Final = 86_400 * 1_000_000_000
#: Above this the engine's own merge of all scores (FINAL) is cheaper than sorting those of the window (measured).
WIDE_NS: Final = 21 * DAY_NS


def project_condition(project: str | None) -> tuple[str, dict[str, Any]]:
    """The condition every read starts with; None means every project."""
    return ("1", {}) if project is None else ("project = {project:String}", {"project": project})


def written_since(since_ns: int, now_ns: int) -> int:
    """Everything about a run that started since then was written since this time."""
    return max(min(since_ns, now_ns) - AHEAD_NS, 0)


def current_runs(columns: Iterable[str], condition: str) -> str:
    """A subquery: these columns of the newest row of every run, of the rows written since `{floor:Int64}`.

    Conditions on anything but the project belong outside it: a row that is no longer current may meet them.
    """
    names = ", ".join(dict.fromkeys(columns))
    return (
        f"(SELECT {names} FROM runs WHERE {condition} AND updated_ns >= {{floor:Int64}} "
        "ORDER BY updated_ns DESC LIMIT 1 BY run_key)"
    )


def current_scores(columns: Iterable[str], condition: str, *, wide: bool = False) -> str:
    """Likewise for scores, whose newest row is that of the highest version."""
    names = ", ".join(dict.fromkeys(columns))
    if wide:
        return f"(SELECT {names} FROM scores FINAL WHERE {condition} AND created_ns >= {{floor:Int64}})"
    return (
        f"(SELECT {names} FROM scores WHERE {condition} AND created_ns >= {{floor:Int64}} "
        "ORDER BY version DESC LIMIT 1 BY score_key)"
    )
