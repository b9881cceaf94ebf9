"""Cluster: the schema on a ClickHouse cluster, generated from the same SQL: replicated tables and distributed ones.

Every table `t` becomes `t_local` on each shard and `t` in front of it, so that no query changes.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from evalspan.errors import ConfigError

__all__ = ["CLUSTER_SETTINGS", "SHARDING", "ClusterDdl"]

#: What a session on a cluster needs: IN and JOIN over all shards, inserts that are confirmed by the shards.
CLUSTER_SETTINGS: Final[dict[str, Any]] = {
    "distributed_product_mode": "global",
    "distributed_foreground_insert": 1,
    "insert_distributed_sync": 1,
}

#: Which rows lie together: all of a trace, all of a run, all of a project's small things.
SHARDING: Final = {
    "spans": "cityHash64(trace_id)",
    "logs": "cityHash64(trace_id)",
    "arrivals": "cityHash64(trace_id)",
    "runs": "cityHash64(run_id)",
    "steps": "cityHash64(run_id)",
    "scores": "cityHash64(run_id)",
    "outcomes": "cityHash64(run_id)",
    "judge_calls": "cityHash64(run_id)",
    "annotations": "cityHash64(run_id)",
    "api_keys": "cityHash64(key_id)",
    "api_key_uses": "cityHash64(key_id)",
    "migrations": "toUInt64(0)",
}

_CREATE: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)\b(.*)\Z", re.DOTALL)
_ENGINE: Final = re.compile(r"ENGINE = (\w*MergeTree)(?:\(([^)]*)\))?")
_ALTER: Final = re.compile(r"ALTER TABLE (\w+)\b(.*)\Z", re.DOTALL)


class ClusterDdl:
    """Rewrites statements of the migrations for a cluster.

    Args:
        cluster: Name of the cluster in the servers' configuration.
        database: Database of the store; part of the tables' paths in Keeper.

    Raises:
        ConfigError: A name holds anything but letters, digits, `_`, `-` and `.`.
    """

    def __init__(self, cluster: str, database: str) -> None:
        for name in (cluster, database):
            if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
                raise ConfigError(f"cluster or database name {name!r} may hold letters, digits, '_', '-' and '.' only")
        self._cluster = cluster
        self._database = database

    def __call__(self, statement: str) -> Sequence[str]:
        """The statements that run instead of `statement`."""
        created = _CREATE.match(statement)
        if created is not None:
            return self._create(created.group(1), created.group(2))
        altered = _ALTER.match(statement)
        if altered is not None:
            table, rest = altered.groups()
            local = f"ALTER TABLE {table}_local ON CLUSTER '{self._cluster}'{rest}"
            # Settings are those of the parts; the table in front has none.
            if rest.lstrip().startswith("MODIFY SETTING"):
                return (local,)
            return local, f"ALTER TABLE {table} ON CLUSTER '{self._cluster}'{rest}"
        return (statement,)

    def _create(self, table: str, rest: str) -> Sequence[str]:
        def engine(found: re.Match[str]) -> str:
            path = f"'/clickhouse/tables/{{shard}}/{self._database}/{table}', '{{replica}}'"
            arguments = f"{path}, {found.group(2)}" if found.group(2) else path
            return f"ENGINE = Replicated{found.group(1)}({arguments})"

        local = _ENGINE.sub(engine, rest).replace(
            "non_replicated_deduplication_window", "replicated_deduplication_window"
        )
        sharding = SHARDING.get(table, "cityHash64(project)")
        engine_in_front = f"Distributed('{self._cluster}', '{self._database}', '{table}_local', {sharding})"
        create = f"CREATE TABLE IF NOT EXISTS {table}"
        return (
            f"{create}_local ON CLUSTER '{self._cluster}'{local}",
            f"{create} ON CLUSTER '{self._cluster}' AS {table}_local\nENGINE = {engine_in_front}",
        )
