"""Values of the secrets of one attempt, on their way from the node to its processes.

They are in memory only, beside the order of the attempt: orders are written to journals.
"""

import msgspec


class SecretValues(msgspec.Struct, frozen=True, array_like=True):
    """The values of the secrets that an order names.

    Attributes:
        env: The value of each variable.
        files: The content of each file.
    """

    env: dict[str, bytes] = {}
    files: dict[str, bytes] = {}

    @property
    def all(self) -> tuple[bytes, ...]:
        """The values, each once, longest first."""
        values = {*self.env.values(), *self.files.values()}
        return tuple(sorted(values, key=lambda value: (-len(value), value)))

    def __repr__(self) -> str:
        """Return the names without the values."""
        return f"SecretValues(env={sorted(self.env)}, files={sorted(self.files)})"


class SecretUnavailable(Exception):
    """The secrets of an attempt cannot be used on this node; the text is the attempt's reason."""


class SecretUnusable(SecretUnavailable):
    """No node can use the secrets of an attempt: another value, or another job, is needed."""


NO_SECRETS = SecretValues()
"""The values of an attempt without secrets."""
