"""The embedded store process as the unmodified ClickHouse client and its operator see it."""

import gzip
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from evalspan.errors import ConfigError, StoreError, StoreUnreachableError
from evalspan_collector.span import Span
from evalspan_collector.store._embedded import EngineResult, FolderLock, folder_owner
from evalspan_collector.store._wire import TooLargeError, WireError, decompress, split_insert, strip_format
from evalspan_collector.store.front import Front, FrontOptions, read_token, serve
from evalspan_collector.store.opening import open_clickhouse, open_store

if TYPE_CHECKING:
    from conftest import StoreProcess

NOW = 1_796_000_000_000_000_000
connect_driver: Any = cast("Any", clickhouse_connect).get_client  # typed at our edge


@pytest.fixture(params=[False, "lz4", "zstd", "gzip"])
def driver(request: pytest.FixtureRequest, store_process: "StoreProcess") -> Iterator[Any]:
    client = connect_driver(
        host="127.0.0.1", port=store_process.port, access_token=store_process.token, compress=request.param
    )
    client.command("CREATE DATABASE IF NOT EXISTS stock")
    client.database = "stock"
    client.command("DROP TABLE IF EXISTS t")
    client.command(
        "CREATE TABLE t (a UInt64, s Nullable(String), m Map(LowCardinality(String), String), l Array(String)) "
        "ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100"
    )
    yield client
    client.close()


def test_the_stock_client_inserts_and_reads_with_every_compression(driver: Any) -> None:
    rows = [[i, None if i % 3 else "x" * 50, {"a": str(i)}, ["q"]] for i in range(5000)]
    settings = {"insert_deduplication_token": "one", "async_insert": 0}
    for _ in range(2):
        done = driver.insert("t", rows, column_names=["a", "s", "m", "l"], settings=settings)
        assert done.written_rows == 5000
    assert driver.query("SELECT count(), sum(a) FROM t").result_rows == [(5000, sum(range(5000)))]
    found = driver.query(
        "SELECT * FROM t WHERE a < {top:UInt64} AND m['a'] != {text:String} ORDER BY a",
        parameters={"top": 3, "text": "it's \\ \n"},
    )
    assert found.result_rows == [tuple(row) for row in rows[:3]]
    assert found.summary["read_rows"] != "0"


def test_an_empty_result_keeps_its_columns(driver: Any) -> None:
    assert driver.query("SELECT a, s AS text FROM t WHERE a > 5").column_names == ("a", "text")
    assert driver.query("WITH 5 AS z SELECT a, z FROM t WHERE a > {x:UInt8}", parameters={"x": 1}).column_names == (
        "a",
        "z",
    )
    assert driver.query("SELECT * FROM t LIMIT 0").column_names == ("a", "s", "m", "l")


def test_every_kind_of_insert_arrives(driver: Any) -> None:
    driver.command("INSERT INTO t VALUES (1, 'x FORMAT Native\n', map(), [])")
    driver.raw_insert("t", insert_block=b'2,x,"{}","[]"\n', fmt="CSV")
    driver.command("INSERT INTO t SELECT 3, NULL, map('k', 'v'), ['a']")
    driver.insert("t", [[4, "y", {}, []]], column_names=["a", "s", "m", "l"])
    assert driver.query("SELECT a, s FROM t ORDER BY a").result_rows == [
        (1, "x FORMAT Native\n"),
        (2, "x"),
        (3, None),
        (4, "y"),
    ]


@pytest.mark.parametrize(
    ("sql", "settings", "code"),
    [
        ("SELECT * FROM nowhere", {}, 60),
        ("SELEC", {}, 62),
        ("SELECT 1", {"max_execution_time": "abc"}, 72),
        ("SELECT sleepEachRow(1) FROM numbers(3)", {"max_execution_time": 1}, 159),
        ("INSERT INTO t SELECT 1, '', map(), []", {"readonly": 1}, 164),
        ("SELECT {x:UInt8}", {}, 456),
    ],
)
def test_errors_carry_clickhouse_s_own_code(driver: Any, sql: str, settings: dict[str, Any], code: int) -> None:
    with pytest.raises(DatabaseError) as caught:
        driver.query(sql, settings=settings)
    assert caught.value.code == code
    assert driver.query("SELECT 1").result_rows == [(1,)]


def test_settings_of_one_request_do_not_reach_the_next(driver: Any) -> None:
    ask = "SELECT value FROM system.settings WHERE name = 'max_block_size'"
    usual = driver.query(ask).result_rows
    assert driver.query(ask, settings={"max_block_size": 777}).result_rows == [("777",)]
    driver.command("SET max_block_size = 778")
    for _ in range(10):
        assert driver.query(ask).result_rows == usual


def test_large_parameters_travel_in_a_form(store_process: "StoreProcess") -> None:
    client = connect_driver(
        host="127.0.0.1", port=store_process.port, username="any", password=store_process.token,
        form_encode_query_params=True,
    )  # fmt: skip
    text = "é'\n\\" * 20_000
    assert client.query("SELECT {big:String}", parameters={"big": text}).result_rows == [(text,)]
    client.close()


def request(
    store: "StoreProcess", path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=20)
    connection.request("POST" if body is not None else "GET", path, body, headers or {})
    reply = connection.getresponse()
    answer = reply.status, reply.read(), dict(reply.headers)
    connection.close()
    return answer


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic !!!"},
        {"X-ClickHouse-Key": ""},
        {"Authorization": "Bearer"},
    ],
)
def test_without_the_token_nothing_is_answered(store_process: "StoreProcess", headers: dict[str, str]) -> None:
    status, body, found = request(store_process, "/?query=SELECT+42", headers=headers)
    assert (status, found["X-ClickHouse-Exception-Code"]) == (403, "516")
    assert b"42" not in body
    with pytest.raises(StoreError) as caught:
        open_store(f"http://127.0.0.1:{store_process.port}/x", token="guessed-token")
    assert "guessed-token" not in str(caught.value)
    assert getattr(caught.value, "code", None) == 516


def test_the_token_is_taken_in_each_of_clickhouse_s_ways(store_process: "StoreProcess") -> None:
    token = store_process.token
    for headers in ({"Authorization": f"Bearer {token}"}, {"X-ClickHouse-Key": token, "X-ClickHouse-User": "default"}):
        assert request(store_process, "/?query=SELECT+42", headers=headers)[:2] == (200, b"42\n")
    assert request(store_process, f"/?query=SELECT+42&password={token}")[1] == b"42\n"


def test_ping_asks_the_engine_and_needs_no_token(store_process: "StoreProcess") -> None:
    assert request(store_process, "/ping")[:2] == (200, b"Ok.\n")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "lz4"])
def test_damaged_or_unknown_bodies_are_refused_and_harm_nothing(store_process: "StoreProcess", encoding: str) -> None:
    headers = {"X-ClickHouse-Key": store_process.token, "Content-Encoding": encoding}
    status, _, found = request(store_process, "/", b"\x00\xff not compressed", headers)
    assert status in (400, 415)
    assert found["X-ClickHouse-Exception-Code"] in ("271", "48")
    assert request(store_process, "/ping")[0] == 200


def test_random_bytes_on_the_socket_harm_nothing(store_process: "StoreProcess") -> None:
    noise = random.Random(5)
    for _ in range(30):
        with socket.create_connection(("127.0.0.1", store_process.port), timeout=30) as raw:
            raw.sendall(noise.randbytes(noise.randrange(1, 3000)))
    assert request(store_process, "/ping")[0] == 200


def test_a_bomb_is_stopped_while_it_inflates() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with pytest.raises(TooLargeError):
        decompress(bomb, "gzip", 1_000_000)
    assert decompress(gzip.compress(b"a") + gzip.compress(b"b"), "gzip", 100) == b"ab"
    assert decompress(zlib.compress(b"abc"), "deflate", 100) == b"abc"
    with pytest.raises(WireError):
        decompress(gzip.compress(b"abc" * 1000)[:-20], "gzip", 10_000)


def test_inserts_are_told_from_statements_that_look_like_them() -> None:
    found = split_insert(b"INSERT INTO `a b`.t (`x`, y) SETTINGS z='FORMAT q' FORMAT Native\n\x01\x02")
    assert found is not None
    assert (found.statement, found.fmt) == ("INSERT INTO `a b`.t (`x`, y) SETTINGS z='FORMAT q'", "Native")
    assert split_insert(b"insert into t format CSV\n1") is not None
    assert split_insert(b"INSERT INTO t VALUES ('FORMAT Native\n')") is None
    assert split_insert(b"INSERT INTO t SELECT 1 FORMAT Native\n") is None
    assert split_insert(b"SELECT 1 FORMAT Native") is None
    assert strip_format(b"SELECT 1\n FORMAT Native") == (b"SELECT 1", "Native")
    assert strip_format(b"SELECT 'x FORMAT y'") == (b"SELECT 'x FORMAT y'", None)


# life


def start(root: Path, *more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "evalspan_collector.store", str(root / "store"), "--token-file", str(root / "token"), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def port_of(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.strip().isdigit(), process.communicate()[1]
    return int(line)


def end(process: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> int:
    process.send_signal(number)
    process.communicate(timeout=30)
    return process.returncode


def test_a_second_owner_is_told_the_first_one_s_pid(store_process: "StoreProcess", tmp_path: Path) -> None:
    assert folder_owner(store_process.folder) == store_process.process.pid
    with pytest.raises(StoreError, match=rf"open in another process \(pid {store_process.process.pid}\)"):
        open_store(f"chdb://{store_process.folder}")
    assert folder_owner(tmp_path) is None
    lock = FolderLock(tmp_path)
    lock.acquire()
    assert folder_owner(tmp_path) == os.getpid()
    lock.release()
    lock.release()
    assert folder_owner(tmp_path) is None


def test_a_busy_port_is_named_with_its_flag(store_process: "StoreProcess", tmp_path: Path) -> None:
    process = start(tmp_path, "--port", str(store_process.port))
    _, error = process.communicate(timeout=60)
    assert process.returncode == 3
    assert f"127.0.0.1:{store_process.port}" in error
    assert "--port or EVALSPAN_STORE_PORT" in error
    assert "Traceback" not in error


def test_sigterm_ends_it_cleanly_and_the_data_is_there_again(tmp_path: Path) -> None:
    process = start(tmp_path, "--port", "0")
    url = f"http://127.0.0.1:{port_of(process)}/evalspan"
    token = read_token(tmp_path / "token")
    store = open_store(url, token=token)
    store.insert_spans([span(0, 0)], token="t")
    store.close()
    assert end(process) == 0
    assert folder_owner(tmp_path / "store") is None
    with pytest.raises(StoreUnreachableError, match="does not answer"):
        open_store(url, token=token)
    process = start(tmp_path, "--port", "0")
    again = open_store(f"http://127.0.0.1:{port_of(process)}/evalspan", token=token)
    assert len(again.spans("default", [span(0, 0).trace_id])) == 1
    again.close()
    assert end(process) == 0


def test_files_and_folders_are_for_their_owner_only(store_process: "StoreProcess", tmp_path: Path) -> None:
    token = tmp_path / "deep" / "token"
    first = read_token(token)
    assert read_token(token) == first
    assert token.stat().st_mode & 0o777 == 0o600
    assert store_process.folder.stat().st_mode & 0o777 == 0o700
    token.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_token(token)


def test_an_address_that_others_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'0\.0\.0\.0' is refused"):
        serve(tmp_path / "store", host="0.0.0.0", token_file=tmp_path / "token")
    assert not (tmp_path / "store").exists()


def test_an_insert_does_not_import_pandas(store_url: str) -> None:
    code = (
        "import sys\nfrom evalspan_collector.store.opening import open_store\nfrom evalspan_collector.span import Span\n"
        "s = open_store(sys.argv[1])\n"
        "s.insert_spans([Span(trace_id='a'*32, span_id='b'*16, name='n', start_ns=1, end_ns=2)], token='t')\n"
        "assert len(s.spans('default', ['a'*32])) == 1\n"
        "print(sorted({'pandas', 'pyarrow', 'chdb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, store_url], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# kill -9


def span(writer: int, number: int) -> Span:
    return Span(
        trace_id=f"{writer:016x}{number // 10:016x}", span_id=f"{number:016x}", name="chat", start_ns=NOW, end_ns=NOW,
        received_ns=NOW + number, input_messages="x" * 400,
    )  # fmt: skip


class Writer(threading.Thread):
    """Sends blocks under tokens and repeats each until it is confirmed, as the collector's drain does."""

    def __init__(self, number: int, url: Callable[[], str], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.confirmed = 0
        self.attempts = 0
        self._url = url
        self._stop_asked = stop

    def run(self) -> None:
        block = 0
        store: Any = None
        while not self._stop_asked.is_set():
            spans = [span(self.number, block * 50 + i) for i in range(50)]
            try:
                self.attempts += 1
                store = store or open_clickhouse(self._url())
                store.insert_spans(spans, token=f"{self.number}:{block}")
            except StoreError:
                if store is not None:
                    store.close()
                store = None
                time.sleep(0.05)
                continue
            self.confirmed += len(spans)
            block += 1
        if store is not None:
            store.close()


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_store_killed_under_load_loses_and_doubles_nothing(tmp_path: Path) -> None:
    kills = int(os.environ.get("EVALSPAN_TEST_KILLS", "4"))
    process = start(tmp_path, "--port", "0")
    port = port_of(process)
    token = read_token(tmp_path / "token")
    url = f"http://x:{token}@127.0.0.1:{port}/evalspan"
    stop = threading.Event()
    writers = [Writer(number, lambda: url, stop) for number in range(3)]
    for writer in writers:
        writer.start()
    moments = random.Random(11)
    slowest = 0.0
    for _ in range(kills):
        before = sum(w.confirmed for w in writers)
        deadline = time.monotonic() + 60
        while sum(w.confirmed for w in writers) < before + 150:
            assert time.monotonic() < deadline, "nothing is confirmed any more"
            time.sleep(0.02)
        time.sleep(moments.random() * 0.3)
        assert end(process, signal.SIGKILL) == -signal.SIGKILL
        began = time.monotonic()
        process = start(tmp_path, "--port", str(port))
        assert port_of(process) == port
        slowest = max(slowest, time.monotonic() - began)
    stop.set()
    for writer in writers:
        writer.join(60)
        assert not writer.is_alive()
    store = open_clickhouse(url)
    for writer in writers:
        where = "FROM spans WHERE startsWith(trace_id, {prefix:String})"
        ((rows, distinct),) = store.client.rows(
            f"SELECT count(), uniqExact(span_id) {where}", {"prefix": f"{writer.number:016x}"}
        )
        assert rows == distinct, "a block was stored twice"
        assert rows >= writer.confirmed, "a confirmed span is lost"
        assert rows <= writer.confirmed + 50
    # The log of arrivals saw every trace: none would wait forever for its assembly.
    ((traces, noted),) = store.client.rows(
        "SELECT (SELECT uniqExact(trace_id) FROM spans), (SELECT uniqExact(trace_id) FROM arrivals)"
    )
    assert noted >= traces - 3 * 5
    store.close()
    assert end(process) == 0
    sent = sum(w.confirmed for w in writers)
    print(
        json.dumps({"kills": kills, "confirmed": sent, "lost": 0, "twice": 0, "slowest_restart_s": round(slowest, 2)})
    )


class HungEngine:
    """An engine that takes statements and never answers, as chDB does after a crash inside it."""

    def __init__(self) -> None:
        self.free = threading.Event()

    def query(self, sql: str) -> EngineResult:
        self.free.wait()
        return EngineResult(b"1\n" if sql == "select 1" else b"")

    def close(self) -> None:
        self.free.set()


def test_ping_fails_in_time_when_the_engine_hangs() -> None:
    engine = HungEngine()
    front = Front(cast("Any", engine), host="127.0.0.1", port=0, token=None, options=FrontOptions(ping_timeout_s=0.2))
    serving = threading.Thread(target=front.serve)
    serving.start()
    address = f"http://127.0.0.1:{front.port}/ping"
    for _ in range(3):  # a second probe waits for the first one instead of piling up
        with pytest.raises(urllib.error.HTTPError) as caught, urllib.request.urlopen(address, timeout=30):
            pass
        assert caught.value.code == 503
        caught.value.close()
    engine.free.set()
    deadline = time.monotonic() + 30
    while not front.ping():
        assert time.monotonic() < deadline
    front.stop()
    serving.join(30)
    assert not serving.is_alive()


def test_statements_above_the_limit_are_told_to_come_again() -> None:
    engine = HungEngine()
    options = FrontOptions(workers=1, waiting=1)
    front = Front(cast("Any", engine), host="127.0.0.1", port=0, token=None, options=options)
    serving = threading.Thread(target=front.serve)
    serving.start()
    waiting = [threading.Thread(target=front.run, args=(lambda: engine.query("select 1"), 10.0)) for _ in range(2)]
    for thread in waiting:
        thread.start()
    deadline = time.monotonic() + 5
    while True:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{front.port}/?query=SELECT+1&max_execution_time=1", timeout=15)
        status, retry = caught.value.code, caught.value.headers.get("Retry-After")
        caught.value.close()
        if status == 503 or time.monotonic() > deadline:
            break
    assert (status, retry) == (503, "1")
    engine.free.set()
    for thread in waiting:
        thread.join(30)
    front.stop()
    serving.join(30)
