"""Match: whether a row of the memory store is what a query asks for."""

from evalspan_collector.records import OutcomeName, OutcomeRecord, RunSummary, ScoreRecord
from evalspan_collector.store.contract import RunQuery

__all__ = ["wanted_outcome", "wanted_run", "wanted_score", "within"]


def within(value: int, since: int | None, until: int | None) -> bool:
    """True from `since` on and before `until`, as far as they are given."""
    return (since is None or value >= since) and (until is None or value < until)


def wanted_run(run: RunSummary, query: RunQuery) -> bool:
    """True when the query asks for this run; what it says of scores is not looked at."""
    exact = ("project", "agent", "status", "state", "session_id", "user_id", "service", "environment")
    if any(getattr(query, name) not in (None, getattr(run, name)) for name in exact):
        return False
    listed = ((query.model, run.models), (query.tool, run.tool_names), (query.flag, run.flags))
    if any(value is not None and value not in values for value, values in listed):
        return False
    if query.text is not None:
        needle = query.text.lower()
        if not any(needle in (text or "").lower() for text in (run.input, run.output, run.error)):
            return False
    before = query.before is None or (run.started_ns, run.run_id) < query.before
    return before and within(run.started_ns, query.since_ns, query.until_ns)


def wanted_score(score: ScoreRecord, query: RunQuery) -> bool:
    """True when a score fits what a query of runs says of scores."""
    return (
        query.metric in (None, score.metric)
        and (query.passed is None or score.passed is query.passed)
        and (query.max_score is None or (score.value is not None and score.value <= query.max_score))
    )


def wanted_outcome(outcome: OutcomeRecord, name: OutcomeName | None, before: tuple[int, str] | None) -> bool:
    """True for an outcome of this name that comes, newest first, after this time and run."""
    follows = before is None or (-outcome.created_ns, outcome.run_id) > (-before[0], before[1])
    return follows and name in (None, outcome.outcome)
