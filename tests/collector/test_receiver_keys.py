"""API keys: hashed, revoked at once, and a door that a vanished or broken file does not open."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evalspan.errors import ConfigError, InputError
from evalspan_collector.receiver import keys as keys_module
from evalspan_collector.receiver.keys import KeyFile, KeyRing, presented_key

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


@pytest.fixture
def key_file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "run" / "keys.json", clock=lambda: NOW)


def test_only_the_hash_of_a_key_is_kept_in_a_private_file(key_file: KeyFile) -> None:
    key, entry = key_file.create("shop", name="ci")
    assert key.startswith("esk_")
    assert len(key) > 40
    assert key not in key_file.path.read_text()
    assert stat.S_IMODE(key_file.path.stat().st_mode) == 0o600
    assert key_file.list() == (entry,)
    assert (entry.project, entry.name, entry.created_at, entry.last_used_at) == ("shop", "ci", NOW, None)


def test_a_key_names_its_project_and_no_other_text_does(key_file: KeyFile) -> None:
    shop, _ = key_file.create("shop")
    bank, _ = key_file.create("bank")
    ring = KeyRing(key_file, open_project="default")
    assert ring.required
    assert (ring.project_of(shop), ring.project_of(bank)) == ("shop", "bank")
    for wrong in (None, "", shop[:-1], shop + "x", shop.upper(), "esk_", "\udcff", json.dumps(shop)):
        assert ring.project_of(wrong) is None


def test_without_keys_everything_is_the_open_project(key_file: KeyFile) -> None:
    ring = KeyRing(key_file, open_project="default")
    assert not ring.required
    assert ring.project_of(None) == ring.project_of("anything") == "default"


def test_a_revoked_key_is_refused_and_the_door_stays_shut(key_file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "_RELOAD_S", 0.0)
    key, entry = key_file.create("shop")
    ring = KeyRing(key_file, open_project="default")
    assert ring.project_of(key) == "shop"
    assert key_file.revoke(entry.key_id).revoked_at == NOW
    assert ring.project_of(key) is None
    assert ring.project_of(None) is None


def test_a_new_key_is_known_without_a_restart(key_file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "_RELOAD_S", 0.0)
    ring = KeyRing(key_file, open_project="default")
    key, _ = key_file.create("shop")
    assert ring.project_of(key) == "shop"
    assert ring.project_of(None) is None


def test_a_file_that_vanished_or_broke_opens_nothing(key_file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "_RELOAD_S", 0.0)
    key, _ = key_file.create("shop")
    ring = KeyRing(key_file, open_project="default")
    key_file.path.write_text("{ half")
    assert (ring.project_of(key), ring.project_of(None)) == ("shop", None)
    key_file.path.unlink()
    assert (ring.project_of(key), ring.project_of(None)) == ("shop", None)


def test_a_broken_file_stops_the_start(key_file: KeyFile) -> None:
    key_file.path.parent.mkdir()
    key_file.path.write_text('{"keys": [{"project": 1}]}')
    with pytest.raises(ConfigError, match=r"keys\.json"):
        KeyRing(key_file, open_project="default")


def test_the_last_use_is_shown_and_never_written_over_the_keys(key_file: KeyFile) -> None:
    key, entry = key_file.create("shop")
    ring = KeyRing(key_file, open_project="default")
    ring.project_of(key)
    before = key_file.path.read_bytes()
    ring.flush_used()
    assert key_file.path.read_bytes() == before
    (shown,) = key_file.list()
    assert shown.last_used_at is not None
    assert shown.key_id == entry.key_id


def test_an_unknown_id_and_an_empty_project_are_named(key_file: KeyFile) -> None:
    with pytest.raises(InputError, match="'nope'"):
        key_file.revoke("nope")
    with pytest.raises(InputError, match="' '"):
        key_file.create(" ")


@pytest.mark.parametrize(
    ("authorization", "api_key", "expected"),
    [
        ("Bearer abc", None, "abc"),
        ("bearer  abc ", None, "abc"),
        (None, " abc ", "abc"),
        ("Bearer abc", "other", "abc"),
        ("Basic abc", "other", "other"),
        ("Bearer ", None, None),
        (None, "", None),
        (None, None, None),
    ],
)
def test_a_key_comes_as_bearer_or_api_key(authorization: str | None, api_key: str | None, expected: str | None) -> None:
    assert presented_key(authorization, api_key) == expected
