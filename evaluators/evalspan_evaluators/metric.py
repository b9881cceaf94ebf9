"""Metric: a named way to score a case, and the registry that finds it by name."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeGuard, cast, get_type_hints, runtime_checkable

from evalspan.errors import ConfigError, JudgeError
from evalspan_evaluators.case import Case
from evalspan_evaluators.judge import Judge
from evalspan_evaluators.parameters import kind_problem
from evalspan_evaluators.score import DEFAULT_THRESHOLD, JudgeUsage, Score

__all__ = [
    "JudgeMetric",
    "Metric",
    "MetricBase",
    "available",
    "create",
    "evaluate_metric",
    "evaluate_metric_async",
    "missing_fields",
    "needs_judge",
    "threshold_of",
    "version_of",
]

#: Versions by identity: a metric may hold a mapping and so have no hash. The metric is kept beside its version,
#: so an id cannot be taken over by another object.
_VERSIONS: dict[int, tuple[object, str]] = {}
_VERSIONS_KEPT = 1024


@runtime_checkable
class Metric(Protocol):
    """A frozen dataclass whose fields are its parameters and whose `evaluate` is pure."""

    #: Name in YAML, scores and screens.
    name: ClassVar[str]
    #: Case fields that must be there; else the score is not applicable (`expected.tools` reaches inside).
    requires: ClassVar[tuple[str, ...]]
    #: Threshold of this metric when nobody sets one.
    default_threshold: ClassVar[float | None]

    @property
    def threshold(self) -> float | None:
        """Threshold set on this instance, None for the default."""
        ...

    def evaluate(self, case: Case) -> Score:
        """Score one case; must not keep anything."""
        ...


@runtime_checkable
class JudgeMetric(Protocol):
    """A metric that asks a judge; otherwise like `Metric`."""

    name: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    default_threshold: ClassVar[float | None]

    @property
    def threshold(self) -> float | None:
        """Threshold set on this instance, None for the default."""
        ...

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        """Score one case by the judge's verdict."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricBase:
    """What every metric shares: an optional threshold and helpers that fill in its name.

    Attributes:
        threshold: Value that passes, 0 to 1; None takes the metric's default.
    """

    name: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ()
    default_threshold: ClassVar[float | None] = None

    threshold: float | None = None

    def score(self, value: float, reason: str, **fields_: Any) -> Score:
        """A score of this metric against its threshold."""
        threshold = threshold_of(self)
        return Score(
            metric=self.name, value=value, threshold=threshold, passed=value >= threshold, reason=reason, **fields_
        )

    def skip(self, reason: str, **fields_: Any) -> Score:
        """Not applicable, and why."""
        return Score.skipped(self.name, reason, threshold=threshold_of(self), **fields_)

    def fail(self, error: str, **fields_: Any) -> Score:
        """An error, and why."""
        return Score.failed(self.name, error, threshold=threshold_of(self), **fields_)


def threshold_of(metric: Metric | JudgeMetric | MetricBase, *, use: float | None = None) -> float:
    """Precedence: constructor, then per use (marker, YAML), then metric default, then 0.7."""
    if metric.threshold is not None:
        return metric.threshold
    if use is not None:
        return use
    return DEFAULT_THRESHOLD if metric.default_threshold is None else metric.default_threshold


def version_of(metric: Metric | JudgeMetric) -> str:
    """Twelve hex digits that change when the metric's name, code version or parameters change.

    Metrics are frozen, so the answer of one instance never changes and is remembered: hashing it anew would
    cost more than most metrics do.
    """
    known = _VERSIONS.get(id(metric))
    if known is not None and known[0] is metric:
        return known[1]
    as_any: Any = metric  # the protocol does not say so, but built-in metrics are dataclasses
    parameters: dict[str, Any] = {}
    if is_dataclass(as_any):
        parameters = {f.name: getattr(as_any, f.name) for f in fields(as_any)}
    code = getattr(type(metric), "code_version", 1)
    text = json.dumps([metric.name, code, parameters], sort_keys=True, default=repr)
    version = hashlib.sha256(text.encode()).hexdigest()[:12]
    if len(_VERSIONS) >= _VERSIONS_KEPT:
        _VERSIONS.clear()
    _VERSIONS[id(metric)] = (metric, version)
    return version


def missing_fields(requires: tuple[str, ...], case: Case) -> list[str]:
    """The required case fields that are not there: None, or an empty text."""
    missing: list[str] = []
    for path in requires:
        value = _reader(path)(case)
        if value is None or (isinstance(value, str) and not value.strip()):
            missing.append(path)
    return missing


@lru_cache(maxsize=256)
def _reader(path: str) -> Callable[[Case], Any]:
    return attrgetter(path)


def _finish(metric: Metric | JudgeMetric, score: Score, started: float) -> Score:
    return score.stamped(version_of(metric), time.perf_counter() - started)


def _missing(metric: Metric | JudgeMetric, case: Case) -> Score | None:
    missing = missing_fields(metric.requires, case)
    if not missing:
        return None
    return Score.skipped(metric.name, f"needs {', '.join(missing)}", threshold=threshold_of(metric))


def evaluate_metric(metric: Metric | JudgeMetric, case: Case) -> Score:
    """Run a metric that needs no judge; whatever goes wrong inside becomes an error score, so does a judge metric."""
    started = time.perf_counter()
    if needs_judge(metric):
        error = f"metric {metric.name!r} asks a judge: evaluate it with evaluate_metric_async"
        return _finish(metric, Score.failed(metric.name, error, threshold=threshold_of(metric)), started)
    try:
        score = _missing(metric, case) or cast("Metric", metric).evaluate(case)
    except Exception as error:  # noqa: BLE001  per-metric boundary: one broken metric must not stop the others
        score = Score.failed(metric.name, f"{type(error).__name__}: {error}", threshold=threshold_of(metric))
    return _finish(metric, score, started)


async def evaluate_metric_async(metric: Metric | JudgeMetric, case: Case, judge: Judge | None) -> Score:
    """Run any metric; a judge metric without a judge is an error, not a pass."""
    if not needs_judge(metric):
        return evaluate_metric(metric, case)
    started = time.perf_counter()
    try:
        if judge is None:
            score = Score.failed(metric.name, "no judge is configured: set judge in evalspan.yaml or ANTHROPIC_API_KEY")
        else:
            score = _missing(metric, case) or await metric.evaluate_with(case, judge)
    except JudgeError as error:
        usage = error.usage if isinstance(error.usage, JudgeUsage) else None
        score = Score.failed(metric.name, str(error), threshold=threshold_of(metric), judge=usage)
    except Exception as error:  # noqa: BLE001  per-metric boundary: one broken metric must not stop the others
        score = Score.failed(metric.name, f"{type(error).__name__}: {error}", threshold=threshold_of(metric))
    return _finish(metric, score, started)


def needs_judge(metric: Metric | JudgeMetric) -> TypeGuard[JudgeMetric]:
    """Whether this metric asks a judge; cheaper than `isinstance` against a protocol."""
    return hasattr(type(metric), "evaluate_with")


def available() -> dict[str, type[Metric | JudgeMetric]]:
    """Every metric by name: the built-in ones, then those of the entry point group `evalspan.metrics`."""
    from evalspan_evaluators.builtin import BUILTIN

    found: dict[str, type[Metric | JudgeMetric]] = dict(BUILTIN)
    for entry in entry_points(group="evalspan.metrics"):
        if entry.name not in found:
            found[entry.name] = entry.load()
    return found


def create(name: str, parameters: Mapping[str, Any] | None = None) -> Metric | JudgeMetric:
    """The metric of this name with these parameters.

    Raises:
        ConfigError: The name is unknown, a parameter is unknown, missing or of the wrong kind.
    """
    from evalspan_evaluators.builtin import BUILTIN

    # The built-in ones first: reading the entry points of all installed packages takes milliseconds.
    metrics = BUILTIN if name in BUILTIN else available()
    if name not in metrics:
        near = get_close_matches(name, metrics, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(sorted(metrics))}"
        raise ConfigError(f"unknown metric {name!r}: {hint}")
    cls = metrics[name]
    given = dict(parameters or {})
    known = {f.name: f for f in fields(cast("Any", cls))}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"metric {name!r} has no parameter {unknown[0]!r}: one of {', '.join(sorted(known))}")
    needed = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING and n not in given]
    if needed:
        raise ConfigError(f"metric {name!r} needs the parameter {needed[0]!r}")
    threshold = given.get("threshold")
    if threshold is not None and not _is_share(threshold):
        raise ConfigError(f"threshold of metric {name!r} is {threshold!r}: a number between 0 and 1")
    frozen = {key: _frozen(value) for key, value in given.items()}
    for key, value in frozen.items():
        problem = kind_problem(_hints(cls)[key], value)
        if problem:
            raise ConfigError(f"parameter {key!r} of metric {name!r} is {value!r}: {problem}")
    make = cast("Callable[..., Metric | JudgeMetric]", cls)
    try:
        return make(**frozen)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"metric {name!r}: {error}") from error


@lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _is_share(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0.0 <= value <= 1.0
    )


def _frozen(value: Any) -> Any:
    """Lists of YAML become tuples, so that metrics stay hashable."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in cast("list[Any]", value))
    return value
