"""Issuers of JSON Web Tokens, such as identity providers with OpenID Connect."""

import ssl

from rota.core.errors import Problem
from rota.core.model.given_durations import read_duration
from rota.core.quoting import in_quotes
from rota.core.timing.instants import HOUR, SECOND
from rota.node.access.access_table import ISSUERS as KIND
from rota.node.access.issuer import ALGORITHMS
from rota.node.access.oidc.key_download import is_protected
from rota.node.access.oidc.signing_keys import usable_keys
from rota.node.access.verbs import Verb
from rota.node.api.kinds.document_kind import DocumentKind
from rota.node.api.requests.permissions import in_cluster
from rota.wire.documents import IssuerBody

AGE_MIN, AGE_MAX = SECOND, 24 * 366 * HOUR


def problems_of(name: str, body: IssuerBody) -> list[Problem]:
    """Return the errors of an issuer."""
    del name
    problems: list[Problem] = []
    if not is_protected(body.issuer):
        detail = (
            f"{in_quotes(body.issuer)} is not an https:// URL; write the claim iss of the tokens"
        )
        problems.append(Problem("/issuer", detail))
    if not body.audiences or not all(body.audiences):
        detail = "names no audience; write the values of the claim aud that tokens for rota have"
        problems.append(Problem("/audiences", detail))
    problems += [
        Problem(
            f"/algorithms/{number}",
            f"{in_quotes(each)} is not accepted; write some of {', '.join(ALGORITHMS)}",
        )
        for number, each in enumerate(body.algorithms)
        if each not in ALGORITHMS
    ]
    if not body.algorithms:
        problems.append(Problem("/algorithms", "is empty; leave it out for RS256 and ES256"))
    problems += _problems_of_age(body.max_age)
    if body.ca and (reason := _why_no_certificates(body.ca)):
        problems.append(Problem("/ca", f"has no certificate in PEM: {reason}"))
    if any("d" in each for each in body.keys or ()):
        problems.append(Problem("/keys", "has a private key; write public keys only"))
    elif body.keys is not None and not usable_keys(body.keys):
        detail = (
            "has no public key for signatures (RSA, EC or OKP); write the list `keys` of a JWKS"
        )
        problems.append(Problem("/keys", detail))
    return problems


def _problems_of_age(text: str) -> list[Problem]:
    try:
        age = read_duration(text)
    except ValueError as error:
        return [Problem("/maxAge", str(error))]
    if AGE_MIN <= age <= AGE_MAX:
        return []
    return [Problem("/maxAge", f"{in_quotes(text)} is not between 1s and 366d")]


def _why_no_certificates(text: str) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: not in ASCII.
        return str(error)
    return ""


ISSUERS = DocumentKind(
    plural=KIND,
    singular="issuer",
    title="Issuers",
    about="issuer",
    not_found_code="issuer_not_found",
    invalid_code="invalid_issuer",
    body=IssuerBody,
    reading=in_cluster(Verb.ADMIN, Verb.AUDIT),
    writing=in_cluster(Verb.ADMIN),
    problems_of=problems_of,
)
