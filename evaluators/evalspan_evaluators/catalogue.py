"""Catalogue: every built-in metric with what it checks, needs and takes, as the table of docs/metrics.md.

`python -m evalspan_evaluators.catalogue` prints it.
"""

import sys
from dataclasses import MISSING, Field, fields
from typing import Any, cast

from evalspan_evaluators.builtin import BUILTIN
from evalspan_evaluators.metric import JudgeMetric, Metric
from evalspan_evaluators.score import DEFAULT_THRESHOLD

__all__ = ["catalogue_rows", "catalogue_table"]

_HEAD = ("metric", "checks", "needs", "threshold", "parameters")


def catalogue_rows() -> list[tuple[str, ...]]:
    """Name, what it checks, case fields it needs, default threshold and parameters of each metric, by name."""
    return [_row(name, metric) for name, metric in sorted(BUILTIN.items())]


def catalogue_table() -> str:
    """The same as a Markdown table."""
    lines = [f"| {' | '.join(_HEAD)} |", f"|{'---|' * len(_HEAD)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in catalogue_rows()]
    return "\n".join(lines) + "\n"


def _row(name: str, metric: type[Metric | JudgeMetric]) -> tuple[str, ...]:
    needs = [f"`{field}`" for field in metric.requires]
    if hasattr(metric, "evaluate_with"):
        needs.append("a judge")
    threshold = DEFAULT_THRESHOLD if metric.default_threshold is None else metric.default_threshold
    parameters = [_parameter(f) for f in fields(cast("Any", metric)) if f.name != "threshold"]
    summary = " ".join((metric.__doc__ or "").split("\n\n")[0].split())
    return (f"`{name}`", summary, ", ".join(needs), f"{threshold:g}", ", ".join(parameters))


def _parameter(spec: Field[Any]) -> str:
    if spec.default is not MISSING:
        plain = isinstance(spec.default, str | int | float | bool)
        return f"`{spec.name}={spec.default!r}`" if plain else f"`{spec.name}`"
    return f"`{spec.name}`" if spec.default_factory is not MISSING else f"`{spec.name}` (required)"


if __name__ == "__main__":
    sys.stdout.write(catalogue_table())
