"""Masking: the values of secrets in what an attempt writes are replaced before it is stored.

A value is found as it is, in base64 at any offset, and escaped for URLs and for JSON. All
occurrences, also overlapping ones, are replaced, and occurrences that touch become one mask. The
result is the same however the bytes are divided into pieces: the end of a piece is held back while
it may be the beginning of an occurrence.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

import msgspec
from msgspec.structs import replace

from rota.core.decoding import UNDECODABLE
from rota.core.model.attempt import Ending, Raised, Report

MASK = b"***"
VALUE_BYTES_MIN = 8
"""The length of the shortest value that is masked: shorter ones occur by chance."""
LINES_MAX = 64
"""The most lines of a value that are masked one by one; a private key has some 50."""
COMM_BYTES = 15
"""The length to which the kernel cuts the name of a process."""
PREFIX_BYTES = 8
"""The number of bytes by which a possible beginning is found before it is compared as a whole."""
COMPARED_MAX = 64
"""The most possible beginnings of one form that are compared in one piece. Without a limit, a
program could make the warden compare for seconds; beyond it, more is held back than necessary."""

_ESCAPES_LOWER = str.maketrans("ABCDEF", "abcdef")


def forms_of(values: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the byte strings that reveal *values*, longest first."""
    found: set[bytes] = set()
    for value in values:
        if len(value) >= VALUE_BYTES_MIN:
            found.update(_lines_of(value))
            for part in {value, value.strip()}:
                found.update(_encodings_of(part))
    kept = (form for form in found if len(form) >= VALUE_BYTES_MIN)
    return tuple(sorted(kept, key=lambda form: (-len(form), form)))


def _lines_of(value: bytes) -> Iterable[bytes]:
    """Return the lines of *value*, if there are several, and not many."""
    lines = value.splitlines()
    return map(bytes.strip, lines) if 1 < len(lines) <= LINES_MAX else ()


def _encodings_of(part: bytes) -> Iterator[bytes]:
    yield part
    yield from _base64_of(part)
    for escaped in (quote(part, safe=""), quote(part), quote_plus(part)):
        yield escaped.encode()
        yield _lower_escapes(escaped).encode()
    text = part.decode(errors="surrogateescape")
    for is_ascii in (True, False):
        escaped = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield escaped.encode("utf-8", "surrogateescape")
        # Some programs escape the slash, and those for web pages escape <, > and &.
        yield escaped.replace("/", "\\/").encode("utf-8", "surrogateescape")
        for plain in "<>&'":
            escaped = escaped.replace(plain, f"\\u{ord(plain):04x}")
        yield escaped.encode("utf-8", "surrogateescape")


def _base64_of(part: bytes) -> Iterator[bytes]:
    """Yield the characters that *part* determines in base64, whatever is before and after it."""
    for before in range(3):
        first = (0, 2, 3)[before]
        bits_end = (before + len(part)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + part + bytes(2))[first:bits_end]


def _lower_escapes(text: str) -> str:
    """Return *text* with the hexadecimal digits of its escapes in lower case."""
    first, *rest = text.split("%")
    return first + "".join(f"%{each[:2].translate(_ESCAPES_LOWER)}{each[2:]}" for each in rest)


class Masker:
    """Masks one stream of bytes.

    Args:
        forms: The byte strings to be replaced (`forms_of`).
    """

    __slots__ = ("_beginnings", "_forms", "_held", "_masked", "_was_masked")

    def __init__(self, forms: tuple[bytes, ...]) -> None:
        self._forms = forms
        self._beginnings = _beginnings_of(forms)
        self._held = b""
        self._masked = 0
        """The number of bytes at the beginning of the held ones that are in an occurrence."""
        self._was_masked = False
        """Whether the last byte before the held ones was in an occurrence."""

    def feed(self, piece: bytes) -> bytes:
        """Return the masked bytes that *piece* completes; may be empty."""
        data = self._held + piece
        return self._emit(data, self._first_open(data))

    def rest(self) -> bytes:
        """Return the masked bytes that were held back; there will be no further pieces."""
        return self._emit(self._held, len(self._held))

    def _emit(self, data: bytes, end: int) -> bytes:
        """Return the masked form of *data* up to *end*, and hold the rest back."""
        out, at = bytearray(), self._masked
        for start, stop in self._occurrences(data):
            if start >= end:
                break  # It is held back as a whole.
            if start > at:
                self._plain(out, data[at:start])
            self._mask(out)
            at = max(at, stop)
        if at < end:
            self._plain(out, data[at:end])
        self._held, self._masked = data[end:], max(0, at - end)
        return bytes(out)

    def _plain(self, out: bytearray, data: bytes) -> None:
        out += data
        self._was_masked = False

    def _mask(self, out: bytearray) -> None:
        if not self._was_masked:
            out += MASK
            self._was_masked = True

    def _occurrences(self, data: bytes) -> list[tuple[int, int]]:
        """Return the parts of *data* that consist of occurrences, by their start."""
        found: list[tuple[int, int]] = []
        for form in self._forms:
            found += _parts_of(data, form)
        found.sort()
        return found

    def _first_open(self, data: bytes) -> int:
        """Return the start of the first part of *data* that may become an occurrence."""
        first = len(data)
        for start in range(max(0, len(data) - PREFIX_BYTES + 1), len(data)):
            if data[start:] in self._beginnings:
                first = start
                break
        for form in self._forms if len(data) >= PREFIX_BYTES else ():
            first = min(first, _open_start(data, form))
        return first


def _beginnings_of(forms: tuple[bytes, ...]) -> frozenset[bytes]:
    """Return the beginnings of *forms* that are shorter than `PREFIX_BYTES` and than the form."""
    return frozenset(
        form[:length] for form in forms for length in range(1, min(PREFIX_BYTES, len(form)))
    )


def _parts_of(data: bytes, form: bytes) -> Iterator[tuple[int, int]]:
    """Yield the parts of *data* that consist of occurrences of *form*.

    Two occurrences that overlap are a period of *form* apart, and further ones follow wherever the
    bytes repeat with that period: they are found without a comparison of the whole form. Otherwise
    a program could make the warden compare for minutes, with a value such as 64 KiB of "a".
    """
    at, length = data.find(form), len(form)
    while at >= 0:
        following = data.find(form, at + 1, at + 2 * length - 1)
        if following < 0:
            yield at, at + length
            at = data.find(form, at + length)
            continue
        period, end = following - at, following + length
        for repeated in (length // period * period, period):
            unit = form[-repeated:]
            while data.startswith(unit, end):
                end += repeated
        yield at, end
        at = data.find(form, end - length + 1)


def _open_start(data: bytes, form: bytes) -> int:
    """Return the first index from which *data* is a beginning of *form*, or the length of *data*.

    Only beginnings of at least `PREFIX_BYTES` are found.
    """
    prefix, at = form[:PREFIX_BYTES], max(0, len(data) - len(form) + 1)
    for _ in range(COMPARED_MAX):
        at = data.find(prefix, at)
        if at < 0:
            return len(data)
        if form.startswith(data[at:]):
            return at
        at += 1
    found = data.find(prefix, at)
    return found if found >= 0 else len(data)


def masked(data: bytes, forms: tuple[bytes, ...]) -> bytes:
    """Return *data* with all occurrences of *forms* replaced."""
    if not any(form in data for form in forms):
        return data
    masker = Masker(forms)
    return masker.feed(data) + masker.rest()


def masked_ending(ending: Ending, forms: tuple[bytes, ...]) -> Ending:
    """Return *ending* with all occurrences of *forms* replaced in what the attempt determines."""
    if not forms:
        return ending
    raised = ending.raised
    return replace(
        ending,
        reason=_text(ending.reason, forms),
        output=masked(ending.output, forms),
        result=masked_json(ending.result, forms),
        raised=None if raised is None else _raised(raised, forms),
        unenforced=tuple(_text(each, forms) for each in ending.unenforced),
        left_running=_names(ending.left_running, forms),
    )


def masked_report(report: Report, forms: tuple[bytes, ...]) -> Report:
    """Return *report* with all occurrences of *forms* replaced in its checkpoint."""
    if not forms or not report.checkpoint:
        return report
    return replace(report, checkpoint=masked(report.checkpoint, forms))


def masked_json(content: bytes, forms: tuple[bytes, ...]) -> bytes:
    """Return JSON with all occurrences replaced; only the mask if the result were not JSON."""
    found = masked(content, forms)
    if found is content:
        return content
    try:
        msgspec.json.decode(found)
    except UNDECODABLE:
        return b'"%s"' % MASK
    return found


def _raised(raised: Raised, forms: tuple[bytes, ...]) -> Raised:
    return Raised(
        type=_text(raised.type, forms),
        bases=tuple(_text(each, forms) for each in raised.bases),
        message=_text(raised.message, forms),
        traceback=_text(raised.traceback, forms),
    )


def _names(text: str, forms: tuple[bytes, ...]) -> str:
    """Return *text* masked; its names of processes may end within a value."""
    if not text:
        return text
    cut = {form[:end] for form in forms for end in range(VALUE_BYTES_MIN, COMM_BYTES + 1)}
    quoted = {ascii(each.decode(errors="replace"))[1:-1].encode() for each in cut}
    return _text(text, (*forms, *cut, *quoted))


def _text(text: str, forms: tuple[bytes, ...]) -> str:
    if not text:
        return text
    data = text.encode("utf-8", "surrogateescape")
    found = masked(data, forms)
    return text if found is data else found.decode("utf-8", "replace")
