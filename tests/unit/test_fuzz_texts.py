"""Texts from outside: settings of a node, parameters of the API, ids of events.

Each is taken or refused by its name, whatever it says.
"""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rota.core.errors import Refused
from rota.node.api.app import OPERATIONS
from rota.node.api.requests.parameters import Parameter
from rota.node.api.requests.tracing import checked_traceparent
from rota.node.feeds.events import format_seen, parse_seen
from rota.node.system.config import SETTINGS, load_config
from support.request_contexts import without_node
from unit.fuzzing import Damage, Tree, damaged, damages, trees

PARAMETERS = {
    id(parameter): parameter for operation in OPERATIONS for parameter in operation.query or ()
}
"""Each parameter once, though many operations have the same."""
SOUND = (
    *("5f0c91aa-1024", "5f0c91aa-1024,0000abcd-7", "7", "true", "90s", "1h30m", "1.5"),
    *("2027-01-01T00:00:00Z", "2027-01-01T00:00:00.123456+02:00", "default/job", "disk=fast"),
    *("3f2a9c0011223344-0647b1c2d3e4f5-0000", "3f2a9c0011223344", "running", "9" * 19, "1e9"),
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)


def spoiled(sound: str, by: list[Damage]) -> str:
    return damaged(sound.encode(), by).decode(errors="replace")


texts = st.text(max_size=20) | st.builds(spoiled, st.sampled_from(SOUND), damages())
FILE = b"""
listen = "127.0.0.1:7400"
etcd = ["http://127.0.0.1:2379"]
node_id = "n1"
zone = "west"
weight = 1.5
slots = 4
history = "7d"
insecure = false
on_stop = "keep"
[labels]
disk = "fast"
"""
with_file = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def refusal_of(call: Callable[[], object]) -> Refused | None:
    """Return the refusal of *call*, or None; any other exception fails the test."""
    try:
        call()
    except Refused as refusal:
        return refusal
    return None


def check_settings(file: Path | None, environ: dict[str, str], flags: dict[str, Tree]) -> None:
    """See that settings are taken, or refused with every problem and its place."""
    refusal = refusal_of(lambda: load_config(file, environ, flags))

    if refusal is not None:
        assert refusal.code == "invalid_configuration"
        assert refusal.problems
        assert all(problem.pointer and problem.detail for problem in refusal.problems)


# -- settings --------------------------------------------------------------------------------------


@given(by=damages())
@with_file
def test_a_damaged_file_is_refused_or_has_settings(tmp_path: Path, by: list[Damage]) -> None:
    file = tmp_path / "rota.toml"
    file.write_bytes(damaged(FILE, by))

    check_settings(file, {}, {})


@given(content=st.binary(max_size=60))
@with_file
def test_a_file_of_anything_is_refused_or_has_settings(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "rota.toml"
    file.write_bytes(content)

    check_settings(file, {}, {})


@pytest.mark.parametrize("name", SETTINGS)
@given(text=texts)
@settings(max_examples=25, deadline=None)
def test_a_variable_is_refused_or_read(name: str, text: str) -> None:
    check_settings(None, {f"ROTA_{name.upper()}": text}, {})


@pytest.mark.parametrize("name", SETTINGS)
@given(value=trees())
@settings(max_examples=25, deadline=None)
def test_a_value_of_another_kind_is_refused_or_read(name: str, value: Tree) -> None:
    assume(not (isinstance(value, str) and value.startswith("~")))

    check_settings(None, {}, {name: value})


@given(name=st.text(min_size=1, max_size=12), value=texts)
@settings(max_examples=100, deadline=None)
def test_a_setting_that_there_is_not_is_refused_by_its_name(name: str, value: str) -> None:
    assume(name not in SETTINGS)

    with pytest.raises(Refused) as refused:
        load_config(None, {}, {name: value})

    assert [problem.pointer for problem in refused.value.problems] == [f"command line: {name}"]


# -- parameters and ids ----------------------------------------------------------------------------


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=lambda parameter: parameter.name)
@given(text=texts)
@settings(max_examples=25, deadline=None)
def test_a_parameter_is_refused_by_its_name_or_read(
    parameter: Parameter[object], text: str
) -> None:
    http = make_mocked_request("GET", f"/?{urlencode({parameter.name: text})}")
    request = without_node(http)

    refusal = refusal_of(lambda: parameter.of(request))

    if refusal is not None:
        assert refusal.code == "invalid_query"
        assert [problem.pointer for problem in refusal.problems] == [f"/query/{parameter.name}"]


@given(texts)
@settings(max_examples=100, deadline=None)
def test_the_id_of_an_event_is_refused_or_read_as_it_is(text: str) -> None:
    try:
        seen = parse_seen(text)
    except ValueError:
        return

    assert format_seen(seen) == text


@given(texts)
@settings(max_examples=100, deadline=None)
def test_a_trace_is_passed_over_or_kept(text: str) -> None:
    found = checked_traceparent(text)

    assert found in ("", checked_traceparent(found))
