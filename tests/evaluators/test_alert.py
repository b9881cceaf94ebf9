import http.server
import itertools
import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan.errors import StoreUnreachableError
from evalspan_collector.records import Aggregate, AlertEvent, AlertState, ScoreRecord
from evalspan_collector.run import Run
from evalspan_collector.store.contract import Store
from evalspan_collector.store.opening import open_store
from evalspan_evaluators.alert import AlertRule, Transition, backtest, evaluate, wilson_interval, window_query
from evalspan_evaluators.alert_loop import AlertLoop
from evalspan_evaluators.channels import Channel, DeliveryError, Notification, WebhookChannel

S = 1_000_000_000
START = 1_790_000_000 * S  # in the past: a store takes no run from the future
RULE = AlertRule(
    name="drop", of="pass_rate", metric="grounding", window_s=60, below=0.8, min_sample=3, channels=("ops",)
)


def rate(passed: int, sample: int) -> Aggregate:
    return Aggregate(value=passed / sample if sample else None, sample=sample, passed=passed)


GOOD, BAD, NOTHING = rate(10, 10), rate(2, 10), rate(0, 0)


class Story:
    """An alert evaluated step by step, its notifications taken as delivered."""

    def __init__(self, rule: AlertRule = RULE) -> None:
        self.rule = rule
        self.state: AlertState | None = None
        self.now = START
        self.told: list[str] = []

    def step(self, *windows: Aggregate, after_s: float = 10) -> Transition:
        self.now += int(after_s * S)
        transition = evaluate(self.rule, windows, self.state, self.now)
        self.state = transition.state
        if transition.notify:
            self.told.append(transition.notify)
            self.state = replace(self.state, notified_state=transition.notify, last_notified_ns=self.now)
        return transition

    def run(self, *windows: Aggregate) -> list[str]:
        return [self.step(window).state.state for window in windows]


def test_it_fires_once_and_resolves_once() -> None:
    story = Story()
    assert story.run(GOOD, BAD, BAD, BAD, GOOD, GOOD) == ["ok", "firing", "firing", "firing", "resolved", "ok"]
    assert story.told == ["firing", "resolved"]


def test_it_fires_again_after_it_resolved() -> None:
    story = Story()
    story.run(BAD, GOOD, BAD, GOOD)
    assert story.told == ["firing", "resolved", "firing", "resolved"]


def test_too_few_runs_are_no_data_and_not_ok() -> None:
    story = Story()
    assert story.run(rate(0, 2), NOTHING) == ["no_data", "no_data"]
    assert story.told == []
    assert story.step(rate(0, 2)).reason.endswith("2 in the window, needs 3")


@pytest.mark.parametrize(("policy", "after"), [("keep", "firing"), ("resolve", "resolved"), ("fire", "firing")])
def test_silence_does_to_a_firing_alert_what_its_policy_says(policy: Any, after: str) -> None:
    assert Story(replace(RULE, no_data=policy)).run(BAD, NOTHING) == ["firing", after]


def test_silence_can_fire_by_itself() -> None:
    story = Story(replace(RULE, no_data="fire"))
    assert story.run(NOTHING, NOTHING, GOOD) == ["firing", "firing", "resolved"]
    assert story.told == ["firing", "resolved"]


def test_no_run_at_all_is_a_number_for_an_alert_on_runs() -> None:
    rule = AlertRule(name="quiet", of="runs", below=1, window_s=60)
    assert Story(rule).run(Aggregate(value=5, sample=5), NOTHING) == ["ok", "firing"]


def test_the_value_at_the_limit_is_no_breach() -> None:
    assert Story().run(rate(8, 10)) == ["ok"]
    above = AlertRule(name="slow", of="latency", above=2.0)
    assert Story(above).run(Aggregate(value=2.0, sample=1), Aggregate(value=2.01, sample=1)) == ["ok", "firing"]


def test_some_of_several_windows_must_be_breached() -> None:
    story = Story(replace(RULE, windows=3, breaches=2))
    assert story.step(BAD, GOOD, GOOD).state.state == "pending"
    assert story.step(BAD, GOOD, BAD).state.state == "firing"
    assert story.step(GOOD, BAD, BAD).state.state == "firing"
    assert story.step(GOOD, GOOD, BAD).state.state == "resolved"
    assert story.told == ["firing", "resolved"]


def test_the_condition_must_hold_for_its_time_before_it_fires() -> None:
    story = Story(replace(RULE, for_s=25))
    assert story.run(BAD, BAD, GOOD, BAD, BAD, BAD, BAD) == [
        "pending",
        "pending",
        "ok",
        "pending",
        "pending",
        "pending",
        "firing",
    ]
    assert story.told == ["firing"]


def test_it_is_told_again_only_at_the_renotify_interval() -> None:
    story = Story(replace(RULE, renotify_s=30))
    story.run(BAD, BAD, BAD, BAD, BAD, BAD, BAD, GOOD)
    assert story.told == ["firing", "firing", "firing", "resolved"]


def test_what_nobody_was_told_of_does_not_resolve_loudly() -> None:
    state = AlertState(project="default", alert="drop", state="firing", since_ns=START, updated_ns=START)
    transition = evaluate(RULE, [GOOD], state, START + S)
    assert (transition.state.state, transition.notify) == ("resolved", None)


def test_an_untold_end_is_told_even_when_the_alert_has_moved_on() -> None:
    story = Story()
    story.run(BAD)
    transition = evaluate(RULE, [GOOD], story.state, story.now + S)
    undelivered = transition.state
    assert transition.notify == "resolved"
    assert evaluate(RULE, [GOOD], undelivered, story.now + 2 * S).notify == "resolved"


def test_a_small_sample_does_not_fire_at_a_confidence() -> None:
    careful = replace(RULE, confidence=0.95)
    assert Story(RULE).run(rate(2, 3)) == ["firing"]
    assert Story(careful).run(rate(2, 3), rate(60, 100)) == ["ok", "firing"]


def test_error_rates_use_the_lower_bound() -> None:
    rule = AlertRule(name="errors", of="error_rate", above=0.1, confidence=0.95)
    few, many = Aggregate(value=0.2, sample=5), Aggregate(value=0.2, sample=500)
    assert Story(rule).run(few, many) == ["ok", "firing"]


def test_the_wilson_interval_has_its_published_values() -> None:
    # Newcombe 1998, Statistics in Medicine 17:857, table I: 81/263, 15/148, 0/20, 1/29.
    for (successes, sample), (low, high) in {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0.0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }.items():
        assert wilson_interval(successes, sample, 0.95) == pytest.approx((low, high), abs=5e-5)
    with pytest.raises(ValueError, match="must be positive"):
        wilson_interval(0, 0, 0.95)


@given(st.lists(st.sampled_from([GOOD, BAD, NOTHING]), max_size=40), st.sampled_from([0.0, 15.0, 40.0]))
def test_messages_always_alternate(windows: list[Aggregate], for_s: float) -> None:
    story = Story(replace(RULE, for_s=for_s))
    story.run(*windows)
    assert story.told == list(itertools.islice(itertools.cycle(["firing", "resolved"]), len(story.told)))


def test_windows_lie_one_after_the_other() -> None:
    first, second = window_query(RULE, START), window_query(RULE, START, 1)
    assert (first.since_ns, first.until_ns) == (START - 60 * S, START)
    assert (second.since_ns, second.until_ns) == (START - 120 * S, START - 60 * S)


def test_the_condition_reads_like_a_sentence() -> None:
    assert RULE.condition == "pass_rate of grounding below 0.8 over 1m"
    slow = AlertRule(name="x", of="latency", aggregate="p95", above=30, agent="a", window_s=5400)
    assert slow.condition == "p95 latency for agent a above 30 over 90m"


# with a store


@pytest.fixture
def store() -> Store:
    return open_store("memory://")


def add_run(store: Store, run_id: str, at_ns: int, *, passed: bool, reason: str = "") -> None:
    run = Run(
        run_id=run_id, trace_id=f"t{run_id}", agent="a", state="closed", started_ns=at_ns, duration_s=1.0,
        last_received_ns=at_ns,
    )  # fmt: skip
    store.write_runs([run], token=f"run-{run_id}")
    score = ScoreRecord(
        project="default", run_id=run_id, metric="grounding", rule="r", run_revision=1, metric_version="v",
        created_ns=at_ns, value=float(passed), threshold=0.7, passed=passed, reason=reason, run_started_ns=at_ns,
    )  # fmt: skip
    store.write_scores([score], token=f"score-{run_id}")


class Desk:
    """A loop over a store, channels that can be broken, and what they were told."""

    def __init__(self, store: Store, *rules: AlertRule, channels: tuple[str, ...] = ("ops",)) -> None:
        self.store = store
        self.rules = rules
        self.now = START
        self.told: list[tuple[str, str, str]] = []
        self.notes: list[Notification] = []
        self.broken: set[str] = set()
        self.tries: list[str] = []
        self.channels: dict[str, Channel] = {n: WebhookChannel(name=n, url="https://example.com/") for n in channels}
        self.loop = self.started()

    def started(self) -> AlertLoop:
        return AlertLoop(self.store, self.rules, self.channels, clock=lambda: self.now, tell=self.tell)

    def tell(self, channel: Channel, notification: Notification, now_ns: int) -> None:
        self.tries.append(channel.name)
        if channel.name in self.broken:
            raise DeliveryError(f"channel {channel.name!r}: HTTP 503")
        self.told.append((channel.name, notification.alert, notification.state))
        self.notes.append(notification)

    def tick(self, after_s: float = 5) -> None:
        self.now += int(after_s * S)
        self.loop.tick()

    def events(self) -> list[AlertEvent]:
        return sorted(self.store.alert_events("default"), key=lambda event: event.created_ns)


def bad_minute(desk: Desk) -> None:
    for i in range(5):
        add_run(desk.store, f"bad{desk.now}{i}", desk.now, passed=False, reason=f"claim {i} is contradicted")


def good_minute(desk: Desk) -> None:
    for i in range(50):
        add_run(desk.store, f"good{desk.now}{i}", desk.now, passed=True)


def test_a_breach_is_told_once_with_its_worst_runs_and_resolves_once(store: Store) -> None:
    desk = Desk(store, RULE)
    bad_minute(desk)
    for _ in range(3):
        desk.tick()
    assert desk.told == [("ops", "drop", "firing")]
    assert desk.notes[0].worst_runs[0].reason.endswith("is contradicted")
    assert {run.agent for run in desk.notes[0].worst_runs} == {"a"}
    good_minute(desk)
    for _ in range(3):
        desk.tick()
    assert desk.told == [("ops", "drop", "firing"), ("ops", "drop", "resolved")]
    assert [(e.state, e.delivered) for e in desk.events()] == [("firing", True), ("resolved", True), ("ok", False)]
    assert len({note.event_id for note in desk.notes}) == 2


def test_a_restart_does_not_tell_again(store: Store) -> None:
    desk = Desk(store, RULE)
    bad_minute(desk)
    desk.tick()
    desk.loop = desk.started()
    desk.tick()
    assert desk.told == [("ops", "drop", "firing")]
    good_minute(desk)
    desk.loop = desk.started()
    desk.tick()
    assert desk.told[1:] == [("ops", "drop", "resolved")]


def test_a_failed_delivery_is_recorded_and_tried_again_without_telling_the_others_twice(store: Store) -> None:
    desk = Desk(store, replace(RULE, channels=("ops", "mail")), channels=("ops", "mail"))
    desk.broken = {"mail"}
    bad_minute(desk)
    desk.tick()
    desk.tick()
    assert desk.told == [("ops", "drop", "firing")]
    (event,) = desk.events()
    assert (event.delivered, event.delivery_error) == (False, "channel 'mail': HTTP 503")
    desk.broken = set()
    desk.tick()
    desk.tick()
    assert desk.told == [("ops", "drop", "firing"), ("mail", "drop", "firing")]
    assert len({note.event_id for note in desk.notes}) == 1
    (event,) = desk.events()
    assert (event.delivered, event.delivery_error) == (True, None)


def test_when_every_channel_fails_the_alert_is_told_later_once(store: Store) -> None:
    desk = Desk(store, RULE)
    desk.broken = {"ops"}
    bad_minute(desk)
    desk.tick()
    desk.tick()
    assert desk.tries == ["ops", "ops"]
    desk.loop = desk.started()  # a restart in between changes nothing
    desk.broken = set()
    desk.tick()
    desk.tick()
    assert desk.told == [("ops", "drop", "firing")]
    assert [event.delivered for event in desk.events()] == [True]


def test_a_channel_that_never_heard_of_the_fire_is_not_told_of_its_end(store: Store) -> None:
    desk = Desk(store, replace(RULE, channels=("ops", "mail")), channels=("ops", "mail"))
    desk.broken = {"mail"}
    bad_minute(desk)
    desk.tick()
    desk.broken = {"ops"}
    good_minute(desk)
    desk.tick()
    desk.tick()
    desk.broken = set()
    desk.tick()
    assert desk.told == [("ops", "drop", "firing"), ("ops", "drop", "resolved")]


def test_one_channel_that_is_down_is_tried_once_a_tick_however_many_alerts_there_are(store: Store) -> None:
    desk = Desk(store, *(replace(RULE, name=f"drop{i}") for i in range(20)))
    desk.broken = {"ops"}
    bad_minute(desk)
    desk.tick()
    assert desk.tries == ["ops"]
    desk.broken = set()
    desk.tick()
    assert len(desk.told) == 20


def test_an_alert_without_channels_keeps_its_state_all_the_same(store: Store) -> None:
    desk = Desk(store, replace(RULE, channels=()))
    bad_minute(desk)
    desk.tick()
    desk.tick()
    assert [(e.state, e.delivered) for e in desk.events()] == [("firing", False)]
    (state,) = store.alert_states("default")
    assert (state.state, state.value, state.sample) == ("firing", 0.0, 5)


def test_a_store_that_goes_away_after_the_message_does_not_make_it_go_out_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(store, RULE)
    bad_minute(desk)
    write = store.write_alert_state

    def away_once_told(state: AlertState) -> None:
        if desk.told:
            raise StoreUnreachableError("gone")
        write(state)

    monkeypatch.setattr(store, "write_alert_state", away_once_told)
    with pytest.raises(StoreUnreachableError):
        desk.tick()
    monkeypatch.undo()
    desk.tick()
    desk.tick()
    assert desk.told == [("ops", "drop", "firing")]


def test_late_scores_of_an_amended_run_count_with_their_newest_value(store: Store) -> None:
    desk = Desk(store, replace(RULE, min_sample=1))
    add_run(store, "r", desk.now, passed=False)
    desk.tick()
    newer = ScoreRecord(
        project="default", run_id="r", metric="grounding", rule="r", run_revision=2, metric_version="v",
        created_ns=desk.now, value=1.0, threshold=0.7, passed=True, run_started_ns=START,
    )  # fmt: skip
    store.write_scores([newer], token="again")
    desk.tick()
    assert [state for _, _, state in desk.told] == ["firing", "resolved"]


def test_a_back_test_says_how_often_an_alert_would_have_fired(store: Store) -> None:
    for minute, passed in enumerate([True, False, True, False, False, True]):
        for i in range(4):
            add_run(store, f"{minute}-{i}", START + (minute * 60 + i) * S, passed=passed)
    result = backtest(store, RULE, since_ns=START + 59 * S, until_ns=START + 359 * S, step_s=60)
    assert (result.evaluations, result.fired, result.resolved, result.notifications) == (6, 2, 2, 4)
    assert result.firing_share == 0.5
    assert [name for _, name, _ in result.transitions] == ["ok", "firing", "resolved", "firing", "resolved"]
    quiet = backtest(
        store, replace(RULE, windows=2, breaches=2), since_ns=START + 59 * S, until_ns=START + 359 * S, step_s=60
    )
    assert quiet.fired == 1
    empty = backtest(store, RULE, since_ns=0, until_ns=600 * S)
    assert (empty.fired, empty.no_data_share) == (0, 1.0)
    assert store.alert_states("default") == []
    with pytest.raises(ValueError, match="must be positive"):
        backtest(store, RULE, since_ns=0, until_ns=1, step_s=0)


def test_a_webhook_on_loopback_is_told_once_and_of_the_end_once(store: Store) -> None:
    got: list[dict[str, Any]] = []
    statuses = [503, 503, 503]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = statuses.pop() if statuses else 200
            if status == 200:
                got.append(json.loads(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it so
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        desk = Desk(store, RULE)
        hook = WebhookChannel(name="ops", url=f"http://127.0.0.1:{server.server_address[1]}/hook")
        desk.loop = AlertLoop(store, [RULE], {"ops": hook}, clock=lambda: desk.now)
        bad_minute(desk)
        for _ in range(3):  # the webhook is down at first
            desk.tick()
        good_minute(desk)
        for _ in range(3):
            desk.tick()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert [(message["alert"], message["state"]) for message in got] == [("drop", "firing"), ("drop", "resolved")]
    assert len(got[0]["worst_runs"]) == 5
    assert got[1]["worst_runs"] == []
