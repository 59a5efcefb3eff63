"""Certificates of a cluster, as openssl and the module `ssl` judge them."""

import ssl
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from rota.client.certificates import certificate_files as files
from rota.client.certificates.issuing import (
    DAYS,
    Authority,
    InvalidCertificate,
    Issued,
    issue_client,
    issue_node,
    load_certificate,
    load_key,
    make_authority,
    renew,
    shown_names,
)
from rota.core.model.certificate_names import CertifiedNode, node_in, tls_name
from rota.core.model.ids import NodeId
from support.certificates import needs_openssl

NOW = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251 - openssl compares with the clock
N1 = NodeId("n1")


@pytest.fixture(scope="module")
def made() -> Issued:
    return make_authority("prod", NOW)


@pytest.fixture(scope="module")
def authority(made: Issued) -> Authority:
    return Authority.load(made)


def verify(folder: Path, authority: Issued, issued: Issued, *flags: str) -> str:
    """Return what openssl states about a certificate."""
    (folder / "ca.crt").write_bytes(authority.certificate)
    (folder / "one.crt").write_bytes(issued.certificate)
    ran = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-CAfile", "ca.crt", *flags, "one.crt"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr


@needs_openssl
def test_a_node_is_server_and_client_at_its_addresses_and_under_its_tls_name(
    tmp_path: Path, made: Issued, authority: Authority
) -> None:
    issued = issue_node(authority, N1, ["10.0.0.11", "[::1]", "n1.example.org"], NOW)

    for purpose in ("sslserver", "sslclient"):
        assert "one.crt: OK" in verify(tmp_path, made, issued, "-purpose", purpose)
    for name in (tls_name(N1), "n1.example.org"):
        assert "one.crt: OK" in verify(tmp_path, made, issued, "-verify_hostname", name)
    for address in ("10.0.0.11", "::1"):
        assert "one.crt: OK" in verify(tmp_path, made, issued, "-verify_ip", address)
    assert "mismatch" in verify(tmp_path, made, issued, "-verify_hostname", tls_name(NodeId("n2")))
    assert shown_names(load_certificate(issued.certificate)) == [
        "URI:rota://prod/node/n1",
        f"DNS:{tls_name(N1)}",
        "IP:10.0.0.11",
        "IP:::1",
        "DNS:n1.example.org",
    ]


@needs_openssl
def test_a_client_is_no_server(tmp_path: Path, made: Issued, authority: Authority) -> None:
    issued = issue_client(authority, "alice", NOW)

    assert "one.crt: OK" in verify(tmp_path, made, issued, "-purpose", "sslclient")
    assert "OK" not in verify(tmp_path, made, issued, "-purpose", "sslserver")
    certificate = load_certificate(issued.certificate)
    assert certificate.subject.rfc4514_string() == "CN=alice"
    assert shown_names(certificate) == []


@needs_openssl
def test_a_certificate_signs_no_other(tmp_path: Path, made: Issued, authority: Authority) -> None:
    node = issue_node(authority, N1, [], NOW)
    forged = issue_client(
        Authority(load_certificate(node.certificate), load_key(node.key)), "x", NOW
    )
    (tmp_path / "node.crt").write_bytes(node.certificate)

    assert "OK" not in verify(tmp_path, made, forged, "-untrusted", "node.crt")


def test_the_longest_ids_and_clusters_have_certificates(authority: Authority) -> None:
    longest = "n" * 128
    issued = issue_node(Authority.load(make_authority(longest, NOW)), NodeId(longest), [], NOW)

    uri = shown_names(load_certificate(issued.certificate))[0].removeprefix("URI:")
    assert node_in(uri) == CertifiedNode(longest, NodeId(longest))


def test_terms_are_a_year_and_never_outlast_the_authority(authority: Authority) -> None:
    fresh = load_certificate(issue_node(authority, N1, [], NOW).certificate)
    end = authority.certificate.not_valid_after_utc
    late = load_certificate(issue_node(authority, N1, [], end - timedelta(days=9)).certificate)

    assert fresh.not_valid_after_utc == NOW + timedelta(days=DAYS)
    assert fresh.not_valid_before_utc < NOW
    assert late.not_valid_after_utc == end
    with pytest.raises(InvalidCertificate, match="authority has expired"):
        issue_node(authority, N1, [], end)


@pytest.mark.parametrize("has_new_key", [False, True])
def test_a_renewed_certificate_has_the_same_names_and_usages(
    authority: Authority, has_new_key: bool
) -> None:
    issued = issue_node(authority, N1, ["10.0.0.11"], NOW)
    earlier, later = load_certificate(issued.certificate), NOW + timedelta(days=300)

    renewed = renew(authority, earlier, later, key=None if has_new_key else load_key(issued.key))

    certificate = load_certificate(renewed.certificate)
    assert shown_names(certificate) == shown_names(earlier)
    assert certificate.subject == earlier.subject
    for extension in (x509.ExtendedKeyUsage, x509.KeyUsage, x509.BasicConstraints):
        assert certificate.extensions.get_extension_for_class(
            extension
        ) == earlier.extensions.get_extension_for_class(extension)
    assert certificate.not_valid_after_utc == later + timedelta(days=DAYS)
    assert (certificate.public_key() == earlier.public_key()) is not has_new_key
    assert certificate.public_key() == load_key(renewed.key).public_key()


def test_an_authority_needs_its_own_key_and_a_cluster(made: Issued, authority: Authority) -> None:
    node = issue_node(authority, N1, [], NOW)

    with pytest.raises(InvalidCertificate, match="not that of its certificate"):
        Authority.load(Issued(made.certificate, node.key))
    with pytest.raises(InvalidCertificate, match="names no cluster"):
        Authority.load(node)


@pytest.mark.parametrize("host", ["*bad ü*", "a\x00b"])
def test_a_host_that_is_neither_address_nor_name_is_refused(
    authority: Authority, host: str
) -> None:
    with pytest.raises(InvalidCertificate, match="neither an address nor a DNS name"):
        issue_node(authority, N1, [host], NOW)


def test_what_is_no_certificate_or_key_is_refused() -> None:
    with pytest.raises(InvalidCertificate, match="no certificate in PEM"):
        load_certificate(b"x")
    with pytest.raises(InvalidCertificate, match="no key in PEM"):
        load_key(b"x")


def test_names_of_nodes_differ_and_are_dns_names() -> None:
    names = {tls_name(NodeId(each)) for each in ("n1", "N1", "n-1", "n.1", "n_1", "x" * 128)}

    assert len(names) == 6
    assert all(len(name) == len("node.rota") + 33 for name in names)
    assert node_in("rota://prod/node/a/b") is None
    assert node_in("rota://prod/job/a") is None
    assert node_in("x rota://prod/node/a") is None


# -- files ----------------------------------------------------------------------------------------


def test_keys_are_readable_by_their_owner_alone(tmp_path: Path, made: Issued) -> None:
    folder = tmp_path / "certs"
    files.write_new(folder, "ca", made)
    files.replace(folder, "ca", made, has_new_key=True)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes["ca.key"] == 0o600
    assert sorted(modes) == ["ca.crt", "ca.key"]


@pytest.mark.parametrize("existing", ["ca.crt", "ca.key"])
def test_no_file_is_overwritten(tmp_path: Path, made: Issued, existing: str) -> None:
    (tmp_path / existing).write_text("precious")

    with pytest.raises(files.CertificateExists, match=f"{existing} exists"):
        files.write_new(tmp_path, "ca", made)

    assert [path.name for path in tmp_path.iterdir()] == [existing]


def test_the_loaded_chain_is_accepted_by_ssl_with_strict_checks(
    tmp_path: Path, made: Issued, authority: Authority
) -> None:
    files.write_new(tmp_path, "ca", made)
    files.write_new(tmp_path, "n1", issue_node(authority, N1, [], NOW))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "n1.crt", tmp_path / "n1.key")
    client = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    pipes = [ssl.MemoryBIO() for _ in range(2)]
    ends = [
        client.wrap_bio(pipes[0], pipes[1], server_hostname=tls_name(N1)),
        server.wrap_bio(pipes[1], pipes[0], server_side=True),
    ]

    for end in ends * 3:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue

    assert "rota://prod/node/n1" in str(ends[0].getpeercert())
