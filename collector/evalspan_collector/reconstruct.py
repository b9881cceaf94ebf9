"""Reconstruct: runs from OTLP files, offline, for `evalspan inspect`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evalspan.errors import DecodeError, InputError
from evalspan_collector.assemble import assemble
from evalspan_collector.formats import Problem, read_requests
from evalspan_collector.intake import read_logs, read_traces
from evalspan_collector.prices import Prices
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span

__all__ = ["Reconstruction", "explain", "reconstruct_paths"]


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """What one path told.

    Attributes:
        path: As it was given.
        runs: Its runs, in order of start.
        problems: What could not be read, each naming its place (`file:line: reason`).
        explanation: Lines that say which source gave each field and which rules fired; only when asked for.
    """

    path: str
    runs: tuple[Run, ...]
    problems: tuple[str, ...] = ()
    explanation: tuple[str, ...] = ()


def reconstruct_paths(
    paths: Iterable[str | Path], *, prices: Prices | None = None, project: str = "default", explain: bool = False
) -> Iterator[Reconstruction]:
    """Rebuild the runs of each path.

    Args:
        paths: Files, or folders; a folder is one capture, so its traces may be stitched.
        prices: Computes costs that no span carries.
        project: Project the spans are read into.
        explain: Keep which source gave each field, and say it in `explanation`.

    Raises:
        InputError: A path does not exist.
    """
    for path in paths:
        if not Path(path).exists():
            raise InputError(f"{str(path)!r} does not exist: name a file or a folder of OTLP")
        spans, logs, problems = _read(Path(path), project=project, keep_sources=explain)
        runs = assemble(spans, logs, prices=prices)
        lines = tuple(_explanation(runs, spans)) if explain else ()
        yield Reconstruction(str(path), runs, tuple(problems), lines)


def _read(path: Path, *, project: str, keep_sources: bool) -> tuple[list[Span], list[LogRecord], list[str]]:
    spans: list[Span] = []
    logs: list[LogRecord] = []
    problems: list[str] = []
    for number, request in enumerate(read_requests(path)):
        if isinstance(request, Problem):
            problems.append(f"{request.place}: {request.message}")
            continue
        # Files tell no time of arrival; their order stands for it.
        try:
            if request.signal == "logs":
                intake = read_logs(request.body, project=project, received_ns=number, json=request.json)
            else:
                intake = read_traces(
                    request.body, project=project, received_ns=number, json=request.json, explain=keep_sources
                )
        except DecodeError as error:
            problems.append(f"{request.place}: {error}")
            continue
        spans.extend(intake.spans)
        logs.extend(intake.logs)
        if intake.rejected:
            problems.append(f"{request.place}: {intake.rejected} rejected: {intake.message}")
    return spans, logs, problems


def _explanation(runs: tuple[Run, ...], spans: list[Span]) -> Iterator[str]:
    by_trace: dict[str, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    for run in runs:
        yield from explain(run, [s for t in run.trace_ids for s in by_trace.get(t, [])])


def explain(run: Run, spans: Iterable[Span]) -> Iterator[str]:
    """Say where a run's facts come from: one line per rule that fired and per field of each span.

    Args:
        run: The run.
        spans: Spans of its traces, read with `explain=True`.
    """
    yield f"run {run.run_id} of trace {run.trace_id}"
    for name, value in sorted(run.provenance.items()):
        yield f"  {name}: {value}"
    for flag in run.flags:
        yield f"  flag: {flag}"
    if run.stitch_confidence is not None:
        yield f"  stitched from {len(run.trace_ids)} traces, confidence {run.stitch_confidence:.2f}"
    for step in run.steps:
        seen = "" if step.observed == "span" else " (seen in messages only)"
        yield f"  step {step.index} {step.kind} {step.name}{seen}: span {step.span_id or '-'}"
    for span in sorted(spans, key=lambda s: (s.start_ns, s.span_id)):
        yield f"  span {span.span_id} {span.name!r}: {span.kind} ({span.dialect})"
        for name, source in sorted(span.sources.items()):
            yield f"    {name} <- {source}"
