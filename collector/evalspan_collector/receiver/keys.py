"""Keys: API keys, each naming the project its sender writes to; only their hashes are kept."""

import fcntl
import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from evalspan.errors import ConfigError, InputError
from evalspan_collector.data_dir import write_private

__all__ = ["ApiKey", "KeyFile", "KeyRing", "presented_key"]

_PREFIX = "esk_"
_RELOAD_S = 1.0


class ApiKey(BaseModel):
    """One key as it is kept: its hash, never the key.

    Attributes:
        key_id: Public name of the key, for listing and revoking.
        sha256: Hash of the key, hex. Keys carry 256 random bits, so a plain hash cannot be searched.
        last_used_at: When a request last carried it, to the minute; None when never.
        origin: `store` for the copy of a key in the store, `file` for one that is only in this file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key_id: str
    project: str
    sha256: str
    created_at: datetime
    name: str = ""
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    origin: Literal["file", "store"] = "file"


class _KeyFileContent(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: list[ApiKey] = []


_UsedTimes = TypeAdapter(dict[str, datetime])


class KeyFile:
    """The file of hashed keys, mode 0600: what a collector authenticates with while it has no store.

    It holds a copy of the store's keys, and keys that somebody put into it for this collector alone.

    Args:
        path: Where it lies; no file means no key.
        clock: UTC now.
    """

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path = path
        self._clock = clock

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self._path

    def list(self) -> tuple[ApiKey, ...]:
        """All keys, revoked ones included, oldest first.

        Raises:
            ConfigError: The file is no key file.
        """
        used = self._read_used()
        return tuple(
            entry.model_copy(update={"last_used_at": used[entry.key_id]}) if entry.key_id in used else entry
            for entry in self._saved()
        )

    def _saved(self) -> tuple[ApiKey, ...]:
        try:
            return tuple(_KeyFileContent.model_validate_json(self._path.read_bytes()).keys)
        except FileNotFoundError:
            return ()
        except (OSError, ValidationError) as error:
            raise ConfigError(f"the key file {str(self._path)!r} cannot be read: {error}") from error

    def create(self, project: str, *, name: str = "") -> tuple[str, ApiKey]:
        """Make a key for a project; the first element is the key itself, shown once and kept nowhere."""
        if not project.strip():
            raise InputError(f"{project!r} is no project name: give one word")
        key = _PREFIX + secrets.token_urlsafe(32)
        entry = ApiKey(
            key_id=secrets.token_hex(4), project=project, sha256=_digest(key), created_at=self._clock(), name=name
        )
        with self._locked():
            self._save((*self.list(), entry))
        return key, entry

    def revoke(self, key_id: str) -> ApiKey:
        """Refuse a key from now on.

        Raises:
            InputError: No key has this id.
        """
        with self._locked():
            entries = self.list()
            found = [entry for entry in entries if entry.key_id == key_id]
            if not found:
                raise InputError(f"no key has the id {key_id!r}: list them with `evalspan keys list`")
            revoked = found[0].model_copy(update={"revoked_at": self._clock()})
            self._save(tuple(revoked if entry.key_id == key_id else entry for entry in entries))
        return revoked

    def mirror(self, stored: Iterable[ApiKey]) -> bool:
        """Copy the store's keys into the file; True when that changed something.

        A copy that is no longer in the store (another store, an older backup) is revoked rather than removed: with
        no key left in the file the door would be open.

        Raises:
            ConfigError: The file is no key file.
            OSError: It cannot be written.
        """
        wanted = {entry.key_id: entry.model_copy(update={"origin": "store", "last_used_at": None}) for entry in stored}
        with self._locked():
            entries = self._saved()
            merged: list[ApiKey] = []
            for entry in entries:
                copied = wanted.pop(entry.key_id, entry)
                if copied is entry and entry.origin == "store" and entry.revoked_at is None:
                    copied = entry.model_copy(update={"revoked_at": self._clock()})
                merged.append(copied)
            merged.extend(wanted.values())
            changed = tuple(merged) != entries
            if changed:
                self._save(tuple(merged))
        return changed

    def mark_used(self, used: Mapping[str, datetime]) -> None:
        """Record when keys were last used, by key id.

        In a file of its own: a collector must never write over what the command line does to the keys.
        """
        write_private(self._used_path, _UsedTimes.dump_json({**self._read_used(), **used}))

    @property
    def _used_path(self) -> Path:
        return self._path.with_name(self._path.name + ".used")

    def _read_used(self) -> dict[str, datetime]:
        try:
            return _UsedTimes.validate_json(self._used_path.read_bytes())
        except (OSError, ValidationError):
            return {}  # a fact for the eye only

    @contextmanager
    def _locked(self) -> Generator[None, None, None]:
        """One change at a time, whatever process makes it."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _save(self, entries: tuple[ApiKey, ...]) -> None:
        write_private(self._path, _KeyFileContent(keys=list(entries)).model_dump_json(indent=1).encode())


class KeyRing:
    """Answers which project a presented key belongs to.

    With no key in the file, everything belongs to `open_project`; once there is one, every request needs a key.

    Args:
        key_file: Read again at most once a second, when it changed.
        open_project: Project of requests while no key exists.
    """

    def __init__(self, key_file: KeyFile, *, open_project: str) -> None:
        self._file = key_file
        self._open_project = open_project
        self._lock = threading.Lock()
        self._used: dict[str, datetime] = {}
        self._stamp = self._read_stamp()
        self._entries = key_file.list()
        self._checked_at = time.monotonic()

    @property
    def required(self) -> bool:
        """True when requests need a key."""
        return bool(self._current())

    def project_of(self, key: str | None) -> str | None:
        """The project of a key; None when the request must be refused."""
        entries = self._current()
        if not entries:
            return self._open_project
        if key is None:
            return None
        digest = _digest(key)
        match: ApiKey | None = None
        for entry in entries:  # all of them, so that time tells nothing about which one nearly matched
            if hmac.compare_digest(entry.sha256, digest):
                match = entry
        if match is None or match.revoked_at is not None:
            return None
        with self._lock:
            self._used[match.key_id] = datetime.now(UTC)
        return match.project

    def flush_used(self) -> dict[str, datetime]:
        """Write the times of last use to the file, and give those that are new."""
        with self._lock:
            used, self._used = self._used, {}
        if used:
            self._file.mark_used(used)
        return used

    def reload(self) -> None:
        """Read the file with the next request, however shortly ago it was read."""
        self._checked_at = float("-inf")

    def _current(self) -> tuple[ApiKey, ...]:
        now = time.monotonic()
        if now - self._checked_at < _RELOAD_S:
            return self._entries
        with self._lock:
            self._checked_at = now
            stamp = self._read_stamp()
            # A file that vanished or is half edited must not open the door: the keys known so far stay.
            if stamp not in (self._stamp, (0, 0)):
                try:
                    self._entries = self._file.list()
                except ConfigError:
                    return self._entries
                self._stamp = stamp
        return self._entries

    def _read_stamp(self) -> tuple[int, int]:
        try:
            status = self._file.path.stat()
        except OSError:
            return (0, 0)
        return (status.st_mtime_ns, status.st_ino)


def presented_key(authorization: str | None, api_key: str | None) -> str | None:
    """The key in `authorization: Bearer KEY` or `x-api-key: KEY`; None when neither is there."""
    if authorization:
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "bearer" and value.strip():
            return value.strip()
    return api_key.strip() if api_key and api_key.strip() else None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
