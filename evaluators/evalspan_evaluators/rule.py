"""Rule: which runs are scored, which share of them, by which metrics, against which expectations."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run
from evalspan_evaluators.case import Expected
from evalspan_evaluators.metric import JudgeMetric, Metric, needs_judge, version_of

__all__ = ["DEFAULT_BACKFILL_S", "Filters", "Rule", "RulePreview", "is_sampled", "preview"]

#: How far back a rule looks for runs it has not seen, in seconds: a worker that was off for a week catches up.
DEFAULT_BACKFILL_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which runs a rule is for; an empty field lets every run through, all set fields must match.

    Attributes:
        agents: Names of the run's top-level agent; `*` and `?` match as in file names.
        services: Service names, likewise.
        environments: Deployment environments, likewise.
        status: `ok` or `error`.
        tags: The run carries at least one of these tags.
        flags: The run has at least one of these flags.
        without_flags: The run has none of these flags, such as `incomplete`.
    """

    agents: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    status: Literal["ok", "error"] | None = None
    tags: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    without_flags: tuple[str, ...] = ()

    def mismatch(self, run: RunSummary | Run) -> str | None:
        """Why this run is not for the rule; None when it is.

        A summary knows no tags: they are compared once the run itself is at hand.
        """
        for what, wanted, value in (
            ("agent", self.agents, run.agent),
            ("service", self.services, run.service),
            ("environment", self.environments, run.environment),
        ):
            if wanted and not any(fnmatchcase(value or "", pattern) for pattern in wanted):
                return f"{what} {value!r} is none of {', '.join(wanted)}"
        if self.status is not None and run.status != self.status:
            return f"status {run.status!r} is not {self.status!r}"
        return self._flag_mismatch(run.flags) or (self._tag_mismatch(run.tags) if isinstance(run, Run) else None)

    def _flag_mismatch(self, flags: Sequence[str]) -> str | None:
        if self.flags and not set(self.flags) & set(flags):
            return f"has none of the flags {', '.join(self.flags)}"
        unwanted = [flag for flag in self.without_flags if flag in flags]
        return f"has the flag {unwanted[0]!r}" if unwanted else None

    def _tag_mismatch(self, tags: Sequence[str]) -> str | None:
        if self.tags and not set(self.tags) & set(tags):
            return f"has none of the tags {', '.join(self.tags)}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One online evaluation.

    Attributes:
        sample: Share of the matching runs that is scored, 0 to 1, chosen by run id.
        expected: What every matching run should look like.
        max_usd_per_day: Cap on the judge's spending for this rule, US dollars per UTC day; None for no own cap.
        backfill_s: Runs last written longer ago than this are left alone, seconds.
    """

    name: str
    metrics: tuple[Metric | JudgeMetric, ...]
    project: str = "default"
    filters: Filters = Filters()
    sample: float = 1.0
    expected: Expected = field(default_factory=Expected)
    max_usd_per_day: float | None = None
    backfill_s: float = DEFAULT_BACKFILL_S

    @property
    def asks_judge(self) -> bool:
        """At least one metric asks a judge."""
        return any(needs_judge(metric) for metric in self.metrics)

    @property
    def version(self) -> str:
        """Twelve hex digits that change when the rule would treat some run differently.

        The spending cap and the backfill are left out: they decide when, not how, a run is scored.
        """
        parts = [
            self.name,
            self.project,
            asdict(self.filters),
            self.sample,
            asdict(self.expected),
            [(m.name, version_of(m)) for m in self.metrics],
        ]
        text = json.dumps(parts, sort_keys=True, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePreview:
    """What a rule would do with stored runs.

    Attributes:
        runs: Runs looked at.
        matched: Of them, those the rule would score.
        reasons: Why others were filtered, with their number, most frequent first.
    """

    runs: int
    matched: int
    filtered: int
    sampled_out: int
    reasons: tuple[tuple[str, int], ...] = ()


def is_sampled(run_id: str, share: float) -> bool:
    """True for the same `share` of run ids in every process, on every machine, for ever.

    Only the run id decides, so a rule with the smaller share scores a part of what a rule with the
    larger one scores, and their scores can be compared run by run.
    """
    if share >= 1.0:
        return True
    digest = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def preview(rule: Rule, runs: Sequence[RunSummary]) -> RulePreview:
    """How many of these runs the rule would score; tags are not known here and count as matching."""
    reasons: dict[str, int] = {}
    sampled_out = 0
    for run in runs:
        reason = rule.filters.mismatch(run)
        if reason is not None:
            reasons[reason] = reasons.get(reason, 0) + 1
        elif not is_sampled(run.run_id, rule.sample):
            sampled_out += 1
    filtered = sum(reasons.values())
    return RulePreview(
        runs=len(runs),
        matched=len(runs) - filtered - sampled_out,
        filtered=filtered,
        sampled_out=sampled_out,
        reasons=tuple(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
    )
