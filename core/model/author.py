"""The author of a change: the caller of the request that led to it."""

from typing import Annotated

import msgspec

PRINCIPAL_LENGTH_MAX = 256
KEY_LENGTH_MAX = 64
REQUEST_LENGTH_MAX = 128
ADDRESS_LENGTH_MAX = 64


class Author(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The caller of a request.

    Attributes:
        principal: The name of the principal.
        key: The id of the key that proved the identity, of the execution if the caller is one of
            its tasks, or the subject of the token of an identity provider; empty without one.
        request: The id of the request, as in the node's log.
        address: The network address of the client; empty for a unix socket.
    """

    principal: Annotated[str, msgspec.Meta(max_length=PRINCIPAL_LENGTH_MAX)]
    key: Annotated[str, msgspec.Meta(max_length=KEY_LENGTH_MAX)] = ""
    request: Annotated[str, msgspec.Meta(max_length=REQUEST_LENGTH_MAX)] = ""
    address: Annotated[str, msgspec.Meta(max_length=ADDRESS_LENGTH_MAX)] = ""


def as_author(by: Author | str) -> Author:
    """Return *by*, the caller of a request, or the name of a principal that sent none."""
    return by if isinstance(by, Author) else Author(principal=by[:PRINCIPAL_LENGTH_MAX])
