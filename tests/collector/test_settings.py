"""Settings: flag over variable over file over default, and errors that say where the value came from."""

import stat
from pathlib import Path

import pytest

from evalspan.errors import ConfigError
from evalspan_collector.data_dir import DataDir, write_private
from evalspan_collector.settings import is_loopback, load_settings


def test_a_flag_wins_over_the_variable_over_the_file_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    file_values = {"grpc_port": 1, "http_port": 2, "metrics_port": 3}
    monkeypatch.setenv("EVALSPAN_GRPC_PORT", "11")
    monkeypatch.setenv("EVALSPAN_HTTP_PORT", "12")
    settings = load_settings({"grpc_port": 111, "http_port": None}, file_values)
    assert (settings.grpc_port, settings.http_port, settings.metrics_port) == (111, 12, 3)
    assert (settings.store_port, settings.dashboard_port, settings.host) == (8123, 8501, "127.0.0.1")


@pytest.mark.parametrize(
    ("flags", "variables", "file_values", "words"),
    [
        ({"grpc_port": 70_000}, {}, {}, r"--grpc-port: .*70000"),
        ({}, {"EVALSPAN_HTTP_PORT": "many"}, {}, r"EVALSPAN_HTTP_PORT: .*'many'"),
        ({}, {}, {"block_spans": 0}, r"settings\.block_spans of evalspan\.yaml: .*got 0"),
        ({}, {"EVALSPAN_SHARD": "3/3"}, {}, r"EVALSPAN_SHARD: .*3/3 is no shard"),
        ({}, {"EVALSPAN_DURABILITY": "maybe"}, {}, r"EVALSPAN_DURABILITY"),
        ({"tls_cert": "a.pem"}, {}, {}, r"--tls-cert and --tls-key together"),
        ({"tls_client_ca": "ca.pem"}, {}, {}, r"--tls-client-ca"),
    ],
)
def test_a_bad_value_is_named_with_its_source(
    flags: dict[str, object],
    variables: dict[str, str],
    file_values: dict[str, object],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=words):
        load_settings(flags, file_values)


def test_a_shard_is_written_as_i_of_n(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALSPAN_SHARD", "1/3")
    assert load_settings().shard == (1, 3)
    assert load_settings({"shard": "2/4"}).shard == (2, 4)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("[::1]", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False), ("", False),
    ],
)  # fmt: skip
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_data_folder_and_its_parts_are_private(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir(mode=0o777)
    folder = DataDir(root).create()
    for path in (folder.root, folder.store, folder.spool, folder.quarantine, folder.run, folder.logs):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    write_private(folder.store_token, b"secret")
    assert stat.S_IMODE(folder.store_token.stat().st_mode) == 0o600
    assert list(folder.run.iterdir()) == [folder.store_token]


def test_a_folder_with_other_things_in_it_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "project.toml").write_text("x")
    tmp_path.chmod(0o755)
    folder = DataDir(tmp_path).create()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert {stat.S_IMODE(part.stat().st_mode) for part in (folder.store, folder.spool, folder.run)} == {0o700}


def test_a_data_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--data"):
        DataDir(tmp_path / "file" / "data").create()
