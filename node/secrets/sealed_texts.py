"""Encryption of single texts, each with the key of its namespace.

The key is a secret of the namespace with a name that users cannot give, so it is stored, encrypted
with the key ring, and encrypted again for another key of the ring as secrets are. AES-256-GCM with
a random nonce of 96 bits permits 2^32 texts of one key; each text is bound to cluster and
namespace.
"""

import base64
import binascii
import json

from msgspec.structs import replace

from rota.core.errors import Refused
from rota.core.model.attempt import Order
from rota.core.model.author import Author
from rota.core.model.ids import namespace_of
from rota.core.model.sealed_texts import PREFIX, replaced
from rota.executor.secret_values import (
    NO_SECRETS,
    SecretUnusable,
    SecretValues,
)
from rota.node.secrets.sealing import NONCE_BYTES, CannotOpen, Random, cipher_of
from rota.node.secrets.secret_store import SEALING_KEY, SecretStore
from rota.wire.key_rings import KEY_BYTES

OTHER_KEY = (
    "a sealed text is incomplete, or was sealed for another namespace or cluster; seal it again: "
    "`rota secret seal -n {}`"
)
PARAMETERS = "ROTA_PARAMETERS"
"""The variable with the parameters, in which texts are parts of JSON."""


class SealedTexts:
    """The sealed texts of all namespaces.

    Args:
        store: The secrets, with the keys of the namespaces.
        cluster: The name of the cluster, to which texts are bound.
        random: A cryptographic source of random bytes.
    """

    def __init__(self, store: SecretStore, *, cluster: str, random: Random) -> None:
        self._store = store
        self._cluster = cluster
        self._random = random

    async def seal(self, namespace: str, text: str, *, by: Author) -> str:
        """Return *text* sealed for a namespace, whose key is created if it has none.

        Raises:
            Refused: Code ``no_key_ring``, or as for `SecretStore.set`.
            SecretUnavailable: This node cannot decrypt the key.
            CoordinatorError: As for `SecretStore.set`.
        """
        if self._store.get(namespace, SEALING_KEY) is None:
            key = self._random(KEY_BYTES)
            try:
                await self._store.set(namespace, SEALING_KEY, key, by=by, if_version=0)
            except Refused as refusal:
                if refusal.code != "version_mismatch":
                    raise  # Otherwise another request has just created the key.
        nonce = self._random(NONCE_BYTES)
        key = self._store.value(namespace, SEALING_KEY)
        box = nonce + cipher_of(key).encrypt(nonce, text.encode(), self._bound(namespace))
        return PREFIX + base64.urlsafe_b64encode(box).decode().rstrip("=")

    def open(self, namespace: str, box: str) -> str:
        """Return the text of a box.

        Raises:
            CannotOpen: The box is damaged, or belongs to another namespace or cluster.
            SecretUnavailable: This node lacks the key of the namespace.
        """
        from cryptography.exceptions import InvalidTag

        key = self._store.value(namespace, SEALING_KEY)
        try:
            content = base64.b64decode(box + "=" * (-len(box) % 4), altchars="-_", validate=True)
            nonce, sealed = content[:NONCE_BYTES], content[NONCE_BYTES:]
            return cipher_of(key).decrypt(nonce, sealed, self._bound(namespace)).decode()
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise CannotOpen(OTHER_KEY.format(namespace)) from error

    def values_of(self, order: Order) -> SecretValues:
        """Return the variables of an order that have sealed texts, with the plain texts.

        Raises:
            SecretUnavailable: This node cannot decrypt one of them.
            SecretUnusable: No node can.
        """
        if not order.work.has_sealed:
            return NO_SECRETS
        if order.work.executor == "container":
            raise SecretUnusable("the variables of a container cannot have sealed texts")
        namespace, texts = namespace_of(order.job), list[str]()

        def opened(box: str) -> str:
            texts.append(self.open(namespace, box))
            return texts[-1]

        def opened_in_json(box: str) -> str:
            return json.dumps(opened(box))[1:-1]

        try:
            env = {
                name: replaced(value, opened_in_json if name == PARAMETERS else opened).encode()
                for name, value in order.work.env
                if PREFIX in value and (name == PARAMETERS or not name.startswith("ROTA_"))
            }
        except CannotOpen as error:
            raise SecretUnusable(str(error)) from error
        if any(b"\0" in value for value in env.values()):
            raise SecretUnusable("a sealed text has a NUL character, so it cannot be a variable")
        return SecretValues(opened=env, parts=tuple(text.encode() for text in texts))

    def _bound(self, namespace: str) -> bytes:
        return "|".join(("text", self._cluster, namespace)).encode()


def with_sealed(values: SecretValues, sealed: SecretValues) -> SecretValues:
    """Return the values of both."""
    return replace(values, opened=sealed.opened, parts=sealed.parts)
