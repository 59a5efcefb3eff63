"""Access: keys, roles and bindings, and the requests about them."""

from typing import Annotated

import msgspec

from rota.wire.documents.document import (
    Body,
    InstantText,
    Json,
    NameText,
    Timespan,
    UrlText,
    View,
    Word,
)

VERBS_MAX = 100
TOKENS_MAX = 10
AUDIENCES_MAX = 20
SIGNING_KEYS_MAX = 100
SIGNING_KEY_FIELDS_MAX = 50
CERTIFICATES_LENGTH_MAX = 32_000
LISTED_MAX = 256
"""The most networks of a key, and the most namespaces of a binding."""

InstantInput = Annotated[
    str, msgspec.Meta(max_length=100, extra_json_schema={"format": "date-time"})
]
SigningKey = Annotated[dict[Word, Json], msgspec.Meta(max_length=SIGNING_KEY_FIELDS_MAX)]
Networks = Annotated[list[Word], msgspec.Meta(max_length=LISTED_MAX)]
Namespaces = Annotated[list[Word], msgspec.Meta(max_length=LISTED_MAX)]


class TokenBody(Body, frozen=True):
    """A token of a key.

    Attributes:
        id: The public part of the token, 8 characters.
        hash: The SHA-256 of the whole token, in hexadecimal digits. No response has it. A token
            without it keeps the hash that is stored under its id.
        expires_at: When the token ends; null for never.
    """

    id: Word
    hash: Word = ""
    expires_at: InstantInput | None = None


class KeyBody(Body, frozen=True):
    """A key: the tokens of a principal.

    Attributes:
        principal: The name of the person or program that has the tokens.
        tokens: The tokens; several during a rotation.
        from_: Networks, such as ``10.0.0.0/8``, from which the tokens are accepted; empty for all.
    """

    principal: NameText
    tokens: Annotated[list[TokenBody], msgspec.Meta(max_length=TOKENS_MAX)]
    from_: Networks = msgspec.field(name="from", default_factory=list[str])


class RoleBody(Body, frozen=True):
    """A role: verbs under a name.

    Attributes:
        verbs: The verbs, such as ``read``.
    """

    verbs: Annotated[list[Word], msgspec.Meta(max_length=VERBS_MAX)]


class BindingBody(Body, frozen=True):
    """A binding: a role of a subject, in some namespaces.

    Attributes:
        subject: ``principal:NAME``; ``cert:COMMON-NAME`` for a client certificate;
            ``job:NAMESPACE/NAME`` for the tasks of a job with identity; or, for the tokens of an
            issuer, ``sub:ISSUER/SUBJECT`` or ``group:ISSUER/GROUP``.
        role: The name of a role. A role that does not exist has no verbs.
        namespaces: Namespaces. A final ``*`` matches any ending; ``*`` alone is the whole cluster.
    """

    subject: Word
    role: NameText
    namespaces: Namespaces


class IssuerBody(Body, frozen=True):
    """An issuer of JSON Web Tokens, such as an identity provider with OpenID Connect.

    Attributes:
        issuer: The claim ``iss`` of its tokens: an https URL.
        audiences: The accepted values of the claim ``aud``.
        algorithms: The accepted algorithms.
        name_claim: The claim with the name of the caller; without it the name is that in ``sub``.
        groups_claim: The claim with the groups of the caller.
        max_age: The longest accepted time until the end of a token.
        ca: Certificates of authorities in PEM, if those of the system do not suffice.
        keys: The public keys of the issuer as a JSON Web Key Set has them, so that nodes download
            none; null to download them.
    """

    issuer: UrlText
    audiences: Annotated[list[Word], msgspec.Meta(max_length=AUDIENCES_MAX)]
    algorithms: Annotated[list[Word], msgspec.Meta(max_length=AUDIENCES_MAX)] = msgspec.field(
        default_factory=lambda: ["RS256", "ES256"]
    )
    name_claim: Word = "sub"
    groups_claim: Word = "groups"
    max_age: Word = "24h"
    ca: Annotated[str, msgspec.Meta(max_length=CERTIFICATES_LENGTH_MAX)] = ""
    keys: Annotated[list[SigningKey], msgspec.Meta(max_length=SIGNING_KEYS_MAX)] | None = None


class CreateKeyBody(Body, frozen=True):
    """A new key with one token.

    Attributes:
        name: The name of the key.
        principal: The name of the person or program that gets the token; by default *name*.
        expires_in: The time until the token ends, such as ``90d``; null for no end.
        from_: Networks, such as ``10.0.0.0/8``, from which the token is accepted; empty for all.
        role: A role of the principal, for which a binding ``key-NAME`` is created; with
            *namespaces*.
        namespaces: The namespaces of the role.
    """

    name: NameText
    principal: Word = ""
    expires_in: Timespan | None = None
    from_: Networks = msgspec.field(name="from", default_factory=list[str])
    role: Word = ""
    namespaces: Namespaces = []


class RotateKeyBody(Body, frozen=True):
    """A rotation of a key: a new token beside the old ones.

    Attributes:
        grace: The time until the old tokens end; 0 for at once.
        expires_in: The time until the new token ends; null for the end of the old token that ends
            last.
    """

    grace: Timespan = "1h"
    expires_in: Timespan | None = None


class InitBody(Body, frozen=True):
    """The first key of a cluster.

    Attributes:
        name: The name of the principal that gets the key.
    """

    name: NameText = "admin"


class NewTokenView(View, frozen=True):
    """A new token; it is shown only once.

    Attributes:
        name: The name of the key.
        principal: The principal of the key.
        token: The token; keep it secret.
        token_id: The public part of the token.
        expires_at: When the token ends; null for never.
    """

    name: str
    principal: str
    token: str
    token_id: str
    expires_at: InstantText | None

    def __repr__(self) -> str:
        """Return the view without the token."""
        return f"NewTokenView(name={self.name!r}, token_id={self.token_id!r})"


class HeldRoleView(View, frozen=True):
    """A role that a caller has.

    Attributes:
        role: The name of the role.
        namespaces: The namespaces, as in the binding.
    """

    role: str
    namespaces: list[str]


class WhoamiView(View, frozen=True):
    """The caller of the request.

    Attributes:
        principal: The name of the caller.
        token_id: The public part of the token that was sent; null without a token.
        expires_at: When the token or the certificate of the caller ends, whichever is first; null
            for never.
        bindings: The roles of the caller.
        allowed: Whether the caller has the verb of the query in its namespace; null without a verb.
    """

    principal: str
    token_id: str | None
    expires_at: InstantText | None
    bindings: list[HeldRoleView]
    allowed: bool | None
