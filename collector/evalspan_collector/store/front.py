"""Front: one process that owns a chDB folder and serves ClickHouse's own HTTP interface on loopback."""

import concurrent.futures
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from evalspan.errors import ConfigError, StoreError
from evalspan_collector.store._embedded import Engine, EngineError, EngineOptions, EngineResult
from evalspan_collector.store._http import HttpServer
from evalspan_collector.store._wire import WireError

__all__ = ["Front", "FrontOptions", "read_token", "serve"]

#: Seconds between two looks at whether the folder is still there.
_FOLDER_CHECK_S: Final = 1.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontOptions:
    """Limits of the front.

    Attributes:
        workers: Statements that run at the same time, each on its own handle.
        waiting: Statements that may wait for a worker; above it the answer is 503.
        max_body: Largest request, also after decompression, in bytes.
        query_timeout_s: `max_execution_time` of a statement that sets none.
        ping_timeout_s: Time `/ping` gives the engine to answer `select 1`.
        connections: Open connections; above it new ones get 503.
    """

    workers: int = 6
    waiting: int = 64
    max_body: int = 512 * 1024 * 1024
    query_timeout_s: float = 120.0
    ping_timeout_s: float = 5.0
    connections: int = 256


def read_token(path: Path) -> str:
    """Token of a store, from its file; made (mode 0600) when the file is not there.

    Raises:
        ConfigError: The file is empty or others may read it.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Linked into place when complete, so that nobody reads half a token.
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as out:
            out.write(secrets.token_urlsafe(32) + "\n")
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink(missing_ok=True)
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"the token file {str(path)!r} is readable by others: chmod 600 {path}")
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise ConfigError(f"the token file {str(path)!r} is empty: delete it to have a new token made")
    return token


class Front:
    """The engine behind a pool of threads, and the HTTP server in front of it."""

    def __init__(
        self, engine: Engine, *, host: str, port: int, token: str | None, options: FrontOptions | None = None
    ) -> None:
        self.engine = engine
        self.options = options or FrontOptions()
        self._slots = threading.BoundedSemaphore(self.options.workers + self.options.waiting)
        self._pool = concurrent.futures.ThreadPoolExecutor(self.options.workers, "store")
        self._probe = concurrent.futures.ThreadPoolExecutor(1, "probe")
        self._probing: concurrent.futures.Future[EngineResult] | None = None
        self._probe_guard = threading.Lock()
        try:
            self._server = HttpServer((host, port), self, token=token)
        except OSError as error:
            raise StoreError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; is another store running? "
                "Choose another port with --port or EVALSPAN_STORE_PORT"
            ) from error
        self.host, self.port = host, int(self._server.server_address[1])

    def serve(self) -> None:
        """Answers requests until `stop` is called from another thread."""
        self._server.serve_forever(poll_interval=0.2)

    def stop(self, grace_s: float = 10.0) -> None:
        """Stops accepting, lets running statements end, closes the engine's handles."""
        self._server.shutdown()
        self._server.server_close()
        ended = threading.Thread(target=self._end_pools, daemon=True)
        ended.start()
        ended.join(grace_s)
        self.engine.close()

    def _end_pools(self) -> None:
        for pool in (self._pool, self._probe):
            pool.shutdown(wait=True, cancel_futures=True)

    def ping(self) -> bool:
        """True when the engine answers `select 1` in time; one probe runs at a time."""
        try:
            with self._probe_guard:
                if self._probing is None or self._probing.done():
                    self._probing = self._probe.submit(self.engine.query, "select 1")
                probe = self._probing
            return probe.result(self.options.ping_timeout_s).data == b"1\n"
        except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError, RuntimeError, EngineError):
            return False

    def run(self, work: Callable[[], EngineResult], timeout_s: float) -> EngineResult:
        """Runs work on a pool thread.

        Raises:
            WireError: Too many statements wait already, or the engine did not answer in time.
            EngineError: ClickHouse's own error.
        """
        if not self._slots.acquire(blocking=False):
            limit = self.options.workers + self.options.waiting
            raise WireError(f"more than {limit} statements at once: try again", status=503, code=202)
        try:
            future = self._pool.submit(work)
        except RuntimeError:
            self._slots.release()
            raise WireError("the store is stopping: try again", status=503, code=236) from None
        future.add_done_callback(lambda _: self._slots.release())
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            raise WireError(f"no answer from the engine in {timeout_s:.0f} s", status=500, code=159) from None
        except concurrent.futures.CancelledError:
            raise WireError("the store is stopping: try again", status=503, code=236) from None


def serve(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8123,
    token_file: Path,
    pid_file: Path | None = None,
    engine_options: EngineOptions | None = None,
    options: FrontOptions | None = None,
    prepare: Callable[[Engine], None] | None = None,
    ready: Callable[[Front], None] | None = None,
    insecure: bool = False,
) -> None:
    """Owns the folder `path` and serves it until SIGTERM or SIGINT; blocks.

    Args:
        path: Folder of the store, made with mode 0700.
        host: Address to listen on; anything but loopback needs `insecure`, the front has no TLS.
        port: Port to listen on; 0 takes a free one.
        token_file: File of the token, mode 0600; made when it is not there.
        pid_file: Where to write the pid; removed at the end.
        engine_options: Caps of the engine; by default backups go to `backups` beside the folder.
        options: Limits of the front.
        prepare: Called with the open engine before the port opens: migrations.
        ready: Called once the port is open.
        insecure: Allows an address that other machines reach.

    Raises:
        StoreError: The folder has another owner, or the port is taken; the message says which.
        ConfigError: The token file or the address cannot be used.
    """
    if host not in _LOOPBACK and not insecure:
        raise ConfigError(
            f"the embedded store serves without TLS, so {host!r} is refused: use 127.0.0.1, or a ClickHouse server"
        )
    token = read_token(token_file)
    engine = Engine(path, engine_options or EngineOptions(backups=path.resolve().parent / "backups"))
    engine.open()
    try:
        if prepare is not None:
            prepare(engine)
        front = Front(engine, host=host, port=port, token=token, options=options)
    except BaseException:
        engine.close()
        raise
    stopper = _stop_on_signals(front)
    _end_without_folder(path)
    if pid_file is not None:
        pid_file.parent.mkdir(parents=True, exist_ok=True)
        pid_file.write_text(f"{os.getpid()}\n", encoding="utf-8")
    try:
        if ready is not None:
            ready(front)
        front.serve()
        stopper.join()
    finally:
        if pid_file is not None:
            pid_file.unlink(missing_ok=True)


def _end_without_folder(path: Path) -> None:
    """End the process when its folder is removed or replaced: the engine would go on with files nobody can see."""
    owned = path.stat().st_ino

    def watch() -> None:
        while True:
            time.sleep(_FOLDER_CHECK_S)
            try:
                there = path.stat().st_ino == owned
            except OSError:
                there = False
            if not there:
                print(  # noqa: T201  the last words of the process
                    f"error: the store's folder {str(path)!r} was removed or replaced while in use: what was in it is"
                    " gone unless it is put back or restored from a backup; a new start begins with an empty store",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(StoreError.exit_code)  # closing the engine would wait for files that are gone

    threading.Thread(target=watch, name="folder", daemon=True).start()


def _stop_on_signals(front: Front) -> threading.Thread:
    """A thread that stops the front at the first SIGTERM or SIGINT; handlers only wake it."""
    asked = threading.Event()

    def wait() -> None:
        asked.wait()
        front.stop()

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of a handler
        asked.set()

    thread = threading.Thread(target=wait, name="stopper", daemon=True)
    thread.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return thread
