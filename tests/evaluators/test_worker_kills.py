"""A worker that is killed again and again, also between the judge's answer and its writing: one score per run."""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from apparatus.processes import WorkerProcess
from apparatus.waiting import until
from apparatus.workload import Workload

from evalspan_collector.assemble import assemble
from evalspan_collector.data_dir import DataDir
from evalspan_collector.intake import read_traces

if TYPE_CHECKING:
    from evalspan_collector.store.clickhouse import ClickHouseStore

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


#: 100 tokens in and 10 out at the price of the test.
_CALL_USD = 0.11


class JudgeApi:
    """An OpenAI-compatible API that grades everything, and can kill who asked right after its answer."""

    def __init__(self) -> None:
        self.answered = 0
        self.kill_at: set[int] = set()
        self.victim = 0
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                content = json.dumps({"reason": "it is right", "score": 5})
                body = json.dumps({
                    "id": "c", "object": "chat.completion", "created": 0, "model": "m",
                    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
                    "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
                }).encode()  # fmt: skip
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()
                api.answered += 1
                if api.answered in api.kill_at:
                    time.sleep(0.002)  # the answer is read, its score is not written yet
                    os.kill(api.victim, signal.SIGKILL)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"


@pytest.fixture
def api() -> Iterator[JudgeApi]:
    made = JudgeApi()
    yield made
    made.server.shutdown()
    made.server.server_close()


def add_runs(store: "ClickHouseStore", count: int) -> list[str]:
    """Closed runs of an agent, with their spans."""
    load = Workload(5, content=0.05, start_ns=time.time_ns() - 3600 * 10**9)
    ids: list[str] = []
    for number in range(count):
        found = read_traces(load.one(4).body, project="default", received_ns=time.time_ns())
        store.insert_spans(found.spans, token=f"s{number}")
        runs = [replace(run, state="closed") for run in assemble(found.spans)]
        store.write_runs(runs, token=f"r{number}")
        ids += [run.run_id for run in runs]
    return ids


@pytest.mark.parametrize("size", [(2, 5), pytest.param((20, 60), marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_r3_kill_9_of_the_worker_leaves_one_score_per_run_and_repeats_at_most_one_call_per_kill(
    store: "ClickHouseStore", store_url: str, api: JudgeApi, tmp_path: Path, size: tuple[int, int]
) -> None:
    kills, runs = size
    ids = add_runs(store, runs)
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: [{model: m, input_per_million: 1000.0, output_per_million: 1000.0}]\n")
    config = tmp_path / "evalspan.yaml"
    config.write_text(
        f'judge: {{provider: openai, model: m, base_url: "{api.url}", max_usd_per_day: null, concurrency: 1}}\n'
        f'prices: "{prices}"\n'
        "rules: [{name: r, metrics: [{correctness: {criteria: it is right, steps: [look]}}, loops]}]\n"
    )
    environment = {"EVALSPAN_STORE_URL": store_url, "EVALSPAN_CONFIG": str(config), "OPENAI_API_KEY": "k"}
    worker = WorkerProcess(DataDir(tmp_path / "data"), store_port=1, log=tmp_path / "worker.log", env=environment)
    rng = random.Random(20261130)
    began = time.monotonic()
    try:
        for number in range(kills):
            after_answer = number % 2 == 0
            api.kill_at = {api.answered + rng.randint(1, 2)} if after_answer else set()
            worker.spawn()
            api.victim = worker.pid
            if after_answer:
                assert worker.wait(60) == -signal.SIGKILL
            else:
                seen = api.answered
                until(lambda seen=seen: api.answered > seen, within_s=60)  # type: ignore[misc]  # bound now
                time.sleep(rng.uniform(0, 0.1))
                worker.kill()
        api.kill_at = set()
        worker.start()

        def settled() -> bool:
            found = store.outcomes("default", rule="r", limit=10_000)
            return len({o.run_id for o in found if o.outcome == "scored"}) == len(ids)

        until(settled, within_s=400, what="scoring of every run")
        assert worker.terminate() == 0
    finally:
        worker.kill()
    rows = store.client.rows(
        "SELECT run_id, metric, count() FROM scores FINAL WHERE NOT superseded AND rule = 'r' GROUP BY ALL"
    )
    assert sorted((row[0], row[1]) for row in rows) == sorted((i, m) for i in ids for m in ("correctness", "loops"))
    assert {row[2] for row in rows} == {1}
    ((written, unknown, spent),) = store.client.rows(
        "SELECT count(), countIf(cost_usd IS NULL), sum(cost_usd) FROM judge_calls FINAL"
    )
    counted = store.judge_spend("default", rule="r", since_ns=0)
    print(
        f"{kills} kills in {time.monotonic() - began:.0f} s: {len(ids)} runs, {api.answered} calls answered,"
        f" {written} in the ledger, {unknown} of them of unknown cost, {len(rows)} current scores"
    )
    assert api.answered <= len(ids) + kills
    # Every call that was answered is in the ledger; of those that a kill cut off the cost is unknown and not 0, and
    # what was set aside for them counts as spent.
    assert api.answered <= written <= api.answered + kills
    assert unknown <= kills
    assert spent == pytest.approx((written - unknown) * _CALL_USD)
    assert counted >= max(spent, api.answered * _CALL_USD)
