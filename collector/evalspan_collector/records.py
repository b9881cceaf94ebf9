"""Records: the rows that rooms right of the collector write to the store and read back."""

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Aggregate",
    "AlertEvent",
    "AlertState",
    "AlertStateName",
    "JudgeCallRecord",
    "OutcomeName",
    "OutcomeRecord",
    "RunSummary",
    "ScoreRecord",
    "ScoreSource",
]

OutcomeName = Literal["scored", "filtered", "sampled_out", "waiting", "not_applicable", "over_budget", "error"]
AlertStateName = Literal["ok", "pending", "firing", "resolved", "no_data"]
ScoreSource = Literal["evalspan", "received", "human"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRecord:
    """One score of one run; the newest (run_revision, created_ns) of (project, run, metric, rule) is current.

    Attributes:
        evidence: JSON text, list of evidence objects.
        extra: JSON text, object of further numbers.
        created_ns: When it was made; the version of the row.
        superseded: A tombstone: the run was withdrawn or the score replaced by nothing.
    """

    project: str
    run_id: str
    metric: str
    rule: str
    run_revision: int
    metric_version: str
    created_ns: int
    value: float | None = None
    threshold: float | None = None
    passed: bool | None = None
    label: str | None = None
    reason: str = ""
    error: str | None = None
    not_applicable: bool = False
    evidence: str = "[]"
    extra: str = "{}"
    source: ScoreSource = "evalspan"
    span_id: str | None = None
    agent: str | None = None
    run_started_ns: int = 0
    duration_s: float = 0.0
    judge_model: str | None = None
    judge_input_tokens: int | None = None
    judge_output_tokens: int | None = None
    judge_cost_usd: float | None = None
    superseded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecord:
    """Why a run was or was not scored by a rule; one per (rule, run, revision)."""

    project: str
    rule: str
    run_id: str
    run_revision: int
    outcome: OutcomeName
    rule_version: str
    created_ns: int
    reason: str = ""
    attempt: int = 1
    run_started_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCallRecord:
    """One judge call in the ledger, failed ones included; the newest `created_ns` of a call is current.

    A row is written before the call and replaced after it. One that was never replaced belongs to a worker that was
    killed: what it cost is unknown, and `reserved_usd` counts as spent.

    Attributes:
        reserved_usd: US dollars set aside while the cost is unknown.
    """

    project: str
    call_id: str
    created_ns: int
    rule: str
    metric: str
    run_id: str
    purpose: str
    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    stop_reason: str | None = None
    error: str | None = None
    duration_s: float = 0.0
    reserved_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """Where an alert stands; the newest `updated_ns` of (project, alert) is current."""

    project: str
    alert: str
    state: AlertStateName
    since_ns: int
    updated_ns: int
    value: float | None = None
    sample: int = 0
    breaches: int = 0
    last_notified_ns: int = 0
    notified_state: AlertStateName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertEvent:
    """One change of an alert's state, and whether its channels were told."""

    project: str
    alert: str
    event_id: str
    created_ns: int
    state: AlertStateName
    value: float | None = None
    threshold: float | None = None
    sample: int = 0
    reason: str = ""
    delivered: bool = False
    delivery_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A number over a window: of scores, cost, latency or errors.

    Attributes:
        value: None when the sample is empty.
        sample: Runs (or scores) that entered it; errors and not applicable ones are left out.
        worst_run_ids: Runs that pulled it the wrong way, worst first.
    """

    value: float | None
    sample: int
    passed: int | None = None
    unknown: int = 0
    worst_run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One row of the runs list: no content beyond input and output; times in nanoseconds."""

    project: str
    run_id: str
    trace_id: str
    trace_ids: tuple[str, ...]
    revision: int
    state: str
    agent: str | None
    agents: tuple[str, ...]
    session_id: str | None
    user_id: str | None
    service: str | None
    environment: str | None
    started_ns: int
    duration_s: float | None
    status: str
    error: str | None
    input: str | None
    output: str | None
    flags: tuple[str, ...]
    models: tuple[str, ...]
    tool_names: tuple[str, ...]
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    cost_unknown_calls: int
    steps: int
    updated_ns: int
    fingerprint: str = ""
