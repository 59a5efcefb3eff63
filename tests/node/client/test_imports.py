"""Modules that the client imports, and the time of their import."""

import json
import subprocess
import sys

import pytest

SERVER = (
    "rota.node",
    "rota.storage",
    "rota.executor",
    "croniter",
    "rocksdict",
    "uvloop",
    "prometheus_client",
)
HEAVY = ("aiohttp", "rich", "yaml", "msgspec", "asyncio")
LIST_MODULES = "import json; print(json.dumps(sorted(sys.modules)))"


def modules_loaded_by(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after *code*."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\n{LIST_MODULES}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    loaded: list[str] = json.loads(ran.stdout.splitlines()[-1])
    return set(loaded)


@pytest.mark.parametrize(
    "code",
    [
        "import rota.client",
        "import rota; rota.App('shop')",
        "from rota.client import AsyncClient, Client",
        "import rota.client.cli.main",
        "import rota.client.dev.local_node, rota.client.definitions",
        "from rota.client.cli.main import *; [cli.get_command(None, name) for name in COMMANDS]",
    ],
)
def test_the_client_loads_no_server_module(code: str) -> None:
    loaded = modules_loaded_by(code)

    assert loaded.isdisjoint(SERVER)


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["jbos"],
        ["jobs", "--help"],
        ["jobs", "craete"],
        ["executions", "--help"],
        ["completion", "bash"],
    ],
)
def test_rota_help_loads_nothing_heavy(argv: list[str]) -> None:
    loaded = modules_loaded_by(f"from rota.client.cli.main import main; main({argv})")

    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("code", ["import rota", "import rota.client"])
def test_the_package_itself_loads_no_http_library_before_a_client_is_wanted(code: str) -> None:
    loaded = modules_loaded_by(code)

    assert loaded.isdisjoint(HEAVY)


def test_a_name_the_package_does_not_have_is_an_attribute_error() -> None:
    import rota.client

    with pytest.raises(AttributeError, match="Cleint"):
        getattr(rota.client, "Cleint")  # noqa: B009 - the point of the test
