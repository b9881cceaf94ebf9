"""Invariants: what must hold in the store after every fault, whatever the fault was."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields

from apparatus.processes import Stack
from apparatus.waiting import until
from evalspan_collector.assemble import assemble
from evalspan_collector.completion import run_fingerprint
from evalspan_collector.prices import Prices
from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run
from evalspan_collector.span import Span
from evalspan_collector.store.contract import RunQuery, Store
from evalspan_collector.store.opening import open_store
from evalspan_collector.store.run_rows import summary_of

__all__ = ["check_recomputed", "check_scores"]

_PAGE = 500
#: What a row knows and its spans do not: how often it was written, and when.
_OF_THE_ROW = frozenset({"revision", "state", "updated_ns", "fingerprint"})


def check_scores(stack: Stack) -> None:
    """Every closed run has each metric's score once, and its rule's outcome says so."""
    closed = "SELECT count() FROM runs FINAL WHERE state IN ('closed', 'amended')"
    scored = "SELECT count() FROM outcomes FINAL WHERE rule = 'default' AND outcome IN ('scored', 'not_applicable')"
    until(lambda: stack.number(scored) == stack.number(closed), within_s=200, what="scoring of every run")
    current = (
        "SELECT run_id, count() AS n, uniqExact(metric) AS metrics FROM scores FINAL"
        " WHERE NOT superseded AND rule = 'default' GROUP BY run_id"
    )
    ((runs, most, metrics),) = stack.rows(f"SELECT count(), max(n), min(metrics) FROM ({current})")
    print(f"{runs} runs scored, each by {metrics} metrics once")
    assert (runs, most) == (stack.number(closed), metrics)


def check_recomputed(stack: Stack) -> int:
    """Every run in the store, its steps and the totals over all runs are what its spans give when assembled anew.

    Returns:
        How many runs were compared.
    """
    store = open_store(stack.url, token=stack.token)
    try:
        shown = {summary.run_id: summary for summary in _all_runs(store)}
        made = {run.run_id: run for run in _assembled(store, shown.values())}
    finally:
        store.close()
    assert set(shown) == set(made), f"runs without spans or spans without runs: {sorted(set(shown) ^ set(made))[:5]}"
    steps = dict(stack.rows(
        "SELECT run_id, count() FROM steps FINAL WHERE (project, run_id, updated_ns) IN"
        " (SELECT project, run_id, updated_ns FROM runs FINAL WHERE state != 'withdrawn') GROUP BY run_id"
    ))  # fmt: skip
    for run_id, summary in shown.items():
        again = summary_of(made[run_id], updated_ns=summary.updated_ns)
        differing = {
            name: (getattr(summary, name), getattr(again, name))
            for name in (field.name for field in fields(summary))
            if name not in _OF_THE_ROW and getattr(summary, name) != getattr(again, name)
        }
        assert not differing, f"run {run_id} is stored otherwise than its spans give it: {differing}"
        assert summary.fingerprint == run_fingerprint(made[run_id])
        assert steps.get(run_id, 0) == len(made[run_id].steps), f"run {run_id} has steps twice or not at all"
    return len(shown)


def _all_runs(store: Store) -> list[RunSummary]:
    found: list[RunSummary] = []
    query = RunQuery(limit=_PAGE)
    while page := store.runs(query):
        found += page
        query = RunQuery(limit=_PAGE, before=(page[-1].started_ns, page[-1].run_id))
    return found


def _assembled(store: Store, shown: Iterable[RunSummary]) -> list[Run]:
    """The runs of these rows' projects, from nothing but the spans, as a fresh process would make them."""
    traces: dict[str, set[str]] = defaultdict(set)
    for summary in shown:
        traces[summary.project].update(summary.trace_ids)
    made: list[Run] = []
    for project, trace_ids in traces.items():
        for page in _pages(sorted(trace_ids)):
            spans: dict[str, list[Span]] = defaultdict(list)
            for span in store.spans(project, page):
                spans[span.trace_id].append(span)
            made += [run for of_trace in spans.values() for run in assemble(of_trace, prices=Prices())]
    return made


def _pages(items: Sequence[str]) -> Iterable[Sequence[str]]:
    return (items[at : at + _PAGE] for at in range(0, len(items), _PAGE))
