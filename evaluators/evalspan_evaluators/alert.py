"""Alert: a condition over an aggregate in a window, as a pure state machine, and the loop that runs it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evalspan_collector.records import Aggregate, AlertState, AlertStateName
from evalspan_collector.store.contract import AggregateQuery, Store

__all__ = [
    "AlertRule",
    "BackTest",
    "NoDataPolicy",
    "Transition",
    "backtest",
    "evaluate",
    "judged_value",
    "read_windows",
    "wilson_interval",
    "window_query",
]

AlertOf = Literal["score", "pass_rate", "cost", "latency", "error_rate", "runs", "tokens"]
AggregateName = Literal["avg", "min", "max", "sum", "p50", "p90", "p95", "p99"]
NoDataPolicy = Literal["keep", "resolve", "fire"]

_NS = 1_000_000_000
#: Rates: shares of a known number of runs, for which a confidence bound exists.
_RATES = ("pass_rate", "error_rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """When somebody should be told.

    Attributes:
        of: What is watched; `score` and `pass_rate` need `metric`.
        window_s: Length of one window, seconds; it ends now.
        below: Breached when the value is smaller; exactly one of `below` and `above` is set.
        above: Breached when the value is larger.
        min_sample: With fewer runs (or scores) in a window it says nothing.
        windows: Consecutive windows that are looked at, the newest ends now.
        breaches: Of those, how many must be breached to fire.
        for_s: The condition must hold this long before it fires, seconds.
        confidence: For rates: fire only when the Wilson bound at this confidence is on the wrong side, such as 0.95.
        renotify_s: Tell again after this long while it still fires, seconds; None tells once.
        no_data: What too small a sample does to a firing alert: `keep` it firing, `resolve` it; `fire` also
            makes a quiet one fire.
        channels: Names of the channels that are told.
    """

    name: str
    of: AlertOf
    project: str = "default"
    metric: str | None = None
    aggregate: AggregateName = "avg"
    agent: str | None = None
    environment: str | None = None
    window_s: float = 3600.0
    below: float | None = None
    above: float | None = None
    min_sample: int = 1
    windows: int = 1
    breaches: int = 1
    for_s: float = 0.0
    confidence: float | None = None
    renotify_s: float | None = None
    no_data: NoDataPolicy = "keep"
    channels: tuple[str, ...] = ()

    @property
    def threshold(self) -> float:
        """The number the value is compared with."""
        return self.below if self.below is not None else self.above if self.above is not None else math.nan

    @property
    def condition(self) -> str:
        """The condition in words, such as `pass_rate of grounding below 0.8 over 1h`."""
        what = self.of if self.of in {*_RATES, "runs"} else f"{self.aggregate} {self.of}"
        metric = f" of {self.metric}" if self.metric else ""
        agent = f" for agent {self.agent}" if self.agent else ""
        side = "below" if self.below is not None else "above"
        return f"{what}{metric}{agent} {side} {self.threshold:g} over {_span_text(self.window_s)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What one evaluation of an alert came to.

    Attributes:
        state: The state to store; its notification fields are those of before.
        changed: The state's name is another than before.
        notify: `firing` or `resolved` must be told to the channels now; None for silence.
        reason: The condition, the value and the sample in words.
        worst_run_ids: Runs that pulled the newest window's value the wrong way, worst first.
    """

    state: AlertState
    changed: bool
    notify: Literal["firing", "resolved"] | None
    reason: str
    worst_run_ids: tuple[str, ...] = ()


def wilson_interval(successes: float, sample: int, confidence: float) -> tuple[float, float]:
    """Wilson score interval of a rate (E. B. Wilson, 1927): honest for small samples and near 0 and 1.

    Raises:
        ValueError: The sample is not positive, or the confidence not inside 0..1.
    """
    if sample <= 0 or not 0.0 < confidence < 1.0:
        raise ValueError(f"sample {sample!r} must be positive and confidence {confidence!r} between 0 and 1")
    from statistics import NormalDist

    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / sample
    denominator = 1 + z * z / sample
    centre = (rate + z * z / (2 * sample)) / denominator
    margin = z * math.sqrt(rate * (1 - rate) / sample + z * z / (4 * sample * sample)) / denominator
    return max(0.0, centre - margin), min(1.0, centre + margin)


def judged_value(rule: AlertRule, aggregate: Aggregate) -> float | None:
    """The number that is compared: the value, or for a rate with a confidence its cautious bound.

    None when the sample is too small to say anything.
    """
    if rule.of == "runs":  # No run at all is a number too: the one a watch for silence waits for.
        return aggregate.value or 0.0
    if aggregate.value is None or aggregate.sample < rule.min_sample:
        return None
    if rule.confidence is None or rule.of not in _RATES or aggregate.sample <= 0:
        return aggregate.value
    successes = aggregate.value * aggregate.sample if aggregate.passed is None else float(aggregate.passed)
    low, high = wilson_interval(min(max(successes, 0.0), aggregate.sample), aggregate.sample, rule.confidence)
    return high if rule.below is not None else low


def evaluate(rule: AlertRule, windows: Sequence[Aggregate], previous: AlertState | None, now_ns: int) -> Transition:
    """The next state of an alert; pure, so that a back-test and the live loop agree.

    Args:
        rule: The alert.
        windows: The aggregates of its windows, the newest first; at least one.
        previous: Where it stood; None at the first evaluation.
        now_ns: Nanoseconds since the epoch.
    """
    values = [judged_value(rule, window) for window in windows]
    breached = sum(_is_breach(rule, value) for value in values)
    name = _next_name(rule, values, breached, previous, now_ns)
    before = previous.state if previous else None
    since = previous.since_ns if previous and before == name else now_ns
    state = AlertState(
        project=rule.project,
        alert=rule.name,
        state=name,
        since_ns=since,
        updated_ns=now_ns,
        value=windows[0].value,
        sample=windows[0].sample,
        breaches=breached,
        last_notified_ns=previous.last_notified_ns if previous else 0,
        notified_state=previous.notified_state if previous else None,
    )
    return Transition(
        state=state,
        changed=before != name,
        notify=_notification(rule, state, now_ns),
        reason=_reason(rule, state),
        worst_run_ids=windows[0].worst_run_ids,
    )


def _is_breach(rule: AlertRule, value: float | None) -> bool:
    if value is None:
        return False
    return value < rule.below if rule.below is not None else value > rule.threshold


def _next_name(
    rule: AlertRule, values: Sequence[float | None], breached: int, previous: AlertState | None, now_ns: int
) -> AlertStateName:
    before = previous.state if previous else "ok"
    if breached >= rule.breaches:
        return _breached(rule, previous, now_ns)
    if values[0] is None:
        if rule.no_data == "fire":
            return _breached(rule, previous, now_ns)
        if before == "firing":
            return "firing" if rule.no_data == "keep" else "resolved"
        return "no_data"
    if before == "firing":
        return "resolved"
    return "pending" if breached else "ok"


def _breached(rule: AlertRule, previous: AlertState | None, now_ns: int) -> AlertStateName:
    """Firing, or pending until the condition has held for `for_s`."""
    if rule.for_s <= 0 or (previous and previous.state == "firing"):
        return "firing"
    held_ns = now_ns - previous.since_ns if previous and previous.state == "pending" else 0
    return "firing" if held_ns >= rule.for_s * _NS else "pending"


def _notification(rule: AlertRule, state: AlertState, now_ns: int) -> Literal["firing", "resolved"] | None:
    if state.state == "firing":
        if state.notified_state != "firing":
            return "firing"
        due = rule.renotify_s is not None and now_ns - state.last_notified_ns >= rule.renotify_s * _NS
        return "firing" if due else None
    # Whoever was told of the fire is told of its end, whatever came between; nobody else is.
    return "resolved" if state.notified_state == "firing" else None


def _reason(rule: AlertRule, state: AlertState) -> str:
    if rule.of == "runs":
        return f"{rule.condition}: is {state.value or 0:g}"
    if state.value is None or state.sample < rule.min_sample:
        return f"{rule.condition}: {state.sample} in the window, needs {rule.min_sample}"
    bound = f", {rule.confidence:g} confidence" if rule.confidence is not None and rule.of in _RATES else ""
    several = f", {state.breaches} of {rule.windows} windows" if rule.windows > 1 else ""
    return f"{rule.condition}: is {state.value:.6g} over {state.sample}{bound}{several}"


def window_query(rule: AlertRule, now_ns: int, index: int = 0) -> AggregateQuery:
    """The query of the window that ended `index` windows ago."""
    length = int(rule.window_s * _NS)
    until = now_ns - index * length
    return AggregateQuery(
        project=rule.project,
        of=rule.of,
        aggregate=rule.aggregate,
        metric=rule.metric,
        agent=rule.agent,
        environment=rule.environment,
        since_ns=max(0, until - length),
        until_ns=until,
    )


def read_windows(store: Store, rule: AlertRule, now_ns: int) -> list[Aggregate]:
    """The aggregates of the alert's windows, newest first."""
    return [store.aggregate(window_query(rule, now_ns, index)) for index in range(rule.windows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTest:
    """What an alert would have done in the past.

    Attributes:
        evaluations: How often it was evaluated.
        fired: How often it would have started to fire.
        notifications: How many messages its channels would have got, re-notifications and ends included.
        firing_share: Share of the evaluations at which it was firing.
        no_data_share: Share of the evaluations at which the sample was too small.
        transitions: (time in ns, new state, reason) of each change of state.
    """

    evaluations: int
    fired: int
    resolved: int
    notifications: int
    firing_share: float
    no_data_share: float
    transitions: tuple[tuple[int, AlertStateName, str], ...] = ()


def backtest(store: Store, rule: AlertRule, *, since_ns: int, until_ns: int, step_s: float | None = None) -> BackTest:
    """Replay an alert over stored runs, as if it had been evaluated every `step_s` seconds.

    Scores are taken as they stand today, also those that came late; `step_s` is a tenth of the window if not given.

    Raises:
        ValueError: The period is empty or the step not positive.
    """
    step = int((step_s if step_s is not None else rule.window_s / 10) * _NS)
    if step <= 0 or until_ns < since_ns:
        raise ValueError(f"step {step_s!r} s must be positive and the period {since_ns!r}..{until_ns!r} not reversed")
    state: AlertState | None = None
    names: list[AlertStateName] = []
    transitions: list[tuple[int, AlertStateName, str]] = []
    notifications = 0
    for now in range(since_ns, until_ns + 1, step):
        transition = evaluate(rule, read_windows(store, rule, now), state, now)
        state = transition.state
        if transition.notify is not None:
            notifications += 1
            state = replace(state, notified_state=transition.notify, last_notified_ns=now)
        if transition.changed:
            transitions.append((now, state.state, transition.reason))
        names.append(state.state)
    return BackTest(
        evaluations=len(names),
        fired=sum(name == "firing" for _, name, _ in transitions),
        resolved=sum(name == "resolved" for _, name, _ in transitions),
        notifications=notifications,
        firing_share=names.count("firing") / len(names),
        no_data_share=names.count("no_data") / len(names),
        transitions=tuple(transitions),
    )


def _span_text(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g}{unit}"
    return f"{seconds:g}s"
