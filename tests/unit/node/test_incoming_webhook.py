"""Signatures of webhooks of other services, by the examples of those who define them."""

import base64
import hmac

import pytest

from rota.node.webhooks.incoming_webhook import (
    TOLERANCE_S,
    Delivery,
    DeliveryRejected,
    Headers,
    check_signature,
    delivery_of,
    keys_in,
)
from rota.wire.documents import WebhookFormat

NOW = 1_614_265_330
STANDARD_KEY = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": str(NOW),
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
STANDARD_BODY = b'{"test": 2432232314}'
GITHUB_KEY = b"It's_a_Secret"
GITHUB_BODY = b"Hello, World!"


def stripe(key: bytes, body: bytes, at: int = NOW) -> Headers:
    signature = hmac.new(key, f"{at}.".encode() + body, "sha256").hexdigest()
    return {"Stripe-Signature": f"t={at},v0=other,v1={'0' * 64},v1={signature}"}


def github(key: bytes, body: bytes) -> Headers:
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(key, body, "sha256").hexdigest()}


def why_rejected(
    kind: WebhookFormat, headers: Headers, body: bytes, *keys: bytes, now_s: int = NOW
) -> str:
    """Return why a delivery is rejected; empty if it is not."""
    try:
        check_signature(kind, headers, body, keys, now_s)
    except DeliveryRejected as error:
        return str(error)
    return ""


def test_the_example_of_standard_webhooks_is_accepted_and_no_other_body() -> None:
    keys = keys_in("standard", STANDARD_KEY)

    assert not why_rejected("standard", STANDARD, STANDARD_BODY, *keys)
    assert "not made with the secret" in why_rejected("standard", STANDARD, b"{}", *keys)


def test_the_example_of_github_is_accepted_and_no_other_key() -> None:
    # From "Validating webhook deliveries"; the key has spaces, so it is given as it is.
    digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"X-Hub-Signature-256": f"sha256={digest}"}

    assert not why_rejected("github", headers, GITHUB_BODY, b"It's a Secret to Everybody")
    assert "not made with the secret" in why_rejected("github", headers, GITHUB_BODY, GITHUB_KEY)


def test_one_of_several_signatures_of_stripe_suffices() -> None:
    headers = stripe(b"whsec_key", b"{}")

    assert not why_rejected("stripe", headers, b"{}", b"whsec_key")
    assert "not made with the secret" in why_rejected("stripe", headers, b"[]", b"whsec_key")


@pytest.mark.parametrize("kind", ["standard", "github", "stripe"])
def test_a_secret_that_changes_has_the_old_and_the_new_key(kind: WebhookFormat) -> None:
    old, new = (b"whsec_" + base64.b64encode(each * 32) for each in (b"a", b"b"))
    keys = keys_in(kind, b"\n" + old + b"\r\n" + new + b"\n")
    body = b"{}"

    for key in (old, new):
        made = {
            "standard": lambda key=key: standard(key, body),
            "github": lambda key=key: github(key, body),
            "stripe": lambda key=key: stripe(key, body),
        }
        assert not why_rejected(kind, made[kind](), body, *keys)


def standard(key: bytes, body: bytes) -> Headers:
    decoded = base64.b64decode(key.removeprefix(b"whsec_"))
    digest = hmac.new(decoded, f"m.{NOW}.".encode() + body, "sha256").digest()
    return {
        "webhook-id": "m",
        "webhook-timestamp": str(NOW),
        "webhook-signature": f"v1a,other v1,{base64.b64encode(digest).decode()}",
    }


@pytest.mark.parametrize("after", [-TOLERANCE_S - 1, TOLERANCE_S + 1])
def test_a_time_far_from_now_is_rejected_though_it_is_signed(after: int) -> None:
    assert "signed more than" in why_rejected(
        "stripe", stripe(b"k", b"{}"), b"{}", b"k", now_s=NOW + after
    )
    assert "signed more than" in why_rejected(
        "standard", STANDARD, STANDARD_BODY, *keys_in("standard", STANDARD_KEY), now_s=NOW + after
    )


@pytest.mark.parametrize("text", ["", "-1", "1e9", "9" * 13, "nan"])
def test_a_time_that_is_no_number_of_seconds_is_rejected(text: str) -> None:
    headers = {"Stripe-Signature": f"t={text},v1=00"}
    assert "not a number" in why_rejected("stripe", headers, b"{}", b"k")


@pytest.mark.parametrize("kind", ["standard", "github", "stripe"])
def test_a_delivery_without_a_signature_is_rejected(kind: WebhookFormat) -> None:
    assert "is missing" in why_rejected(kind, {}, b"{}", b"whsec_aaaa")


@pytest.mark.parametrize("given", ["", "é", "sha1=abc", "sha256=", " "])
def test_a_signature_of_another_form_is_rejected(given: str) -> None:
    assert why_rejected("github", {"X-Hub-Signature-256": given}, b"{}", b"k")


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("standard", b"whsec_"),
        ("standard", b"whsec_AA=="),
        ("standard", base64.b64encode(b"k" * 32)),
        ("standard", b"whsec_\xff" + b"k" * 40),
        ("github", b" \n\n"),
        ("github", b"x"),
        ("stripe", b"fifteen bytes ."),
    ],
)
def test_a_line_that_could_be_guessed_is_no_key(kind: WebhookFormat, secret: bytes) -> None:
    assert keys_in(kind, secret) == []


def test_a_key_may_have_spaces_and_a_bad_line_spoils_no_other() -> None:
    phrase = b"correct horse battery staple"

    assert keys_in("github", b"short\n" + phrase + b"\n") == [phrase]
    assert len(keys_in("standard", b"whsec_!\n" + STANDARD_KEY)) == 1


def test_a_header_that_is_no_text_is_rejected() -> None:
    odd = b"\xff".decode("utf-8", "surrogateescape")
    signed = {**STANDARD, "webhook-id": odd}

    assert "not ASCII" in why_rejected("standard", signed, STANDARD_BODY, b"k" * 24)
    for sent in ({"X-GitHub-Delivery": odd}, {"X-GitHub-Delivery": "1", "X-GitHub-Event": odd}):
        with pytest.raises(DeliveryRejected, match="not ASCII"):
            delivery_of("github", sent, {})


def test_a_delivery_has_the_id_and_the_subject_of_its_format() -> None:
    sent = {"X-GitHub-Delivery": "7", "X-GitHub-Event": "push"}
    data = {"id": "evt_1", "type": "invoice.paid"}

    assert delivery_of("github", sent, {}) == Delivery("7", "push")
    assert delivery_of("stripe", {}, data) == Delivery("evt_1", "invoice.paid")
    assert delivery_of("standard", STANDARD, data) == Delivery(
        STANDARD["webhook-id"], "invoice.paid"
    )


@pytest.mark.parametrize("data", [{}, [], {"id": 7}, None])
def test_a_delivery_without_an_id_is_rejected(data: object) -> None:
    with pytest.raises(DeliveryRejected, match="no id"):
        delivery_of("stripe", {}, data)
