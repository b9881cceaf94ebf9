"""Baseline: what a case did when it was right, and how a later run differs from it."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal

from evalspan.errors import InputError
from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import is_list, is_object
from evalspan_evaluators.statistics import PairedTest, mcnemar, paired_permutation

__all__ = [
    "Baseline",
    "CaseDiff",
    "ChangedArgument",
    "DiffLimits",
    "DiffState",
    "Divergence",
    "PairedComparison",
    "ToolStep",
    "compare_paired",
    "diff",
    "read_baselines",
    "write_baselines",
]

DiffState = Literal["passed", "tools_changed", "output_changed", "contract_drift", "regression"]

_FORMAT = 1
#: Words of an output that are compared; comparing is quadratic in the worst case.
_MOST_WORDS = 2000
_MOST_STEPS = 1000
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStep:
    """One tool call of a baseline: enough to compare, without its result."""

    name: str
    arguments: Any = None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a case did and how it scored.

    Attributes:
        score: Overall score, 0 to 100; None when it had none.
        scores: Metric to value, 0 to 1.
        tools: Its tool calls; None when it is unknown which tools ran.
        contract: Tool name to the JSON text of its parameters, as the model was offered them; None when unknown.
    """

    name: str
    passed: bool
    score: float | None = None
    scores: Mapping[str, float]
    tools: tuple[ToolStep, ...] | None = None
    output: str | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    contract: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls,
        case: Case,
        *,
        name: str,
        passed: bool,
        score: float | None = None,
        scores: Mapping[str, float] | None = None,
    ) -> "Baseline":
        """The baseline of a case that was evaluated."""
        tools = None
        if case.tools is not None:
            tools = tuple(ToolStep(name=t.name, arguments=t.arguments, failed=t.failed) for t in case.tools)
        contract = None
        if case.tool_definitions is not None:
            contract = {d.name: json.dumps(d.parameters, sort_keys=True, default=str) for d in case.tool_definitions}
        return cls(
            name=name,
            passed=passed,
            score=score,
            scores=dict(scores or {}),
            tools=tools,
            output=case.output,
            cost_usd=case.cost_usd,
            latency_s=case.duration_s,
            contract=contract,
        )

    def to_json(self) -> dict[str, Any]:
        """One entry of a baseline file."""
        tools = None
        if self.tools is not None:
            tools = [{"name": t.name, "arguments": t.arguments, "failed": t.failed} for t in self.tools]
        return {
            "passed": self.passed,
            "score": self.score,
            "scores": dict(self.scores),
            "tools": tools,
            "output": self.output,
            "cost_usd": self.cost_usd,
            "latency_s": self.latency_s,
            "contract": None if self.contract is None else dict(self.contract),
        }

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> "Baseline":
        """Read one entry of a baseline file."""
        tools = data.get("tools")
        return cls(
            name=name,
            passed=bool(data["passed"]),
            score=data.get("score"),
            scores=dict(data.get("scores") or {}),
            tools=None if tools is None else tuple(ToolStep(**step) for step in tools),
            output=data.get("output"),
            cost_usd=data.get("cost_usd"),
            latency_s=data.get("latency_s"),
            contract=data.get("contract"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLimits:
    """What counts as a change.

    Attributes:
        score_drop: Points of the overall score (0 to 100) that may be lost; more is a regression.
        tool_similarity: Least similarity of the tool sequences, 0 to 1.
        output_similarity: Least similarity of the outputs, 0 to 1.
    """

    score_drop: float = 5.0
    tool_similarity: float = 0.8
    output_similarity: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first step at which two runs part.

    Attributes:
        step: Position of the tool call, from 1.
        before: Tool of the baseline; None when it had made no further call.
        after: Tool of the run; likewise.
        kind: Another tool, the same with other arguments, or the same that now fails or no longer does.
    """

    step: int
    before: str | None
    after: str | None
    kind: Literal["tool", "arguments", "outcome"]

    def __str__(self) -> str:
        if self.kind == "arguments":
            return f"step {self.step}: {self.after!r} got other arguments"
        if self.kind == "outcome":
            return f"step {self.step}: {self.after!r} failed in one of the two"
        before = repr(self.before) if self.before is not None else "no further call"
        after = repr(self.after) if self.after is not None else "no further call"
        return f"step {self.step}: {before} before, {after} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedArgument:
    """One argument of the same call that has another value; None stands for absent as well as for null."""

    step: int
    tool: str
    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDiff:
    """How a run differs from its baseline; a delta is after - before, None when one of the two is unknown."""

    name: str
    state: DiffState
    reason: str
    score_delta: float | None = None
    cost_delta_usd: float | None = None
    latency_delta_s: float | None = None
    tool_similarity: float | None = None
    output_similarity: float | None = None
    first_divergence: Divergence | None = None
    changed_arguments: tuple[ChangedArgument, ...] = ()

    @property
    def regressed(self) -> bool:
        """The case got worse, not merely different."""
        return self.state == "regression"

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        first = self.first_divergence
        return {
            "name": self.name,
            "state": self.state,
            "reason": self.reason,
            "score_delta": self.score_delta,
            "cost_delta_usd": self.cost_delta_usd,
            "latency_delta_s": self.latency_delta_s,
            "tool_similarity": self.tool_similarity,
            "output_similarity": self.output_similarity,
            "first_divergence": None
            if first is None
            else {"step": first.step, "before": first.before, "after": first.after, "kind": first.kind},
            "changed_arguments": [
                {"step": c.step, "tool": c.tool, "path": c.path, "before": c.before, "after": c.after}
                for c in self.changed_arguments
            ],
        }


def diff(before: Baseline, after: Baseline, *, limits: DiffLimits | None = None) -> CaseDiff:
    """Compare a run with its baseline.

    The state is the gravest that holds: `regression` (it passed and no longer does, or lost more points than allowed),
    `contract_drift` (the tools it was offered changed), `tools_changed`, `output_changed`, `passed`.
    """
    bounds = limits or DiffLimits()
    tools = _tool_similarity(before, after)
    output = _output_similarity(before.output, after.output)
    score = _delta(before.score, after.score)
    steps = (before.tools or (), after.tools or ())
    state, reason = _state(before, after, bounds, (tools, output, score))
    return CaseDiff(
        name=after.name,
        state=state,
        reason=reason,
        score_delta=score,
        cost_delta_usd=_delta(before.cost_usd, after.cost_usd),
        latency_delta_s=_delta(before.latency_s, after.latency_s),
        tool_similarity=tools,
        output_similarity=output,
        first_divergence=_first_divergence(*steps),
        changed_arguments=tuple(_changed_arguments(*steps)),
    )


def _state(
    before: Baseline, after: Baseline, limits: DiffLimits, found: tuple[float | None, float | None, float | None]
) -> tuple[DiffState, str]:
    tools, output, score = found
    if before.passed and not after.passed:
        return "regression", "it passed before and does not now"
    if score is not None and -score > limits.score_drop:
        return "regression", f"the score fell by {-score:.1f} points, more than {limits.score_drop:g}"
    drift = _drift(before.contract, after.contract)
    if drift:
        return "contract_drift", drift
    if tools is not None and tools < limits.tool_similarity:
        return "tools_changed", f"the tool calls are {tools:.0%} alike, less than {limits.tool_similarity:.0%}"
    if output is not None and output < limits.output_similarity:
        return "output_changed", f"the outputs are {output:.0%} alike, less than {limits.output_similarity:.0%}"
    return "passed", "like the baseline"


def _drift(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> str | None:
    if before is None or after is None:
        return None
    pieces = [f"tool {name!r} is no longer offered" for name in sorted(before.keys() - after.keys())]
    pieces += [f"tool {name!r} is new" for name in sorted(after.keys() - before.keys())]
    pieces += [
        f"tool {name!r} has other parameters"
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    ]
    return "; ".join(pieces[:5]) or None


def _delta(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _alike(before: Sequence[str], after: Sequence[str]) -> float:
    return SequenceMatcher(None, before, after, autojunk=False).ratio()


def _tool_similarity(before: Baseline, after: Baseline) -> float | None:
    if before.tools is None or after.tools is None:
        return None
    return _alike([t.name for t in before.tools[:_MOST_STEPS]], [t.name for t in after.tools[:_MOST_STEPS]])


def _output_similarity(before: str | None, after: str | None) -> float | None:
    if before is None or after is None:
        return None
    if before == after:
        return 1.0
    # autojunk bounds the cost: without it, two long texts that repeat one word would take minutes.
    return SequenceMatcher(None, before.split()[:_MOST_WORDS], after.split()[:_MOST_WORDS]).ratio()


def _first_divergence(before: Sequence[ToolStep], after: Sequence[ToolStep]) -> Divergence | None:
    for index in range(max(len(before), len(after))):
        old = before[index] if index < len(before) else None
        new = after[index] if index < len(after) else None
        names = {"before": old.name if old else None, "after": new.name if new else None}
        if old is None or new is None or old.name != new.name:
            return Divergence(step=index + 1, kind="tool", **names)
        if old.arguments != new.arguments:
            return Divergence(step=index + 1, kind="arguments", **names)
        if old.failed != new.failed:
            return Divergence(step=index + 1, kind="outcome", **names)
    return None


def _changed_arguments(before: Sequence[ToolStep], after: Sequence[ToolStep]) -> Iterable[ChangedArgument]:
    """Of the calls that stand for each other in both runs."""
    old, new = before[:_MOST_STEPS], after[:_MOST_STEPS]
    matcher = SequenceMatcher(None, [s.name for s in old], [s.name for s in new], autojunk=False)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            first, second = old[block.a + offset], new[block.b + offset]
            for path, was, now in _differences(first.arguments, second.arguments, "$", 0):
                yield ChangedArgument(
                    step=block.b + offset + 1, tool=second.name, path=path, before=_plain(was), after=_plain(now)
                )


def _plain(value: Any) -> Any:
    return None if value is _ABSENT else value


def _differences(before: Any, after: Any, path: str, depth: int) -> Iterable[tuple[str, Any, Any]]:
    if before == after and type(before) is type(after):
        return
    if depth < 20 and is_object(before) and is_object(after):
        for key in [*before, *(k for k in after if k not in before)]:
            yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}.{key}", depth + 1)
    elif depth < 20 and is_list(before) and is_list(after) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, f"{path}[{index}]", depth + 1)
    elif before != after:
        yield path, before, after


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """A whole suite against its baselines, on the cases both have.

    Attributes:
        scores: Permutation test of the overall scores; None when no case has a score in both.
        verdicts: McNemar's test of the verdicts.
    """

    scores: PairedTest | None
    verdicts: PairedTest


def compare_paired(before: Mapping[str, Baseline], after: Iterable[Baseline]) -> PairedComparison | None:
    """Whether the suite as a whole got better or worse; None when no case is in both."""
    pairs = [(before[b.name], b) for b in after if b.name in before]
    if not pairs:
        return None
    scored = [(a.score, b.score) for a, b in pairs if a.score is not None and b.score is not None]
    return PairedComparison(
        scores=paired_permutation([a for a, _ in scored], [b for _, b in scored]) if scored else None,
        verdicts=mcnemar([a.passed for a, _ in pairs], [b.passed for _, b in pairs]),
    )


def read_baselines(path: str | Path) -> dict[str, Baseline]:
    """Baselines by case name.

    Raises:
        InputError: The file cannot be read or is no baseline file.
    """
    path = Path(path)
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"cannot read the baseline {str(path)!r}: {error.strerror or error}; make it with --update-baseline"
        ) from error
    except ValueError as error:
        raise InputError(f"{path}: is no baseline file: {error}; make it anew with --update-baseline") from error
    if not is_object(data) or data.get("evalspan_baseline") != _FORMAT or not is_object(data.get("cases")):
        raise InputError(f"{path}: is no baseline file of this version: make it anew with --update-baseline")
    found: dict[str, Baseline] = {}
    for name, entry in data["cases"].items():
        try:
            found[name] = Baseline.from_json(name, entry)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: baseline {name!r} is damaged ({error!r}): make it anew") from error
    return found


def write_baselines(path: str | Path, baselines: Iterable[Baseline]) -> None:
    """Write baselines, those of other cases in the file kept; the file is replaced in one step."""
    path = Path(path)
    kept = read_baselines(path) if path.exists() else {}
    kept.update({b.name: b for b in baselines})
    data = {"evalspan_baseline": _FORMAT, "cases": {name: kept[name].to_json() for name in sorted(kept)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(data, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    draft.replace(path)
