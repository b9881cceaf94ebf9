"""Keys: API keys of projects in the store, kept as hashes."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from evalspan.errors import InputError
from evalspan_collector.store.client import Client

__all__ = ["ApiKey", "ApiKeys", "NewApiKey"]

_COLUMNS: Final = (
    "key_id", "project", "name", "key_hash", "created_ns", "revoked_ns", "last_used_ns", "written_ns",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """One key as it can be listed: the secret itself is nowhere."""

    key_id: str
    project: str
    name: str
    created_ns: int
    revoked_ns: int | None = None
    last_used_ns: int | None = None


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A key that was just made; the only time its secret is shown."""

    key: ApiKey
    secret: str


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class ApiKeys:
    """The table api_keys.

    Args:
        client: Connection of a store.
        clock: Nanoseconds since the epoch.
    """

    def __init__(self, client: Client, clock: Callable[[], int] = time.time_ns) -> None:
        self._client = client
        self._clock = clock

    def create(self, project: str, name: str = "") -> NewApiKey:
        """Makes a key of a project.

        Raises:
            InputError: The project has no name.
        """
        if not project:
            raise InputError("a key belongs to a project: name one")
        secret = f"evs_{secrets.token_urlsafe(32)}"
        key = ApiKey(key_id=secrets.token_hex(6), project=project, name=name, created_ns=self._clock())
        self._write(key, _hash(secret))
        return NewApiKey(key, secret)

    def listed(self, project: str | None = None) -> list[ApiKey]:
        """Keys in the order they were made, revoked ones included."""
        return [key for key, _ in self._read() if project in (None, key.project)]

    def revoke(self, key_id: str) -> ApiKey:
        """Ends a key; it stays listed.

        Raises:
            InputError: There is no such key.
        """
        for key, key_hash in self._read():
            if key.key_id == key_id:
                revoked = replace(key, revoked_ns=key.revoked_ns or self._clock())
                self._write(revoked, key_hash)
                return revoked
        raise InputError(f"there is no key {key_id!r}: list them with `evalspan keys list`")

    def find(self, secret: str) -> ApiKey | None:
        """The live key of a secret, None when it is wrong or revoked; compares with all in constant time."""
        given = _hash(secret)
        found: ApiKey | None = None
        for key, key_hash in self._read():
            if hmac.compare_digest(key_hash, given) and key.revoked_ns is None:
                found = key
        return found

    def touch(self, key_id: str) -> None:
        """Notes that a key was used now; call it seldom, it writes a row."""
        for key, key_hash in self._read():
            if key.key_id == key_id:
                self._write(replace(key, last_used_ns=self._clock()), key_hash)

    def _read(self) -> list[tuple[ApiKey, str]]:
        rows = self._client.rows(
            "SELECT key_id, project, name, created_ns, revoked_ns, last_used_ns, key_hash FROM api_keys FINAL "
            "ORDER BY created_ns, key_id"
        )
        return [
            (
                ApiKey(
                    key_id=row[0],
                    project=row[1],
                    name=row[2],
                    created_ns=row[3],
                    revoked_ns=row[4] or None,
                    last_used_ns=row[5] or None,
                ),
                row[6],
            )
            for row in rows
        ]

    def _write(self, key: ApiKey, key_hash: str) -> None:
        now = self._clock()
        revoked, used = key.revoked_ns or 0, key.last_used_ns or 0
        row = (key.key_id, key.project, key.name, key_hash, key.created_ns, revoked, used, now)
        token = f"key:{key.key_id}:{now}:{key.revoked_ns}:{key.last_used_ns}"
        self._client.insert("api_keys", _COLUMNS, [[value] for value in row], token=token)
