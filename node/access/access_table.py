"""Table of access: the tokens, roles, bindings and issuers of the shared documents, compiled.

The table follows the documents. A change costs what the changed document has, and a look-up
neither decodes a document nor waits. A document that this version cannot read grants nothing.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.shared_document import BINDINGS, DocumentKey, SharedDocument
from rota.core.timing.instants import Instant, parse_instant
from rota.node.access.grants import Grant, Grants
from rota.node.access.issuer import Issuer, issuer_in
from rota.node.access.principal import Principal
from rota.node.access.verbs import ROLES, Verb
from rota.wire.documents import BindingBody, KeyBody, RoleBody

log = logging.getLogger(__name__)

KEYS, ROLES_KIND, ISSUERS = "keys", "roles", "issuers"
"""The kinds of shared documents about access."""
PRINCIPALS_MAX = 10_000
"""The most principals that are kept with their grants."""

Network = IPv4Network | IPv6Network
_NO_ROLE = frozenset[Verb]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token of a key, as it is stored.

    Attributes:
        key: The name of the key.
        principal: The principal of the key.
        token_id: The public part of the token.
        hash: The SHA-256 of the token, in hexadecimal digits.
        expires_at: When the token ends; None for never.
        networks: The networks from which the token is accepted; empty for all.
    """

    key: str
    principal: str
    token_id: str
    hash: str
    expires_at: Instant | None
    networks: tuple[Network, ...]

    def is_expired(self, now: Instant) -> bool:
        """Return True if the token has ended."""
        return self.expires_at is not None and now >= self.expires_at


@dataclass(frozen=True, slots=True)
class Binding:
    """A role of a subject in some namespaces."""

    subject: str
    role: str
    namespaces: tuple[str, ...]


class AccessTable:
    """The compiled documents.

    Attributes:
        revision: The number of changes of these documents that this node has. Nodes that have the
            same documents have the same number.
        is_initialized: Whether the cluster has, or had, a key.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.is_initialized = False
        self._versions: dict[DocumentKey, int] = {}
        self._by_key: dict[str, tuple[Credential, ...]] = {}
        self._by_id: dict[str, tuple[Credential, ...]] = {}
        self._roles: dict[str, frozenset[Verb]] = dict(ROLES)
        self._bindings: dict[str, Binding] = {}
        self._issuers: dict[str, Issuer] = {}
        self._issuers_changed: list[Callable[[Mapping[str, Issuer]], None]] = []
        self._by_subject: dict[str, dict[str, Binding]] = {}
        self._principals: dict[tuple[str, str, tuple[str, ...]], Principal] = {}

    # -- look-ups -------------------------------------------------------------------------------

    def credentials(self, token_id: str) -> tuple[Credential, ...]:
        """Return the stored tokens with an id; usually one."""
        return self._by_id.get(token_id, ())

    def verbs_of(self, role: str) -> frozenset[Verb] | None:
        """Return the verbs of a role; None if the role does not exist."""
        return self._roles.get(role)

    def own_roles(self) -> list[str]:
        """Return the names of the roles of documents."""
        return [name for name in self._roles if name not in ROLES]

    def issuers_at(self, url: str) -> tuple[Issuer, ...]:
        """Return the issuers whose tokens have *url* in the claim ``iss``; usually one."""
        return tuple(each for each in self._issuers.values() if each.url == url)

    def has_issuer(self, name: str) -> bool:
        """Return True if there is an issuer *name*."""
        return name in self._issuers

    def is_bound(self, subject: str) -> bool:
        """Return True if a binding names *subject*."""
        return subject in self._by_subject

    def bindings_of(self, subjects: Iterable[str]) -> list[Binding]:
        """Return the bindings of *subjects*."""
        return [
            binding
            for subject in subjects
            for _, binding in sorted(self._by_subject.get(subject, {}).items())
        ]

    def grants_of(self, subjects: Iterable[str]) -> tuple[Grant, ...]:
        """Return the grants of *subjects*, by their bindings."""
        return tuple(
            Grant(self._roles.get(each.role, _NO_ROLE), each.namespaces)
            for each in self.bindings_of(subjects)
        )

    def principal(self, name: str, key_id: str, subjects: tuple[str, ...]) -> Principal:
        """Return a principal with its grants."""
        asked = (name, key_id, subjects)
        found = self._principals.get(asked)
        if found is None:
            found = Principal(
                name=name, key_id=key_id, subjects=subjects, grants=Grants(self.grants_of(subjects))
            )
            if len(self._principals) >= PRINCIPALS_MAX:
                self._principals.clear()
            self._principals[asked] = found
        return found

    # -- changes --------------------------------------------------------------------------------

    def listen_to_issuers(self, changed: Callable[[Mapping[str, Issuer]], None]) -> None:
        """Call *changed* with all issuers whenever one changes."""
        self._issuers_changed.append(changed)

    def changed(self, key: DocumentKey, document: SharedDocument | None) -> None:
        """Take the new record of a document; None if the record was removed."""
        if key.kind not in (KEYS, ROLES_KIND, BINDINGS, ISSUERS):
            return
        version = document.version if document else 0
        self.revision += version - self._versions.pop(key, 0)
        if document is not None:
            self._versions[key] = version
        self._principals.clear()
        definition = document.definition if document else None
        try:
            self._take(key, definition)
        except (*UNDECODABLE, ValueError) as error:
            self._take(key, None)
            log.error(
                "document about access not understood, and ignored",
                extra={"kind": key.kind, "document": key.name, "reason": str(error)},
            )

    def _take(self, key: DocumentKey, definition: object | None) -> None:
        if key.kind == KEYS:
            self.is_initialized = True
            found = () if definition is None else _credentials(key.name, definition)
            self._set_tokens(key.name, found)
        elif key.kind == ROLES_KIND:
            self._set_role(key.name, None if definition is None else _verbs(definition))
        elif key.kind == ISSUERS:
            self._set_issuer(
                key.name, None if definition is None else issuer_in(key.name, definition)
            )
        else:
            self._set_binding(key.name, None if definition is None else _binding(definition))

    def _set_tokens(self, name: str, credentials: tuple[Credential, ...]) -> None:
        for gone in self._by_key.pop(name, ()):
            rest = tuple(each for each in self._by_id[gone.token_id] if each.key != name)
            if rest:
                self._by_id[gone.token_id] = rest
            else:
                del self._by_id[gone.token_id]
        if credentials:
            self._by_key[name] = credentials
        for fresh in credentials:
            self._by_id[fresh.token_id] = (*self._by_id.get(fresh.token_id, ()), fresh)

    def _set_role(self, name: str, verbs: frozenset[Verb] | None) -> None:
        if name in ROLES:
            return
        if verbs is None:
            self._roles.pop(name, None)
        else:
            self._roles[name] = verbs

    def _set_issuer(self, name: str, issuer: Issuer | None) -> None:
        if issuer is None:
            self._issuers.pop(name, None)
        else:
            self._issuers[name] = issuer
        for changed in self._issuers_changed:
            changed(self._issuers)

    def _set_binding(self, name: str, binding: Binding | None) -> None:
        before = self._bindings.pop(name, None)
        if before is not None:
            of_subject = self._by_subject[before.subject]
            del of_subject[name]
            if not of_subject:
                del self._by_subject[before.subject]
        if binding is not None:
            self._bindings[name] = binding
            self._by_subject.setdefault(binding.subject, {})[name] = binding


def _credentials(name: str, definition: object) -> tuple[Credential, ...]:
    body = msgspec.convert(definition, KeyBody)
    networks = tuple(map(ip_network, body.from_))
    if not all(each.hash.isascii() for each in body.tokens):
        raise ValueError("a hash is not in ASCII")
    return tuple(
        Credential(
            key=name,
            principal=body.principal,
            token_id=each.id,
            hash=each.hash,
            expires_at=parse_instant(each.expires_at) if each.expires_at else None,
            networks=networks,
        )
        for each in body.tokens
    )


def _verbs(definition: object) -> frozenset[Verb]:
    return frozenset(map(Verb, msgspec.convert(definition, RoleBody).verbs))


def _binding(definition: object) -> Binding:
    body = msgspec.convert(definition, BindingBody)
    return Binding(body.subject, body.role, tuple(body.namespaces))
