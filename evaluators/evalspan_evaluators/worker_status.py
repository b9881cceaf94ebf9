"""WorkerStatus: what the worker last said about itself, in a file that `evalspan doctor` reads."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evalspan_collector.data_dir import write_private

__all__ = ["WorkerStatus", "read_status", "status_path", "write_status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """The worker's own view.

    Attributes:
        config: The file whose content is in use; None for built-in defaults.
        config_read_ns: When it was read.
        config_error: Why a newer version of it is not in use; None while the newest is.
        restart_for: Parts of the file that changed and take effect only after a restart.
        retention_ns: When old data was last looked for; None for never.
        retention_dropped: Partitions that were dropped then.
    """

    config: str | None = None
    config_read_ns: int = 0
    config_error: str | None = None
    restart_for: tuple[str, ...] = ()
    retention_ns: int | None = None
    retention_dropped: int = 0


def status_path(run_folder: Path) -> Path:
    """The file, in the folder `run` of the data folder."""
    return run_folder / "worker.json"


def write_status(path: Path, status: WorkerStatus) -> None:
    """Replace the file, whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, json.dumps(asdict(status)).encode())


def read_status(path: Path) -> WorkerStatus | None:
    """What the worker last wrote; None when it wrote nothing readable."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        found["restart_for"] = tuple(found.get("restart_for", ()))
        return WorkerStatus(**found)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
