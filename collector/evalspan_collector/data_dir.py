"""DataDir: the folder where one evalspan installation keeps everything, and its layout."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from evalspan.errors import ConfigError

__all__ = ["DataDir", "write_private"]


@dataclass(frozen=True, slots=True)
class DataDir:
    """The data folder; every path below it is private to its owner (mode 0700).

    Attributes:
        root: `--data`, EVALSPAN_DATA, or the platform's user data folder.
    """

    root: Path

    @property
    def store(self) -> Path:
        """The embedded engine's own files."""
        return self.root / "store"

    @property
    def spool(self) -> Path:
        """Requests that were acknowledged and are not yet in the store."""
        return self.root / "spool"

    @property
    def quarantine(self) -> Path:
        """Requests and damaged records that could not be read, bounded in size."""
        return self.root / "quarantine"

    @property
    def run(self) -> Path:
        """Process ids, tokens and the key file."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """Logs of the supervised processes."""
        return self.root / "logs"

    @property
    def store_token(self) -> Path:
        """Token of the embedded store's HTTP front."""
        return self.run / "store.token"

    @property
    def key_file(self) -> Path:
        """API keys, hashed."""
        return self.run / "keys.json"

    def create(self) -> "DataDir":
        """Make the folder and its parts where they are missing.

        Raises:
            ConfigError: The folder cannot be made, or others may write to it.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A folder with other things in it, such as a project's or somebody's home, keeps its rights.
            ours = self.spool.exists() or next(self.root.iterdir(), None) is None
            parts = (self.store, self.spool, self.quarantine, self.run, self.logs)
            for folder in (self.root, *parts) if ours else parts:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _make_private(folder)
        except OSError as error:
            raise ConfigError(
                f"the data folder {str(self.root)!r} cannot be used: {error}; pass another with --data or EVALSPAN_DATA"
            ) from error
        return self


def _make_private(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        folder.chmod(0o700)


def write_private(path: Path, content: bytes) -> None:
    """Write a file only its owner can read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
