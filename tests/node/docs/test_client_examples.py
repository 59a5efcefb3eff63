"""The examples in the client's own words, and in its reference, do what they say."""

import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.client.dev.local_node import LocalNode

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "client.md"
WITH_EXAMPLES = (
    "rota.client",
    "rota.client.async_client",
    "rota.client.client",
    "rota.client.definitions",
    "rota.client.transport.endpoints",
    "rota.client.errors",
    "rota.wire.documents",
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def _node_of_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A node where the examples look for one."""
    with LocalNode(tmp_path / "data", flags=("--drain", "0s")) as node:
        monkeypatch.setenv("ROTA_URL", node.url)
        yield


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_do_what_they_say(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)

    assert ran.attempted > 0
    assert ran.failed == 0, capsys.readouterr().out


def test_the_examples_of_the_reference_do_what_they_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)

    ran = doctest.DocTestRunner(optionflags=OPTIONS).run(examples)

    assert ran.attempted > 20
    assert ran.failed == 0, capsys.readouterr().out
