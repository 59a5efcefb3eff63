"""Why `rota hooks test` has nothing to send."""

import pytest

from rota.client.cli.jobs.hooks import why_no_webhook

JOBS = {"onFailure": [{"job": "alert"}], "onLate": [{"job": "page"}]}


@pytest.mark.parametrize(
    ("definition", "number", "expected"),
    [
        ({}, None, "report has no webhook"),
        ({}, 1, "report has no hook 1; it has no hooks"),
        (JOBS, None, "all hooks of report trigger jobs, and none sends a webhook"),
        (JOBS, 2, "hook 2 of report triggers the job page, and sends no webhook"),
        (JOBS, 3, "report has no hook 3; its hooks are numbered from 1 to 2"),
    ],
)
def test_the_reason_tells_hooks_of_jobs_from_missing_ones(
    definition: dict[str, object], number: int | None, expected: str
) -> None:
    assert why_no_webhook("report", definition, number).startswith(expected)
