"""The page Quickstarts side by side: the versions of rota run, and have the lines it counts."""

import doctest
import http.server
import json
import re
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rota.client.dev.local_node import LocalNode
from support.page_shell import PageShell
from support.pages import OPTIONS, Block, sections
from support.rota_program import until

PAGE = (Path(__file__).parents[3] / "docs/explanation/quickstarts.md").read_text()
PARTS = sections(PAGE)
INSTALLED_AND_STARTED = 2
GITHUB = "https://api.github.com"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageShell]:
    """The shell of a newcomer with a node, whose folder this program imports from."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    known = set(sys.modules)
    with LocalNode(tmp_path / "data", flags=("--drain", "0s")) as node:
        shell = PageShell(tmp_path, node.url)
        monkeypatch.setenv("ROTA_URL", node.url)
        monkeypatch.setattr(sys, "path", [str(shell.folder), *sys.path])
        yield shell
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def github(tmp_path: Path) -> Iterator[str]:
    """The URL of a server that answers for some repositories as GitHub does."""
    for name in ("PrefectHQ/prefect", "pydantic/pydantic", "huggingface/transformers"):
        file = tmp_path / "github/repos" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"stargazers_count": 7, "full_name": name}))
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "github"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_version_of_rota_runs(
    shell: PageShell, github: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for inside in PARTS.values():
        shell.follow([Block(kind, text.replace(GITHUB, github)) for kind, text in inside])
        prompt = "".join(block.content for block in inside if block.language == "pycon")
        examples = doctest.DocTestParser().get_doctest(prompt, {}, "quickstarts.md", None, 0)
        ran = doctest.DocTestRunner(optionflags=OPTIONS).run(examples)
        assert ran.failed == 0, capsys.readouterr().out

    until(lambda: "Tick! The time is" in shell.must_run("rota output ticks.tick || true"))


@pytest.mark.parametrize("heading", PARTS)
def test_the_table_has_the_lines_and_commands_of_rota(heading: str) -> None:
    anchor = heading.lower().replace(",", "").replace(" ", "-")
    found = re.search(rf"\(#{anchor}\).*\n\| rota \| (\d+) \| (\d+) \|", PAGE)
    assert found is not None

    lines = [line for block in PARTS[heading] for line in lines_of(block)]
    commands = sum(len(block.steps) for block in PARTS[heading]) + INSTALLED_AND_STARTED
    assert (int(found[1]), int(found[2])) == (len(lines), commands)


def lines_of(block: Block) -> list[str]:
    """Return the lines of a block that the newcomer writes."""
    if block.language == "pycon":
        return [line for line in block.content.splitlines() if line.startswith(">>> ")]
    if block.language != "python":
        return []
    return [line for line in block.content.splitlines() if line.strip() and line[0] != "#"]
