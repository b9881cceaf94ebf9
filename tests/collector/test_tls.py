"""TLS: wrong authority, no client certificate and plain text are refused; a renewed certificate needs no restart."""

import os
import ssl
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
import trustme
from apparatus.load import TRACES
from apparatus.receiving import Intake, make_intake
from apparatus.waiting import until
from apparatus.workload import Workload

from evalspan.errors import ConfigError
from evalspan_collector.collector import check_exposure
from evalspan_collector.receiver.grpc_server import GrpcServer
from evalspan_collector.receiver.http_server import HttpServer
from evalspan_collector.receiver.keys import KeyFile, KeyRing
from evalspan_collector.receiver.tls import TlsFiles
from evalspan_collector.settings import load_settings

DAY = timedelta(days=1)


class Secured:
    """Both receivers behind certificates on disk."""

    def __init__(self, folder: Path, *, mutual: bool, valid: tuple[datetime, datetime] | None = None) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.intake: Intake = make_intake(folder)
        self.files = TlsFiles(folder / "cert.pem", folder / "key.pem", folder / "ca.pem" if mutual else None)
        self.write_certificate(self.authority, valid)
        self.authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.grpc = GrpcServer(self.intake.acceptance, host="127.0.0.1", port=0, threads=2, tls=self.files)
        self.http = HttpServer(self.intake.acceptance, host="127.0.0.1", port=0, tls=self.files)
        self.grpc.start()
        self.http.start()

    def write_certificate(self, authority: trustme.CA, valid: tuple[datetime, datetime] | None = None) -> None:
        since, until_ = valid or (None, None)
        issued = authority.issue_cert("127.0.0.1", "localhost", not_before=since, not_after=until_)
        issued.private_key_pem.write_to_path(str(self.files.key))
        self.files.cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        stamp = max(path.stat().st_mtime for path in (self.files.cert, self.files.key)) + 5
        os.utime(self.files.cert, (stamp, stamp))

    def send_grpc(self, credentials: grpc.ChannelCredentials | None) -> None:
        address = f"localhost:{self.grpc.port}"
        options = [("grpc.use_local_subchannel_pool", 1)]
        channel = (
            grpc.secure_channel(address, credentials, options=options)
            if credentials
            else grpc.insecure_channel(address, options=options)
        )
        try:
            channel.unary_unary(TRACES, None, None)(Workload(1).one().body, timeout=5)  # pyright: ignore[reportUnknownMemberType]  # stub
        finally:
            channel.close()

    def send_http(self, context: ssl.SSLContext) -> int:
        request = urllib.request.Request(  # our own loopback address
            f"https://localhost:{self.http.port}/v1/traces",
            data=Workload(1).one().body,
            headers={"content-type": "application/x-protobuf"},
        )
        with urllib.request.urlopen(request, context=context, timeout=10) as reply:
            return int(reply.status)

    def close(self) -> None:
        self.grpc.stop(1)
        self.http.stop(1)
        self.intake.spool.close()


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    made = Secured(tmp_path, mutual=False)
    yield made
    made.close()


@pytest.fixture
def mutual(tmp_path: Path) -> Iterator[Secured]:
    made = Secured(tmp_path, mutual=True)
    yield made
    made.close()


def trusting(authority: trustme.CA, client: trustme.LeafCert | None = None) -> grpc.ChannelCredentials:
    root = authority.cert_pem.bytes()
    if client is None:
        return grpc.ssl_channel_credentials(root)
    return grpc.ssl_channel_credentials(root, client.private_key_pem.bytes(), client.cert_chain_pems[0].bytes())


def context_of(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  # stub
    return context


def test_a_client_that_trusts_the_authority_gets_in(secured: Secured) -> None:
    secured.send_grpc(trusting(secured.authority))
    assert secured.send_http(context_of(secured.authority)) == 200
    assert len(secured.intake.records()) == 2


def test_another_authority_and_plain_text_are_refused(secured: Secured) -> None:
    stranger = trustme.CA()
    for credentials in (trusting(stranger), None):
        with pytest.raises(grpc.RpcError):
            secured.send_grpc(credentials)
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        secured.send_http(context_of(stranger))
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://localhost:{secured.http.port}/healthz", timeout=5)
    assert secured.intake.records() == []


def test_mutual_tls_demands_a_certificate_of_our_authority(mutual: Secured) -> None:
    stranger = trustme.CA()
    for client in (None, stranger.issue_cert("client")):
        with pytest.raises(grpc.RpcError):
            mutual.send_grpc(trusting(mutual.authority, client))
    mutual.send_grpc(trusting(mutual.authority, mutual.authority.issue_cert("client")))
    with pytest.raises(OSError):
        mutual.send_http(context_of(mutual.authority))
    context = context_of(mutual.authority)
    mutual.authority.issue_cert("client").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  # stub
    assert mutual.send_http(context) == 200
    assert len(mutual.intake.records()) == 2


def test_an_expired_certificate_of_a_client_is_refused(mutual: Secured) -> None:
    now = datetime.now(UTC)
    expired = mutual.authority.issue_cert("client", not_before=now - 2 * DAY, not_after=now - DAY)
    with pytest.raises(grpc.RpcError):
        mutual.send_grpc(trusting(mutual.authority, expired))
    context = context_of(mutual.authority)
    expired.configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  # stub
    with pytest.raises(OSError):
        mutual.send_http(context)
    assert mutual.intake.records() == []
    mutual.send_grpc(trusting(mutual.authority, mutual.authority.issue_cert("client", not_after=now + DAY)))
    assert len(mutual.intake.records()) == 1


def test_an_expired_certificate_of_the_server_is_believed_by_no_client(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    made = Secured(tmp_path, mutual=False, valid=(now - 2 * DAY, now - DAY))
    try:
        with pytest.raises(grpc.RpcError):
            made.send_grpc(trusting(made.authority))
        with pytest.raises(OSError, match="certificate has expired"):
            made.send_http(context_of(made.authority))
        assert made.intake.records() == []
    finally:
        made.close()


def test_a_renewed_certificate_is_served_without_a_restart(secured: Secured) -> None:
    renewed = trustme.CA()
    secured.write_certificate(renewed)
    secured.send_grpc(trusting(renewed))

    def http_follows() -> bool:
        try:
            return secured.send_http(context_of(renewed)) == 200
        except OSError:
            return False

    until(http_follows)


def test_files_that_are_no_certificate_stop_the_start(tmp_path: Path) -> None:
    intake = make_intake(tmp_path)
    files = TlsFiles(tmp_path / "missing.pem", tmp_path / "missing.key")
    with pytest.raises(ConfigError, match="certificate files"):
        GrpcServer(intake.acceptance, host="127.0.0.1", port=0, threads=1, tls=files)
    with pytest.raises(ConfigError, match="certificate files"):
        HttpServer(intake.acceptance, host="127.0.0.1", port=0, tls=files)


@pytest.mark.parametrize(
    ("flags", "with_key", "missing"),
    [
        ({"host": "127.0.0.1"}, False, ""),
        ({"host": "0.0.0.0"}, False, "certificate .* and an API key"),
        ({"host": "0.0.0.0"}, True, "certificate"),
        ({"host": "::", "tls_cert": "c", "tls_key": "k"}, False, "API key"),
        ({"host": "0.0.0.0", "tls_cert": "c", "tls_key": "k"}, True, ""),
        ({"host": "0.0.0.0", "insecure": True}, False, ""),
    ],
)
def test_the_world_is_let_in_only_with_tls_and_keys(
    flags: dict[str, object], with_key: bool, missing: str, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    if with_key:
        keys.create("shop")
    settings, ring = load_settings(flags), KeyRing(keys, open_project="default")
    if not missing:
        check_exposure(settings, ring)
        return
    with pytest.raises(ConfigError, match=f"{missing}.*is missing"):
        check_exposure(settings, ring)
