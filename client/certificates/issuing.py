"""Certificates made by the authority of a cluster: keys of P-256, signed with SHA-256.

    authority   URI rota://<cluster>; signs certificates of nodes and clients, and nothing below
    node        URI rota://<cluster>/node/<node id>, its TLS name, its addresses; server and client
    client      common name; client only

Nothing here reads a clock, a file or the network. Every certificate is valid from an hour before
it is made, so that machines whose clocks are late accept it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rota.core.errors import Kind, Refused
from rota.core.model.certificate_names import cluster_in, cluster_uri, node_uri, tls_name
from rota.core.model.ids import NodeId

AUTHORITY_DAYS = 3_650
"""The certificates that an authority signs end with it, so it is valid for many of their terms."""
DAYS = 365
BACKDATED = timedelta(hours=1)
_DNS_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63}){0,30}", re.ASCII)

ClientUsage = ExtendedKeyUsageOID.CLIENT_AUTH
ServerUsage = ExtendedKeyUsageOID.SERVER_AUTH


class InvalidCertificate(Refused):
    """A certificate or a key cannot be used, or cannot be made."""

    def __init__(self, detail: str) -> None:
        super().__init__(Kind.INVALID, "invalid_certificate", detail)


@dataclass(frozen=True, slots=True, repr=False)
class Issued:
    """A certificate with its key, both in PEM; the key is not encrypted."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Authority:
    """An authority: its certificate, and the key that signs."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def load(cls, issued: Issued) -> "Authority":
        """Return the authority with a certificate and a key.

        Raises:
            InvalidCertificate: They are malformed, do not belong together, or are not those of an
                authority.
        """
        certificate, key = load_certificate(issued.certificate), load_key(issued.key)
        if certificate.public_key() != key.public_key():
            raise InvalidCertificate("the key of the authority is not that of its certificate")
        if cluster_of(certificate) is None:
            raise InvalidCertificate(
                "the certificate of the authority names no cluster; make one with `rota certs init`"
            )
        return cls(certificate, key)

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        cluster = cluster_of(self.certificate)
        assert cluster is not None, "checked by load"
        return cluster


# -- making ---------------------------------------------------------------------------------------


def make_authority(cluster: str, now: datetime) -> Issued:
    """Return a new authority for the cluster with the name *cluster*."""
    key = ec.generate_private_key(ec.SECP256R1())
    # The common name has at most 64 characters; the URI has the whole name.
    name = _common_name(f"rota {cluster}"[:64])
    public = key.public_key()
    builder = (
        _builder(name, name, public, now, now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(cluster_uri(cluster))]),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    return _signed(builder, key, key)


def issue_node(
    authority: Authority, node_id: NodeId, hosts: Sequence[str], now: datetime
) -> Issued:
    """Return a certificate of a node.

    Args:
        authority: Signs the certificate.
        node_id: The id of the node.
        hosts: Addresses and DNS names at which clients reach the node.
        now: The present time.
    """
    names = [
        x509.UniformResourceIdentifier(node_uri(authority.cluster, node_id)),
        x509.DNSName(tls_name(node_id)),
        *map(_host_name, hosts),
    ]
    # Not the id: a client certificate may have it as its common name, and is another subject.
    subject, usages = _common_name(tls_name(node_id)), [ServerUsage, ClientUsage]
    return _issue(authority, subject, names, usages, now)


def issue_client(authority: Authority, name: str, now: datetime) -> Issued:
    """Return a certificate of a client, with *name* as its common name.

    Raises:
        InvalidCertificate: The name is longer than 64 characters.
    """
    if len(name) > 64:
        raise InvalidCertificate(f"{name!r} has {len(name)} characters; a common name has 1 to 64")
    return _issue(authority, _common_name(name), [], [ClientUsage], now)


def renew(
    authority: Authority,
    certificate: x509.Certificate,
    now: datetime,
    *,
    key: ec.EllipticCurvePrivateKey | None,
) -> Issued:
    """Return a certificate with the names and the usages of an earlier one.

    Args:
        authority: Signs the certificate; it need not have signed the earlier one.
        certificate: The earlier certificate.
        now: The present time.
        key: The key of the earlier certificate; None for a new key.
    """
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return _issue(authority, certificate.subject, names_of(certificate), list(usages), now, key=key)


def _issue(
    authority: Authority,
    subject: x509.Name,
    names: Sequence[x509.GeneralName],
    usages: Sequence[x509.ObjectIdentifier],
    now: datetime,
    *,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Issued:
    signer = authority.certificate
    if now >= signer.not_valid_after_utc:
        raise InvalidCertificate(
            f"the authority has expired ({signer.not_valid_after_utc:%Y-%m-%d}); make a new one"
        )
    key = key or ec.generate_private_key(ec.SECP256R1())
    until = min(now + timedelta(days=DAYS), signer.not_valid_after_utc)
    builder = (
        _builder(subject, signer.subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _signed(builder, key, authority.key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
    )


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
) -> Issued:
    pem = serialization.Encoding.PEM
    return Issued(
        builder.sign(signer, hashes.SHA256()).public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        pass
    if not _DNS_NAME.fullmatch(host):
        raise InvalidCertificate(f"{host!r} is neither an address nor a DNS name")
    return x509.DNSName(host)


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


# -- reading --------------------------------------------------------------------------------------


def load_certificate(pem: bytes) -> x509.Certificate:
    """Return the first certificate in *pem*.

    Raises:
        InvalidCertificate: There is none.
    """
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise InvalidCertificate(f"there is no certificate in PEM: {error}") from error


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return a key of P-256, P-384 or P-521 that is not encrypted.

    Raises:
        InvalidCertificate: There is none.
    """
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise InvalidCertificate(f"there is no key in PEM without a password: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidCertificate("the key is not one of an elliptic curve")
    return key


def names_of(certificate: x509.Certificate) -> list[x509.GeneralName]:
    """Return the alternative names of a certificate."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return list(found.value)


def cluster_of(certificate: x509.Certificate) -> str | None:
    """Return the cluster of the certificate of an authority; None for another certificate."""
    uris = [each.value for each in names_of(certificate) if _is_uri(each)]
    return next((found for uri in uris if (found := cluster_in(uri))), None)


def shown_names(certificate: x509.Certificate) -> list[str]:
    """Return the alternative names of a certificate as ``kind:name``."""
    return [f"{_kind_of(each)}:{each.value}" for each in names_of(certificate)]


def _kind_of(name: x509.GeneralName) -> str:
    if isinstance(name, x509.DNSName):
        return "DNS"
    if isinstance(name, x509.IPAddress):
        return "IP"
    return "URI" if _is_uri(name) else "other"


def _is_uri(name: x509.GeneralName) -> bool:
    return isinstance(name, x509.UniformResourceIdentifier)
