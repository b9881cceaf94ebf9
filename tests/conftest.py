"""Fixtures that every room's tests may use: a store process for the session, a database per test."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from evalspan_collector.store.contract import Store

#: Fixtures of agents as processes of their own, and of a whole `evalspan up`.
pytest_plugins = ("apparatus.agents", "apparatus.whole")

# How long an example takes says more of what else the machine does than of the code.
settings.register_profile("evalspan", deadline=None)
settings.load_profile("evalspan")


@dataclass(frozen=True, slots=True)
class StoreProcess:
    """A running store front.

    Attributes:
        url: Address with the token in it, without a database: append `/name`.
    """

    process: subprocess.Popen[str]
    port: int
    token: str
    folder: Path

    @property
    def url(self) -> str:
        return f"http://evalspan:{self.token}@127.0.0.1:{self.port}"


def start_store_process(root: Path, port: int = 0) -> StoreProcess:
    """Starts a store front on a free port, in a process of its own, and waits until it serves."""
    process = subprocess.Popen(
        [sys.executable, "-m", "evalspan_collector.store", str(root / "store"), "--port", str(port),
         "--token-file", str(root / "store.token")],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line.isdigit():
        process.kill()
        process.wait()
        raise AssertionError(f"the store process did not start, it said {line!r}")
    token = (root / "store.token").read_text(encoding="utf-8").strip()
    return StoreProcess(process, int(line), token, root / "store")


def stop_store_process(store: StoreProcess) -> int:
    """Stops it as an operator would; returns its exit code."""
    store.process.terminate()
    try:
        code = store.process.wait(20)
    except subprocess.TimeoutExpired:
        store.process.kill()
        code = store.process.wait()
    if store.process.stdout is not None:
        store.process.stdout.close()
    return code


@pytest.fixture(scope="session")
def store_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    """One store process for all tests of this worker."""
    running = start_store_process(tmp_path_factory.mktemp("store"))
    yield running
    stop_store_process(running)


@pytest.fixture
def store_url(store_process: StoreProcess) -> str:
    """Address of an empty database; `open_store(store_url)` makes its schema, no token needed."""
    return f"{store_process.url}/t_{uuid.uuid4().hex[:16]}"


@pytest.fixture
def store(store_url: str) -> Iterator["Store"]:
    """An empty store over HTTP."""
    from evalspan_collector.store.opening import open_clickhouse

    opened = open_clickhouse(store_url)
    yield opened
    opened.client.execute("DROP DATABASE IF EXISTS {name:Identifier}", {"name": opened.client.address.database})
    opened.close()


@pytest.fixture(scope="session")
def clickhouse_server_url() -> str:
    """Address of a real ClickHouse server, without a database; skips where none is given."""
    url = os.environ.get("EVALSPAN_TEST_CLICKHOUSE_URL")
    if not url:
        pytest.skip("EVALSPAN_TEST_CLICKHOUSE_URL names no ClickHouse server")
    return url.rstrip("/")
