"""Tokens of a client: sources, renewal, malformed ones, and the addresses that get them."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rota.client.errors import InvalidToken
from rota.client.transport.credentials import Credentials, TokenInClearText, public_part
from rota.client.transport.local_tokens import local_token, path_of
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint

URL = "https://a.example:7400"
LOCAL = "http://127.0.0.1:7400"
FIRST, SECOND = (mint(bytes([number]) * (ID_BYTES + SECRET_BYTES)) for number in (1, 2))


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_TOKEN_FILE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{FIRST.text}\n")
    return path


@contextmanager
def offered(port: int, text: str, *, mode: int = 0o600, is_locked: bool = True) -> Generator[Path]:
    """Write the token of the temporary node on *port*."""
    path = path_of(port)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    with path.open() as held:
        if is_locked:
            fcntl.flock(held, fcntl.LOCK_EX)
        yield path


# -- sources ---------------------------------------------------------------------------------------


def test_the_token_of_the_caller_comes_before_the_variable(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TOKEN_FILE", str(file))

    assert Credentials([URL], token=SECOND.text).token_for(URL) == SECOND.text
    assert Credentials([URL]).token_for(URL) == FIRST.text


def test_a_token_and_a_file_are_not_both_accepted(file: Path) -> None:
    with pytest.raises(ValueError, match="both given"):
        Credentials([URL], token=FIRST.text, token_file=file)


def test_without_a_token_none_is_sent() -> None:
    credentials = Credentials([URL])

    assert credentials.token_for(URL) == ""
    assert credentials.describe(URL) == "no token was sent"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "is empty"),
        ("one two", "has spaces"),
        ("one\ntwo", "several lines"),
        ("schlüssel", "outside ASCII"),
        ("x" * 4_097, "longer than 4096"),
        (FIRST.text[:-1], "checksum is wrong"),
        (FIRST.text.replace(FIRST.text[20], "#"), "checksum is wrong"),
    ],
)
def test_a_malformed_token_is_refused_without_showing_it(text: str, detail: str) -> None:
    with pytest.raises(InvalidToken, match=detail) as caught:
        Credentials([URL], token=text)

    assert len(text) < 5 or text not in str(caught.value)


def test_a_token_of_another_issuer_is_sent_as_it_is() -> None:
    assert Credentials([URL], token="aaa.bbb.ccc").token_for(URL) == "aaa.bbb.ccc"


def test_a_file_that_does_not_exist_is_reported_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidToken, match=r"absent cannot be read: No such file"):
        Credentials([URL], token_file=tmp_path / "absent")

    monkeypatch.setenv("ROTA_TOKEN_FILE", str(tmp_path / "absent"))
    with pytest.raises(InvalidToken, match=r"\(\$ROTA_TOKEN_FILE\) cannot be read"):
        Credentials([URL])


def test_a_token_together_with_a_password_in_the_url_is_refused() -> None:
    with pytest.raises(InvalidToken, match="remove one of them") as caught:
        Credentials(["https://user:secret@a.example"], token=FIRST.text)

    assert "secret" not in str(caught.value)


# -- renewal ---------------------------------------------------------------------------------------


def test_a_refused_token_is_read_again_from_its_file(file: Path) -> None:
    credentials = Credentials([URL], token_file=file)
    assert not credentials.is_renewed(URL, FIRST.text)

    file.write_text(SECOND.text)

    assert credentials.token_for(URL) == FIRST.text
    assert credentials.is_renewed(URL, FIRST.text)
    assert credentials.token_for(URL) == SECOND.text


def test_a_call_that_was_refused_with_the_token_before_takes_the_one_read_meanwhile(
    file: Path,
) -> None:
    credentials = Credentials([URL], token_file=file)
    file.write_text(SECOND.text)
    credentials.is_renewed(URL, FIRST.text)
    file.unlink()

    assert credentials.is_renewed(URL, FIRST.text)


@pytest.mark.parametrize("content", [None, "", FIRST.text[:20]])
def test_a_file_that_is_being_replaced_keeps_the_token_before_it(
    file: Path, content: str | None
) -> None:
    credentials = Credentials([URL], token_file=file)
    file.unlink() if content is None else file.write_text(content)

    assert not credentials.is_renewed(URL, FIRST.text)
    assert credentials.token_for(URL) == FIRST.text


def test_a_pipe_is_read_once() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, FIRST.text.encode())
    os.close(theirs)

    credentials = Credentials([URL], token_file=f"/dev/fd/{ours}")

    assert not credentials.is_renewed(URL, FIRST.text)
    os.close(ours)


# -- text ------------------------------------------------------------------------------------------


def test_no_description_has_the_secret(file: Path) -> None:
    given, from_file = Credentials([URL], token=FIRST.text), Credentials([URL], token_file=file)

    assert given.describe(URL) == f"token {FIRST.id} was sent"
    assert from_file.describe(URL) == f"token {FIRST.id} of {file} was sent"
    assert FIRST.text not in f"{given!r} {from_file!r}"
    assert public_part("aaa.bbb.ccc") == "a token"


def test_a_token_in_clear_text_to_another_machine_is_warned_about() -> None:
    with pytest.warns(TokenInClearText, match=r"http://a\.example:7400 without TLS") as warned:
        Credentials([URL, "http://a.example:7400", LOCAL], token=FIRST.text)

    assert len(warned) == 1
    assert FIRST.text not in str(warned[0].message)


@pytest.mark.parametrize(
    "url", [URL, LOCAL, "http://localhost:1", "http://[::1]:1", "http://127.9.9.9"]
)
def test_a_token_within_this_machine_or_with_tls_causes_no_warning(url: str) -> None:
    Credentials([url], token=FIRST.text)  # A warning is an error in tests.


# -- temporary nodes -------------------------------------------------------------------------------


def test_a_temporary_node_gets_its_own_token_and_no_other_address_does() -> None:
    urls = [LOCAL, "http://localhost:7400", "http://127.0.0.1:7401", "http://a.example:7400"]
    urls += ["http://127.0.0.2:7400", "http://[::1]:7400", "https://127.0.0.1:7400"]
    credentials = Credentials(urls)

    with offered(7400, FIRST.text):
        sent = [credentials.token_for(url) for url in urls]

    assert sent == [FIRST.text, FIRST.text, "", "", "", "", ""]


def test_localhost_means_the_address_on_which_temporary_nodes_listen() -> None:
    name = "http://localhost:7400"

    with offered(7400, FIRST.text):
        assert Credentials([name]).address_of(name) == LOCAL

    assert Credentials([name]).address_of(name) == name
    assert Credentials([name], token=FIRST.text).address_of(name) == name


def test_a_given_token_comes_before_that_of_a_temporary_node() -> None:
    with offered(7400, FIRST.text):
        assert Credentials([LOCAL], token=SECOND.text).token_for(LOCAL) == SECOND.text


def test_a_file_without_the_lock_of_a_running_node_is_ignored() -> None:
    with offered(7400, FIRST.text, is_locked=False):
        assert local_token(LOCAL) == ""


def test_a_file_that_other_users_can_read_is_ignored() -> None:
    with offered(7400, FIRST.text, mode=0o640):
        assert local_token(LOCAL) == ""


def test_a_file_of_another_user_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with offered(7400, FIRST.text):
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
        assert local_token(LOCAL) == ""


def test_a_link_in_place_of_the_file_is_ignored(tmp_path: Path) -> None:
    with offered(7400, FIRST.text) as path:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        assert local_token(LOCAL) == ""


def test_the_token_of_a_restarted_temporary_node_is_read_again() -> None:
    credentials = Credentials([LOCAL])
    assert credentials.token_for(LOCAL) == ""

    with offered(7400, FIRST.text):
        assert credentials.is_renewed(LOCAL, "")
        assert credentials.token_for(LOCAL) == FIRST.text

    assert not credentials.is_renewed(LOCAL, FIRST.text)
