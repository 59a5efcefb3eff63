"""Tokens: their form, checksum and hash."""

import re
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.wire.tokens import ID_BYTES, SECRET_BYTES, TOKEN_LENGTH, mint, parse

RANDOM = st.binary(min_size=ID_BYTES + SECRET_BYTES, max_size=ID_BYTES + SECRET_BYTES)
FORM = re.compile(r"rota_k_[0-9A-Za-z]{57}")
"""The form that scanners for secrets search for."""


@given(RANDOM)
def test_a_minted_token_has_the_documented_form_and_is_parsed(random_bytes: bytes) -> None:
    token = mint(random_bytes)

    assert FORM.fullmatch(token.text)
    assert len(token.text) == TOKEN_LENGTH
    assert parse(token.text) == token
    assert token.hash == sha256(token.text.encode()).hexdigest()


@given(RANDOM, st.integers(0, TOKEN_LENGTH - 1), st.characters())
def test_a_token_with_one_other_character_is_no_token(
    random_bytes: bytes, place: int, character: str
) -> None:
    text = mint(random_bytes).text
    if text[place] != character:
        assert parse(text[:place] + character + text[place + 1 :]) is None


def test_a_shortened_a_longer_and_an_empty_text_are_no_tokens() -> None:
    text = mint(bytes(range(40))).text

    assert [parse(each) for each in ("", text[:-1], text + "0", text.lower(), "a b")] == [None] * 5


def test_the_secret_is_not_in_the_representation_of_a_token() -> None:
    token = mint(bytes(range(40)))

    assert token.text not in repr(token)
    assert token.id in repr(token)


def test_different_random_bytes_make_different_tokens() -> None:
    made = {mint(bytes([byte]) * 40).text for byte in range(256)}

    assert len(made) == 256


def test_too_few_random_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="needs 40 bytes, not 39"):
        mint(bytes(39))
