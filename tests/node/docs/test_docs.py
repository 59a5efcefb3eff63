"""Agreement of the reference with the program: fields, settings, metrics, and examples."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tools import metrics_page

from rota.client import Client, NotAuthenticated
from rota.client.dev.token_files import kept_token
from rota.core.model.retry import next_attempt_at
from rota.core.timing.instants import Duration, Instant, format_duration
from rota.node import main
from rota.node.system.config import SETTINGS, load_config
from rota.node.system.metric_definitions import METRICS as DEFINITIONS
from rota.node.system.metric_definitions import Kind
from rota.wire import documents
from rota.wire.bodies.job_bodies import job_spec
from support.rota_program import PROGRAM, Rota, until
from support.rotad import Rotad

Json = Any  # Any, as JSON is.

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
API, JOBS, TASKS, CONFIGURATION, METRICS = (
    (REFERENCE / f"{name}.md").read_text()
    for name in ("api", "jobs", "tasks", "configuration", "metrics")
)

# What is another at every time and node: ids, instants, and what a node says of itself.
VARIES = re.compile(r"[0-9a-f]{16}|\d{4}-\d\d-\d\dT")
OF_THE_NODE = {"nodeId", "version", "python"}


# -- lists -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "heading"),
    [
        (documents.ScheduleBody, "### Fields of a schedule"),
        (documents.TaskBody, "### Fields of a task"),
        (documents.RetryBody, "## Retries"),
        (documents.PythonBody, "## Python functions"),
        (documents.ContainerBody, "## Containers"),
        (documents.SandboxBody, "## Sandboxes"),
        (documents.LimitsBody, "## Limits of an attempt"),
    ],
)
def test_every_field_of_a_body_is_listed_with_its_default(
    body: type[msgspec.Struct], heading: str
) -> None:
    listed = {row[0]: row[2] for row in table(JOBS, heading)}

    assert listed == {
        field.encode_name: default_of(field) for field in msgspec.structs.fields(body)
    }


def test_every_setting_is_explained() -> None:
    explained = re.findall(r"^- (`.*?`):", CONFIGURATION, re.MULTILINE)

    names = [name for line in explained for name in re.findall(r"`(\w+)`", line)]
    assert sorted(names) == sorted(SETTINGS)


def test_the_example_of_a_configuration_is_one(tmp_path: Path) -> None:
    [example] = examples(CONFIGURATION, "toml")
    file = tmp_path / "rota.toml"
    file.write_text(example)

    config = load_config(file, {}, {})

    assert config.labels == {"disk": "ssd", "gpu": "none"}
    assert format_duration(config.history) == "30d"


def test_every_exit_status_is_listed() -> None:
    listed = {int(row[0]) for row in table(CONFIGURATION, "## Exit statuses")}

    assert listed == {0} | {value for name, value in vars(main).items() if name.startswith("EX_")}


def test_exactly_the_metrics_are_listed_with_their_types(node: Rotad) -> None:
    exposed = re.findall(r"^# TYPE (\S+) (\w+)$", node.call("GET", "/metrics"), re.MULTILINE)

    listed = {row[0]: row[1] for row in table(METRICS, "# Metrics")}

    assert listed == {name: kind for name, kind in exposed if not name.endswith("_created")}


def test_the_table_of_metrics_is_up_to_date() -> None:
    made = metrics_page.with_table(METRICS, DEFINITIONS.values())

    assert made == METRICS, "run: make docs"


def test_a_metric_is_named_after_its_kind_and_unit() -> None:
    units = {"_seconds": "s", "_bytes": "bytes"}

    for measure in DEFINITIONS.values():
        noun = measure.name.removesuffix("_total")
        assert (noun != measure.name) is (measure.kind is Kind.COUNTER), measure
        for suffix, unit in units.items():
            assert noun.endswith(suffix) is (measure.unit == unit), measure


# -- behaviour -------------------------------------------------------------------------------------


def test_the_delays_of_retries_are_those_of_the_table() -> None:
    [header, *rows] = table(JOBS, "Delays between", with_header=True)

    for policy_json, *listed in rows:
        body = {"name": "x", "command": "true", "retries": json.loads(policy_json)}
        policy = job_spec(msgspec.convert(body, documents.JobBody)).tasks[0].retry
        delays = [
            next_attempt_at(policy, int(nth[:-2]), exit_code=1, ended_at=Instant(0), entropy=0)
            for nth in header[1:]
        ]
        assert listed == [format_duration(Duration(delay or 0)) for delay in delays], policy_json


def test_every_job_of_the_reference_is_accepted(node: Rotad) -> None:
    bodies = [json.loads(example) for example in examples(JOBS, "json")]
    names = [body["name"] for body in bodies]

    created = [node.create(**{**body, "namespace": "docs"}) for body in bodies]

    assert [job["name"] for job in created] == names
    assert len(set(names)) == len(names) > 10


def test_reports_of_the_example_program_are_received(node: Rotad) -> None:
    [script] = examples(TASKS, "sh")
    fails_once = script.replace("sleep 1", '[ "$ROTA_ATTEMPT$n" != 150 ]').replace(
        "n=$(", "set -e; n=$("
    )
    node.create(name="counts", command=fails_once, retries={"limit": 1, "delay": 0})

    ended = node.ended(node.trigger("counts"))

    first, second = ended["tasks"]["main"]["attempts"]
    assert (first["progress"], first["result"]) == (50, None)
    assert (second["progress"], second["result"]) == (100, {"counted": 100})
    assert ended["progress"] == 100


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_every_request_of_the_reference_gets_the_answer_shown(
    rota_alone: Rota, tmp_path: Path
) -> None:
    del rota_alone  # Only for its environment.
    token_file = tmp_path / "token"
    kept_token(token_file)
    keys = ("--auth", "keys", "--bootstrap-key-file", str(token_file))
    steps = [step for block in examples(API, "") for step in steps_of(block)]
    script = "".join(f"{command}\nprintf '\\n@@@\\n'\n" for command, _ in steps)

    with Rotad(tmp_path / "data", "--drain", "0s", *keys) as node:
        url = node.start().url
        with Client(url, token_file=token_file) as client:
            assert until(lambda: is_accepted(client))
        ran = subprocess.run(
            ["bash", "-c", f'set -eo pipefail\nrota() {{ {shlex.join(PROGRAM)} "$@"; }}\n{script}'],
            env={
                **os.environ,
                "ROTA": url,
                "ROTA_TOKEN_FILE": str(token_file),
                "no_proxy": "*",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    answers = ran.stdout.split("\n@@@\n")[:-1]
    assert len(answers) == len(steps) > 30, f"{steps[len(answers) :][:1]}: {ran.stdout[-500:]}"
    for (command, shown), answer in zip(steps, answers, strict=True):
        different = list(differences(parsed(shown), parsed(answer))) if shown.strip() else []
        assert not different, f"{command}\n{answer}"


def is_accepted(client: Client) -> bool:
    """Return True if the node has the key of the client's token."""
    try:
        client.whoami()
    except NotAuthenticated:
        return False
    return True


# -- reading pages ---------------------------------------------------------------------------------


def table(page: str, after: str, *, with_header: bool = False) -> list[list[str]]:
    """Return the cells of the first table after the line that begins with *after*."""
    start = re.search(rf"^{re.escape(after)}", page, re.MULTILINE)
    assert start is not None, after
    found = re.search(r"(?:^\|.*\n)+", page[start.start() :], re.MULTILINE)
    assert found is not None, after
    header, _, *rows = found[0].splitlines()
    lines = [header, *rows] if with_header else rows
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def examples(page: str, language: str) -> list[str]:
    """Return the fenced blocks of *language*."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [content for named, content in blocks if named == language]


def steps_of(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block with the output shown below it."""
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = step.partition("\n")
        yield command, shown


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.NODEFAULT:
        return json.dumps(field.default_factory())
    return json.dumps(field.default)


# -- comparing answers -----------------------------------------------------------------------------


def parsed(text: str) -> object:
    """Return JSON, or the text itself; in JSON, an ellipsis marks omissions."""
    text = text.strip()
    if not text.startswith(("{", "[")):
        return text
    bare = re.sub(r'("(?:\\.|[^"\\])*")|…', lambda found: found[1] or "", text)
    without_holes = re.sub(r",(?:\s*,)+", ",", bare)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", re.sub(r"([{\[]\s*),", r"\1", without_holes)))


def differences(shown: object, real: object, at: str = "") -> Iterator[str]:
    """Yield the differences of an answer from *shown*, which may have less."""
    if isinstance(shown, dict) and isinstance(real, dict):
        there = cast("dict[str, object]", real)  # isinstance cannot say of what.
        for name, value in cast("dict[str, object]", shown).items():
            if name not in there:
                yield f"{at}/{name} is not there"
            elif name not in OF_THE_NODE:
                yield from differences(value, there[name], f"{at}/{name}")
    elif isinstance(shown, list) and isinstance(real, list):
        items, others = cast("list[object]", shown), cast("list[object]", real)
        if len(items) > len(others):
            yield f"{at} has {len(others)} items"
        for number, (value, other) in enumerate(zip(items, others, strict=False)):
            yield from differences(value, other, f"{at}/{number}")
    elif isinstance(shown, float) and isinstance(real, float):
        return
    elif isinstance(shown, str) and isinstance(real, str) and VARIES.search(shown):
        if not VARIES.search(real):
            yield f"{at} is {real!r}"
    elif shown != real:
        yield f"{at} is {real!r}, not {shown!r}"
