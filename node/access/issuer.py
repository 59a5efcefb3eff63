"""An issuer of tokens, as its document defines it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rota.core.model.given_durations import read_duration
from rota.core.timing.instants import Duration
from rota.wire.documents import IssuerBody

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""The algorithms that a definition may name. With those of a shared secret (HS256) every node could
make tokens, and a published key could be taken for the secret."""

JsonWebKey = Mapping[str, Any]  # Any: the fields depend on the type of the key.


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """An issuer.

    Attributes:
        name: The name of the document.
        url: The claim ``iss`` of its tokens.
        audiences: One of these has to be in the claim ``aud``.
        algorithms: The accepted algorithms.
        name_claim: The claim with the name of the caller.
        groups_claim: The claim with the groups of the caller.
        max_age: The longest accepted time until the end of a token.
        ca: Certificates of authorities in PEM, beside those of the system.
        keys: The public keys; None to fetch them from the issuer.
    """

    name: str
    url: str
    audiences: frozenset[str]
    algorithms: frozenset[str]
    name_claim: str
    groups_claim: str
    max_age: Duration
    ca: str
    keys: tuple[JsonWebKey, ...] | None


def issuer_in(name: str, definition: object) -> Issuer:
    """Return the issuer that a document defines.

    Raises:
        ValueError: The definition is not understood.
        msgspec.ValidationError: Likewise.
    """
    body = msgspec.convert(definition, IssuerBody)
    if unknown := set(body.algorithms) - set(ALGORITHMS):
        raise ValueError(f"the algorithms {sorted(unknown)} are not accepted")
    return Issuer(
        name=name,
        url=body.issuer,
        audiences=frozenset(body.audiences),
        algorithms=frozenset(body.algorithms),
        name_claim=body.name_claim,
        groups_claim=body.groups_claim,
        max_age=read_duration(body.max_age),
        ca=body.ca,
        keys=None if body.keys is None else tuple(body.keys),
    )
