"""Secrets of this node's cluster: shared documents that the key ring encrypts.

A value is encrypted by the node that receives it and decrypted by the node that runs an attempt. It
is never returned to a client.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from rota.core.errors import Kind, Refused, not_found
from rota.core.model.attempt import Order
from rota.core.model.author import Author, as_author
from rota.core.model.ids import namespace_of
from rota.core.model.shared_document import SECRETS, DocumentKey, SharedDocument
from rota.core.quoting import in_quotes
from rota.core.timing.instants import format_instant
from rota.executor.secret_values import (
    NO_SECRETS,
    SecretUnavailable,
    SecretUnusable,
    SecretValues,
)
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.coordination.coordinator_errors import CoordinatorError
from rota.node.secrets.live_key_ring import LiveKeyRing
from rota.node.secrets.sealing import (
    CannotOpen,
    Identity,
    Random,
    Sealed,
    open_sealed,
    rewrapped,
    seal,
    sealed_in,
)
from rota.node.system.clock import Clock
from rota.wire.key_rings import KeyRing

log = logging.getLogger(__name__)

SECRETS_PER_NAMESPACE_MAX = 1_000
SECRETS_BYTES_MAX = 32 << 20
"""The maximum size of the documents of all secrets together, in bytes: half of all documents."""
ATTEMPT_BYTES_MAX = 1 << 20
"""The maximum size of the values of one attempt together, in bytes."""
KNOWN_WAIT_S = 0.2
KNOWN_LOOK_S = 0.005
UNAVAILABLE = "secret_unavailable"
"""The beginning of the reason of an attempt that could not get its secrets."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret without its value.

    Attributes:
        namespace: Its namespace.
        name: Its name in the namespace.
        sealed: Its present version, encrypted.
        document_version: The version of its document, which a rewrap changes, too.
    """

    namespace: str
    name: str
    sealed: Sealed
    document_version: int

    @property
    def full_name(self) -> str:
        """The name with the namespace."""
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class Rewrap:
    """The result of a rewrap: what was changed, and the full names of what could not be."""

    in_use: str
    changed: int
    failed: list[str]


def key_of(namespace: str, name: str) -> DocumentKey:
    """Return the key of the document of a secret."""
    return DocumentKey(SECRETS, f"{namespace}/{name}")


class SecretStore:
    """The secrets of the cluster.

    Args:
        documents: The shared documents of this node.
        key_ring: The key ring of this node.
        clock: The clock of this node.
        cluster: The name of the cluster, to which values are bound.
        random: A cryptographic source of random bytes.

    Attributes:
        key_ring: The same as the argument.
    """

    def __init__(
        self,
        documents: SharedDocuments,
        key_ring: LiveKeyRing,
        clock: Clock,
        *,
        cluster: str,
        random: Random,
    ) -> None:
        self.key_ring = key_ring
        self._documents = documents
        self._clock = clock
        self._cluster = cluster
        self._random = random

    # -- reading --------------------------------------------------------------------------------

    def get(self, namespace: str, name: str) -> Secret | None:
        """Return a secret; None if it does not exist or cannot be read by this version."""
        found = self._documents.get(key_of(namespace, name))
        return _secret_in(found) if found is not None else None

    def all(self) -> list[Secret]:
        """Return all secrets, by namespace and name."""
        found = map(_secret_in, self._documents.of_kind(SECRETS))
        kept = [each for each in found if each is not None]
        return sorted(kept, key=lambda each: (each.namespace, each.name))

    def names_in(self, namespace: str) -> list[str]:
        """Return the names of the secrets in a namespace, in order."""
        return [each.name for each in self.all() if each.namespace == namespace]

    def others_in(self, namespace: str, name: str) -> int:
        """Return the number of secrets in a namespace besides *name*, with those under way."""
        made = (key.name.partition("/") for key in self._documents.changing(SECRETS))
        names = {*self.names_in(namespace), *(each for of, _, each in made if of == namespace)}
        return len(names - {name})

    async def unknown(self, namespace: str, names: Iterable[str]) -> set[str]:
        """Return those of *names* that no secret has.

        One that was just set at another node is waited for, for a short time.
        """
        unknown = set(names)
        for _ in range(round(KNOWN_WAIT_S / KNOWN_LOOK_S)):
            unknown = {name for name in unknown if self.get(namespace, name) is None}
            if not unknown:
                break
            await asyncio.sleep(KNOWN_LOOK_S)
        return unknown

    # -- changes --------------------------------------------------------------------------------

    async def set(
        self,
        namespace: str,
        name: str,
        value: bytes,
        *,
        by: Author | str,
        if_version: int | None = None,
        is_dry: bool = False,
    ) -> Secret:
        """Encrypt a value as the next version of a secret, and return the secret.

        Args:
            namespace: The namespace of the secret.
            name: The name of the secret.
            value: The value.
            by: The caller who sets it, or the name of its principal.
            if_version: The version that the document must have; 0 if it must not exist; None for
                any version.
            is_dry: Whether to check only.

        Raises:
            Refused: Code ``no_key_ring``, ``too_many_secrets``, or as for `SharedDocuments.change`.
            CoordinatorError: As for `SharedDocuments.change`.
        """
        key, ring = key_of(namespace, name), self._ring()
        self._check_room(namespace, key)
        record = self._documents.record(key)
        # Above the versions of a deleted secret of this name, so that none has a version twice.
        identity = self._identity(namespace, name, record.version + 1 if record else 1)
        now = format_instant(self._clock.now())
        sealed = seal(
            value, identity, ring, self._random, set_at=now, set_by=as_author(by).principal
        )
        saved = await self._documents.change(
            key, msgspec.to_builtins(sealed), by=by, if_version=if_version, is_dry=is_dry
        )
        return Secret(namespace, name, sealed, saved.version)

    async def delete(
        self, namespace: str, name: str, *, by: Author | str, if_version: int | None, is_dry: bool
    ) -> None:
        """Delete a secret.

        Raises:
            Refused: Code ``secret_not_found``, or as for `SharedDocuments.change`.
            CoordinatorError: As for `SharedDocuments.change`.
        """
        key = key_of(namespace, name)
        if self._documents.get(key) is None:
            raise missing(namespace, name)
        await self._documents.change(key, None, by=by, if_version=if_version, is_dry=is_dry)

    async def rewrap(self, *, by: Author | str) -> Rewrap:
        """Encrypt the data keys of all secrets with the key in use.

        A secret that is changed meanwhile has the key in use already, or is tried once more.

        Raises:
            Refused: Code ``no_key_ring``.
        """
        ring = self._ring()
        result = Rewrap(ring.in_use, 0, [])
        for document in self._documents.of_kind(SECRETS):
            try:
                result.changed += await self._rewrap(document.key, ring, by)
            except (CannotOpen, CoordinatorError, Refused) as error:
                result.failed.append(document.name)
                log.error(
                    "secret not rewrapped", extra={"secret": document.name, "reason": str(error)}
                )
        return result

    async def _rewrap(self, key: DocumentKey, ring: KeyRing, by: Author | str) -> bool:
        """Return True if the data key was encrypted by another key than that in use.

        Raises:
            CannotOpen, CoordinatorError, Refused: Nothing was changed.
        """
        for is_last in (False, True):
            document = self._documents.get(key)
            if document is None:
                return False
            sealed = sealed_in(document.definition or {})
            if sealed.kek == ring.in_use:
                return False
            namespace, _, name = key.name.partition("/")
            identity = self._identity(namespace, name, sealed.version)
            fresh = rewrapped(sealed, identity, ring, self._random)
            try:
                await self._documents.change(
                    key, msgspec.to_builtins(fresh), by=by, if_version=document.version
                )
            except Refused as refusal:
                if is_last or refusal.code != "version_mismatch":
                    raise
            else:
                return True
        return False

    # -- use ------------------------------------------------------------------------------------

    def values_of(self, order: Order) -> SecretValues:
        """Return the values of the secrets that an order names.

        Raises:
            SecretUnavailable: This node cannot decrypt one of them.
            SecretUnusable: They are too long, or one of them cannot be a variable.
        """
        names = order.work.secrets
        if names is None:
            return NO_SECRETS
        namespace = namespace_of(order.job)
        values = {name: self.value(namespace, name) for name in names.names}
        size = sum(len(values[name]) for _, name in (*names.env, *names.files))
        if size > ATTEMPT_BYTES_MAX:
            raise SecretUnusable(f"its secrets have {size} bytes; {ATTEMPT_BYTES_MAX} are allowed")
        for variable, name in names.env:
            if b"\0" in values[name]:
                raise SecretUnusable(
                    f"the secret {in_quotes(name)} has a NUL byte, so it cannot be the variable "
                    f"{variable}: use a file"
                )
        return SecretValues(
            env={variable: values[name] for variable, name in names.env},
            files={file: values[name] for file, name in names.files},
        )

    def value(self, namespace: str, name: str) -> bytes:
        """Return the value of a secret.

        Raises:
            SecretUnavailable: This node cannot decrypt it, or there is no such secret.
        """
        ring, secret = self.key_ring.ring, self.get(namespace, name)
        about = f"the secret {in_quotes(name)} in {in_quotes(namespace)}"
        if secret is None:
            raise _unavailable(f"there is no secret {in_quotes(name)} in {in_quotes(namespace)}")
        if ring is None:
            raise _unavailable(f"{about} needs a key ring, and this node has none")
        try:
            identity = self._identity(namespace, name, secret.sealed.version)
            return open_sealed(secret.sealed, identity, ring)
        except CannotOpen as error:
            raise _unavailable(f"{about} cannot be decrypted: {error}") from error

    # -- checks ---------------------------------------------------------------------------------

    def _identity(self, namespace: str, name: str, version: int) -> Identity:
        return Identity(self._cluster, namespace, name, version)

    def _ring(self) -> KeyRing:
        ring = self.key_ring.ring
        if ring is None:
            raise Refused(
                Kind.CONFLICT,
                "no_key_ring",
                "this node has no key ring, so it cannot encrypt secrets: make one with `rota "
                "keyring init FILE`, copy it to all nodes, and set keyring to its path",
            )
        return ring

    def _check_room(self, namespace: str, key: DocumentKey) -> None:
        if self._documents.get(key) is not None:
            return
        size = sum(
            len(text) for each in self._documents.of_kind(SECRETS) for text in _texts_of(each)
        )
        count = self.others_in(namespace, key.name.partition("/")[2])
        if count >= SECRETS_PER_NAMESPACE_MAX or size >= SECRETS_BYTES_MAX:
            raise Refused(
                Kind.TOO_MANY,
                "too_many_secrets",
                f"{in_quotes(namespace)} has {count} secrets, and those of all namespaces have "
                f"{size} bytes; the limits are {SECRETS_PER_NAMESPACE_MAX} secrets and "
                f"{SECRETS_BYTES_MAX} bytes: delete secrets that are not needed",
                retry_after_s=60,
            )


def missing(namespace: str, name: str) -> Refused:
    """Return the refusal of a request about a secret that does not exist."""
    hint = f"check the name: `rota secret list -n {namespace}` lists the names"
    return not_found("secret", f"{namespace}/{name}", hint)


def _unavailable(reason: str) -> SecretUnavailable:
    return SecretUnavailable(f"{UNAVAILABLE}: {reason}")


def _texts_of(document: SharedDocument) -> Iterator[str]:
    definition = document.definition or {}
    return (value for value in definition.values() if isinstance(value, str))


def _secret_in(document: SharedDocument) -> Secret | None:
    namespace, _, name = document.name.partition("/")
    try:
        sealed = sealed_in(document.definition or {})
    except CannotOpen as error:
        log.error("secret not understood", extra={"secret": document.name, "reason": str(error)})
        return None
    return Secret(namespace, name, sealed, document.version)
