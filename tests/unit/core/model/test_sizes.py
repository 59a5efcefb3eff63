"""Text form of sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.model.sizes import format_size, parse_size


@given(st.integers(0, 1 << 50))
def test_a_size_survives_text(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("65536", 65_536),
        ("65536B", 65_536),
        ("512MiB", 512 * 1024**2),
        (" 1.5 GiB ", 3 * 512 * 1024**2),
        ("2GB", 2_000_000_000),
        ("1kB", 1_000),
        ("1TiB", 1 << 40),
    ],
)
def test_sizes_that_are_read(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "512M", "1g", "-1MiB", "1e3", "MiB", "1.2345GiB", "٣MiB"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example 512MiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0B"), (1_000, "1kB"), (1_024, "1KiB"), (1_025, "1025B"), (2 * 10**9, "2GB")],
)
def test_a_size_is_written_in_the_shortest_form(size: int, expected: str) -> None:
    assert format_size(size) == expected
