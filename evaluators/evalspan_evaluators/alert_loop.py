"""Alert loop: evaluates alerts against the store, keeps their states there and tells their channels once."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import structlog

from evalspan.errors import EvalspanError
from evalspan_collector.records import AlertEvent, AlertState
from evalspan_collector.store.contract import ScoreQuery, Store
from evalspan_evaluators.alert import AlertRule, Transition, evaluate, read_windows
from evalspan_evaluators.channels import Channel, Notification, WorstRun, deliver

__all__ = ["AlertLoop", "Deliver"]

_log = structlog.get_logger(__name__)
_DAY_NS = 86_400_000_000_000
_WORST = 5

_Kind = Literal["firing", "resolved"]

#: Tells one channel; `channels.deliver` with its keyword arguments.
Deliver = Callable[[Channel, Notification, int], None]


@dataclass(slots=True)
class _Open:
    """A message some channels have not taken yet."""

    notification: Notification
    channels: list[str]


def _deliver(channel: Channel, notification: Notification, now_ns: int) -> None:
    deliver(channel, notification, now_ns=now_ns)


class AlertLoop:
    """Evaluates alerts, once per call of `tick`.

    A message goes out when an alert starts to fire, when it stops, and at its re-notify interval; a channel that
    fails is tried again at each tick for a day, the others are not told twice. State and events are in the
    store. A process that ends between telling a channel and writing that down tells it again after its restart,
    with the same `event_id`.

    Args:
        store: Aggregates, states and events.
        rules: The alerts.
        channels: By name; an alert's unknown channel is an event that says so.
        clock: Nanoseconds since the epoch.
        tell: Delivers.
        stopping: True once the process is to end: no further alert is looked at.
    """

    def __init__(
        self,
        store: Store,
        rules: Sequence[AlertRule],
        channels: Mapping[str, Channel],
        *,
        clock: Callable[[], int] = time.time_ns,
        tell: Deliver = _deliver,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._rules = rules
        self._channels = channels
        self._clock = clock
        self._tell = tell
        self._stopping = stopping
        self._open: dict[tuple[str, str], _Open] = {}
        #: What channels were told, in case the store was away when that should have been written down.
        self._told: dict[tuple[str, str], tuple[_Kind, int]] = {}
        self._failed: dict[str, str] = {}
        self._last_ns = 0

    def configure(self, rules: Sequence[AlertRule], channels: Mapping[str, Channel]) -> None:
        """Go on with other alerts and channels; what channels have not taken yet is still told where both remain."""
        self._rules = rules
        self._channels = channels
        kept = {(rule.project, rule.name): rule for rule in rules}
        self._open = {key: waiting for key, waiting in self._open.items() if key in kept}
        for key, waiting in self._open.items():
            waiting.channels = [name for name in waiting.channels if name in kept[key].channels]

    def tick(self) -> list[Transition]:
        """Evaluate every alert and deliver what is due.

        Raises:
            StoreError: The store is away; nothing is forgotten.
        """
        if not self._rules:
            return []
        self._failed.clear()
        projects = sorted({rule.project for rule in self._rules})
        states = {(s.project, s.alert): s for project in projects for s in self._store.alert_states(project)}
        done: list[Transition] = []
        for rule in self._rules:
            if self._stopping():
                break
            done.append(self._one(rule, states.get((rule.project, rule.name))))
        return done

    def _one(self, rule: AlertRule, stored: AlertState | None) -> Transition:
        now = self._now()
        previous = self._with_told(rule, stored)
        transition = evaluate(rule, read_windows(self._store, rule, now), previous, now)
        state = transition.state
        if stored is None or _differs(stored, state):
            self._store.write_alert_state(state)
        if transition.notify is not None:
            self._notify(rule, transition, transition.notify)
            return transition
        if transition.changed:
            event_id = _key(rule, state, state.state, state.since_ns)
            self._store.write_alert_event(_event(rule, state, event_id, transition.reason, now))
        if (rule.project, rule.name) in self._open:
            self._try_again(rule, state)
        return transition

    def _with_told(self, rule: AlertRule, stored: AlertState | None) -> AlertState | None:
        told = self._told.get((rule.project, rule.name))
        if stored is None or told is None or told[1] <= stored.last_notified_ns:
            return stored
        return replace(stored, notified_state=told[0], last_notified_ns=told[1])

    def _notify(self, rule: AlertRule, transition: Transition, kind: _Kind) -> None:
        """Start to tell the channels; the state says so once one of them knows."""
        state = transition.state
        event_id = _key(rule, state, kind, state.since_ns if kind == "firing" else 0)
        key = (rule.project, rule.name)
        before = self._open.get(key)
        if before is None or before.notification.event_id != event_id:
            # A channel that never heard of the fire is not told of its end.
            unaware = before.channels if before and kind == "resolved" and before.notification.state == "firing" else []
            names = [name for name in rule.channels if name not in unaware]
            notification = self._notification(rule, transition, kind, event_id)
            self._open[key] = _Open(notification, names)
        told, errors = self._send(key)
        event = replace(_event(rule, state, event_id, transition.reason, self._now()), state=kind)
        if told or not errors:
            now = self._now()
            self._told[key] = (kind, now)
            self._store.write_alert_state(replace(state, notified_state=kind, last_notified_ns=now, updated_ns=now))
        delivered = bool(told) and not errors
        self._store.write_alert_event(replace(event, delivered=delivered, delivery_error="; ".join(errors) or None))

    def _try_again(self, rule: AlertRule, state: AlertState) -> None:
        """Tell the channels that did not take the last message; its event is replaced."""
        key = (rule.project, rule.name)
        notification = self._open[key].notification
        _, errors = self._send(key)
        event = _event(rule, state, notification.event_id, notification.reason, self._now())
        event = replace(event, value=notification.value, sample=notification.sample)
        kind: _Kind = "firing" if notification.state == "firing" else "resolved"
        error = "; ".join(errors) or None
        self._store.write_alert_event(replace(event, state=kind, delivered=not errors, delivery_error=error))

    def _send(self, key: tuple[str, str]) -> tuple[int, list[str]]:
        """Tell every channel that is still open; how many took it, and what went wrong with the others."""
        waiting = self._open[key]
        now = self._clock()
        errors: list[str] = []
        failed: list[str] = []
        for name in waiting.channels:
            error = self._failed.get(name) or self._told_error(name, waiting.notification, now)
            if error is not None:
                errors.append(error)
                failed.append(name)
        told = len(waiting.channels) - len(failed)
        waiting.channels = failed
        if not failed or now - waiting.notification.at_ns > _DAY_NS:
            del self._open[key]
        return told, errors

    def _told_error(self, name: str, notification: Notification, now: int) -> str | None:
        """Tell one channel; one that fails is left alone for this tick, many alerts must not wait for it."""
        channel = self._channels.get(name)
        if channel is None:
            return f"channel {name!r} is not configured"
        try:
            self._tell(channel, notification, now)
        except Exception as error:  # noqa: BLE001  per-channel boundary: one broken channel must not silence others
            text = str(error) if isinstance(error, EvalspanError) else type(error).__name__
            self._failed[name] = text if name in text else f"channel {name!r}: {text}"
            _log.warning("alert not delivered", alert=notification.alert, channel=name, error=text)
            return self._failed[name]
        return None

    def _notification(self, rule: AlertRule, transition: Transition, kind: _Kind, event_id: str) -> Notification:
        state = transition.state
        return Notification(
            event_id=event_id,
            project=rule.project,
            alert=rule.name,
            state=kind,
            value=state.value,
            threshold=rule.threshold,
            sample=state.sample,
            condition=rule.condition,
            reason=transition.reason,
            at_ns=self._clock(),
            since_ns=state.since_ns,
            metric=rule.metric,
            agent=rule.agent,
            worst_runs=self._worst(rule, transition.worst_run_ids) if kind == "firing" else (),
        )

    def _worst(self, rule: AlertRule, run_ids: Sequence[str]) -> tuple[WorstRun, ...]:
        """The runs behind the value, so that the message holds its evidence."""
        ids = tuple(run_ids[:_WORST])
        if not ids:
            return ()
        found = (
            self._store.scores(ScoreQuery(project=rule.project, run_ids=ids, metric=rule.metric)) if rule.metric else []
        )
        scores = {score.run_id: score for score in found}
        worst: list[WorstRun] = []
        for run_id in ids:
            run = self._store.run_summary(rule.project, run_id)
            if run is None:
                continue
            score = scores.get(run_id)
            worst.append(
                WorstRun(
                    run_id=run_id,
                    agent=run.agent,
                    started_ns=run.started_ns,
                    status=run.status,
                    score=score.value if score else None,
                    reason=score.reason if score else run.error or "",
                )
            )
        return tuple(worst)

    def _now(self) -> int:
        """A strictly growing clock: the newest row of a state is the current one."""
        self._last_ns = max(self._clock(), self._last_ns + 1)
        return self._last_ns


def _differs(previous: AlertState, state: AlertState) -> bool:
    return replace(previous, updated_ns=0) != replace(state, updated_ns=0)


def _key(rule: AlertRule, state: AlertState, kind: str, since_ns: int) -> str:
    """The same for every try to tell the same thing, another for the next thing."""
    text = f"{rule.project}|{rule.name}|{kind}|{since_ns}|{state.last_notified_ns}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _event(rule: AlertRule, state: AlertState, event_id: str, reason: str, now: int) -> AlertEvent:
    return AlertEvent(
        project=rule.project,
        alert=rule.name,
        event_id=event_id,
        created_ns=now,
        state=state.state,
        value=state.value,
        threshold=rule.threshold,
        sample=state.sample,
        reason=reason,
    )
