"""What becomes of a run that comes again, over a real store: with other times, under another root, after a deletion."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from apparatus.workload import Workload

from evalspan_collector.assembler import Assembler
from evalspan_collector.intake import read_traces
from evalspan_collector.records import OutcomeRecord, RunSummary, ScoreRecord
from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.span import Span, SpanKind
from evalspan_collector.store.admin import delete_subject
from evalspan_collector.store.clickhouse import ClickHouseStore
from evalspan_collector.store.contract import AggregateQuery, RunQuery, ScoreQuery, SeriesQuery

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


class Process:
    """One life of a collector: its assembler over the store, on a clock of its own."""

    def __init__(self, store: ClickHouseStore, now_ns: int | None = None) -> None:
        self.store = store
        self.now_ns = now_ns or time.time_ns() - 2 * HOUR
        self._assembler = Assembler(stores=lambda: store, metrics=SelfMetrics(), watermark_ns=lambda: self.now_ns)

    def take_in(self, spans: Iterable[Span]) -> None:
        """Spans are received, and their runs close."""
        block = [replace(span, received_ns=self.now_ns) for span in spans]
        self.store.insert_spans(block, token=str(self.now_ns))
        self._assembler.spans_stored(block, [])
        self.now_ns += 61 * SECOND
        while self._assembler.tick():
            pass

    def restarted(self) -> "Process":
        return Process(self.store, self.now_ns)


def spans_of(process: Process, user: str | None = None) -> list[Span]:
    """One agent run that has just ended; its root comes last."""
    spans = list(read_traces(Workload(1, content=0.1).one(7).body, project="default", received_ns=0).spans)
    return [replace(span, user_id=user) for span in at(spans, process.now_ns - max(s.end_ns for s in spans))]


def at(spans: Iterable[Span], shift_ns: int) -> list[Span]:
    return [replace(span, start_ns=span.start_ns + shift_ns, end_ns=span.end_ns + shift_ns) for span in spans]


def answered(spans: Iterable[Span]) -> list[Span]:
    """The same with another answer."""
    return [replace(s, output_value="another", run_output=s.run_output and "another") for s in spans]


def below(spans: Sequence[Span]) -> list[Span]:
    """The same below an agent that called theirs."""
    root = next(span for span in spans if span.parent_id is None)
    outer = replace(root, span_id="f" * 16, name="invoke_agent outer", agent_name="outer")
    rest = [replace(span, parent_id=span.parent_id or outer.span_id) for span in spans]
    return [*rest, outer]


def runs(store: ClickHouseStore, spans: Sequence[Span]) -> list[RunSummary]:
    return store.runs_of_traces("default", [spans[0].trace_id])


def score(run: RunSummary, value: float) -> ScoreRecord:
    return ScoreRecord(
        project="default", run_id=run.run_id, metric="m", rule="r", run_revision=run.revision, metric_version="1",
        created_ns=time.time_ns(), value=value,
    )  # fmt: skip


def judged(run: RunSummary) -> OutcomeRecord:
    return OutcomeRecord(
        project="default", rule="r", run_id=run.run_id, run_revision=run.revision, outcome="scored", rule_version="1",
        created_ns=time.time_ns(),
    )  # fmt: skip


def test_a_run_sent_again_with_other_times_is_amended_judged_again_and_counted_once(store: ClickHouseStore) -> None:
    first = Process(store)
    spans = spans_of(first)
    first.take_in(spans)
    (old,) = runs(store, spans)
    store.write_outcomes([judged(old)], token="o")
    first.restarted().take_in(answered(at(spans, HOUR)))
    (new,) = runs(store, spans)
    assert (new.run_id, new.state, new.revision) == (old.run_id, "amended", 2)
    assert new.started_ns == old.started_ns + HOUR
    assert [r.revision for r in store.unjudged_runs("default", "r", "1", since_ns=0)] == [2]
    for since_ns, until_ns, count in ((0, 2**62, 1), (old.started_ns, old.started_ns + 1, 0)):
        query = AggregateQuery(project="default", of="runs", since_ns=since_ns, until_ns=until_ns)
        assert store.aggregate(query).value == count
        assert len(store.runs(RunQuery(since_ns=since_ns, until_ns=until_ns))) == count
    series = SeriesQuery(since_ns=old.started_ns - SECOND, until_ns=new.started_ns + HOUR, step_s=60)
    assert [point.runs for point in store.run_trend(series).points] == [1]


def test_a_run_sent_again_under_another_root_and_at_other_times_takes_the_old_one_away(store: ClickHouseStore) -> None:
    first = Process(store)
    spans = spans_of(first)
    first.take_in(spans)
    (old,) = runs(store, spans)
    first.restarted().take_in(below(at(spans, HOUR)))
    (new,) = runs(store, spans)
    assert (new.run_id != old.run_id, new.agent) == (True, "outer")


def test_a_run_sent_again_when_the_log_of_arrivals_is_gone_is_known_all_the_same(store: ClickHouseStore) -> None:
    first = Process(store)
    spans = spans_of(first)
    first.take_in(spans)
    store.client.execute("TRUNCATE TABLE arrivals")
    again = first.restarted()
    again.take_in(answered(spans))
    assert [(run.state, run.revision) for run in runs(store, spans)] == [("amended", 2)]
    store.client.execute("TRUNCATE TABLE arrivals")
    again.restarted().take_in(below(spans))
    assert [(run.agent, run.revision) for run in runs(store, spans)] == [("outer", 1)]


def test_the_scores_of_a_run_that_was_withdrawn_and_came_back_are_current(store: ClickHouseStore) -> None:
    process = Process(store)
    spans = spans_of(process)
    process.take_in([*spans[:2], *spans[3:]])
    process.take_in([spans[2]])
    (before,) = runs(store, spans)
    assert (before.state, before.revision) == ("amended", 2)
    store.write_scores([score(before, 0.2)], token="before")
    store.write_outcomes([judged(before)], token="o")
    process.take_in(below(spans))
    assert store.scores(ScoreQuery(run_ids=(before.run_id,))) == []
    outer = below(spans)[-1]
    request = replace(
        outer, kind=SpanKind.UNKNOWN, operation="", agent_name="", name="GET /", attributes={}, otel_kind=2
    )
    process.take_in([spans[-1], request])
    (back,) = runs(store, spans)
    assert (back.run_id, back.revision) == (before.run_id, 3)
    assert [r.revision for r in store.unjudged_runs("default", "r", "1", since_ns=0)] == [3]
    store.write_scores([score(back, 0.9)], token="back")
    assert [s.value for s in store.scores(ScoreQuery(run_ids=(back.run_id,)))] == [0.9]


def test_a_run_whose_data_was_deleted_is_new_data_when_it_is_sent_again(store: ClickHouseStore) -> None:
    process = Process(store)
    spans = spans_of(process, user="ann")
    process.take_in(spans)
    delete_subject(store.client, project="default", user="ann")
    assert runs(store, spans) == []
    process.take_in(spans)
    (again,) = runs(store, spans)
    assert (again.user_id, again.state, again.revision) == ("ann", "closed", 2)
    store.write_scores([score(again, 0.9)], token="s")
    assert [s.value for s in store.scores(ScoreQuery())] == [0.9]
