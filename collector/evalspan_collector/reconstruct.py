"""Reconstruct: runs from OTLP files, offline, for `evalspan inspect`."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from evalspan_collector.assemble import assemble
from evalspan_collector.intake import Intake, read_logs, read_traces
from evalspan_collector.prices import Prices
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span

__all__ = ["reconstruct_paths"]


def reconstruct_paths(
    paths: Iterable[str | Path], *, prices: Prices | None = None, project: str = "default", explain: bool = False
) -> Iterator[tuple[str, tuple[Run, ...]]]:
    """Rebuild the runs of each path.

    Args:
        paths: Files, or folders; a folder is one capture, so its traces may be stitched.
        prices: Computes costs that no span carries.
        project: Project the spans are read into.
        explain: Keep which source gave each field of each span.

    Yields:
        The path as given, and its runs in order of start.

    Raises:
        InputError: A path does not exist or holds nothing that can be read.
    """
    for path in paths:
        spans: list[Span] = []
        logs: list[LogRecord] = []
        for intake in _intakes(Path(path), project=project, explain=explain):
            spans.extend(intake.spans)
            logs.extend(intake.logs)
        yield str(path), assemble(spans, logs, prices=prices)


def _intakes(path: Path, *, project: str, explain: bool) -> Iterator[Intake]:
    for file in sorted(path.glob("*.binpb")):
        body = file.read_bytes()
        if file.name.startswith("logs"):
            yield read_logs(body, project=project, received_ns=time.time_ns())
        else:
            yield read_traces(body, project=project, received_ns=time.time_ns(), explain=explain)
