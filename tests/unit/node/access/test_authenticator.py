"""Authentication: which credentials prove a principal, and what failures cost."""

import pytest

from rota.core.timing.instants import SECOND, Duration, Instant, format_instant, later
from rota.node.access import authenticator as authentication
from rota.node.access.access_table import KEYS, AccessTable
from rota.node.access.authenticator import (
    Authenticator,
    LoginFailed,
    NoKeyYet,
    NotReadYet,
    TooManyLogins,
)
from rota.node.access.failed_logins import ADDRESSES_MAX, LOGINS_MAX, PERIOD, FailedLogins
from rota.node.access.oidc.signing_keys import SigningKeys
from rota.node.access.oidc.web_tokens import WebTokens
from rota.node.access.principal import ClientCertificate, Principal
from rota.node.access.verbs import Verb
from rota.wire.tokens import parse
from support.access_tables import bind, put, put_key, stored, token

NOW = Instant(1_800_000_000 * SECOND)
HERE = "10.1.2.3"


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> Instant:
        """Return the time that was set."""
        return self.at

    def elapsed(self) -> Instant:
        """Return the time that was set."""
        return self.at


@pytest.fixture
def table() -> AccessTable:
    return AccessTable()


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def authenticator(table: AccessTable, clock: SetClock) -> Authenticator:
    return Authenticator(table, clock)


def certificate(common_name: str) -> ClientCertificate:
    """Return a certificate that ends in a minute."""
    return ClientCertificate(common_name, later(NOW, Duration(60 * SECOND)))


@pytest.mark.parametrize("text", ["ey.a.\udcff", "rota_t_\udcff", "rota_k_\udcff", "\udcff", ""])
def test_a_header_that_is_not_text_is_a_failed_login(
    table: AccessTable, clock: SetClock, text: str
) -> None:
    put_key(table, "ci", stored(token(1)))
    web_tokens = WebTokens(table, SigningKeys(clock), clock)
    authenticator = Authenticator(table, clock, web_tokens=web_tokens)

    with pytest.raises(LoginFailed) as refused:
        authenticator.authenticate(f"Bearer {text}", HERE)

    assert refused.value.why.reason == "form"


def test_a_fault_in_the_check_of_a_token_is_a_failed_login_without_the_token(
    table: AccessTable, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_key(table, "ci", stored(token(1)))
    web_tokens = WebTokens(table, SigningKeys(clock), clock)
    known = dict[str, Principal]()
    monkeypatch.setattr(web_tokens, "principal", known.__getitem__)
    authenticator = Authenticator(table, clock, web_tokens=web_tokens)

    with pytest.raises(LoginFailed) as refused:
        authenticator.authenticate("Bearer eyJ.e30.", HERE)

    assert (refused.value.why.reason, refused.value.why.detail) == ("fault", "KeyError")


def login(authenticator: Authenticator, number: int = 1, remote: str = HERE) -> Principal:
    """Authenticate a request with one of many tokens."""
    return authenticator.authenticate(f"Bearer {token(number).text}", remote)


def test_a_token_proves_the_principal_of_its_key(
    authenticator: Authenticator, table: AccessTable
) -> None:
    put_key(table, "ci", stored(token(1)))
    bind(table, "principal:ci", "operator", "team-a")

    principal = login(authenticator)

    assert (principal.name, principal.key_id) == ("ci", token(1).id)
    assert principal.subjects == ("principal:ci",)
    assert principal.may(Verb.RUN, "team-a")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {token(1).text}",
        token(1).text,
        f"Bearer {token(1).text}x",
        f"Bearer {token(1).text[:-1]}",
        f"Bearer {token(2).text}",
        f"Bearer {'rota_k_' + 'é' * 57}",
        "Bearer " + "x" * 100_000,
    ],
)
def test_every_invalid_credential_gets_the_same_refusal(
    authenticator: Authenticator, table: AccessTable, authorization: str | None
) -> None:
    put_key(table, "ci", stored(token(1)))

    with pytest.raises(LoginFailed) as refusal:
        authenticator.authenticate(authorization, HERE)

    assert refusal.value.detail == LoginFailed().detail
    assert token(1).text not in refusal.value.detail


def test_the_scheme_is_case_insensitive(authenticator: Authenticator, table: AccessTable) -> None:
    put_key(table, "ci", stored(token(1)))

    assert authenticator.authenticate(f"bEARER {token(1).text}", HERE).name == "ci"


def test_a_token_with_a_known_id_and_another_secret_is_refused(
    authenticator: Authenticator, table: AccessTable
) -> None:
    put_key(table, "ci", {"id": token(1).id, "hash": token(2).hash})

    with pytest.raises(LoginFailed):
        login(authenticator)


def test_a_token_without_a_stored_hash_is_refused(
    authenticator: Authenticator, table: AccessTable
) -> None:
    put_key(table, "ci", {"id": token(1).id})

    with pytest.raises(LoginFailed):
        login(authenticator)


def test_a_token_ends_at_its_expiry(
    authenticator: Authenticator, table: AccessTable, clock: SetClock
) -> None:
    ends_at = later(NOW, Duration(60 * SECOND))
    put_key(table, "ci", stored(token(1), expiresAt=format_instant(ends_at)))

    clock.at = Instant(ends_at - 1)
    principal = login(authenticator)
    assert authenticator.is_alive(principal)

    clock.at = ends_at
    with pytest.raises(LoginFailed):
        login(authenticator)
    assert not authenticator.is_alive(principal)


@pytest.mark.parametrize(
    ("remote", "is_accepted"),
    [
        ("10.200.0.1", True),
        ("::ffff:10.200.0.1", True),
        ("2001:db8::5", True),
        ("fe80::1%eth0", False),
        ("11.0.0.1", False),
        ("2001:db9::5", False),
        ("", False),
        ("name", False),
    ],
)
def test_a_key_with_networks_is_accepted_from_them_alone(
    authenticator: Authenticator, table: AccessTable, remote: str, *, is_accepted: bool
) -> None:
    networks = ["10.0.0.0/8", "2001:db8::/32"]
    put_key(table, "ci", stored(token(1)), **{"from": networks})

    if is_accepted:
        assert login(authenticator, remote=remote).name == "ci"
    else:
        with pytest.raises(LoginFailed):
            login(authenticator, remote=remote)


def test_a_certificate_proves_a_principal_of_its_own_name_space(
    authenticator: Authenticator, table: AccessTable
) -> None:
    put_key(table, "ci", stored(token(1)))
    bind(table, "cert:ci", "viewer", "team-a", name="one")
    bind(table, "principal:ci", "viewer", "team-b", name="two")

    by_certificate = authenticator.authenticate(None, HERE, certificate("ci"))

    assert (by_certificate.name, by_certificate.key_id) == ("cert:ci", "")
    assert by_certificate.may(Verb.READ, "team-a")
    assert not by_certificate.may(Verb.READ, "team-b")


def test_a_token_with_a_certificate_has_the_grants_of_both(
    authenticator: Authenticator, table: AccessTable
) -> None:
    put_key(table, "ci", stored(token(1)))
    bind(table, "cert:host", "viewer", "team-a", name="one")
    bind(table, "principal:ci", "viewer", "team-b", name="two")

    principal = authenticator.authenticate(f"Bearer {token(1).text}", HERE, certificate("host"))

    assert principal.name == "ci"
    assert principal.may(Verb.READ, "team-a")
    assert principal.may(Verb.READ, "team-b")


def test_an_invalid_token_is_refused_despite_a_valid_certificate(
    authenticator: Authenticator, table: AccessTable
) -> None:
    put_key(table, "ci", stored(token(1)))

    with pytest.raises(LoginFailed):
        authenticator.authenticate(f"Bearer {token(2).text}", HERE, certificate("host"))


def test_without_a_key_the_refusal_says_how_to_create_the_first_one(
    authenticator: Authenticator, table: AccessTable
) -> None:
    with pytest.raises(NoKeyYet, match="rota auth init"):
        login(authenticator)

    put(table, KEYS, "ci", None, version=2)
    with pytest.raises(LoginFailed):
        login(authenticator)


def test_a_node_that_has_not_read_the_documents_decides_about_known_tokens_alone(
    table: AccessTable, clock: SetClock
) -> None:
    starting = Authenticator(table, clock, is_current=lambda: False)
    with pytest.raises(NotReadYet):
        login(starting)

    put_key(table, "ci", stored(token(1)))

    assert login(starting).name == "ci"
    with pytest.raises(NotReadYet):
        login(starting, 2)


def test_a_node_whose_copies_are_too_old_accepts_no_token(
    table: AccessTable, clock: SetClock
) -> None:
    put_key(table, "ci", stored(token(1)))
    stale = Authenticator(table, clock, is_trusted=lambda: False)

    with pytest.raises(NotReadYet):
        login(stale)


def test_an_address_with_too_many_failures_is_limited_until_the_next_second(
    authenticator: Authenticator, table: AccessTable, clock: SetClock
) -> None:
    put_key(table, "ci", stored(token(1)))
    for _ in range(LOGINS_MAX):
        with pytest.raises(LoginFailed):
            login(authenticator, 2)

    with pytest.raises(TooManyLogins) as refusal:
        login(authenticator, 2)

    assert refusal.value.retry_after_s == 1
    assert login(authenticator).name == "ci"  # Clients behind a proxy share an address.
    with pytest.raises(LoginFailed):
        login(authenticator, 2, remote="10.9.9.9")
    clock.at = later(clock.at, PERIOD)
    with pytest.raises(LoginFailed):
        login(authenticator, 2)


def test_the_table_of_failed_logins_is_bounded_and_forgets_the_oldest() -> None:
    failures = FailedLogins()

    for number in range(ADDRESSES_MAX + 1):
        assert failures.count(f"a{number}", NOW)

    assert failures.address_count == ADDRESSES_MAX
    assert all(failures.count("a1", NOW) for _ in range(LOGINS_MAX - 1))
    assert not failures.count("a1", NOW)
    assert all(failures.count("a0", NOW) for _ in range(LOGINS_MAX))


def test_a_text_without_the_form_of_a_token_is_not_looked_up(
    authenticator: Authenticator, table: AccessTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_key(table, "ci", stored(token(1)))
    looked_up: list[str] = []
    monkeypatch.setattr(table, "credentials", looked_up.append)
    mistyped = token(1).text[:-1] + ("0" if token(1).text[-1] != "0" else "1")

    with pytest.raises(LoginFailed):
        authenticator.authenticate(f"Bearer {mistyped}", HERE)

    assert looked_up == []


def test_hashes_are_compared_in_constant_time(
    authenticator: Authenticator, table: AccessTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_key(table, "ci", stored(token(1)))
    compared: list[tuple[str, str]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(authentication, "compare_digest", compare)

    login(authenticator)

    assert compared == [(token(1).hash, token(1).hash)]


def test_a_failed_login_has_its_reason_without_the_token(
    authenticator: Authenticator, table: AccessTable
) -> None:
    put_key(table, "ci", stored(token(1)))

    with pytest.raises(LoginFailed) as failed:
        login(authenticator, 2)

    why = failed.value.why
    assert (why.reason, why.token_id, why.is_login) == ("unknown", token(2).id, True)
    assert token(2).text not in str(why)
    assert parse(token(2).text) is not None


def test_a_stream_ends_when_its_key_is_deleted_or_its_grants_change(
    authenticator: Authenticator, table: AccessTable
) -> None:
    put_key(table, "ci", stored(token(1)))
    bind(table, "principal:ci", "viewer", "team-a")
    principal = login(authenticator)

    bind(table, "principal:ann", "viewer", "team-a", name="other")
    assert authenticator.is_alive(principal)

    bind(table, "principal:ci", "viewer", "team-b")
    assert not authenticator.is_alive(principal)

    again = login(authenticator)
    put(table, KEYS, "ci", None, version=2)
    assert not authenticator.is_alive(again)


@pytest.mark.parametrize("has_token", [True, False])
def test_a_stream_ends_with_the_certificate_of_its_caller(
    authenticator: Authenticator, table: AccessTable, clock: SetClock, has_token: bool
) -> None:
    put_key(table, "ci", stored(token(1)))
    sent = f"Bearer {token(1).text}" if has_token else None
    principal = authenticator.authenticate(sent, HERE, certificate("host"))
    without = login(authenticator)

    clock.at = Instant(NOW + 60 * SECOND - 1)
    assert authenticator.is_alive(principal)
    clock.at = Instant(NOW + 60 * SECOND)

    assert not authenticator.is_alive(principal)
    assert authenticator.is_alive(without)
