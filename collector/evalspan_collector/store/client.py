"""Client: clickhouse-connect as the store uses it, to a server, to the front, or to chDB in this process."""

import contextlib
import logging
import struct
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError as DriverError
from clickhouse_connect.driver.exceptions import DataError, OperationalError, StreamFailureError
from clickhouse_connect.driver.insert import InsertContext

from evalspan.errors import ConfigError, StoreError, StoreUnreachableError
from evalspan_collector.store._embedded import EngineOptions, FolderLock, connection_options
from evalspan_collector.store._wire import compress
from evalspan_collector.store.cluster import CLUSTER_SETTINGS

__all__ = ["Address", "ClickHouseError", "Client", "UnencodableError", "connect"]

# The driver logs what we raise anyway.
logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)

_DEFAULT_DATABASE: Final = "evalspan"
#: Rows of one Native block on the wire.
_BLOCK_ROWS: Final = 8192
#: Error numbers that mean "try again later", not "this is wrong".
_BUSY: Final = frozenset({202, 236, 252, 209, 210, 279})


class ClickHouseError(StoreError):
    """ClickHouse refused a statement; `code` is its error number, None when it gave none."""

    def __init__(self, message: str, code: int | None) -> None:
        super().__init__(message)
        self.code = code


class UnencodableError(StoreError):
    """A value fits no column: a lone surrogate, a number out of range; nothing was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a store is.

    Attributes:
        folder: Set for chDB in this process; the network fields are unused then.
        cluster: Name of the cluster (`?cluster=NAME`) whose tables are replicated and distributed.
        options: Further arguments of `clickhouse_connect.get_client` from the URL's query.
    """

    database: str = _DEFAULT_DATABASE
    folder: Path | None = None
    interface: str = "http"
    host: str = ""
    port: int = 8123
    username: str | None = None
    password: str | None = None
    token: str | None = None
    cluster: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: str, *, token: str | None = None) -> "Address":
        """Reads a store URL.

        Raises:
            ConfigError: It is no `http(s)://[user:pass@]host[:port][/database]` and no `chdb://folder`.
        """
        if url.startswith("chdb://"):
            path, _, query = url.removeprefix("chdb://").partition("?")
            given = dict(parse_qsl(query))
            if not path.strip("/"):
                raise ConfigError(f"store URL {url!r} names no folder: write chdb:///folder")
            return cls(folder=Path(unquote(path)), database=given.get("database", _DEFAULT_DATABASE))
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise ConfigError(f"store URL {_masked(url)!r} is no URL: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"store URL {_masked(url)!r} is not http(s)://user:password@host:port/database or chdb:///folder"
            )
        try:
            port = parts.port or (8443 if parts.scheme == "https" else 8123)
        except ValueError:
            raise ConfigError(f"store URL {_masked(url)!r} has no valid port") from None
        options = dict(parse_qsl(parts.query))
        return cls(
            database=parts.path.strip("/") or _DEFAULT_DATABASE,
            interface=parts.scheme,
            host=parts.hostname,
            port=port,
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            token=token,
            cluster=options.pop("cluster", None),
            options=tuple(options.items()),
        )

    def __str__(self) -> str:
        if self.folder is not None:
            return f"chdb://{self.folder}"
        return f"{self.interface}://{self.host}:{self.port}/{self.database}"


def _masked(url: str) -> str:
    """The URL without its password, for messages."""
    head, separator, tail = url.partition("@")
    return f"...@{tail}" if separator else head


class _Block(InsertContext):
    """Columns to insert. The base class imports pandas, seconds and 80 MB, to see that they are no DataFrame."""

    @property
    def data(self) -> Any:
        """The columns as given."""
        return self._raw_data

    @data.setter
    def data(self, data: Any) -> None:
        self._raw_data = self._data = self._block_columns = data
        self._block_rows = None
        self._next_block_data: Any = cast("Any", super())._column_block_data  # noqa: SLF001  # our own base
        self.current_block = self.current_row = 0
        self.column_count = len(data) if data is not None else 0
        self.row_count = len(data[0]) if data else 0
        self.block_row_count = _BLOCK_ROWS


class Client:
    """One connection pool; safe for threads. Values travel as parameters, never inside SQL."""

    def __init__(self, driver: Any, address: Address, lock: FolderLock | None = None) -> None:
        self._driver = driver
        self.address = address
        self._lock = lock
        self._compresses = address.folder is None and not _is_local(address.host)
        self._tables: dict[str, Mapping[str, Any]] = {}

    def execute(
        self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Runs a statement without an answer.

        Raises:
            StoreError: ClickHouse refused it, or is not there.
        """
        with self._errors():
            self._driver.command(sql, parameters=dict(parameters or {}), settings=dict(settings or {}))

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Runs a query and gives its rows.

        Raises:
            StoreError: ClickHouse refused it, or is not there.
        """
        with self._errors():
            result = self._driver.query(sql, parameters=dict(parameters or {}), settings=dict(settings or {}))
            return cast("list[tuple[Any, ...]]", result.result_rows)

    def columns(
        self, sql: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
    ) -> tuple[tuple[str, ...], list[Sequence[Any]]]:
        """Runs a query and gives its column names and columns; an empty answer has empty columns.

        Raises:
            StoreError: ClickHouse refused it, or is not there.
        """
        with self._errors():
            result = self._driver.query(
                sql, parameters=dict(parameters or {}), settings=dict(settings or {}), column_oriented=True
            )
            names = cast("tuple[str, ...]", tuple(result.column_names))
            columns = cast("list[Sequence[Any]]", list(result.result_columns))
            return names, columns or [() for _ in names]

    def insert(
        self,
        table: str,
        names: Sequence[str],
        columns: Sequence[Sequence[Any]],
        *,
        token: str,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Inserts columns as one block; the same token twice stores them once.

        Raises:
            UnencodableError: A value fits no column.
            StoreError: ClickHouse refused the block; nothing of it is stored.
        """
        with self._errors():
            types = self._types_of(table)
            try:
                self._driver.data_insert(
                    _Block(
                        table=f"`{table}`",
                        column_names=names,
                        column_types=[types[name] for name in names],
                        data=columns,
                        column_oriented=True,
                        settings={"insert_deduplication_token": token, "async_insert": 0, **(settings or {})},
                        block_size=_BLOCK_ROWS,
                    )
                )
            except (DataError, UnicodeError, OverflowError, TypeError, AttributeError, struct.error) as error:
                raise UnencodableError(f"a value for table {table!r} cannot be stored: {error}") from error

    def insert_native(
        self,
        table: str,
        names: Sequence[str],
        pieces: Iterable[bytes | bytearray],
        *,
        token: str,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Inserts one block that is encoded in ClickHouse's Native format; the same token twice stores it once.

        Raises:
            StoreError: ClickHouse refused the block; nothing of it is stored.
        """
        block = b"".join(pieces)
        compression = None
        if self._compresses:
            block, compression = compress(block, "lz4")
        with self._errors():
            self._driver.raw_insert(
                f"`{table}`",
                names,
                block,
                settings={"insert_deduplication_token": token, "async_insert": 0, **(settings or {})},
                fmt="Native",
                compression=compression,
            )

    def _types_of(self, table: str) -> Mapping[str, Any]:
        """Column types of a table as the server has them, asked once."""
        known = self._tables.get(table)
        if known is None:
            context = self._driver.create_insert_context(table, "*")
            known = self._tables[table] = dict(zip(context.column_names, context.column_types, strict=True))
        return known

    def raw(
        self, sql: str, fmt: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
    ) -> bytes:
        """Runs a query and gives its bytes in a ClickHouse format.

        Raises:
            StoreError: ClickHouse refused it, or is not there.
        """
        with self._errors():
            answer = self._driver.raw_query(
                sql, parameters=dict(parameters or {}), settings=dict(settings or {}), fmt=fmt
            )
            return cast("bytes", answer)

    def close(self) -> None:
        """Gives the connections back."""
        self._driver.close()
        if self._lock is not None:
            self._lock.release()

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except DriverError as error:
            raise _translated(error, self.address) from error
        except RuntimeError as error:  # the in-process engine's own
            raise ClickHouseError(str(error), None) from error


def _cause(error: BaseException) -> str:
    """The system's own words, such as `Connection refused`, not the layers that drivers wrap around them."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
        reason = getattr(found, "reason", None)  # what urllib3 keeps beside the chain
        found = reason if isinstance(reason, BaseException) else found.__cause__ or found.__context__
    return " ".join(str(error).split())[:200]


def _translated(error: DriverError, address: Address) -> StoreError:
    code = getattr(error, "code", None)
    if code is None and isinstance(error, OperationalError | StreamFailureError):
        return StoreUnreachableError(
            f"the store at {address} does not answer ({_cause(error)}): start it with `evalspan up`, or name another"
            " with --store-url, or the port of the embedded one with EVALSPAN_STORE_PORT"
        )
    if code in _BUSY:
        return StoreUnreachableError(f"the store at {address} is busy: {error}")
    return ClickHouseError(str(error), code)


def connect(address: Address, *, timeout_s: float = 130.0, engine: EngineOptions | None = None) -> Client:
    """Connects and makes the database when it is not there.

    Args:
        address: Where the store is.
        timeout_s: How long one statement may take.
        engine: Caps of the engine, for chDB in this process.

    Raises:
        StoreUnreachableError: Nothing answers there.
        StoreError: It answers, but refuses: wrong token, folder open elsewhere.
    """
    if address.folder is not None:
        return _connect_folder(address, engine or EngineOptions())
    arguments: dict[str, Any] = {
        "interface": address.interface,
        "host": address.host,
        "port": address.port,
        "connect_timeout": 5,
        "send_receive_timeout": int(timeout_s),
        "autogenerate_session_id": False,
        "compress": not _is_local(address.host),
        "query_limit": 0,
        "tz_mode": "naive_utc",
        "client_name": "evalspan",
        "dedicated_pool": True,
        "settings": CLUSTER_SETTINGS if address.cluster else {},
        **dict(address.options),
    }
    if address.token is not None and address.username is None:
        arguments["access_token"] = address.token
    else:
        arguments["username"] = address.username
        arguments["password"] = address.password or address.token or ""
    return _opened(address, arguments, None)


def _connect_folder(address: Address, engine: EngineOptions) -> Client:
    folder = cast("Path", address.folder).resolve()
    lock = FolderLock(folder)
    lock.acquire()
    try:
        options = connection_options(folder, engine)
        return _opened(address, {"interface": "chdb", "path": str(folder), "chdb_options": options}, lock)
    except BaseException:
        lock.release()
        raise


def _opened(address: Address, arguments: dict[str, Any], lock: FolderLock | None) -> Client:
    driver: Any = None
    try:
        driver = cast("Any", clickhouse_connect).get_client(**arguments)
        everywhere = f" ON CLUSTER '{address.cluster}'" if address.cluster else ""
        create = f"CREATE DATABASE IF NOT EXISTS {{database:Identifier}}{everywhere}"
        driver.command(create, {"database": address.database})
        driver.database = address.database
    except Exception as error:
        if driver is not None:
            driver.close()
        if isinstance(error, DriverError):
            raise _translated(error, address) from error
        raise
    return Client(driver, address, lock)


def _is_local(host: str) -> bool:
    return host in ("127.0.0.1", "localhost", "::1")
