"""``rota deploy``: the scheduled tasks of an app as jobs, and what is no such app."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.client import Client
from support.rota_program import NO_NODE, Rota
from support.rotad import Rotad

SHOP = """
import rota

app = rota.App("shop")
number = 7


@app.task(schedule="@daily")
def report(days: int = 7) -> int:
    return days


@app.task(schedule="@every 1h", namespace="night")
def clean() -> None: ...


@app.task()
def charge(order: int) -> int:
    return order
"""
WRONG = {
    "broken": "import rota\n1 / 0\n",
    "dependent": "\nimport absent_library\n",
    "exiting": "raise SystemExit(3)\n",
    "idle": "import rota\napp = rota.App('idle')\n",
    "malformed": "def f(:\n",
    "miscalled": "import rota\napp = rota.App('a')\n@app.task()\ndef f(): ...\n"
    "with app.flow('b'):\n    f()\n    f(1)\n",
    "refused": "import rota\napp = rota.App('a b')\n",
}

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a module into the current folder, to be imported again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    written: set[str] = set()

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
        written.add(name)

    yield write
    for name in written:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("place", "status", "said"),
    [
        ("shop", 2, "'shop' is not like MODULE:APP, such as shop:app"),
        ("shop:", 2, "'shop:' is not like MODULE:APP"),
        ("./shop:app", 2, "'./shop:app' is not like MODULE:APP"),
        ("shop.py:app", 2, "shop.py is a file; name its module, shop"),
        ("absent:app", 2, "there is no module 'absent' in "),
        ("absent.shop:app", 2, "there is no module 'absent' in "),
        ("shop:apps", 2, "the module shop has no 'apps'; did you mean 'shop:app'?"),
        ("shop:number", 2, "shop:number is no rota.App, but of the type int"),
        ("shop:report", 2, "shop:report is no rota.App, but of the type Task"),
        ("idle:app", 9, "no task of the app idle in idle:app has a schedule, and it has"),
        ("broken:app", 9, "broken.py:2: the import of broken failed: ZeroDivisionError: division"),
        ("dependent:app", 9, "dependent.py:2: the import of dependent failed: ModuleNotFound"),
        ("exiting:app", 9, "exiting.py:1: the import of exiting failed: SystemExit: 3"),
        ("malformed:app", 9, "malformed.py:1: the import of malformed failed: SyntaxError: "),
        ("miscalled:app", 9, "miscalled.py:7: miscalled:f: too many positional arguments; it take"),
        ("refused:app", 9, "refused.py:2: the app's name 'a b' is invalid"),
    ],
)
def test_what_is_no_app_with_a_scheduled_task_is_refused_before_a_node_is_asked(
    rota_alone: Rota, write: Write, place: str, status: int, said: str
) -> None:
    for name, text in {**WRONG, "shop": SHOP}.items():
        write(name, text)

    ran = rota_alone("deploy", place, "--url", NO_NODE)

    assert (ran.status, ran.out) == (status, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_scheduled_tasks_are_saved_and_run_as_jobs(rota: Rota, node: Rotad, write: Write) -> None:
    def deployed(text: str, *options: str) -> dict[str, str]:
        write("shop", text)
        ran = rota("deploy", "shop:app", "-n", "day", "-o", "json", *options)
        assert ran.status == 0, ran.err
        return {f"{job['namespace']}/{job['name']}": job["change"] for job in ran.json}

    tried = deployed(SHOP, "--dry-run")
    none = rota("jobs", "-n", "day", "-o", "name").out
    first, again = deployed(SHOP), deployed(SHOP)
    changed = deployed(SHOP.replace("@daily", "@hourly"))

    created = {"day/shop.report": "created", "night/shop.clean": "created"}
    assert (tried, none, first) == (created, "", created)
    assert again == dict.fromkeys(created, "unchanged")
    assert changed == {"day/shop.report": "replaced", "night/shop.clean": "unchanged"}
    with Client(node.url) as client:
        made = client.trigger("shop.report", namespace="day")
        assert client.wait(made.execution_id, timeout_s=60).status == "success"


def test_all_refused_jobs_are_named_with_their_lines(
    rota: Rota, node: Rotad, write: Write, tmp_path: Path
) -> None:
    write("wrong", SHOP.replace("@daily", "@dayly").replace("@every 1h", "@every 1x"))

    refused = rota("deploy", "wrong:app", "-n", "wrong")

    assert refused.status == 9
    assert "job 'shop.report' is refused:\n" in refused.err
    assert f"error: invalid input in {tmp_path}/wrong.py:8\n  /schedule: " in refused.err
    assert "job 'shop.clean' is refused:\n" in refused.err
    assert f"error: invalid input in {tmp_path}/wrong.py:13\n  /schedule: " in refused.err
    assert "Traceback" not in refused.err


def test_a_module_that_replaces_a_job_of_another_one_is_named(
    rota: Rota, node: Rotad, write: Write
) -> None:
    write("first", SHOP)
    write("second", SHOP)
    rota("deploy", "first:app", "-n", "moved")

    again = rota("deploy", "first:app", "-n", "moved")
    replaced = rota("deploy", "second:app", "-n", "moved")

    assert "note:" not in again.err
    assert (
        "note: moved/shop.report was a job of the module first; second replaces it" in replaced.err
    )
