"""The command line's own manners: what it says to a mistake, and with which exit code."""

import sys

import pytest

from evalspan_dashboard.cli import main


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
