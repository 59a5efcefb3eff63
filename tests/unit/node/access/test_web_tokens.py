"""JSON Web Tokens: which of them prove a principal, and what that principal may do."""

import base64
import hmac
import json
from contextlib import suppress
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from rota.core.timing.instants import HOUR, SECOND, Instant
from rota.node.access.access_table import ISSUERS, AccessTable
from rota.node.access.authenticator import Authenticator, LoginFailed
from rota.node.access.oidc import web_tokens
from rota.node.access.oidc.signing_keys import SigningKeys
from rota.node.access.oidc.web_tokens import TokenInvalid, WebTokens
from rota.node.access.principal import ClientCertificate
from rota.node.access.verbs import Verb
from support.access_tables import bind, put, put_key, stored, token
from support.issuers import SomeIssuer, seconds

Json = Any  # Any: claims, which a test makes as it needs.


class Later(int):
    """A time of a claim, in seconds from now."""


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = Instant(seconds() * SECOND)

    def now(self) -> Instant:
        """Return the time that was set."""
        return self.at

    def elapsed(self) -> Instant:
        """Return the time that was set."""
        return self.at


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def table() -> AccessTable:
    table = AccessTable()
    put_key(table, "root", stored(token(9)))
    return table


@pytest.fixture
def issuer() -> SomeIssuer:
    return SomeIssuer()


@pytest.fixture
def tokens(table: AccessTable, issuer: SomeIssuer, clock: SetClock) -> WebTokens:
    """The tokens of an issuer whose keys are in its document."""
    keys = SigningKeys(clock)
    table.listen_to_issuers(keys.set_issuers)
    put(table, ISSUERS, "corp", issuer.definition(keys=issuer.public_keys))
    return WebTokens(table, keys, clock)


def test_a_token_proves_its_caller_with_the_name_of_the_issuer(
    tokens: WebTokens, issuer: SomeIssuer
) -> None:
    principal = tokens.principal(issuer.token())

    assert principal.name == "corp/ana@example.org"
    assert principal.subjects == ("sub:corp/u1",)
    assert principal.issuer == "corp"


def test_callers_with_one_name_have_identities_of_their_own(
    tokens: WebTokens, issuer: SomeIssuer
) -> None:
    callers = [tokens.principal(issuer.token(sub=each)) for each in ("u1", "u2")]

    assert {each.name for each in callers} == {"corp/ana@example.org"}
    assert [each.identity for each in callers] == ["sub:corp/u1", "sub:corp/u2"]


def test_bindings_of_the_subject_and_of_groups_grant_verbs(
    tokens: WebTokens, table: AccessTable, issuer: SomeIssuer
) -> None:
    bind(table, "sub:corp/u1", "viewer", "team-a", name="one")
    bind(table, "group:corp/ops", "operator", "team-b", name="two")
    bind(table, "group:other/ops", "admin", "team-c", name="three")

    principal = tokens.principal(issuer.token())

    assert principal.subjects == ("sub:corp/u1", "group:corp/ops")
    assert principal.may(Verb.READ, "team-a")
    assert not principal.may(Verb.RUN, "team-a")
    assert principal.may(Verb.RUN, "team-b")
    assert not principal.may(Verb.READ, "team-c")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "https://other.example.org"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"iss": ["https://id.example.org"]}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": ["other", "rota-2"]}, "audience"),
        ({"exp": None}, "expired"),
        ({"exp": Later(-1)}, "expired"),
        ({"exp": "2100-01-01"}, "expired"),
        ({"exp": True}, "expired"),
        ({"exp": 10**15}, "expired"),
        ({"exp": Later(25 * 3600)}, "lifetime"),
        ({"nbf": Later(600)}, "early"),
        ({"nbf": "soon"}, "early"),
        ({"sub": None}, "sub"),
        ({"sub": "a\nb"}, "sub"),
        ({"sub": "x" * 201}, "sub"),
    ],
)
def test_a_token_with_wrong_claims_proves_nothing(
    changes: Json, reason: str, tokens: WebTokens, issuer: SomeIssuer
) -> None:
    now = seconds()
    claims: Json = {
        name: now + value if isinstance(value, Later) else value for name, value in changes.items()
    }

    with pytest.raises(TokenInvalid, match=reason):
        tokens.principal(issuer.token(**claims))


def test_one_of_several_audiences_suffices(tokens: WebTokens, issuer: SomeIssuer) -> None:
    assert tokens.principal(issuer.token(aud=["other", "rota"])).issuer == "corp"


def test_a_token_ends_at_its_time_also_if_it_was_verified_before(
    tokens: WebTokens, issuer: SomeIssuer, clock: SetClock
) -> None:
    text = issuer.token(exp=clock.now() // SECOND + 30)
    assert tokens.principal(text).expires_at == clock.now() + 30 * SECOND

    clock.at = Instant(clock.at + 30 * SECOND)

    with pytest.raises(TokenInvalid, match="expired"):
        tokens.principal(text)


def test_a_token_without_the_claim_of_the_name_has_its_subject_as_name(
    tokens: WebTokens, issuer: SomeIssuer
) -> None:
    assert tokens.principal(issuer.token(email=None)).name == "corp/u1"


def unsigned(claims: Json, header: Json) -> str:
    """Return a token with an empty signature."""
    parts = (base64.urlsafe_b64encode(json.dumps(each).encode()) for each in (header, claims))
    return ".".join([*(part.decode().rstrip("=") for part in parts), ""])


def test_a_token_without_a_signature_proves_nothing(tokens: WebTokens, issuer: SomeIssuer) -> None:
    for algorithm in ("none", "None", "ES256", ""):
        with pytest.raises(TokenInvalid):
            tokens.principal(unsigned(issuer.claims(), {"alg": algorithm, "kid": "k1"}))


def test_a_token_signed_with_the_public_key_as_a_secret_proves_nothing(
    tokens: WebTokens, issuer: SomeIssuer
) -> None:
    secret = issuer.keys["k1"].as_pem(private=False)
    signed = unsigned(issuer.claims(), {"alg": "HS256", "kid": "k1"}).rstrip(".")
    mac = hmac.new(secret, signed.encode(), "sha256").digest()
    text = f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"

    with pytest.raises(TokenInvalid, match="algorithm"):
        tokens.principal(text)


def test_an_algorithm_that_the_document_does_not_name_is_refused(
    tokens: WebTokens, issuer: SomeIssuer
) -> None:
    issuer.keys["r"] = RSAKey.generate_key(2048, {"kid": "r"})

    with pytest.raises(TokenInvalid, match="algorithm"):
        tokens.principal(issuer.token("r", "PS256"))


def test_a_token_of_another_key_proves_nothing(tokens: WebTokens, issuer: SomeIssuer) -> None:
    other = SomeIssuer()

    with pytest.raises(TokenInvalid, match="signature"):
        tokens.principal(other.token())
    issuer.add_key("k2")
    with pytest.raises(TokenInvalid, match="key"):
        tokens.principal(issuer.token("k2"))


def test_no_part_of_a_token_can_be_changed(tokens: WebTokens, issuer: SomeIssuer) -> None:
    header, _, signature = issuer.token().split(".")
    _, payload, _ = issuer.token(sub="u2").split(".")

    with pytest.raises(TokenInvalid, match="signature"):
        tokens.principal(f"{header}.{payload}.{signature}")


@pytest.mark.parametrize("text", ["ey.ey.ey", "eyJ.e30.", "ey..", "ey" + "A" * 9_000 + ".e30.e30"])
def test_garbage_proves_nothing(text: str, tokens: WebTokens) -> None:
    with pytest.raises(TokenInvalid):
        tokens.principal(text)


STRANGE: list[Json] = [["RS256"], {"a": 1}, [[]], 10**400, -(10**400), 1e308, None, True, "", "\0"]


@pytest.mark.parametrize("value", [*STRANGE, float("nan"), float("inf"), "\ud800"])
@pytest.mark.parametrize("place", ["alg", "kid", "typ", "crit", "b64"])
def test_no_header_of_a_token_raises_another_error(
    place: str, value: Json, tokens: WebTokens, issuer: SomeIssuer
) -> None:
    header = {"alg": "ES256", "kid": "k1", place: value}

    with pytest.raises(TokenInvalid):
        tokens.principal(f"{unsigned(issuer.claims(), header)}AAAA")


@pytest.mark.parametrize("value", STRANGE, ids=map(repr, range(len(STRANGE))))
@pytest.mark.parametrize("place", ["iss", "aud", "sub", "exp", "nbf", "iat", "email", "groups"])
def test_no_signed_claim_raises_another_error(
    place: str, value: Json, tokens: WebTokens, issuer: SomeIssuer
) -> None:
    text = issuer.token(**{place: value})

    with suppress(TokenInvalid):
        assert tokens.principal(text).issuer == "corp"


@pytest.mark.parametrize("nested", ["[" * 2_000, '{"a":' * 1_000, "[" * 2_000 + "]" * 2_000])
def test_a_token_that_is_nested_too_deeply_proves_nothing(nested: str, tokens: WebTokens) -> None:
    part = base64.urlsafe_b64encode(f'{{"a":{nested}'.encode()).decode().rstrip("=")

    with pytest.raises(TokenInvalid, match="form"):
        tokens.principal(f"{part}.e30.AAAA")


def test_a_deleted_issuer_ends_its_tokens_at_once(
    tokens: WebTokens, table: AccessTable, issuer: SomeIssuer
) -> None:
    text = issuer.token()
    tokens.principal(text)

    put(table, ISSUERS, "corp", None, version=2)

    with pytest.raises(TokenInvalid, match="issuer"):
        tokens.principal(text)


def test_a_verified_token_is_not_verified_again_within_a_minute(
    tokens: WebTokens, issuer: SomeIssuer, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = issuer.token()
    tokens.principal(text)
    monkeypatch.setattr(jwt, "decode", None)  # A further verification fails.

    assert tokens.principal(text).issuer == "corp"
    clock.at = Instant(clock.at + 61 * SECOND)
    with pytest.raises(TokenInvalid, match="signature"):
        tokens.principal(text)


def test_the_number_of_verified_tokens_that_are_kept_is_limited(
    tokens: WebTokens, issuer: SomeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_tokens, "VERIFIED_MAX", 3)

    for number in range(10):
        tokens.principal(issuer.token(sub=f"u{number}"))
        assert tokens.verified_count <= 3


def test_groups_without_a_binding_are_no_subjects(
    tokens: WebTokens, table: AccessTable, issuer: SomeIssuer
) -> None:
    bind(table, "group:corp/g7", "viewer", "team-a")

    principal = tokens.principal(issuer.token(groups=[f"g{n}" for n in range(100)]))

    assert principal.subjects == ("sub:corp/u1", "group:corp/g7")


def test_the_authenticator_accepts_tokens_of_issuers_and_ends_their_streams(
    tokens: WebTokens, table: AccessTable, issuer: SomeIssuer, clock: SetClock
) -> None:
    authenticator = Authenticator(table, clock, web_tokens=tokens)

    principal = authenticator.authenticate(f"Bearer {issuer.token()}", "10.1.2.3")
    assert authenticator.is_alive(principal)

    clock.at = Instant(clock.at + HOUR)
    assert not authenticator.is_alive(principal)
    with pytest.raises(LoginFailed):
        authenticator.authenticate(f"Bearer {issuer.token(aud='other')}", "10.1.2.3")
    with pytest.raises(LoginFailed):
        authenticator.authenticate(f"Basic {issuer.token()}", "10.1.2.3")


def test_a_token_of_an_issuer_with_a_certificate_has_the_subjects_of_both_and_the_earlier_end(
    tokens: WebTokens, table: AccessTable, issuer: SomeIssuer, clock: SetClock
) -> None:
    authenticator, text = Authenticator(table, clock, web_tokens=tokens), issuer.token()
    alone = authenticator.authenticate(f"Bearer {text}", "10.1.2.3")
    ends = [Instant(clock.at + 1), Instant(clock.at + 100 * HOUR)]

    found = [
        authenticator.authenticate(f"Bearer {text}", "10.1.2.3", ClientCertificate("host", each))
        for each in ends
    ]

    for each in found:
        assert each.subjects == (*alone.subjects, "cert:host")
        assert (each.name, each.issuer) == (alone.name, "corp")
    assert [each.expires_at for each in found] == [ends[0], alone.expires_at]


def test_a_stream_of_a_deleted_issuer_ends(
    tokens: WebTokens, table: AccessTable, issuer: SomeIssuer, clock: SetClock
) -> None:
    authenticator = Authenticator(table, clock, web_tokens=tokens)
    principal = authenticator.authenticate(f"Bearer {issuer.token()}", "10.1.2.3")

    put(table, ISSUERS, "corp", None, version=2)

    assert not authenticator.is_alive(principal)
