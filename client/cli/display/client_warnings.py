"""Warnings of the client library, printed as messages of the program."""

import warnings
from collections.abc import Generator
from contextlib import contextmanager

from rota.client.cli.display.printing import say


@contextmanager
def printed_warnings() -> Generator[None]:
    """Print each warning for users once."""
    printed: set[str] = set()

    def show(message: Warning | str, *place: object, **more: object) -> None:
        del place, more
        if str(message) not in printed:
            printed.add(str(message))
            say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
