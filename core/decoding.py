"""The exceptions of a decoder for bytes that it cannot decode."""

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of msgspec, and those of Python for invalid UTF-8 and for nesting that is too deep."""
