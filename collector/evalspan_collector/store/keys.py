"""Keys: API keys of projects in the store, kept as hashes; collectors copy the hashes and report the uses."""

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from evalspan.errors import InputError
from evalspan_collector.store.client import Client

__all__ = ["ApiKeys", "NewApiKey", "StoredKey"]

#: Says what it is when it turns up in a log or a repository.
PREFIX: Final = "esk_"
_COLUMNS: Final = ("key_id", "project", "name", "key_hash", "created_ns", "revoked_ns", "written_ns")
_LIST: Final = """
SELECT key_id, project, name, key_hash, created_ns, revoked_ns, last_used_ns
FROM (SELECT * FROM api_keys FINAL) AS k
LEFT JOIN (SELECT key_id, max(used_ns) AS last_used_ns FROM api_key_uses GROUP BY key_id) AS u USING (key_id)
ORDER BY created_ns, key_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """One key as it is kept: the key itself is nowhere.

    Attributes:
        key_id: Public name of the key, for listing and revoking.
        sha256: Hash of the key, hexadecimal. Keys carry 256 random bits, so a plain hash cannot be searched.
        revoked_ns: Since when it is refused; None while it lives.
        last_used_ns: When a collector last saw it, None when never.
    """

    key_id: str
    project: str
    name: str
    sha256: str
    created_ns: int
    revoked_ns: int | None = None
    last_used_ns: int | None = None


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A key that was just made; the only time its secret is shown."""

    key: StoredKey
    secret: str


class ApiKeys:
    """The tables api_keys and api_key_uses; uses have their own, so that noting one never undoes a revocation.

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
        if not project.strip():
            raise InputError(f"{project!r} is no project name: give one word")
        secret = PREFIX + secrets.token_urlsafe(32)
        key = StoredKey(
            key_id=secrets.token_hex(6),
            project=project,
            name=name,
            sha256=hashlib.sha256(secret.encode()).hexdigest(),
            created_ns=self._clock(),
        )
        self._write(key, revoked_ns=0)
        return NewApiKey(key, secret)

    def listed(self, project: str | None = None) -> list[StoredKey]:
        """Keys in the order they were made, revoked ones included."""
        return [
            StoredKey(
                key_id=row[0],
                project=row[1],
                name=row[2],
                sha256=row[3],
                created_ns=row[4],
                revoked_ns=row[5] or None,
                last_used_ns=row[6] or None,
            )
            for row in self._client.rows(_LIST)
            if project in (None, row[1])
        ]

    def revoke(self, key_id: str, *, project: str | None = None) -> StoredKey:
        """Ends a key; it stays listed. Again changes nothing.

        Args:
            key_id: Of the key.
            project: Only a key of this project; None means any.

        Raises:
            InputError: There is no such key.
        """
        found = next((key for key in self.listed(project) if key.key_id == key_id), None)
        if found is None:
            raise InputError(f"there is no key {key_id!r}: list them with `evalspan keys list`")
        if found.revoked_ns is None:
            self._write(found, revoked_ns=self._clock())
        return next(key for key in self.listed() if key.key_id == key_id)

    def note_uses(self, uses: Mapping[str, int]) -> None:
        """Notes when keys were last used, nanoseconds by key id; the latest of all collectors is listed."""
        if uses:
            token = "uses:" + ",".join(f"{key_id}={used}" for key_id, used in sorted(uses.items()))
            self._client.insert("api_key_uses", ("key_id", "used_ns"), [list(uses), list(uses.values())], token=token)

    def _write(self, key: StoredKey, *, revoked_ns: int) -> None:
        now = self._clock()
        row = (key.key_id, key.project, key.name, key.sha256, key.created_ns, revoked_ns, now)
        token = f"key:{key.key_id}:{now}:{revoked_ns}"
        self._client.insert("api_keys", _COLUMNS, [[value] for value in row], token=token)
