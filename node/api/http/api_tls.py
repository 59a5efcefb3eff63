"""TLS of the API: the context for connections of clients, and the handshakes in progress."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from rota.node.api.http.connection import Connection, Gate
from rota.node.system.background import beside
from rota.node.system.config_values import Address
from rota.node.system.tls_files import LiveTls, TlsFiles, api_context
from rota.node.system.tls_listener import Knock, TlsListener

HANDSHAKE_S = 10.0
"""The time for a handshake; the usual one takes some milliseconds and two round trips."""


class ApiTls:
    """TLS of the API.

    Args:
        files: The certificate of the API, its key, and the authority of clients, if there is one.

    Attributes:
        live: Follows the files.

    Raises:
        TlsFilesInvalid: The files cannot be used.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._context = api_context(may_have_certificates=files.authority is not None)
        self.live = LiveTls("api", files, (self._context,))

    @asynccontextmanager
    async def listening(
        self, listen: Address, gate: Gate, make: Callable[[Knock], Connection]
    ) -> AsyncGenerator[int]:
        """Accept connections while the body runs; yield the port.

        Args:
            listen: The address to listen on.
            gate: The limits on connections, which count from their beginning.
            make: Makes the protocol of a connection, before its handshake.

        Raises:
            OSError: The node cannot listen on the address.
        """

        def knock(address: str) -> _Knock | None:
            return _Knock(gate, address) if gate.admit(address) else None

        def refused(kind: str, address: str | None, reason: str) -> None:
            del kind
            gate.refuse_handshake(address or "", reason)

        listener = TlsListener(self._context, knock=knock, protocol=make, refused=refused)
        async with beside(self.live.run()), listener.listening(*listen) as port:
            yield port


class _Knock:
    """A connection before its handshake, which counts as one of the API."""

    def __init__(self, gate: Gate, address: str) -> None:
        self._gate = gate
        self._address: str | None = address
        self.until = asyncio.get_running_loop().time() + HANDSHAKE_S

    def end(self) -> None:
        """Stop counting the connection here; a repetition has no effect."""
        if self._address is not None:
            self._gate.release(self._address)
            self._address = None
