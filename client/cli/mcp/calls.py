"""The log of calls: one line of JSON on standard error for each."""

import traceback
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from rota.client.cli.display.printing import say
from rota.client.cli.human import now
from rota.client.mcp.tools import Called
from rota.client.mcp.visible import visible
from rota.core.errors import RotaError
from rota.core.timing.instants import format_instant

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

NAMED = ("job", "execution", "task", "kind", "name", "preview")
"""The arguments that the log has; others may be long, or secret."""


def log(event: str, **facts: object) -> None:
    """Write a line about an event."""
    line = msgspec.json.encode({"at": format_instant(now()), "event": event, **facts})
    say(visible(line.decode()))


class CallLog:
    """Writes calls with the key that they used; threads may share it.

    Args:
        client: The client of the calls.
    """

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._caller: dict[str, object] = {}
        self._lock = Lock()

    def record(self, called: Called) -> None:
        """Write a call, and the traceback of a bug."""
        arguments: dict[str, object] = msgspec.to_builtins(called.arguments) or {}
        if hasattr(called.arguments, "preview"):
            arguments.setdefault("preview", True)  # Defaults are omitted.
        facts = {name: arguments[name] for name in NAMED if name in arguments}
        log(
            "tool called",
            tool=called.tool,
            outcome=called.outcome,
            ms=round(called.took_s * 1_000, 1),
            **self._who(),
            **facts,
        )
        if called.bug is not None:
            say("".join(traceback.format_exception(called.bug)), end="")

    def _who(self) -> dict[str, object]:
        """Return principal and key of the client; empty while no node answers."""
        with self._lock:
            if not self._caller:
                with suppress(RotaError):
                    found = self._client.within(WHO_S).whoami()
                    self._caller = {"principal": found.principal, "key": found.token_id}
            return self._caller


WHO_S = 2.0
"""How many seconds the first line waits for the name of the key."""
