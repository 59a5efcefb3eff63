"""The greeting of ``rota dev``: the URL for other commands, beside profiles."""

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from rota.client.cli.setup.dev_access import export_line

URL = "http://127.0.0.1:7400"
ELSEWHERE = '[profiles.default]\nurl = "https://rota.example:7400"\n'


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bool], str]:
    """Return the line with a file of profiles."""
    monkeypatch.delenv("ROTA_PROFILE", raising=False)
    monkeypatch.setenv("ROTA_CLIENT_CONFIG", str(tmp_path / "config.toml"))

    def with_profiles(text: str, is_usual: bool) -> str:
        (tmp_path / "config.toml").write_text(text)
        with click.Context(click.Command("dev")):
            return export_line(URL, is_usual=is_usual)

    return with_profiles


@pytest.mark.parametrize("text", ["", f'[profiles.default]\nurl = "{URL}"\n', "no toml"])
def test_the_usual_url_is_left_out_if_commands_use_it(
    line: Callable[[str, bool], str], text: str
) -> None:
    assert line(text, True) == ""
    assert line(text, False) == f"  export ROTA_URL={URL}\n"


@pytest.mark.parametrize("is_usual", [True, False])
def test_the_url_is_named_if_a_profile_has_another_one(
    line: Callable[[str, bool], str], is_usual: bool
) -> None:
    assert line(ELSEWHERE, is_usual) == (
        f"  export ROTA_URL={URL}    # instead of the URL of your profile, which is kept\n"
    )
