"""Bad input: the message names the place and the next action."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e]


def _evalspan(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "evalspan_dashboard", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
    )


def test_a_broken_config_names_file_line_and_field(tmp_path: Path) -> None:
    (tmp_path / "evalspan.yaml").write_text(
        "project: default\nrules:\n  - name: a\n    sample: 1.5\n    metrics: [grounding]\n"
    )

    done = _evalspan("up", "--data", "data", cwd=tmp_path)

    assert done.returncode == 2
    assert "evalspan.yaml:4" in done.stderr
    assert "sample" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_store_that_is_not_there_is_exit_code_three(tmp_path: Path) -> None:
    done = _evalspan("runs", "list", "--store-url", "http://127.0.0.1:9/evalspan", "--data", "d", cwd=tmp_path)

    assert done.returncode == 3
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_path_is_a_usage_error(tmp_path: Path) -> None:
    done = _evalspan("inspect", "nowhere.binpb", cwd=tmp_path)

    assert done.returncode == 2
    assert "nowhere.binpb" in done.stderr


def test_every_command_has_help_with_an_example(tmp_path: Path) -> None:
    commands = (
        ["up"], ["store"], ["collector"], ["worker"], ["dashboard"], ["inspect"], ["replay"], ["runs", "list"],
        ["runs", "show"], ["scores", "list"], ["alerts", "list"], ["metrics", "list"], ["doctor"], ["demo"],
        ["keys", "create"], ["keys", "list"], ["keys", "revoke"], ["storage", "health"], ["storage", "backup"],
        ["storage", "restore"], ["storage", "export"], ["storage", "retention"], ["storage", "delete"],
        ["storage", "migrate"],
    )  # fmt: skip
    for command in commands:
        done = _evalspan(*command, "--help", cwd=tmp_path)
        assert done.returncode == 0, command
        assert "Example: evalspan " + " ".join(command) in " ".join(done.stdout.split()), command
