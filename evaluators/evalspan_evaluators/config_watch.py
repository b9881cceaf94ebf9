"""ConfigWatch: follows evalspan.yaml; what is valid is taken over, what is not leaves everything as it was."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from evalspan.errors import ConfigError
from evalspan_evaluators.config import find_config

__all__ = ["ConfigWatch"]

_log = structlog.get_logger(__name__)

T = TypeVar("T")

#: What tells one version of a file from the next; None for no file.
_Stamp = tuple[str, int, int, int] | None


class ConfigWatch(Generic[T]):
    """Reads the file again when it has changed, or when asked to.

    Args:
        path: As given to the command; None looks for a file as the command did.
        read: Makes everything that depends on the file.
        env: Environment variables; None takes the process's.

    Attributes:
        error: Why the newest version of the file is not in use; None while it is.
    """

    def __init__(self, path: Path | None, read: Callable[[], T], *, env: Mapping[str, str] | None = None) -> None:
        self._path = path
        self._read = read
        self._env = os.environ if env is None else env
        self._taken: _Stamp = self._stamp()
        self._seen: _Stamp = self._taken
        self._asked = False
        self.error: str | None = None

    @property
    def path(self) -> Path | None:
        """The file as of now; None where there is none."""
        return find_config(self._path, self._env)

    def ask(self) -> None:
        """Read at the next `poll`, changed or not: files that the configuration names may have."""
        self._asked = True

    def poll(self) -> T | None:
        """What the file says now, or None when nothing changed or it cannot be used.

        A file is read once it has looked the same twice, so that one that is being written is left alone.
        """
        stamp = self._stamp()
        settled, self._seen = stamp == self._seen, stamp
        if not self._asked and (stamp == self._taken or not settled):
            return None
        self._asked, self._taken = False, stamp
        try:
            made = self._made(stamp)
        except ConfigError as error:
            self.error = str(error)
            _log.error("evalspan.yaml cannot be used, going on with what was read before", error=self.error)
            return None
        self.error = None
        return made

    def _made(self, stamp: _Stamp) -> T:
        if stamp is None and self._path is not None:
            raise ConfigError(f"{str(self._path)!r} is gone: put it back")
        return self._read()

    def _stamp(self) -> _Stamp:
        path = self.path
        if path is None:
            return None
        try:
            found = path.stat()
        except OSError:
            return None
        return (str(path), found.st_mtime_ns, found.st_size, found.st_ino)
