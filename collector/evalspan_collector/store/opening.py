"""Opening: a store by its URL, with its schema in place."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from evalspan.errors import SchemaError
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.contract import Store

if TYPE_CHECKING:
    from evalspan_collector.store._embedded import Engine, EngineOptions
    from evalspan_collector.store.clickhouse import ClickHouseStore
    from evalspan_collector.store.client import Client
    from evalspan_collector.store.current import Assemble
    from evalspan_collector.store.migrate import Migration

__all__ = ["migrate_store", "open_clickhouse", "open_store", "prepare_engine"]


def open_store(url: str, *, token: str | None = None, migrate: bool = True, prices: Any = None) -> Store:
    """Opens a store.

    Args:
        url: `http://127.0.0.1:8123/evalspan` (the embedded store process), `https://user:pass@host:8443/database`
            (a server; `?cluster=NAME` for a cluster), `chdb:///folder` (embedded in this process, which must be the
            only one at that folder), or `memory://`.
        token: Token of the embedded store process.
        migrate: Bring the schema up to date; without it an older schema is refused.
        prices: `evalspan_collector.prices.Prices` with the user's overrides, for the cost of single calls in `run`.

    Raises:
        ConfigError: The URL is none of these.
        StoreUnreachableError: Nothing answers there.
        SchemaError: The schema is newer than this code, or older and `migrate` is off.
    """
    if url.startswith("memory:"):
        from evalspan_collector.store.memory import MemoryStore

        return MemoryStore(assemble=_assembler(prices), fingerprint=_fingerprint)
    return open_clickhouse(url, token=token, migrate=migrate, prices=prices)


def open_clickhouse(
    url: str,
    *,
    token: str | None = None,
    migrate: bool = True,
    prices: Any = None,
    engine: "EngineOptions | None" = None,
    clock: Callable[[], int] = time.time_ns,
) -> "ClickHouseStore":
    """Opens a store in ClickHouse; see `open_store`.

    Args:
        url: As for `open_store`.
        token: Likewise.
        migrate: Likewise.
        prices: Likewise.
        engine: Caps of the engine, for `chdb://`.
        clock: Nanoseconds since the epoch.

    Raises:
        ConfigError: The URL is none of these.
        StoreUnreachableError: Nothing answers there.
        SchemaError: The schema is newer than this code, or older and `migrate` is off.
    """
    from evalspan_collector.store.clickhouse import ClickHouseStore
    from evalspan_collector.store.client import Address, connect
    from evalspan_collector.store.migrate import pending_migrations

    client = connect(Address.of(url, token=token), engine=engine)
    try:
        if migrate:
            _migrate(client)
        else:
            _refuse_old(pending_migrations(client))
        return ClickHouseStore(client, assemble=_assembler(prices), fingerprint=_fingerprint, clock=clock)
    except BaseException:
        client.close()
        raise


def migrate_store(url: str, *, token: str | None = None, dry_run: bool = False) -> "tuple[Migration, ...]":
    """Brings the schema of a store in ClickHouse up to date and gives what that took.

    Args:
        url: As for `open_store`.
        token: Likewise.
        dry_run: Only say what would be applied.

    Raises:
        ConfigError: The URL is none of ClickHouse.
        StoreUnreachableError: Nothing answers there.
        SchemaError: The schema is newer than this code, or locked for too long.
    """
    from evalspan_collector.store.client import Address, connect

    client = connect(Address.of(url, token=token))
    try:
        return _migrate(client, dry_run=dry_run)
    finally:
        client.close()


def _migrate(client: "Client", *, dry_run: bool = False) -> "tuple[Migration, ...]":
    from evalspan_collector.store.cluster import ClusterDdl
    from evalspan_collector.store.migrate import migrate as run_migrations

    address = client.address
    rewrite = ClusterDdl(address.cluster, address.database) if address.cluster else None
    return run_migrations(client, rewrite=rewrite, dry_run=dry_run)


def _refuse_old(pending: "Sequence[Migration]") -> None:
    if pending:
        names = ", ".join(f"{migration.number:04}_{migration.name}" for migration in pending)
        raise SchemaError(f"the store lacks the migrations {names}: open it once with migrate=True")


def prepare_engine(engine: "Engine", database: str = "evalspan") -> None:
    """Brings the schema of an engine that this process owns up to date, before it serves anyone.

    Raises:
        SchemaError: The schema is newer than this code, or damaged.
    """
    from evalspan_collector.store._embedded import EngineSql
    from evalspan_collector.store.migrate import migrate as run_migrations

    run_migrations(EngineSql(engine, database), exclusive=True)


def _assembler(prices: Any) -> "Assemble":
    def assemble_runs(spans: Sequence[Span], logs: Sequence[LogRecord]) -> Sequence[Run]:
        from evalspan_collector.assemble import assemble

        return assemble(spans, logs, prices=prices)

    return assemble_runs


def _fingerprint(run: Run) -> str:
    from evalspan_collector.completion import run_fingerprint

    return run_fingerprint(run)
