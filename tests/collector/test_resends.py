"""Spans that come again: copies are harmless, contradictions are counted."""

from dataclasses import replace

import pytest

from evalspan_collector.resends import Resends
from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.span import Span

SPAN = Span(project="p", trace_id="t", span_id="s", name="chat", start_ns=1, end_ns=2, received_ns=1)


def counted(metrics: SelfMetrics) -> tuple[float, float]:
    """Copies with the same content, and with other content."""
    same, other = (
        metrics.registry.get_sample_value("evalspan_resent_spans_total", {"content": word}) or 0.0
        for word in ("same", "other")
    )
    return same, other


def test_the_same_span_later_is_no_contradiction() -> None:
    metrics = SelfMetrics()
    resends = Resends(metrics)
    resends.note([SPAN, SPAN], size_bytes=1)
    resends.note([replace(SPAN, received_ns=2)], size_bytes=1)
    assert counted(metrics) == (2, 0)


@pytest.mark.parametrize("received_ns", [0, 1, 2])
def test_other_content_in_another_request_is_a_contradiction_whichever_came_first(received_ns: int) -> None:
    metrics = SelfMetrics()
    resends = Resends(metrics)
    resends.note([SPAN], size_bytes=1)
    resends.note([replace(SPAN, output_value="other", received_ns=received_ns)], size_bytes=1)
    assert counted(metrics) == (0, 1)


def test_ids_of_other_projects_and_traces_are_other_spans() -> None:
    metrics = SelfMetrics()
    resends = Resends(metrics)
    resends.note([SPAN, replace(SPAN, project="q", name="x"), replace(SPAN, trace_id="u", name="y")], size_bytes=1)
    assert counted(metrics) == (0, 0)


def test_a_copy_that_announced_a_running_span_is_no_contradiction() -> None:
    metrics = SelfMetrics()
    resends = Resends(metrics)
    resends.note([replace(SPAN, attributes={"logfire.span_type": "pending_span"})], size_bytes=1)
    resends.note([SPAN], size_bytes=1)
    assert counted(metrics) == (0, 0)


def test_what_is_remembered_is_bounded_and_the_newest() -> None:
    metrics = SelfMetrics()
    resends = Resends(metrics, max_bytes=30)
    resends.note([SPAN], size_bytes=10)
    for number in range(100):
        resends.note([replace(SPAN, span_id=str(number))], size_bytes=10)
    resends.note([replace(SPAN, name="forgotten"), replace(SPAN, span_id="99", name="known")], size_bytes=10)
    assert counted(metrics) == (0, 1)
    assert len(resends) <= 4
