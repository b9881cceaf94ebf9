"""Embedded engine: chDB in one folder, owned by one process; the only module that imports chdb."""

import contextlib
import fcntl
import json
import os
import re
import tempfile
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from urllib.parse import urlencode
from xml.sax.saxutils import escape

from evalspan.errors import ConfigError, MissingExtraError, StoreError

__all__ = [
    "Durability",
    "Engine",
    "EngineError",
    "EngineOptions",
    "EngineResult",
    "EngineSql",
    "FolderLock",
    "connection_options",
    "error_code",
    "folder_owner",
]

_IDENTIFIER: Final = r"(?:`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"|[A-Za-z_][A-Za-z0-9_]*)"
#: An insert up to its columns; what may follow are settings.
_INSERT_HEAD: Final = re.compile(
    rf"\s*INSERT\s+INTO\s+(?:TABLE\s+)?{_IDENTIFIER}(?:\s*\.\s*{_IDENTIFIER})?(?:\s*\((?:`(?:[^`\\]|\\.)*`|[^()`])*\))?",
    re.IGNORECASE,
)
#: `process`: an insert survives the death of the process; `power`: it is also fsynced.
Durability = Literal["process", "power"]

LOCK_FILE: Final = "evalspan.lock"
_CODE: Final = re.compile(r"Code: (\d+)")
_SETTING_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
#: Statements that change the state of a handle: it is thrown away afterwards.
_STATEFUL: Final = re.compile(rb"\s*(?:SET\s|USE\s|CREATE\s+TEMPORARY\s)", re.IGNORECASE)


class EngineError(StoreError):
    """The engine refused a statement; `code` is ClickHouse's number."""

    def __init__(self, message: str) -> None:
        start = message.find("Code: ")
        super().__init__(message[start:].strip() if start >= 0 else message.strip())
        self.code = error_code(str(self))


def error_code(message: str) -> int:
    """ClickHouse's error number in a message, 1000 (POCO_EXCEPTION) when it names none."""
    found = _CODE.search(message)
    return int(found.group(1)) if found else 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Caps of the embedded engine; ClickHouse's own defaults take 90 % of the memory.

    Attributes:
        memory_bytes: Above it queries fail with code 241 instead of the process being killed.
        mark_cache_bytes: Cache of the primary indexes' marks.
        merge_threads: Background threads that merge parts.
        durability: See `Durability`; `power` costs about 20 ms an insert.
        backups: Folder that BACKUP and RESTORE may touch; None forbids both.
    """

    memory_bytes: int = 2_000_000_000
    mark_cache_bytes: int = 268_435_456
    merge_threads: int = 2
    durability: Durability = "process"
    backups: Path | None = None

    def to_xml(self) -> str:
        """The configuration file the engine reads at start."""
        fsync = int(self.durability == "power")
        allowed = f"<allowed_path>{escape(str(self.backups))}</allowed_path>" if self.backups else ""
        return (
            "<clickhouse>"
            f"<max_server_memory_usage>{self.memory_bytes}</max_server_memory_usage>"
            f"<mark_cache_size>{self.mark_cache_bytes}</mark_cache_size>"
            "<uncompressed_cache_size>0</uncompressed_cache_size>"
            f"<background_pool_size>{self.merge_threads}</background_pool_size>"
            "<merge_tree>"
            "<old_parts_lifetime>30</old_parts_lifetime>"
            f"<fsync_after_insert>{fsync}</fsync_after_insert>"
            f"<fsync_part_directory>{fsync}</fsync_part_directory>"
            "</merge_tree>"
            f"<backups>{allowed}</backups>"
            "</clickhouse>"
        )


def connection_options(folder: Path, options: EngineOptions) -> dict[str, str]:
    """Writes the engine's configuration beside the data and returns the options that name it."""
    # A folder that was there before keeps its rights: it may be somebody's home.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = folder / "evalspan-engine.xml"
    text = options.to_xml()
    if not config.exists() or config.read_text(encoding="utf-8") != text:
        fresh = config.with_suffix(f".{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(config)
    return {"config-file": str(config)}


class FolderLock:
    """Ownership of a store folder: an flock that dies with its process, with the pid inside.

    Within one process it may be taken several times: chDB opens any number of handles there.
    """

    _guard: ClassVar[threading.Lock] = threading.Lock()
    _held: ClassVar[dict[Path, list[int]]] = {}

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        self._taken = False

    def acquire(self) -> None:
        """Takes the folder.

        Raises:
            StoreError: Another process holds it; the message names its pid.
            ConfigError: There can be no such folder.
        """
        with self._guard:
            held = self._held.get(self._path)
            if held is None:
                held = self._held[self._path] = [_lock_file(self._path), 0]
            held[1] += 1
        self._taken = True

    def release(self) -> None:
        """Gives the folder back; twice is harmless."""
        if not self._taken:
            return
        self._taken = False
        with self._guard:
            held = self._held[self._path]
            held[1] -= 1
            if held[1] == 0:
                del self._held[self._path]
                os.ftruncate(held[0], 0)
                os.close(held[0])


def _lock_file(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"the store folder {str(path.parent)!r} cannot be written ({error.strerror}): choose another folder"
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(file, 32).decode(errors="replace").strip() or "unknown"
        os.close(file)
        raise StoreError(
            f"the store folder {str(path.parent)!r} is open in another process (pid {owner}): "
            "stop that process, connect to it by its http:// address, or choose another folder with --data"
        ) from None
    os.ftruncate(file, 0)
    os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    return file


def folder_owner(folder: Path) -> int | None:
    """Pid of the live process that has the store folder open, None when nobody has."""
    path = folder / LOCK_FILE
    if not path.exists():
        return None
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            text = file.read(32).decode(errors="replace").strip()
            return int(text) if text.isdigit() else None
    return None


@dataclass(frozen=True, slots=True)
class EngineResult:
    """Bytes of an answer in the asked format, and what it cost."""

    data: bytes
    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    elapsed_s: float = 0.0


class _Handle:
    """One chDB connection with the database and settings it has; used by one thread at a time."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.database = "default"
        self.settings: dict[str, str] = {}

    def prepare(self, database: str, settings: Mapping[str, str]) -> None:
        if database != self.database:
            self.connection.query("USE `" + database.replace("\\", "\\\\").replace("`", "\\`") + "`", "TabSeparated")
            self.database = database
        if settings == self.settings:
            return
        changes = [f"{name} = {_quote(value)}" for name, value in settings.items() if self.settings.get(name) != value]
        changes += [f"{name} = DEFAULT" for name in self.settings if name not in settings]
        self.connection.query("SET " + ", ".join(changes), "TabSeparated")
        self.settings = dict(settings)


def _quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Engine:
    """chDB on one folder: a handle per thread, all of them closed before the process may end.

    A handle left open at the interpreter's exit ends it with SIGSEGV, and a forked child hangs on
    its first query: use `subprocess` or the spawn method only.
    """

    def __init__(self, folder: Path, options: EngineOptions | None = None) -> None:
        self.folder = folder.resolve()
        self._options = options or EngineOptions()
        self._lock = FolderLock(self.folder)
        self._guard = threading.Lock()
        self._handles: dict[int, _Handle] = {}
        self._root: Any = None
        self._pid = os.getpid()

    @property
    def connection_string(self) -> str:
        """What every handle of this process opens; chDB compares it literally."""
        return f"{self.folder}?{urlencode(connection_options(self.folder, self._options))}"

    def open(self) -> None:
        """Takes the folder and starts the engine.

        Raises:
            StoreError: Another process owns the folder, or the engine cannot open it.
            MissingExtraError: chdb is not installed.
        """
        self._lock.acquire()
        try:
            self._root = self._connect()
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Closes every handle, then gives the folder back; no other thread may still use one."""
        with self._guard:
            handles, self._handles = list(self._handles.values()), {}
        for handle in handles:
            with contextlib.suppress(Exception):
                handle.connection.close()
        if self._root is not None:
            self._root.close()
            self._root = None
        self._lock.release()

    def _connect(self) -> Any:
        try:
            import chdb
        except ImportError:
            raise MissingExtraError("chdb", "server") from None
        try:
            return chdb.connect(self.connection_string)
        except RuntimeError as error:
            raise StoreError(
                f"the embedded engine cannot open {str(self.folder)!r}: {error}; its reason is on standard error"
            ) from error

    def _handle(self) -> _Handle:
        if os.getpid() != self._pid:
            raise StoreError("the embedded engine was opened before a fork: start processes with spawn or subprocess")
        key = threading.get_ident()
        with self._guard:
            handle = self._handles.get(key)
        if handle is None:
            handle = _Handle(self._connect())
            with self._guard:
                self._handles[key] = handle
        return handle

    def release_thread(self) -> None:
        """Closes the calling thread's handle, if it has one."""
        with self._guard:
            handle = self._handles.pop(threading.get_ident(), None)
        if handle is not None:
            handle.connection.close()

    @contextlib.contextmanager
    def _prepared(self, database: str, settings: Mapping[str, str], *, fresh: bool) -> Generator[Any]:
        """The thread's connection in the asked state; after a failure to get there it is dropped."""
        bad = next((name for name in settings if not _SETTING_NAME.match(name)), None)
        if bad is not None:
            raise EngineError(f"Code: 115. DB::Exception: Setting {bad!r} is not a setting's name. (UNKNOWN_SETTING)")
        handle = self._handle()
        try:
            handle.prepare(database, settings)
        except Exception as error:
            self.release_thread()
            raise EngineError(str(error)) from error
        try:
            yield handle.connection
        except RuntimeError as error:  # chdb.ChdbError is one
            raise EngineError(str(error)) from error
        except Exception as error:
            if type(error).__module__.startswith("chdb"):
                raise EngineError(str(error)) from error
            raise
        finally:
            if fresh:
                self.release_thread()

    def query(
        self,
        sql: bytes | str,
        *,
        fmt: str = "TabSeparated",
        database: str = "default",
        settings: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> EngineResult:
        """Runs one statement; a FORMAT clause inside it wins over `fmt`.

        Args:
            sql: One statement.
            fmt: ClickHouse output format.
            database: Default database of the statement.
            settings: ClickHouse settings of this statement alone.
            parameters: Values of `{name:Type}`, escaped as the HTTP interface wants them.

        Raises:
            EngineError: ClickHouse's own error.
        """
        given = settings or {}
        raw = sql if isinstance(sql, bytes) else sql.encode()
        # A sandbox cannot be taken off again, and SET or USE would leak into the next request.
        fresh = "readonly" in given or _STATEFUL.match(raw) is not None
        with self._prepared(database, given, fresh=fresh) as connection:
            result = connection.query(raw.decode(errors="surrogateescape"), fmt, params=dict(parameters or {}))
            return EngineResult(
                result.bytes() or b"",
                read_rows=result.storage_rows_read(),
                read_bytes=result.storage_bytes_read(),
                written_rows=result.rows_written(),
                written_bytes=result.bytes_written(),
                elapsed_s=result.elapsed(),
            )

    def insert(
        self,
        statement: str,
        fmt: str,
        data: bytes | memoryview,
        *,
        database: str = "default",
        settings: Mapping[str, str] | None = None,
    ) -> EngineResult:
        """Inserts encoded rows: `statement` without its FORMAT clause, `data` in format `fmt`.

        Raises:
            EngineError: ClickHouse's own error; nothing of the block is stored then.
        """
        # Not `send_insert`: it calls an insert done whose block could not be written (a full disk, too many
        # partitions, a violated constraint). Read from a file, the same bytes give the engine's own error.
        head = _INSERT_HEAD.match(statement)
        if head is None:
            raise EngineError(f"Code: 62. DB::Exception: {statement[:80]!r} is no INSERT INTO a table. (SYNTAX_ERROR)")
        with (
            _as_file(data) as path,
            self._prepared(database, settings or {}, fresh=False) as connection,
        ):
            result = connection.query(
                f"{head[0]} FROM INFILE '{path}' COMPRESSION 'none'{statement[head.end() :]} FORMAT {fmt}",
                "TabSeparated",
            )
            return EngineResult(
                b"",
                written_rows=result.rows_written(),
                written_bytes=result.bytes_written(),
                elapsed_s=result.elapsed(),
            )


@contextlib.contextmanager
def _as_file(data: bytes | memoryview) -> Generator[str]:
    """A path under which the engine, in this process, reads these bytes; in memory where the system can."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("insert"), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile(prefix="evalspan-insert-") as file:
        file.write(data)
        file.flush()
        yield file.name


class EngineSql:
    """Statements of this process on its own engine: what migrations need before anybody is served."""

    def __init__(self, engine: Engine, database: str) -> None:
        self._engine = engine
        self._database = database
        engine.query("CREATE DATABASE IF NOT EXISTS `" + database.replace("\\", "\\\\").replace("`", "\\`") + "`")

    def execute(self, sql: str, parameters: dict[str, Any] | None = None) -> None:
        """Runs a statement without an answer."""
        self._engine.query(sql, database=self._database, parameters=_texts(parameters))

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Runs a query."""
        result = self._engine.query(
            sql, fmt="JSONCompactEachRow", database=self._database, parameters=_texts(parameters)
        )
        return [tuple(json.loads(line)) for line in result.data.splitlines()]


def _texts(parameters: dict[str, Any] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (parameters or {}).items()}
