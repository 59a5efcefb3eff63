"""Packages of the extras of rota, which `pip install rota` alone does not install."""

from collections.abc import Generator
from contextlib import contextmanager

from rota.core.errors import RotaError

EXTRAS = {
    "aiodocker": "docker",
    "croniter": "audit",
    "cryptography": "node",
    "holidays": "calendars",
    "joserfc": "node",
    "jsonschema_rs": "node",
    "minijinja": "node",
    "prometheus_client": "node",
    "rocksdict": "node",
    "tzdata": "node",
    "uvloop": "node",
}
"""The extra of each module that is imported where it is needed alone."""


class NotInstalled(RotaError, ModuleNotFoundError):
    """A package of an extra is missing; the message has the command that installs it."""

    code = "not_installed"

    def __init__(self, module: str) -> None:
        super().__init__(
            f"this needs the package {module}, which is not installed; run "
            f"pip install 'rota[{EXTRAS[module]}]'"
        )


@contextmanager
def named_extras() -> Generator[None]:
    """Name the extra in the error of an import.

    Raises:
        NotInstalled: A package of an extra is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        raise NotInstalled(module) from error


@contextmanager
def exit_without_extras() -> Generator[None]:
    """End the program with one line, and the exit status 1, if a package of an extra is missing."""
    try:
        with named_extras():
            yield
    except NotInstalled as error:
        raise SystemExit(f"error: {error}") from None
