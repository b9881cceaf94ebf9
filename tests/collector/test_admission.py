"""Admission and quarantine: bounds that hold, and say when to come back."""

from pathlib import Path

import pytest

from evalspan_collector.quarantine import Quarantine
from evalspan_collector.receiver.admission import Admission, Reason, RefusedError
from evalspan_collector.selfmetrics import SelfMetrics


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_bytes_under_way_are_bounded_and_given_back() -> None:
    admission = Admission(max_inflight_bytes=100)
    with admission.admit("a", 60):
        with pytest.raises(RefusedError) as caught, admission.admit("b", 60):
            pass
        assert (caught.value.reason, caught.value.retry_after_s) == (Reason.OVERLOAD, 1.0)
        with admission.admit("b", 40):
            pass
    with admission.admit("b", 100):
        pass


def test_bytes_are_given_back_when_the_request_fails() -> None:
    admission = Admission(max_inflight_bytes=100)
    for _ in range(3):
        with pytest.raises(KeyError), admission.admit("a", 100):
            raise KeyError
    with admission.admit("a", 100):
        pass


def test_one_large_request_alone_is_taken() -> None:
    with Admission(max_inflight_bytes=100).admit("a", 500):
        pass


def test_a_rate_refuses_one_project_and_not_its_neighbour() -> None:
    clock = Clock()
    admission = Admission(max_inflight_bytes=10**9, rate_requests_per_s=2, clock=clock)
    for _ in range(2):
        with admission.admit("noisy", 1):
            pass
    with (
        pytest.raises(RefusedError, match="'noisy' sends more than 2 requests per second"),
        admission.admit("noisy", 1),
    ):
        pass
    with admission.admit("quiet", 1):
        pass
    clock.now += 0.6
    with admission.admit("noisy", 1):
        pass


def test_a_byte_rate_says_how_long_to_wait() -> None:
    clock = Clock()
    admission = Admission(max_inflight_bytes=10**9, rate_bytes_per_s=1000, clock=clock)
    with admission.admit("a", 5000):  # larger than a second's worth: taken once, paid for afterwards
        pass
    with pytest.raises(RefusedError) as caught, admission.admit("a", 1):
        pass
    assert caught.value.retry_after_s == pytest.approx(4.1, abs=0.05)
    clock.now += 4.2
    with admission.admit("a", 1):
        pass


def test_the_quarantine_keeps_the_newest_within_its_bound(tmp_path: Path) -> None:
    ticks = iter(range(1, 100))
    quarantine = Quarantine(tmp_path, max_bytes=250, metrics=SelfMetrics(), clock_ns=lambda: next(ticks))
    for number in range(5):
        quarantine.put("undecodable", bytes([number]) * 100, error="why", project="shop")
    kept = [path.read_bytes()[0] for path in sorted(tmp_path.glob("*.bin"))]
    assert kept == [3, 4]
    assert len(list(tmp_path.glob("*.json"))) == 2
    quarantine.put("undecodable", b"x" * 1000, error="large")
    assert sum(path.stat().st_size for path in tmp_path.glob("*.bin")) <= 250


def test_the_quarantine_counts_even_when_it_keeps_nothing(tmp_path: Path) -> None:
    metrics = SelfMetrics()
    Quarantine(tmp_path, max_bytes=0, metrics=metrics).put("undecodable", b"x", error="why")
    assert list(tmp_path.iterdir()) == []
    assert metrics.registry.get_sample_value("evalspan_quarantined_total", {"reason": "undecodable"}) == 1
