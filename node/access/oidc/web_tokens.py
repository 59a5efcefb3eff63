"""Verification of JSON Web Tokens, and the principals that they prove.

Source: RFC 7519 (claims), RFC 8725 (best current practices). The issuer's document, never the
token, decides which algorithms are accepted. A verification takes about 170 us, so that a verified
token is kept for `KEPT`, and forgotten when any document about access changes.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.node.access.access_table import AccessTable
from rota.node.access.issuer import Issuer
from rota.node.access.oidc.signing_keys import SigningKeys
from rota.node.access.principal import Principal
from rota.node.system.clock import Clock

LENGTH_MAX = 8_000
KEPT = Duration(60 * SECOND)
VERIFIED_MAX = 10_000
"""The most verified tokens that are kept; with one more, all are forgotten."""
EARLY = Duration(60 * SECOND)
"""The greatest difference between the clocks of the issuer and of this node, for ``nbf``."""
NAME_LENGTH_MAX = 200
GROUPS_MAX = 1_000
"""The most groups of a token that are looked at."""

Claims = Mapping[str, Any]  # Any: JSON of the issuer; each claim is checked where it is read.


class TokenInvalid(Exception):
    """A token proves nothing; the text is a word for the log."""


def is_web_token(text: str) -> bool:
    """Return True if *text* may be a JSON Web Token: three parts, two of which are JSON."""
    return text.isascii() and text.count(".") == 2 and text.startswith("ey")


class WebTokens:
    """The principals of tokens that issuers have signed.

    Args:
        table: The table of access, with the issuers.
        keys: The keys of the issuers.
        clock: The clocks of the node.
    """

    def __init__(self, table: AccessTable, keys: SigningKeys, clock: Clock) -> None:
        self._table = table
        self._keys = keys
        self._clock = clock
        self._revision = table.revision
        self._verified: dict[bytes, tuple[Instant, Principal]] = {}

    @property
    def verified_count(self) -> int:
        """The number of verified tokens that are kept."""
        return len(self._verified)

    def principal(self, text: str) -> Principal:
        """Return the principal that a token proves.

        Raises:
            TokenInvalid: The token proves none.
            KeysNotHere: The key of the token may be downloaded soon.
        """
        if self._revision != self._table.revision or len(self._verified) >= VERIFIED_MAX:
            self._verified.clear()
            self._revision = self._table.revision
        now = self._clock.now()
        digest = sha256(text.encode()).digest()
        until, found = self._verified.get(digest, (Instant(0), None))
        if found is None or now >= until:
            found = self._verify(text, now)
            assert found.expires_at is not None
            self._verified[digest] = min(Instant(now + KEPT), found.expires_at), found
        return found

    def _verify(self, text: str, now: Instant) -> Principal:
        if len(text) > LENGTH_MAX:
            raise TokenInvalid("length")
        header, claims = (_json(part) for part in text.split(".")[:2])
        issuer = self._issuer_of(claims)
        algorithm, key_id = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
            raise TokenInvalid("algorithm")
        if not isinstance(key_id, str):
            raise TokenInvalid("key")
        key = self._keys.key(issuer, key_id)
        if key is None:
            raise TokenInvalid("key")
        # Imported here, as most nodes have no issuer, and the import takes a tenth of the start.
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            verified = jwt.decode(text, key, algorithms=[algorithm]).claims
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise TokenInvalid("signature") from error
        expires_at = _end_of(verified, issuer, now)
        return self._principal_of(verified, issuer, expires_at)

    def _issuer_of(self, claims: Claims) -> Issuer:
        """Return the issuer of a token that is meant for this cluster."""
        named = claims.get("iss")
        issuers = self._table.issuers_at(named) if isinstance(named, str) else ()
        if not issuers:
            raise TokenInvalid("issuer")
        audience = claims.get("aud")
        audiences = set(_texts(audience))
        for issuer in issuers:
            if issuer.audiences & audiences:
                return issuer
        raise TokenInvalid("audience")

    def _principal_of(self, claims: Claims, issuer: Issuer, expires_at: Instant) -> Principal:
        subject = _name_in(claims, "sub")
        if not subject:
            raise TokenInvalid("sub")
        name = _name_in(claims, issuer.name_claim) or subject
        groups = _texts(claims.get(issuer.groups_claim))[:GROUPS_MAX]
        # Groups without a binding grant nothing, and a caller may have hundreds of groups.
        bound = [
            each
            for each in dict.fromkeys(f"group:{issuer.name}/{group}" for group in groups)
            if self._table.is_bound(each)
        ]
        subjects = (f"sub:{issuer.name}/{subject}", *bound)
        found = self._table.principal(f"{issuer.name}/{name}", "", subjects)
        return replace(found, issuer=issuer.name, expires_at=expires_at)


def _json(part: str) -> Claims:
    """Return the JSON object in a part of a token."""
    from joserfc.util import urlsafe_b64decode

    try:
        return msgspec.json.decode(urlsafe_b64decode(part.encode()), type=dict[str, Any])
    except (ValueError, *UNDECODABLE) as error:
        raise TokenInvalid("form") from error


def _end_of(claims: Claims, issuer: Issuer, now: Instant) -> Instant:
    """Return the end of a token that counts at *now*."""
    expires_at = _time_in(claims, "exp")
    if expires_at is None or now >= expires_at:
        raise TokenInvalid("expired")
    if expires_at > now + issuer.max_age:
        raise TokenInvalid("lifetime")
    if "nbf" in claims:
        begins_at = _time_in(claims, "nbf")
        if begins_at is None or begins_at > now + EARLY:
            raise TokenInvalid("early")
    return expires_at


def _time_in(claims: Claims, name: str) -> Instant | None:
    """Return the time in a claim; None if the claim is no time between 1970 and the year 5138."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Instant(int(value * SECOND)) if 0 <= value < 10**11 else None


def _name_in(claims: Claims, name: str) -> str:
    """Return the text of a claim; empty if it cannot be a name."""
    value = claims.get(name)
    if isinstance(value, str) and len(value) <= NAME_LENGTH_MAX and value.isprintable():
        return value
    return ""


def _texts(value: object) -> list[str]:
    """Return the texts of a claim with one text or a list of them."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    items = cast("list[object]", value)  # isinstance gives no type of the items.
    return [each for each in items if isinstance(each, str)]
