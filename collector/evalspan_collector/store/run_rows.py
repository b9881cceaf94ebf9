"""Run rows: runs and their steps as rows of the store, and the summaries read back."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

import orjson

from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run, Step
from evalspan_collector.span import Usage

__all__ = [
    "AHEAD_NS",
    "RUN_COLUMNS",
    "STEP_COLUMNS",
    "SUMMARY_COLUMNS",
    "run_from_summary",
    "run_row",
    "shown_start_ns",
    "step_rows",
    "summaries_from",
    "summary_of",
]

#: How far a run's start may lie after its row was written: by more than this a clock is wrong.
AHEAD_NS: Final = 3600 * 1_000_000_000
_INT64: Final = 2**63 - 1

#: Columns of a summary, in the order of its fields.
SUMMARY_COLUMNS: Final = tuple(f.name for f in fields(RunSummary))
#: Columns of the runs table, in the order of `run_row`.
RUN_COLUMNS: Final = (
    *SUMMARY_COLUMNS, "root_span_id", "service_version", "agent_version", "last_received_ns", "tags", "metadata",
    "dialects", "stitch_confidence",
)  # fmt: skip
#: Columns of the steps table, in the order of `step_rows`.
STEP_COLUMNS: Final = (
    "project", "run_id", "updated_ns", "step_index", "parent_index", "depth", "kind", "name", "agent", "trace_id",
    "span_id", "started_ns", "duration_s", "failed", "error", "observed", "attempt", "pseudo", "model", "provider",
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost_usd",
)  # fmt: skip


def shown_start_ns(started_ns: int, updated_ns: int) -> int:
    """The start that lists and windows use: never before 1970, never over an hour after the row was written.

    A clock that runs ahead must not hide a run from a window that prunes by the time of writing.
    """
    return min(max(started_ns, 0), updated_ns + AHEAD_NS, _INT64)


def _usage(usage: Usage) -> tuple[int | None, ...]:
    return tuple(
        None if value is None else min(max(value, -_INT64), _INT64)
        for value in (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        )
    )


def summary_of(run: Run, *, updated_ns: int, fingerprint: str = "") -> RunSummary:
    """The run's row without content, as the store shows it."""
    inputs, outputs, cache_read, cache_write, reasoning = _usage(run.usage)
    return RunSummary(
        project=run.project,
        run_id=run.run_id,
        trace_id=run.trace_id,
        trace_ids=run.trace_ids or (run.trace_id,),
        revision=run.revision,
        state=run.state,
        agent=run.agent,
        agents=run.agents,
        session_id=run.session_id,
        user_id=run.user_id,
        service=run.service,
        environment=run.environment,
        started_ns=shown_start_ns(run.started_ns, updated_ns),
        duration_s=run.duration_s,
        status=run.status,
        error=run.error,
        input=run.input,
        output=run.output,
        flags=run.flags,
        models=run.models,
        tool_names=tuple(tool.name for tool in run.tools),
        input_tokens=inputs,
        output_tokens=outputs,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        reasoning_tokens=reasoning,
        cost_usd=run.cost_usd,
        cost_unknown_calls=run.cost_unknown_calls,
        steps=len(run.steps),
        updated_ns=updated_ns,
        fingerprint=fingerprint,
    )


def run_row(run: Run, summary: RunSummary) -> tuple[Any, ...]:
    """A row of the runs table, in the order of `RUN_COLUMNS`."""
    return (
        *(getattr(summary, name) for name in SUMMARY_COLUMNS),
        run.root_span_id or "",
        run.service_version,
        run.agent_version,
        min(max(run.last_received_ns, 0), _INT64),
        run.tags,
        orjson.dumps(run.metadata, option=orjson.OPT_NON_STR_KEYS).decode() if run.metadata else "",
        run.dialects,
        run.stitch_confidence,
    )


def step_rows(run: Run, updated_ns: int) -> list[tuple[Any, ...]]:
    """Rows of the steps table, in the order of `STEP_COLUMNS`; no content."""
    return [_step_row(run, step, updated_ns) for step in run.steps]


def _step_row(run: Run, step: Step, updated_ns: int) -> tuple[Any, ...]:
    call, tool = step.model_call, step.tool
    return (
        run.project,
        run.run_id,
        updated_ns,
        step.index,
        step.parent_index,
        min(step.depth, 65_535),
        step.kind,
        step.name,
        step.agent,
        step.trace_id or run.trace_id,
        step.span_id or "",
        min(max(step.started_ns, 0), _INT64),
        step.duration_s,
        int(step.failed),
        step.error,
        step.observed,
        min(tool.attempt, 65_535) if tool else 1,
        int(tool.pseudo) if tool else 0,
        call.model if call else None,
        call.provider if call else None,
        *(_usage(call.usage) if call else (None,) * 5),
        call.cost_usd if call else None,
    )


_TUPLES: Final = frozenset({"trace_ids", "agents", "flags", "models", "tool_names"})


def summaries_from(rows: Sequence[tuple[Any, ...]]) -> list[RunSummary]:
    """Summaries from rows selected with `SUMMARY_COLUMNS`."""
    convert: list[Callable[[Any], Any]] = [tuple if name in _TUPLES else _same for name in SUMMARY_COLUMNS]
    return [
        RunSummary(**{n: c(v) for n, c, v in zip(SUMMARY_COLUMNS, convert, row, strict=True)}) for row in rows
    ]  # fmt: skip


def _same(value: Any) -> Any:
    return value


def run_from_summary(summary: RunSummary) -> Run:
    """What is left of a run whose spans retention has dropped: its row, flagged `content_expired`."""
    return Run(
        run_id=summary.run_id,
        trace_id=summary.trace_id,
        project=summary.project,
        trace_ids=summary.trace_ids,
        revision=summary.revision,
        state=summary.state,  # type: ignore[arg-type]  # the table holds RunState only
        agent=summary.agent,
        agents=summary.agents,
        session_id=summary.session_id,
        user_id=summary.user_id,
        service=summary.service,
        environment=summary.environment,
        started_ns=summary.started_ns,
        duration_s=summary.duration_s,
        status="error" if summary.status == "error" else "ok",
        error=summary.error,
        input=summary.input,
        output=summary.output,
        flags=(*summary.flags, "content_expired"),
        usage=Usage(
            input_tokens=summary.input_tokens,
            output_tokens=summary.output_tokens,
            cache_read_tokens=summary.cache_read_tokens,
            cache_write_tokens=summary.cache_write_tokens,
            reasoning_tokens=summary.reasoning_tokens,
        ),
        cost_usd=summary.cost_usd,
        cost_unknown_calls=summary.cost_unknown_calls,
        models=summary.models,
    )
