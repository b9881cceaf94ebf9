"""Queries: how long the screens' and the worker's reads take on a full embedded store.

    python bench/queries.py [--quick] [--json] [--runs 400000] [--days 30] [--repeats 20] [--keep FOLDER]

The rows are made by the engine itself (`INSERT ... SELECT FROM numbers()`): runs of 12 spans over the last days, in
the order of time, a third of them written open and closed later, three scores each of which a tenth is scored again,
and an outcome. They lie in an embedded store process of their own and are read through the same functions as the
screens use. Times are wall-clock, warm (each query ran before), with new parameters each time; other work on the
machine is in them. The last line is JSON: milliseconds by query.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from evalspan_collector.store.clickhouse import ClickHouseStore
from evalspan_collector.store.client import Client
from evalspan_collector.store.contract import AggregateQuery, RunQuery, SeriesQuery
from evalspan_collector.store.opening import open_clickhouse
from evalspan_dashboard import queries

__all__ = ["main"]

PROJECT = "bench"
SPANS_PER_RUN = 12
RULE, RULE_VERSION = "all", "v1"
_S = 1_000_000_000

#: One row per run: number, ids, times; everything else hangs on these.
_RUN = """
SELECT number AS i, lower(hex(sipHash128(i))) AS trace_id, lower(hex(cityHash64(i, 0))) AS root_id,
    lower(substring(hex(SHA256(concat({project:String}, '\\0', trace_id, '\\0', root_id))), 1, 32)) AS run_id,
    {first_ns:Int64} + toInt64(i) * intDiv({span_ns:Int64}, {runs:Int64}) AS started_ns,
    2 + (cityHash64(i, 1) % 9000) / 1000 AS seconds, started_ns + toInt64(seconds * 1e9) AS ended_ns,
    ['researcher', 'refund_bot', 'planner', 'analyst'][1 + cityHash64(i, 2) % 4] AS agent,
    ['production', 'staging'][1 + cityHash64(i, 3) % 2] AS environment,
    concat('session-', toString(intDiv(i, 4))) AS session, concat('user-', toString(cityHash64(i, 4) % 5000)) AS user
FROM numbers({from:UInt64}, {count:UInt64})
"""
#: Text that compresses about as agents' text does: one of a thousand, and a number of its own.
_POOL = """
WITH (SELECT groupArray(arrayStringConcat(arrayMap(x -> concat('fact ', toString(cityHash64(n, x) % 5000)), range(40)),
    ' ')) FROM (SELECT number AS n FROM numbers(1000))) AS pool
"""


def _text(length: int) -> str:
    return f"concat(toString(cityHash64(i, j)), ' ', substring(pool[1 + cityHash64(i, j, 5) % 1000], 1, {length}))"


_SPANS = f"""
INSERT INTO spans (project, trace_id, span_id, parent_id, name, start_ns, end_ns, received_ns, status, service_name,
    environment, dialect, kind, operation, agent_name, tool_name, tool_call_id, tool_arguments, tool_result,
    model_request, provider, input_tokens, output_tokens, content, input_value, output_value, session_id, user_id)
{_POOL}
SELECT {{project:String}}, trace_id, lower(hex(cityHash64(i, j))), if(j = 0, '', root_id), kind,
    toUInt64(started_ns + if(j = 0, 0, toInt64(seconds * 8e7) * j)),
    toUInt64(started_ns + toInt64(seconds * 8e7) * (j + 1)), ended_ns, 'ok', 'bench', environment, 'genai',
    ['agent', 'tool', 'model'][1 + (j > 0) + (j > 0 AND j % 2 = 1)] AS kind,
    ['invoke_agent', 'execute_tool', 'chat'][1 + (j > 0) + (j > 0 AND j % 2 = 1)], agent,
    if(kind = 'tool', concat('tool_', toString(j)), ''), if(kind = 'tool', concat('call', toString(j)), ''),
    if(kind = 'tool', concat('{{"query": "', {_text(40)}, '"}}'), ''),
    if(kind = 'tool', {_text(400)}, ''), if(kind = 'model', 'model-a', ''),
    if(kind = 'model', 'anthropic', ''), if(kind = 'model', 800 + j, NULL), if(kind = 'model', 90, NULL), 'captured',
    if(j = 0, {_text(100)}, ''), if(j = 0, {_text(400)}, ''), session, user
FROM ({_RUN}) ARRAY JOIN range({SPANS_PER_RUN}) AS j
"""

_RUNS = f"""
INSERT INTO runs (project, run_id, updated_ns, trace_id, trace_ids, root_span_id, revision, state, agent, agents,
    session_id, user_id, service, environment, started_ns, duration_s, last_received_ns, status, error, input, output,
    models, tool_names, input_tokens, output_tokens, cost_usd, cost_unknown_calls, steps, fingerprint)
{_POOL}
SELECT {{project:String}}, run_id, if({{open:Bool}}, started_ns + 1, ended_ns + 10000000000), trace_id, [trace_id],
    root_id, if({{open:Bool}}, 1, 1 + (i % 3 = 0)), if({{open:Bool}}, 'open', 'closed'), agent, [agent],
    session, user, 'bench', environment, started_ns, if({{open:Bool}}, NULL, seconds), ended_ns,
    if(i % 17 = 0, 'error', 'ok'),
    if(i % 17 = 0, 'timeout', NULL), {_text(100)}, if({{open:Bool}}, NULL, {_text(400)}),
    ['model-a'], ['tool_2', 'tool_4', 'tool_6', 'tool_8', 'tool_10'], 4800, 540, if(i % 5 = 0, NULL, 0.01),
    if(i % 5 = 0, 1, 0), {SPANS_PER_RUN - 1}, run_id
FROM (SELECT *, 0 AS j FROM ({_RUN})) WHERE NOT {{open:Bool}} OR i % 3 = 0
"""

_SCORES = f"""
INSERT INTO scores (project, run_id, metric, rule, version, run_revision, created_ns, metric_version, value, threshold,
    passed, reason, evidence, extra, source, agent, run_started_ns, duration_s)
{_POOL}
SELECT {{project:String}}, run_id, ['grounding', 'sequence', 'tool_errors'][j + 1] AS metric, '{RULE}',
    bitShiftLeft(toUInt128(1), 64) + toUInt128(created_ns), 1,
    ended_ns + if({{again:Bool}}, 60, 12) * {_S} AS created_ns, 'v1',
    (cityHash64(i, j) % 100) / 100 AS value, 0.2, value >= 0.2, {_text(120)}, '[]', '', 'code', agent,
    started_ns, 0.01
FROM ({_RUN}) ARRAY JOIN range(3) AS j WHERE NOT {{again:Bool}} OR i % 10 = 0
"""

_OUTCOMES = f"""
INSERT INTO outcomes (project, rule, run_id, run_revision, created_ns, outcome, rule_version, attempt, run_started_ns)
SELECT {{project:String}}, '{RULE}', run_id, 1 + (i % 3 = 0), ended_ns + 12000000000, 'scored', '{RULE_VERSION}', 1,
    started_ns
FROM ({_RUN}) WHERE i % 1000 != 7
"""

_ARRIVALS = f"""
INSERT INTO arrivals (noted_ns, project, trace_id, run_id, first_received_ns, last_received_ns, spans, settled_ns, open,
    start_ns, end_ns, processes, session_ids)
SELECT ended_ns + j * 10000000000, {{project:String}}, trace_id, if(j = 0, '', run_id), if(j = 0, ended_ns, 0),
    if(j = 0, ended_ns, 0), if(j = 0, {SPANS_PER_RUN}, 0), if(j = 0, 0, ended_ns), 0, toUInt64(started_ns),
    toUInt64(ended_ns), ['bench'], [session]
FROM ({_RUN}) ARRAY JOIN range(2) AS j
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One query's times in milliseconds; `cpu_ms` is what the store process used for a call, on average."""

    p50_ms: float
    p95_ms: float
    cpu_ms: float


@contextmanager
def _front(folder: Path) -> Generator[tuple[str, psutil.Process]]:
    """A store process of its own; gives its address and itself."""
    token_file = folder / "store.token"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "evalspan_collector.store",
            str(folder / "store"),
            "--port",
            "0",
            "--token-file",
            str(token_file),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        if not port.isdigit():
            raise SystemExit("the store process did not start")
        yield f"http://evalspan:{token_file.read_text().strip()}@127.0.0.1:{port}/evalspan", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _fill(client: Client, runs: int, days: int, now_ns: int) -> None:
    """Makes the rows, day by day as they would have come."""
    first_ns = now_ns - days * 86_400 * _S
    step = max(runs // days, 1)
    base = {"project": PROJECT, "first_ns": first_ns, "span_ns": days * 86_400 * _S - 120 * _S, "runs": runs}
    settings = {"max_insert_threads": 1, "max_partitions_per_insert_block": 200}
    for start in range(0, runs, step):
        window = {**base, "from": start, "count": min(step, runs - start)}
        client.execute(_SPANS, window, settings)
        for opened in (True, False):
            client.execute(_RUNS, {**window, "open": opened}, settings)
        for again in (False, True):
            client.execute(_SCORES, {**window, "again": again}, settings)
        client.execute(_OUTCOMES, window, settings)
        client.execute(_ARRIVALS, window, settings)
    deadline = time.monotonic() + 60
    while client.rows("SELECT count() FROM system.merges")[0][0] and time.monotonic() < deadline:
        time.sleep(0.5)


def _queries(store: ClickHouseStore, now_ns: int, rng: random.Random) -> dict[str, Callable[[], object]]:
    """What is measured, by name; each call takes other parameters."""
    day = 86_400 * _S
    ids = [
        str(row[0])
        for row in store.client.rows(
            "SELECT run_id FROM runs WHERE state = 'closed' ORDER BY cityHash64(run_id) LIMIT 500"
        )
    ]
    agents = ("researcher", "refund_bot", "planner", "analyst")

    def overview(window: queries.Window) -> object:
        at = now_ns - rng.randrange(60) * _S
        return (
            queries.overview(store, window=window, now_ns=at, project=PROJECT, agent=None),
            queries.facets(store, project=None, since_ns=at - window.seconds * _S),
        )

    def page(**filters: object) -> object:
        return queries.runs_page(store, RunQuery(project=PROJECT, **filters))  # type: ignore[arg-type]  # of RunQuery

    hour, one_day, week, month = queries.WINDOWS
    whole = SeriesQuery(project=PROJECT, step_s=43_200, since_ns=now_ns - 30 * day, until_ns=now_ns)
    return {
        "runs list": page,
        "runs list, a day": lambda: page(since_ns=now_ns - day),
        "runs list, page deep in": lambda: page(before=(now_ns - rng.randrange(30 * day), "")),
        "runs list, one agent": lambda: page(agent=rng.choice(agents)),
        "runs list, a failed metric": lambda: page(metric="grounding", passed=False),
        "runs list, one user": lambda: page(user_id=f"user-{rng.randrange(5000)}"),
        "overview, an hour": lambda: overview(hour),
        "overview, a day": lambda: overview(one_day),
        "overview, a week": lambda: overview(week),
        "overview, a month": lambda: overview(month),
        "run page": lambda: queries.run_page(store, rng.choice(ids), project=PROJECT),
        "run trend, a month": lambda: store.run_trend(whole),
        "score trend, a month": lambda: store.score_trend(whole),
        "facets, a month": lambda: store.facets(None, since_ns=now_ns - 30 * day),
        "alert, pass rate of an hour": lambda: store.aggregate(
            AggregateQuery(project=PROJECT, of="pass_rate", metric="grounding", since_ns=now_ns - 3600 * _S)
        ),
        "unjudged runs, an hour": lambda: store.unjudged_runs(PROJECT, RULE, RULE_VERSION, since_ns=now_ns - 3600 * _S),
        "unjudged runs, a week": lambda: store.unjudged_runs(PROJECT, RULE, RULE_VERSION, since_ns=now_ns - 7 * day),
        "open traces": lambda: store.open_traces(since_received_ns=now_ns - 3600 * _S),
    }


def _measure(work: Callable[[], object], repeats: int, process: psutil.Process) -> Figure:
    work()
    before = _cpu(process)
    times: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    cpu_ms = (_cpu(process) - before) * 1000 / repeats
    times.sort()
    at = min(int(len(times) * 0.95), len(times) - 1)
    return Figure(round(times[len(times) // 2], 1), round(times[at], 1), round(cpu_ms, 1))


def _cpu(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def main() -> None:
    """Fill a store, measure, print a table, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=420_000, help=f"of {SPANS_PER_RUN} spans each")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs, fewer repeats")
    parser.add_argument("--only", default="", help="queries whose name holds this")
    parser.add_argument("--keep", type=Path, help="folder of the store; filled once, used again")
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    given = parser.parse_args()
    runs, repeats = (given.runs // 10, 7) if given.quick else (given.runs, given.repeats)
    with tempfile.TemporaryDirectory(prefix="evalspan-bench-") as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with _front(folder) as (url, process):
            store = open_clickhouse(url)
            began = time.monotonic()
            if not store.client.rows("SELECT count() FROM runs")[0][0]:
                _fill(store.client, runs, given.days, time.time_ns())
            filled_s = time.monotonic() - began
            now_ns = int(store.client.rows("SELECT max(updated_ns) FROM runs")[0][0]) + _S
            counts = {
                table: int(store.client.rows(f"SELECT count() FROM {table}")[0][0])
                for table in ("spans", "runs", "scores", "outcomes")
            }
            work = {n: w for n, w in _queries(store, now_ns, random.Random(1)).items() if given.only in n}
            found: dict[str, Figure] = {}
            for name, call in work.items():
                found[name] = _measure(call, repeats, process)
                if not given.json:
                    figure = found[name]
                    times = f"p50 {figure.p50_ms:8.1f} ms   p95 {figure.p95_ms:8.1f} ms   CPU {figure.cpu_ms:8.1f} ms"
                    print(f"{name:30} {times}", flush=True)
            store.close()
    if not given.json:
        print(f"rows {counts}, filled in {filled_s:.0f} s")
    print(json.dumps({"rows": counts, "p95_ms": {n: f.p95_ms for n, f in found.items()},
"cpu_ms": {n: f.cpu_ms for n, f in found.items()},
                      "p50_ms": {n: f.p50_ms for n, f in found.items()}}))  # fmt: skip


if __name__ == "__main__":
    main()
