"""The exceptions of a decoder for bytes that it cannot decode."""

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Of msgspec itself, and of Python for invalid UTF-8 and for too deep nesting."""
