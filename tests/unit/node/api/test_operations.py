"""Declarations of operations: statuses and codes of errors are checked at once."""

from collections.abc import Iterable
from typing import cast

import pytest
from aiohttp import web

from rota.node.api.app import OPERATIONS
from rota.node.api.requests.operations import Operations, Success
from rota.node.api.requests.permissions import PUBLIC
from rota.node.api.requests.request_context import RequestContext
from rota.wire import operations as api


async def handler(_: RequestContext) -> web.StreamResponse:
    """Return nothing."""
    return web.Response()


def test_an_operation_with_an_error_code_that_the_table_lacks_is_refused() -> None:
    operations = Operations("Jobs")
    declare = operations.declare(
        api.LIST_JOBS,
        Success(200, "the jobs"),
        permission=PUBLIC,
        problems=("job_not_found", "no_such_job"),
    )

    with pytest.raises(ValueError, match=r"^GET /api/v1/jobs: the table .* lacks no_such_job; add"):
        declare(handler)

    assert operations.declared == []


@pytest.mark.parametrize("status", [199, 304, 404])
def test_an_operation_whose_answer_has_the_status_of_an_error_is_refused(status: int) -> None:
    operations = Operations("Jobs")

    with pytest.raises(ValueError, match=f"status {status} is not a success"):
        operations.declare(api.LIST_JOBS, Success(status, "the jobs"), permission=PUBLIC)(handler)


def test_the_codes_of_an_operation_are_in_the_order_of_their_statuses() -> None:
    operations = Operations("Jobs")
    operations.declare(
        api.LIST_JOBS, Success(200, "it"), permission=PUBLIC, problems=("job_not_found",)
    )(handler)

    codes = operations.declared[0].codes

    assert codes.index("bad_request") < codes.index("job_not_found") < codes.index("internal")


def test_every_row_of_the_table_has_one_handler() -> None:
    found: Iterable[object] = vars(api).values()
    rows = [
        cast("api.Operation[object]", each) for each in found if isinstance(each, api.Operation)
    ]
    expected = {(each.method, each.path) for each in rows if "{kind}" not in each.path}

    declared = [(each.method, each.path) for each in OPERATIONS]

    assert expected <= {*declared}
    assert len({*declared}) == len(declared)
