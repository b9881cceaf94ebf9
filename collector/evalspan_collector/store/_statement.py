"""Statement: what one request of the HTTP interface asks of the engine."""

import email
import email.policy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from evalspan_collector.store._embedded import Engine, EngineResult
from evalspan_collector.store._wire import Headers, InsertParts, WireError, native_header, split_insert, strip_format

__all__ = ["Statement", "form_fields"]

#: URL parameters of the HTTP interface that are no settings of the engine.
_TRANSPORT: Final = frozenset(
    {
        "query", "database", "default_format", "user", "password", "query_id", "session_id", "session_timeout",
        "session_check", "close_session", "compress", "decompress", "quota_key", "role", "buffer_size",
        "wait_end_of_query", "client_protocol_version", "send_progress_in_http_headers", "stacktrace",
        "http_headers_progress_interval_ms", "enable_http_compression",
        "cancel_http_readonly_queries_on_client_close",
    }
)  # fmt: skip


def form_fields(body: bytes, content_type: str) -> dict[str, str]:
    """Fields of a multipart form: how the client sends large parameters.

    Raises:
        WireError: The form holds a file (external data), which the embedded store does not know.
    """
    raw = b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body
    message = email.message_from_bytes(raw, policy=email.policy.HTTP)
    fields: dict[str, str] = {}
    for part in message.walk():
        if part.is_multipart():
            continue
        if part.get_filename() is not None:
            raise WireError("external data is not supported by the embedded store (NOT_IMPLEMENTED)", code=48)
        name = part.get_param("name", header="content-disposition")
        payload = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(payload, bytes):
            fields[name] = payload.decode(errors="surrogateescape")
    return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement with everything the request said about it.

    Attributes:
        sql: The statement, and for an insert its data after it.
        fmt: Output format; a FORMAT clause of the statement wins.
        insert: Set for `INSERT ... FORMAT`, whose data the engine streams in.
        timeout_s: How long it may run.
    """

    sql: bytes
    fmt: str
    database: str
    settings: dict[str, str]
    parameters: dict[str, str]
    insert: InsertParts | None
    timeout_s: float

    @classmethod
    def of(cls, body: bytes, given: Mapping[str, str], headers: Headers, timeout_s: float) -> "Statement":
        """Reads a statement out of a request.

        Raises:
            WireError: The request holds no statement.
        """
        query = given.get("query", "").encode(errors="surrogateescape")
        # ClickHouse reads the query parameter first and the body after it.
        sql = query + b"\n" + body if query and body else query or body
        if not sql.strip():
            raise WireError("Empty query (SYNTAX_ERROR)", code=62)
        settings = {k: v for k, v in given.items() if k not in _TRANSPORT and not k.startswith("param_")}
        insert = split_insert(sql)
        if insert is None:
            settings.setdefault("max_execution_time", f"{timeout_s:g}")
        try:
            timeout_s = float(settings.get("max_execution_time") or timeout_s) or timeout_s
        except ValueError:
            pass  # the engine says what is wrong with it
        named = strip_format(sql[-256:])[1] if insert is None else None
        return cls(
            sql=sql,
            fmt=named or given.get("default_format") or headers.get("X-ClickHouse-Format") or "TabSeparated",
            database=given.get("database") or headers.get("X-ClickHouse-Database") or "default",
            settings=settings,
            parameters={k[6:]: v for k, v in given.items() if k.startswith("param_")},
            insert=insert,
            timeout_s=timeout_s,
        )

    def execute(self, engine: Engine) -> EngineResult:
        """Runs it on the calling thread's handle.

        Raises:
            EngineError: ClickHouse's own error.
        """
        if self.insert is not None:
            data = memoryview(self.sql)[self.insert.data_start :]
            return engine.insert(
                self.insert.statement, self.insert.fmt, data, database=self.database, settings=self.settings
            )
        result = self._query(engine, self.sql, self.fmt)
        if result.data or self.fmt != "Native":
            return result
        return EngineResult(
            self._empty_block(engine), result.read_rows, result.read_bytes, result.written_rows, result.written_bytes
        )

    def _query(self, engine: Engine, sql: bytes, fmt: str) -> EngineResult:
        return engine.query(sql, fmt=fmt, database=self.database, settings=self.settings, parameters=self.parameters)

    def _empty_block(self, engine: Engine) -> bytes:
        """The engine sends nothing for an empty result; a server sends the columns' names and types."""
        bare = strip_format(self.sql)[0].strip().rstrip(b";")
        if not bare[:6].upper().startswith((b"SELECT", b"WITH")):
            return b""
        described = self._query(engine, b"DESCRIBE TABLE (" + bare + b"\n)", "JSONCompactEachRow")
        rows = [json.loads(line) for line in described.data.splitlines()]
        return native_header([(str(row[0]), str(row[1])) for row in rows])
