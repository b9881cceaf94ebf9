"""The command line's own manners: what it says to a mistake, and with which exit code."""

import json
import os
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from evalspan_dashboard.cli import main
from evalspan_dashboard.output import print_json


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "--grcp-port", "1"], "--grpc-port"),
        (["inspct"], "inspect"),
        (["runs", "show"], "run_id"),
        (["up", "--grpc-port", "high"], "--grpc-port"),
    ],
)
def test_wrong_usage_is_told_in_a_few_lines_and_ends_with_code_two(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evalspan", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in told
    assert "Traceback" not in told
    assert len(told.splitlines()) <= 5


def test_a_group_without_a_command_lists_its_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evalspan", "alerts"])
    with pytest.raises(SystemExit):
        main()
    out, err = capsys.readouterr()
    assert "List alerts" in out + err


def test_an_argument_that_is_no_text_is_named_and_not_looked_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evalspan", "runs", "list", "--project", "a\udcff"])

    monkeypatch.setattr("evalspan_dashboard.cli.app", lambda: quote(sys.argv[-1]))  # what a request to a store does
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert r"'a\udcff' is no UTF-8" in capsys.readouterr().err


def test_json_lines_hold_nothing_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"output": "\x1b[31m \x9b31m \u202eabc\u2066 \u061c é 漢"}
    print_json(said)
    line = capsys.readouterr().out
    assert json.loads(line) == said
    assert not set(line) & set("\x1b\x9b\u202e\u2066\u061c")
    assert "é 漢" in line


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_what_is_no_regular_file_is_never_opened(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path("/dev/zero")
    if kind == "fifo":
        path = tmp_path / "pipe.json"
        os.mkfifo(path)
    monkeypatch.setattr(sys, "argv", ["evalspan", "inspect", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "is no regular file" in capsys.readouterr().err
