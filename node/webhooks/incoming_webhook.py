"""Webhooks of other services: the check of their signatures, and what identifies a delivery.

The signatures are computed from the bytes of the body, before anything reads them. The formats are
those of https://www.standardwebhooks.com, and of the documentation of GitHub ("Validating webhook
deliveries") and Stripe ("Verify webhook signatures manually").
"""

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from rota.node.system.webhook_keys import KEY_BYTES_MAX as STANDARD_MAX
from rota.node.system.webhook_keys import KEY_BYTES_MIN as STANDARD_MIN
from rota.node.system.webhook_keys import PREFIX, read_key
from rota.node.webhooks.webhook_request import signature_of
from rota.wire.documents import WebhookFormat

TOLERANCE_S = 300
"""The largest difference of a signed time from that of the node, in both directions."""
KEYS_MAX = 4
KEY_BYTES_MIN = 16
"""The fewest bytes of a key of GitHub or Stripe; those of Standard Webhooks have at least 24."""
Headers = Mapping[str, str]
"""The headers of a request; names are in any case."""


class DeliveryRejected(ValueError):
    """The delivery is not from a holder of the secret, or not from now; the text says why."""


class Delivery(NamedTuple):
    """What identifies a delivery.

    Attributes:
        id: Its id; repetitions of a delivery have the same one.
        subject: The sender's name for what happened, such as ``push``; may be empty.
    """

    id: str
    subject: str


def keys_in(kind: WebhookFormat, secret: bytes) -> list[bytes]:
    """Return the usable keys in a secret: its lines, of which the first `KEYS_MAX` count.

    A line that is too short to be guarded by its secrecy, or has another form, is left out.
    """
    lines = [line.removesuffix(b"\r") for line in secret.split(b"\n")]
    given = [line for line in lines if line.strip()][:KEYS_MAX]
    return [key for line in given if (key := FORMATS[kind].key_of(line)) is not None]


def key_rule(kind: WebhookFormat) -> str:
    """Return the form of a key, for people."""
    return FORMATS[kind].key_rule


def check_signature(
    kind: WebhookFormat, headers: Headers, body: bytes, keys: Sequence[bytes], now_s: int
) -> None:
    """Check that a holder of one of the *keys* sent *body*, and not long before *now_s*.

    GitHub signs no time, so *now_s* does not count there.

    Raises:
        DeliveryRejected: It did not.
    """
    FORMATS[kind].check(headers, body, keys, now_s)


def delivery_of(kind: WebhookFormat, headers: Headers, data: Any) -> Delivery:
    """Return what identifies a delivery; *data* is its JSON.

    Raises:
        DeliveryRejected: It has no id, or a header of it is missing or not ASCII.
    """
    form = FORMATS[kind]
    found = Delivery(form.id_of(headers, data), form.subject_of(headers, data))
    if not found.id:
        raise DeliveryRejected(f"it has no id: {form.id_in} is missing")
    return found


def _check_github(headers: Headers, body: bytes, keys: Sequence[bytes], now_s: int) -> None:
    del now_s  # GitHub signs no time.
    given = _header(headers, "X-Hub-Signature-256")
    _check_any(given, ("sha256=" + _hex(key, body) for key in keys))


def _check_stripe(headers: Headers, body: bytes, keys: Sequence[bytes], now_s: int) -> None:
    header = _header(headers, "Stripe-Signature")
    pairs = [part.strip().partition("=") for part in header.split(",")]
    at = next((value for name, _, value in pairs if name == "t"), "")
    _check_time(at, now_s)
    given = [value for name, _, value in pairs if name == "v1"]
    signed = at.encode() + b"." + body
    _check_any(" ".join(given), (_hex(key, signed) for key in keys))


def _check_standard(headers: Headers, body: bytes, keys: Sequence[bytes], now_s: int) -> None:
    message_id, at = _header(headers, "webhook-id"), _header(headers, "webhook-timestamp")
    given = _header(headers, "webhook-signature")
    _check_time(at, now_s)
    _check_any(given, (signature_of(key, message_id, int(at), body) for key in keys))


def _long_key(line: bytes) -> bytes | None:
    return line if len(line) >= KEY_BYTES_MIN else None


def _standard_key(line: bytes) -> bytes | None:
    try:
        return read_key(line.decode("ascii").strip())
    except (UnicodeDecodeError, ValueError):
        return None


def _header(headers: Headers, name: str) -> str:
    value = headers.get(name)
    if not value:
        raise DeliveryRejected(f"the header {name} is missing; is the format of the webhook right?")
    if not value.isascii():
        # Other bytes arrive as lone surrogates, which neither a signature nor a record can have.
        raise DeliveryRejected(f"the header {name} is not ASCII")
    return value


def _check_time(text: str, now_s: int) -> None:
    if not text.isdigit() or len(text) > 12:
        raise DeliveryRejected("its time is not a number of seconds since 1970")
    if abs(int(text) - now_s) > TOLERANCE_S:
        raise DeliveryRejected(
            f"it was signed more than {TOLERANCE_S} s before or after now: it is a repetition, or "
            "a clock is wrong"
        )


def _check_any(given: str, expected: Iterable[str]) -> None:
    """Check that one of the signatures in *given*, separated by spaces, is an *expected* one."""
    sent = [each.encode("utf-8", "replace") for each in given.split()]
    # All are compared, and each in constant time, so that the duration reveals nothing.
    matches = [hmac.compare_digest(own.encode(), each) for own in expected for each in sent]
    if not any(matches):
        raise DeliveryRejected("its signature was not made with the secret of the webhook")


def _hex(key: bytes, message: bytes) -> str:
    return hmac.new(key, message, "sha256").hexdigest()


def _text(data: Any, name: str) -> str:
    value = cast("dict[str, Any]", data).get(name) if isinstance(data, dict) else None
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class _Format:
    """A format of webhooks.

    Attributes:
        check: Checks a signature; see `check_signature`.
        key_of: Returns the key that a line of a secret stands for; None if it is not usable.
        key_rule: The form of such a line, for people.
        id_in: Where the id of a delivery is, for people.
        id_of: Returns the id, from headers and data; empty if there is none.
        subject_of: Returns the sender's name for what happened.
    """

    check: Callable[[Headers, bytes, Sequence[bytes], int], None]
    key_of: Callable[[bytes], bytes | None]
    key_rule: str
    id_in: str
    id_of: Callable[[Headers, Any], str]
    subject_of: Callable[[Headers, Any], str]


_LONG = f"at least {KEY_BYTES_MIN} bytes"
FORMATS: Mapping[WebhookFormat, _Format] = {
    "standard": _Format(
        _check_standard,
        _standard_key,
        f"{PREFIX} and {STANDARD_MIN} to {STANDARD_MAX} bytes in base64",
        "the header webhook-id",
        lambda headers, _: _header(headers, "webhook-id"),
        lambda _, data: _text(data, "type"),
    ),
    "github": _Format(
        _check_github,
        _long_key,
        _LONG,
        "the header X-GitHub-Delivery",
        lambda headers, _: _header(headers, "X-GitHub-Delivery"),
        lambda headers, _: _header(headers, "X-GitHub-Event"),
    ),
    "stripe": _Format(
        _check_stripe,
        _long_key,
        _LONG,
        "the member id of the body",
        lambda _, data: _text(data, "id"),
        lambda _, data: _text(data, "type"),
    ),
}
