"""Keys of the store in a collector: copied, refused once revoked, in force while the store is away."""

import http.client
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from apparatus.processes import Stack
from apparatus.waiting import until
from apparatus.workload import Workload

from evalspan.errors import StoreUnreachableError
from evalspan_collector.key_copy import KeyCopy
from evalspan_collector.receiver.keys import ApiKey, KeyFile, KeyRing
from evalspan_collector.store.clickhouse import ClickHouseStore
from evalspan_collector.store.client import Address, connect
from evalspan_collector.store.contract import Store
from evalspan_collector.store.keys import ApiKeys

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def entry(key_id: str) -> ApiKey:
    return ApiKey(key_id=key_id, project="shop", sha256="0" * 64, created_at=NOW)


@pytest.fixture
def key_file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json", clock=lambda: NOW)


def test_a_copied_key_opens_and_a_revoked_one_does_not(store: ClickHouseStore, key_file: KeyFile) -> None:
    keys = ApiKeys(store.client)
    ring = KeyRing(key_file, open_project="default")
    copy = KeyCopy(lambda: store, key_file, ring)
    shop, bank = keys.create("shop"), keys.create("bank")
    copy.copy()
    assert (ring.project_of(shop.secret), ring.project_of(bank.secret)) == ("shop", "bank")
    assert ring.project_of(None) is None
    copy.report()
    used = {key.project: key.last_used_ns for key in keys.listed()}
    assert used["shop"] is not None
    keys.revoke(shop.key.key_id)
    copy.copy()
    assert (ring.project_of(shop.secret), ring.project_of(bank.secret)) == (None, "bank")


def test_uses_that_did_not_get_through_are_reported_later(store: ClickHouseStore, key_file: KeyFile) -> None:
    away = True

    def stores() -> Store:
        if away:
            raise StoreUnreachableError("the store is away")
        return store

    made = ApiKeys(store.client).create("shop")
    ring = KeyRing(key_file, open_project="default")
    copy = KeyCopy(stores, key_file, ring)
    away = False
    copy.copy()
    assert ring.project_of(made.secret) == "shop"
    away = True
    with pytest.raises(StoreUnreachableError):
        copy.report()
    away = False
    copy.report()
    (listed,) = ApiKeys(store.client).listed()
    assert listed.last_used_ns is not None


def test_a_mirror_keeps_own_keys_and_revokes_what_the_store_forgot(key_file: KeyFile) -> None:
    own_key, own = key_file.create("desk")
    assert key_file.mirror([entry("a"), entry("b")])
    assert not key_file.mirror([entry("a"), entry("b")])
    assert key_file.mirror([entry("b")])
    assert {e.key_id: e.revoked_at for e in key_file.list()} == {own.key_id: None, "a": NOW, "b": None}
    assert key_file.mirror([])
    ring = KeyRing(key_file, open_project="default")
    assert ring.project_of(None) is None
    assert ring.project_of(own_key) == "desk"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path)
    yield made
    made.close()


def status_of(stack: Stack, key: str | None) -> int:
    """What the collector answers to one request with this key."""
    connection = http.client.HTTPConnection("127.0.0.1", stack.http_port, timeout=10)
    (request,) = Workload(7).requests(3, per_request=10)
    headers = {"content-type": "application/x-protobuf", **({} if key is None else {"authorization": f"Bearer {key}"})}
    try:
        connection.request("POST", "/v1/traces", request.body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_a_collector_follows_the_stores_keys_and_keeps_them_without_it(stack: Stack) -> None:
    stack.start()
    client = connect(Address.of(stack.url, token=stack.token))
    keys = ApiKeys(client)
    assert status_of(stack, None) == 200
    shop, bank = keys.create("shop", "ci"), keys.create("bank")
    # Before a key is known anyone may send, with or without one, to the default project.
    until(lambda: status_of(stack, None) == 401, within_s=15, what="a new key")
    assert [status_of(stack, key.secret) for key in (shop, bank)] == [200, 200]
    assert status_of(stack, "esk_wrong") == 401
    keys.revoke(shop.key.key_id)
    until(lambda: status_of(stack, shop.secret) == 401, within_s=15, what="the end of a revoked key")
    until(
        lambda: stack.number("SELECT uniqExact(project) FROM spans WHERE project IN ('shop', 'bank')") == 2,
        within_s=60,
        what="spans of both projects",
    )
    client.close()
    stack.store.kill()
    stack.collector.kill()
    stack.collector.start()  # with no store to ask
    assert [status_of(stack, key) for key in (bank.secret, shop.secret, None)] == [200, 401, 401]
