"""Secrets of namespaces, and the key ring; no view has a value or a key."""

from typing import Annotated

import msgspec

from rota.wire.documents.document import Body, InstantText, View

SECRET_BYTES_MAX = 64 << 10
"""The largest size of a value, in bytes."""
_Value = Annotated[str, msgspec.Meta(max_length=128 << 10)]
"""A text that is longer than a value may be, so that no error of a decoder ever shows a value:
errors show only parts of short bodies."""


class SecretBody(Body, frozen=True):
    """The value of a secret: *value* or *base64*, at most 64 KiB.

    Attributes:
        value: The value as text.
        base64: The value in base64, for any bytes.
    """

    value: _Value | None = None
    base64: _Value | None = None

    def __repr__(self) -> str:
        """Return the body without the value."""
        return "SecretBody(...)"


class SecretView(View, frozen=True):
    """A secret, without its value.

    Attributes:
        namespace: Its namespace.
        name: Its name, unique in its namespace.
        version: The number of its version; each new value increases it.
        set_at: When this version was set.
        set_by: The caller that set this version.
    """

    namespace: str
    name: str
    version: int
    set_at: InstantText
    set_by: str


class SecretPage(View, frozen=True):
    """A page of secrets.

    Attributes:
        items: The secrets, ordered by namespace and name.
        next_cursor: The cursor of the next page; null for the last page.
    """

    items: list[SecretView]
    next_cursor: str | None = None


class KeyRingView(View, frozen=True):
    """The key ring of the node that responds, without its keys.

    Attributes:
        node: The id of the node.
        in_use: The id of the key that encrypts; null if the node has no key ring.
        keys: The ids of the keys that the node has.
        secrets_by_key: For each key, the number of secrets that are encrypted with it; also for
            keys that the node lacks.
    """

    node: str
    in_use: str | None
    keys: list[str]
    secrets_by_key: dict[str, int]


class RewrapView(View, frozen=True):
    """The result of encrypting the data keys of all secrets with the key in use.

    Attributes:
        in_use: The id of the key in use.
        changed: The number of secrets whose data key had been encrypted with another key.
        failed: The secrets that could not be changed, ``namespace/name``, at most 100.
        failed_count: The number of secrets that could not be changed.
    """

    in_use: str
    changed: int
    failed: list[str]
    failed_count: int
