"""The description of the API: complete, valid, and equal in the document, the page and the docs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from openapi_spec_validator import validate
from tools import api_page

from rota.core.errors import Kind
from rota.node.api.app import OPERATIONS, make_app
from rota.node.api.reference import described
from rota.node.api.reference.openapi import EXAMPLES, describe
from rota.node.api.requests.error_codes import CODES
from rota.node.api.requests.operations import Operation
from rota.node.api.requests.permissions import Scope
from rota.node.api.requests.problems import STATUS
from rota.node.context import NodeContext
from rota.node.system.clock import SystemClock
from rota.node.system.config import NodeConfig
from support.rotad import Rotad

ROOT = Path(__file__).parents[3]
OF_THE_PAGE = ("/", "/ui", "/ui/{path}")
"""Routes of the web page, which are no part of the API."""
DOCUMENT = describe(OPERATIONS)
SCHEMAS = DOCUMENT["components"]["schemas"]


# -- the document ----------------------------------------------------------------------------------


def test_the_document_is_openapi(node: Rotad) -> None:
    served = node.call("GET", "/openapi.json")

    validate(served)
    assert served == msgspec.json.decode(msgspec.json.encode(DOCUMENT))


def test_a_token_is_needed_for_all_operations_except_public_ones() -> None:
    public = {
        each.name
        for each in OPERATIONS
        if DOCUMENT["paths"][each.path][each.method.lower()].get("security") == [{}]
    }

    assert DOCUMENT["security"] == [{"bearer": []}]
    assert DOCUMENT["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert public == {
        each.name for each in OPERATIONS if each.permission.scope in (Scope.PUBLIC, Scope.LOCAL)
    }
    for each in OPERATIONS:
        says = DOCUMENT["paths"][each.path][each.method.lower()]
        assert ("401" in says["responses"]) == (each.name not in public)


def test_every_route_is_described_and_no_other() -> None:
    access = SimpleNamespace(logs=())
    needed = SimpleNamespace(config=NodeConfig(), clock=SystemClock(), access=access)
    context = cast("NodeContext", needed)  # All that making it asks for.
    routes = make_app(context, int).router.routes()

    found = {(each.method, each.path) for each in described.operations_of(DOCUMENT)}

    assert found == {
        (route.method, route.resource.canonical)
        for route in routes
        if route.resource is not None and route.method != "HEAD"
        if route.resource.canonical not in OF_THE_PAGE
    }


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_document_and_every_field_is_explained(name: str) -> None:
    schema = SCHEMAS[name]

    unexplained = [
        field for field, each in schema["properties"].items() if not each.get("description")
    ]

    assert schema["description"]
    assert not unexplained


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_and_parameter_is_explained_in_a_sentence(operation: Operation) -> None:
    says = DOCUMENT["paths"][operation.path][operation.method.lower()]

    meanings = [says["summary"], *(each["description"] for each in says.get("parameters", []))]

    assert all(each[0].isupper() or each[0] == "`" for each in meanings)
    assert all(each.endswith(".") for each in meanings)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_example_of_a_body_is_one(kind: type[msgspec.Struct]) -> None:
    assert isinstance(msgspec.convert(EXAMPLES[kind], kind), kind)


def test_no_description_links_to_a_page_that_a_node_does_not_serve() -> None:
    text = msgspec.json.encode(DOCUMENT).decode()

    assert not re.findall(r"\]\([\w-]+\.md", text)


# -- codes -----------------------------------------------------------------------------------------


def sources() -> list[Path]:
    return [*(ROOT / "core").rglob("*.py"), *(ROOT / "node").rglob("*.py")]


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield the name and the node of each call in the source of core and node."""
    for file in sources():
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                yield call.func.id, call


def refusals() -> Iterator[tuple[str, int]]:
    """Yield the code and the status of each refusal in the source."""
    for name, call in calls():
        match name, call.args:
            case "invalid", [ast.Constant(value=str(code)), *_]:
                yield code, STATUS[Kind.INVALID]
            case "Refused", [ast.Attribute(attr=kind), ast.Constant(value=str(code)), *_]:
                yield code, STATUS[Kind[kind]]
            case "not_found", [ast.Constant(value=str(what)), *_]:
                yield f"{what}_not_found", STATUS[Kind.NOT_FOUND]
            case _:
                pass


NEVER_ANSWERED = {
    "invalid_schedule",  # Reported as invalid_job.
    "unknown_timezone",  # Reported as invalid_job.
    "invalid_configuration",
    "stale_attempt",
    "invalid_report",
}
UNDER_ANOTHER_STATUS = {
    "malformed_json",
    "body_too_large",
    "body_too_slow",
    "unsupported_media_type",
}


def test_every_code_of_a_refusal_is_in_the_table_with_its_status() -> None:
    found = {each for each in refusals() if each[0] not in NEVER_ANSWERED}

    assert len(found) > 20
    assert {code for code, _ in found} <= set(CODES)
    assert [
        (code, status)
        for code, status in found
        if CODES[code].status != status and code not in UNDER_ANOTHER_STATUS
    ] == []


def test_refusals_for_later_have_a_retry_time() -> None:
    later = {"TOO_MANY", "UNAVAILABLE"}

    silent = [
        ast.unparse(call)
        for name, call in calls()
        if name == "Refused"
        and isinstance(call.args[0], ast.Attribute)
        and call.args[0].attr in later
        and not any(each.arg == "retry_after_s" for each in call.keywords)
    ]

    assert not silent


def test_no_code_is_in_the_table_for_nothing() -> None:
    files = [file for file in sources() if file.name != "error_codes.py"]
    text = "".join(file.read_text() for file in files)

    in_source = {code for code, _ in refusals()} | set(re.findall(r'"([a-z]+(?:_[a-z]+)*)"', text))

    assert set(CODES) - in_source == set()


# -- the page --------------------------------------------------------------------------------------


# -- on paper --------------------------------------------------------------------------------------


def test_the_page_of_the_reference_is_up_to_date() -> None:
    fragments = api_page.fragments_in(ROOT / "docs" / "reference" / "api")

    made = api_page.page_of(DOCUMENT, fragments)

    assert made == (ROOT / "docs" / "reference" / "api.md").read_text(), "run: make docs"


def test_every_fragment_of_the_reference_is_used() -> None:
    fragments = api_page.fragments_in(ROOT / "docs" / "reference" / "api")

    assert set(fragments) <= {"introduction", *(operation.name for operation in OPERATIONS)}
