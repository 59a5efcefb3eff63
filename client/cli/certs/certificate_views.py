"""Certificates in files, as `rota certs show` prints them."""

from datetime import timedelta
from pathlib import Path

import msgspec

from rota.client.certificates.certificate_files import read
from rota.client.certificates.issuing import InvalidCertificate, load_certificate, shown_names
from rota.client.cli.display.show import Column, Look
from rota.client.cli.human import absolute
from rota.core.timing.instants import Instant, format_instant, from_datetime, to_datetime


class CertificateView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A certificate in a file."""

    file: str
    subject: str
    names: list[str]
    issuer: str
    expires_at: str
    days_left: int


LOOK: Look[CertificateView] = Look(
    name=lambda view: view.file,
    columns=(
        Column("FILE", lambda view, _: view.file),
        Column("SUBJECT", lambda view, _: view.subject),
        Column("NAMES", lambda view, _: " ".join(view.names)),
        Column("EXPIRES", lambda view, _: absolute(view.expires_at)),
        Column("DAYS LEFT", lambda view, _: str(view.days_left)),
        Column("ISSUER", lambda view, _: view.issuer, is_wide=True),
    ),
)


def view_of(path: Path, at: Instant) -> CertificateView:
    """Return the first certificate in a file.

    Raises:
        InvalidCertificate: The file cannot be read, or has no certificate.
    """
    try:
        certificate = load_certificate(read(path))
    except InvalidCertificate as error:
        detail = error.detail if str(path) in error.detail else f"{path}: {error.detail}"
        raise InvalidCertificate(detail) from error
    until = certificate.not_valid_after_utc
    return CertificateView(
        file=str(path),
        subject=certificate.subject.rfc4514_string(),
        names=shown_names(certificate),
        issuer=certificate.issuer.rfc4514_string(),
        expires_at=format_instant(from_datetime(until)),
        days_left=(until - to_datetime(at)) // timedelta(days=1),
    )
