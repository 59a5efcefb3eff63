"""Warnings about webhooks that a node does not send."""

import pytest

from rota.node.api.handlers.hook_warnings import webhook_warnings
from rota.node.webhooks.permitted_hosts import PermittedHosts
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import HookBody, JobBody


def warnings_about(*urls: str, names: tuple[str, ...] = ()) -> list[str]:
    """Return the warnings about a job with a webhook to each of *urls* after a failure."""
    hooks = [HookBody(webhook=url) for url in urls]
    spec = job_spec(JobBody(name="job", command="true", on_failure=hooks))
    return webhook_warnings(spec, PermittedHosts(names))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:9000/secret", "127.0.0.1"),
        ("http://[::1]/secret", "::1"),
        ("http://169.254.169.254/secret", "169.254.169.254"),
        ("http://localhost:2379/secret", "localhost"),
        ("http://etcd.LOCALHOST./secret", "etcd.localhost"),
    ],
)
def test_a_webhook_to_this_machine_or_link_gets_a_warning(url: str, host: str) -> None:
    (warning,) = warnings_about(url)

    assert warning.startswith(f"onFailure: the webhook is not sent: {host} is an address of this")
    assert "webhook_hosts" in warning
    assert "secret" not in warning
    assert warnings_about(url, names=("*",)) == []


def test_a_webhook_to_a_host_that_is_not_listed_gets_a_warning() -> None:
    names = ("hooks.example.com",)

    (warning,) = warnings_about("https://other.example.com/a", names=names)

    assert "other.example.com is not in webhook_hosts" in warning
    assert warnings_about("https://hooks.example.com/a", names=names) == []


def test_each_host_is_warned_of_once() -> None:
    assert len(warnings_about("http://127.0.0.1/a", "http://127.0.0.1/b")) == 1


def test_a_webhook_to_a_permitted_host_gets_no_warning() -> None:
    assert warnings_about("https://hooks.example.com/a", "http://10.0.0.1/b") == []
