"""Output of the CLI: escaped control characters, and one module through which all output goes."""

import ast
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import rota.client.cli
from rota.client.cli.display.printing import (
    OutputCopy,
    one_line,
    out,
    visible,
    visible_json,
    visible_yaml,
)
from rota.client.cli.display.show import as_yaml

CLI = Path(rota.client.cli.__file__).parent
STEERING = {
    *map(chr, set(range(0x20)) - {0x09, 0x0A}),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
}
CORPUS = {
    "\x1b[2J": r"\x1b[2J",
    "\x1b]0;title\x07": r"\x1b]0;title\x07",
    "\x1b]8;;http://x.test\x1b\\click\x1b]8;;\x1b\\": r"\x1b]8;;http://x.test\x1b\click\x1b]8;;\x1b"
    "\\",
    "\x1b]52;c;cm0gLXJmIH4=\x07": r"\x1b]52;c;cm0gLXJmIH4=\x07",
    "\x9b31mred": r"\x9b31mred",
    "succeeded\rfailed   ": r"succeeded\x0dfailed   ",
    "del\x7f and bell\x07 and nul\x00": r"del\x7f and bell\x07 and nul\x00",
    "\u202egnp.exe": r"\u202egnp.exe",
    "\u2066isolate\u2069 \u200emark\u200f": r"\u2066isolate\u2069 \u200emark\u200f",
    "line\u2028separator": r"line\u2028separator",
    "lone \ud800 surrogate": r"lone \ud800 surrogate",
    "kept:\ta tab,\nan end, and\r\nthat of DOS": "kept:\ta tab,\nan end, and\r\nthat of DOS",
    "kept: grüße, 日本語, עברית, 👍🏽": "kept: grüße, 日本語, עברית, 👍🏽",
}


@pytest.mark.parametrize("text", CORPUS)
def test_what_steers_a_terminal_is_shown(text: str) -> None:
    assert visible(text) == CORPUS[text]


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(sorted(STEERING))))
def test_nothing_that_steers_is_left(text: str) -> None:
    assert not STEERING & set(visible(text).replace("\r\n", "\n"))
    assert not (STEERING | set("\n\t")) & set(one_line(text))
    assert visible(visible(text)) == visible(text)


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(sorted(STEERING))))
def test_json_and_yaml_mean_the_same_without_it(text: str) -> None:
    as_json = visible_json(json.dumps(text, ensure_ascii=False))
    as_yaml = visible_yaml(lambda is_allowed: yaml.safe_dump(text, allow_unicode=is_allowed))

    assert json.loads(as_json) == yaml.safe_load(as_yaml) == text
    assert not STEERING & set(as_json + as_yaml)


def test_characters_of_yaml_stay_readable() -> None:
    assert "grüße" in visible_yaml(
        lambda is_allowed: yaml.safe_dump("grüße", allow_unicode=is_allowed)
    )


def test_markup_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    out("[red]job[/red] [link=http://x.test]x[/link]")

    assert capsys.readouterr().out == "[red]job[/red] [link=http://x.test]x[/link]\n"


def test_a_character_that_comes_in_two_pieces_is_shown_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    copy = OutputCopy(is_raw=False)

    copy.write(b"gr\xc3")
    copy.write(b"\xbc\x9b31m \xe2\x80")
    copy.write(b"", is_last=True)

    assert capsys.readouterr().out == "grü\\x9b31m \\xe2\\x80"
    assert copy.has_escapes


def test_text_without_control_characters_is_not_said_to_have_escapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    copy = OutputCopy(is_raw=False)

    copy.write(rb"a\x1b b", is_last=True)

    assert not copy.has_escapes


def test_all_printing_of_the_cli_goes_through_one_module() -> None:
    found = {
        (path.name, name)
        for path in CLI.rglob("*.py")
        if path.name != "printing.py"
        for name in _prints(path)
    }

    # A watch moves the cursor between frames that were printed as everything is; a recovery asks
    # the operator with fixed words, and so does a login; a selection escapes its question itself.
    assert found == {
        ("live_table.py", "terminal.write"),
        ("recovery.py", "click.confirm"),
        ("job_selection.py", "click.confirm"),
        ("secrets.py", "click.prompt"),
        ("secrets.py", "sys.stdin.buffer"),
        ("files.py", "sys.stdin.buffer"),
        ("imports.py", "sys.stdin.buffer"),
        ("mcp.py", "sys.stdin.buffer"),
        ("login.py", "click.prompt"),
    }


def test_printing_past_that_module_is_found(tmp_path: Path) -> None:
    module = tmp_path / "new.py"
    module.write_text(
        "from click import echo\nfrom rich import print as p\nimport click, sys\n"
        "def f(job, w=sys.stdout.buffer):\n    print(job)\n    click.secho(job)\n"
        "    sys.stderr.write(job)\n    click.echo_via_pager(job)\n"
    )

    assert _prints(module) == {
        *("from click import echo", "from rich import print", "sys.stdout.buffer", "print"),
        *("click.secho", "sys.stderr.write", "click.echo_via_pager"),
    }


PRINTERS = {"print", "echo", "secho", "echo_via_pager", "style", "prompt", "confirm", "pprint"}


def _prints(path: Path) -> set[str]:
    """Return the names in a module that write text to a terminal."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = {each.name for each in node.names} & PRINTERS
            if node.module in ("click", "rich", "pprint"):
                found |= {f"from {node.module} import {name}" for name in names}
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            is_click = text.startswith(("click.", "rich.")) and node.attr in PRINTERS
            if is_click or node.attr == "buffer" or text in WRITES:
                found.add(text)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "pprint"):
            found.add(ast.unparse(node.func))
    return found


WRITES = {"sys.stdout.write", "sys.stderr.write", "terminal.write"}


def test_text_that_other_readers_take_for_a_number_is_quoted_in_yaml() -> None:
    assert as_yaml({"size": "1e3", "at": "12:30:00"}) == "size: '1e3'\nat: '12:30:00'\n"
