"""The frames in which an engine sends the output of a container.

A frame is one byte that names the stream (1 stdout, 2 stderr), three zero bytes, the length of the
content in four bytes, big-endian, and the content (Docker Engine API, "Attach to a container").
"""

_HEADER_BYTES = 8


class Frames:
    """Decoder of a stream of frames that arrives in parts of any size."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._left = 0  # The bytes of the present frame's content that have not arrived.

    def feed(self, part: bytes) -> bytes:
        """Return the content of the frames in *part*, of both streams together, in its order."""
        content = bytearray()
        rest = memoryview(part)
        while rest:
            if self._left:
                taken = rest[: self._left]
                content += taken
                self._left -= len(taken)
            else:
                taken = rest[: _HEADER_BYTES - len(self._header)]
                self._header += taken
                if len(self._header) == _HEADER_BYTES:
                    self._left = int.from_bytes(self._header[4:], "big")
                    self._header.clear()
            rest = rest[len(taken) :]
        return bytes(content)
