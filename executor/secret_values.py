"""Values of the secrets of one attempt, on their way from the node to its processes.

They are in memory only, beside the order of the attempt: orders are written to journals.
"""

import msgspec

# No secret has such a name: the name of a file begins with a letter or a digit.
TOKEN_FILE = ".rota-token"
AUTHORITY_FILE = ".rota-ca"


class SecretValues(msgspec.Struct, frozen=True, array_like=True):
    """The values of the secrets that an order names, and the attempt's own token.

    Attributes:
        env: The value of each variable.
        files: The content of each file.
        token: The token with which the attempt calls the API; empty for none.
        authority: The certificates of the authority of the API, in PEM; empty for none.
    """

    env: dict[str, bytes] = {}
    files: dict[str, bytes] = {}
    token: bytes = b""
    authority: bytes = b""

    @property
    def all(self) -> tuple[bytes, ...]:
        """The values, each once, longest first; the certificates are no secret."""
        values = {*self.env.values(), *self.files.values()}
        values |= {self.token} if self.token else set()
        return tuple(sorted(values, key=lambda value: (-len(value), value)))

    @property
    def in_files(self) -> dict[str, bytes]:
        """The content of each file that the attempt gets."""
        ours = {TOKEN_FILE: self.token, AUTHORITY_FILE: self.authority}
        return {**self.files, **{name: content for name, content in ours.items() if content}}

    def __repr__(self) -> str:
        """Return the names without the values."""
        return f"SecretValues(env={sorted(self.env)}, files={sorted(self.files)})"


class SecretUnavailable(Exception):
    """The secrets of an attempt cannot be used on this node; the text is the attempt's reason."""


class SecretUnusable(SecretUnavailable):
    """No node can use the secrets of an attempt: another value, or another job, is needed."""


NO_SECRETS = SecretValues()
"""The values of an attempt without secrets."""
