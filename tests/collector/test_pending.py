"""Which traces are assembled next, when all are at hand and when there are more than can be."""

from collections.abc import Callable

from evalspan_collector.pending import PendingTraces, TraceKey

SPANS = 10


def waiting(*names: str) -> PendingTraces:
    """Traces that came one after the other."""
    pending = PendingTraces(quiet_ns=1, patience_ns=10_000, heavy_spans=1_000)
    for at, name in enumerate(names):
        pending.touch([(("p", name), at, at, SPANS)])
    return pending


def taken(
    pending: PendingTraces, *, traces: int, recalled: Callable[[TraceKey], bool] | None = lambda _key: False
) -> str:
    """Names of what is taken, which is then done with."""
    due = pending.take_due(1_000, max_spans=traces * SPANS, recalled=recalled)
    for trace in due:
        pending.settle(trace.key, changes=trace.changes, next_ns=None)
    return "".join(trace.key[1] for trace in due)


def test_the_oldest_come_first_while_all_can_be_taken() -> None:
    assert taken(waiting("c", "a", "b"), traces=3) == "cab"


def test_what_is_not_due_yet_is_left() -> None:
    pending = waiting("a")
    assert pending.take_due(0, max_spans=SPANS) == []
    assert taken(pending, traces=1) == "a"
    assert len(pending) == 0


def test_a_backlog_is_read_back_in_the_order_in_which_the_store_keeps_it() -> None:
    pending = waiting("e", "b", "d", "a", "c", "f")
    assert [taken(pending, traces=2) for _ in range(3)] == ["ab", "cd", "ef"]


def test_a_sweep_goes_on_where_it_was_and_begins_again_at_the_end() -> None:
    pending = waiting("d", "e", "f", "g")
    assert taken(pending, traces=2) == "de"
    pending.touch([(("p", name), 9, 9, SPANS) for name in "ab"])
    assert taken(pending, traces=3) == "fga"
    assert taken(pending, traces=3) == "b"


def test_with_a_backlog_the_newest_that_are_in_memory_take_turns_with_the_others() -> None:
    pending = waiting("f", "e", "d", "c", "b", "a")
    in_memory = {("p", "b"), ("p", "a")}
    assert taken(pending, traces=1, recalled=in_memory.__contains__) == "a"
    assert taken(pending, traces=1, recalled=in_memory.__contains__) == "b"
    assert taken(pending, traces=2, recalled=in_memory.__contains__) == "cd"
    assert taken(pending, traces=2, recalled=in_memory.__contains__) == "fe"


def test_a_due_trace_of_which_more_comes_waits_again() -> None:
    pending = waiting("a", "b")
    assert pending.take_due(1_000, max_spans=0) == []  # both are seen to be due
    pending.touch([(("p", "a"), 2_000, 2_000, SPANS)])
    assert taken(pending, traces=5) == "b"
    assert [t.key[1] for t in pending.take_due(3_000, max_spans=5 * SPANS)] == ["a"]


def test_a_trace_that_failed_is_due_again_at_its_time() -> None:
    pending = waiting("a")
    (trace,) = pending.take_due(1_000, max_spans=SPANS)
    pending.settle(trace.key, changes=trace.changes, next_ns=2_000)
    assert taken(pending, traces=1) == ""
    assert [t.key[1] for t in pending.take_due(2_000, max_spans=SPANS)] == ["a"]


def test_heavy_traces_wait_in_a_line_of_their_own() -> None:
    pending = waiting("a", "b")
    pending.make_heavy(("p", "a"))
    assert taken(pending, traces=2) == "b"
    assert [t.key[1] for t in pending.take_due(1_000, max_spans=SPANS, heavy=True)] == ["a"]


def test_what_was_received_of_a_waiting_trace_is_known() -> None:
    pending = waiting("a")
    assert pending.knows(("p", "a"))
    assert pending.knows(("p", "a"), 0)
    assert not pending.knows(("p", "a"), 1)
    assert not pending.knows(("p", "b"))
