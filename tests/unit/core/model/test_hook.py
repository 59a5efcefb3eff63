"""Hooks of a job: what is refused, and where."""

import pytest

from rota.core.model.hook import HOOKS_MAX, Hook, HookEvent, HookFormat, origin_of
from rota.core.model.job import problems_of
from rota.core.timing.instants import DAY, MINUTE, Duration
from unit.core.shard import job

FAILURE, LATE = HookEvent.FAILURE, HookEvent.LATE
GOOD = Hook(event=FAILURE, webhook="https://hooks.example.com:8443/a?b=c#d")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:7/",
        "https://[2001:db8::1]/hook",
        "https://hooks.slack.com/services/T0/B0/x%20y",
        "https://example.com/" + "a" * 1_980,
    ],
)
def test_a_url_of_a_webhook_is_accepted(url: str) -> None:
    assert list(problems_of(job(hooks=(Hook(event=FAILURE, webhook=url),)))) == []


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("hooks.example.com/a", "is not a URL such as"),
        ("ftp://hooks.example.com/a", "is not a URL such as"),
        ("file:///etc/passwd", "is not a URL such as"),
        ("https://", "is not a URL such as"),
        ("https:///path", "is not a URL such as"),
        ("https://a:0/", "is not a URL such as"),
        ("https://a:70000/", "with a port from 1 to 65535"),
        ("https://a:b/", "with a port from 1 to 65535"),
        ("https://[::1/", "is not a URL such as"),
        ("https://user:secret@hooks.example.com/", "has a user or a password"),
        ("https://user@hooks.example.com/", "has a user or a password"),
        ("https://example.com/a b", "must be percent-encoded"),
        ("https://example.com/\r\nX-A: 1", "must be percent-encoded"),
        ("https://exämple.com/", "must be percent-encoded"),
        ("https://example.com/" + "a" * 1_981, "has 2001 characters; at most 2000"),
    ],
)
def test_another_url_is_refused_with_its_fault(url: str, fault: str) -> None:
    (problem,) = problems_of(job(hooks=(GOOD, Hook(event=FAILURE, webhook=url))))

    assert problem.pointer == "/onFailure/1/webhook"
    assert fault in problem.detail


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("notify", "is not NAMESPACE/NAME"),
        ("default/no name", "is not NAMESPACE/NAME"),
        ("default/job", "which its own hook cannot trigger"),
        ("other/notify", "is in another namespace"),
    ],
)
def test_a_job_that_a_hook_cannot_trigger_is_refused(target: str, fault: str) -> None:
    (problem,) = problems_of(job(hooks=(GOOD, Hook(event=HookEvent.RECOVERY, job=target))))

    assert problem.pointer == "/onRecovery/0/job"
    assert fault in problem.detail


def test_a_hook_has_one_target() -> None:
    hooks = (
        Hook(event=FAILURE),
        Hook(event=FAILURE, webhook="https://example.com", job="default/notify"),
    )

    problems = list(problems_of(job(hooks=hooks)))

    assert [each.pointer for each in problems] == ["/onFailure/0", "/onFailure/1"]
    assert [each.detail for each in problems] == [
        "the hook has no webhook and no job; give one of them",
        "the hook has both a webhook and a job; give one of them",
    ]


def test_a_hook_that_triggers_a_job_has_no_format() -> None:
    hook = Hook(event=FAILURE, job="default/notify", format=HookFormat.SLACK)

    (problem,) = problems_of(job(hooks=(hook,)))

    assert problem.pointer == "/onFailure/0/format"


def test_a_job_has_so_many_hooks_at_most() -> None:
    assert list(problems_of(job(hooks=(GOOD,) * HOOKS_MAX))) == []

    (problem,) = problems_of(job(hooks=(GOOD,) * (HOOKS_MAX + 1)))

    assert problem.detail == "the job has 21 hooks; at most 20 are allowed"


def test_lateness_needs_hooks_and_a_time() -> None:
    late = (Hook(event=LATE, webhook="https://example.com"),)

    assert list(problems_of(job(hooks=late, late_after=MINUTE))) == []
    (without_time,) = problems_of(job(hooks=late))
    (without_hooks,) = problems_of(job(hooks=(GOOD,), late_after=MINUTE))
    assert {without_time.pointer, without_hooks.pointer} == {"/lateAfter"}
    (too_long,) = problems_of(job(hooks=late, late_after=Duration(366 * DAY)))
    assert too_long.pointer == "/lateAfter"


def test_only_the_origin_of_a_url_is_shown() -> None:
    assert origin_of(GOOD.webhook) == "https://hooks.example.com:8443"
