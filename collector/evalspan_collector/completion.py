"""Completion: when a run is closed, and what changed when it is assembled again; pure rules, no clock."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import orjson

from evalspan_collector.run import Run

__all__ = [
    "RunFacts",
    "Timing",
    "changed_fields",
    "closes_at_ns",
    "facts_of",
    "is_closed",
    "revise",
    "run_fingerprint",
    "withdrawn",
]

_SECOND = 1_000_000_000
#: Fields that say when and how often a run was looked at, not what it is.
_BOOKKEEPING = frozenset({"revision", "state", "first_received_ns", "last_received_ns", "provenance", "fingerprint"})
_CONTENT = tuple(field.name for field in fields(Run) if field.name not in _BOOKKEEPING)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What closing depends on.

    Attributes:
        root_ended: The run's own root span was received, and a span is sent when it ends.
        calls_answered: Every tool call of the last model answer has its result.
        first_received_ns: When the first span of the run reached the collector, by the collector's clock.
        last_received_ns: When the newest did.
    """

    root_ended: bool
    calls_answered: bool
    first_received_ns: int
    last_received_ns: int


@dataclass(frozen=True, slots=True)
class Timing:
    """How long to wait for late spans, in seconds.

    Attributes:
        grace_s: Quiet time after the root ended: one export cycle of another process (5 s) and its retry.
        quick_grace_s: The same when every tool call has its result.
        idle_s: Quiet time when the root never came; the run closes as incomplete.
        cap_s: Longest life of an open run since its first span.
    """

    grace_s: float = 10.0
    quick_grace_s: float = 2.0
    idle_s: float = 60.0
    cap_s: float = 3600.0


def facts_of(run: Run) -> RunFacts:
    """The facts of a run that closing depends on."""
    return RunFacts(
        root_ended="incomplete" not in run.flags,
        calls_answered=run.waiting_calls == 0 and "orphans" not in run.flags,
        first_received_ns=run.first_received_ns,
        last_received_ns=run.last_received_ns,
    )


def closes_at_ns(facts: RunFacts, timing: Timing = Timing()) -> int:
    """The moment, by the collector's clock, at which the run closes if nothing more of it arrives."""
    if not facts.root_ended:
        quiet = timing.idle_s
    elif facts.calls_answered:
        quiet = timing.quick_grace_s
    else:
        quiet = timing.grace_s
    cap = facts.first_received_ns + int(timing.cap_s * _SECOND)
    return min(facts.last_received_ns + int(quiet * _SECOND), cap)


def is_closed(facts: RunFacts, now_ns: int, timing: Timing = Timing()) -> bool:
    """True when the run takes no more waiting."""
    return now_ns >= closes_at_ns(facts, timing)


def run_fingerprint(run: Run) -> str:
    """A hash of everything a reader of the run can see; equal for re-assemblies that changed nothing."""
    content = [getattr(run, name) for name in _CONTENT]
    return hashlib.sha256(_canonical(content)).hexdigest()[:32]


def _canonical(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=repr, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except (TypeError, orjson.JSONEncodeError):
        pass  # integers beyond 64 bits, lone surrogates
    return json.dumps(value, sort_keys=True, default=_plain, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return repr(value)


def changed_fields(old: Run, new: Run) -> frozenset[str]:
    """Names of the fields of `Run` that differ: only what reads one of them need be scored again."""
    return frozenset(
        f.name for f in fields(new) if f.name not in _BOOKKEEPING and getattr(old, f.name) != getattr(new, f.name)
    )


def revise(old: Run | None, new: Run, *, closed: bool) -> Run:
    """The run with its revision and state.

    A run is `open` until it closes, then `closed`; once something changed after closing it is `amended`, with the
    next revision. A re-assembly that changed nothing keeps the old revision and state.

    Args:
        old: The run as stored, None the first time.
        new: The run as assembled now.
        closed: Whether the completion rules say it is closed now.
    """
    if old is None:
        return replace(new, revision=1, state="closed" if closed else "open")
    if old.state in ("open", "withdrawn"):
        revision = old.revision + 1 if old.state == "withdrawn" else old.revision
        return replace(new, revision=revision, state="closed" if closed else "open")
    if (old.fingerprint or run_fingerprint(old)) == run_fingerprint(new):
        return replace(new, revision=old.revision, state=old.state)
    return replace(new, revision=old.revision + 1, state="amended")


def withdrawn(old: Iterable[Run], new: Iterable[Run]) -> tuple[Run, ...]:
    """Tombstones for the runs that a re-assembly no longer finds, because a late span gave them another root."""
    alive = {run.run_id for run in new}
    return tuple(
        replace(run, revision=run.revision + 1, state="withdrawn")
        for run in old
        if run.run_id not in alive and run.state != "withdrawn"
    )
