"""What a decoder raises for bytes that it cannot decode."""

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The first is msgspec's own; text that is no UTF-8, and nesting without end, are Python's."""
