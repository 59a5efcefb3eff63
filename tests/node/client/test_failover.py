"""Clients with several endpoints: some unreachable, killed, frozen, busy or without answers."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.client import AsyncClient, Client
from rota.client.errors import Conflict, TooBusy, Unreachable
from rota.wire.documents import TriggerItem
from support.rotad import Rotad
from support.stopping import stop
from support.strange_servers import (
    Strange,
    bring,
    dead,
    gateway_error,
    hang_up,
    hold_up,
    losing_answers_of,
    passing_on,
    refusing,
    serving,
    silent,
    without_chance,
)


@pytest.fixture
def other_node(tmp_path: Path) -> Iterator[Rotad]:
    """A second node for one test; not started."""
    with Rotad(tmp_path / "other", "--drain", "0s") as rotad:
        yield rotad


@pytest.fixture(autouse=True)
def _endpoints_are_asked_in_the_order_given(monkeypatch: pytest.MonkeyPatch) -> None:
    without_chance(monkeypatch)


# -- endpoints that do not answer ------------------------------------------------------------------


def test_a_dead_endpoint_is_passed_over_and_remembered(node: Rotad) -> None:
    with dead() as url, Client([url, node.url]) as client:
        version = client.version()

        assert client.urls == (url, node.url)
        assert version.node_id
        assert client.url == node.url


def test_when_the_node_is_killed_another_one_takes_over(own_node: Rotad, other_node: Rotad) -> None:
    own_node.start()
    other_node.start()
    other_node.create(name="only-there", command="true")
    with Client([own_node.url, other_node.url]) as client:
        client.version()
        assert client.url == own_node.url

        own_node.kill()

        assert client.job("only-there").name == "only-there"
        assert client.url == other_node.url


def test_a_frozen_node_is_left_for_another_and_not_asked_again(
    own_node: Rotad, node: Rotad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.client.transport.tries.SILENT_S", 0.2)
    own_node.start()
    assert own_node.process is not None
    with Client([own_node.url, node.url]) as client:
        stop(own_node.process.pid)
        try:
            client.version()
            left_for = client.url
            # With so little time, asking the frozen one first again would take half of it.
            hurried = client.within(0.3).ready()
        finally:
            own_node.process.send_signal(signal.SIGCONT)

    assert left_for == node.url
    assert hurried


@pytest.mark.timeout(20)
def test_the_deadline_holds_over_all_endpoints_and_the_error_names_them() -> None:
    with (
        silent() as one,
        silent() as two,
        Client([one, two], timeout_s=0.3) as client,
        pytest.raises(Unreachable, match="took too long") as caught,
    ):
        client.trigger("job")

    assert one in caught.value.detail
    assert two in caught.value.detail
    assert caught.value.may_have_arrived
    assert caught.value.idempotency_key


@pytest.mark.timeout(20)
def test_a_call_may_have_less_time_than_the_others() -> None:
    with (
        silent() as url,
        Client(url) as client,
        pytest.raises(Unreachable, match="took too long"),
    ):
        client.within(0.1).version()


def test_a_timeout_of_zero_is_not_unlimited() -> None:
    with silent() as url, Client(url) as client, pytest.raises(Unreachable, match="took too long"):
        client.within(0.0).version()


def test_https_to_a_node_without_tls_is_refused_with_the_scheme_to_use(node: Rotad) -> None:
    url = node.url.replace("http:", "https:")
    with (
        Client(url, repeats_max=0) as client,
        pytest.raises(Unreachable, match="http://") as caught,
    ):
        client.version()

    assert "it does not use TLS" in caught.value.detail
    assert not caught.value.may_have_arrived


def test_dead_endpoints_are_all_named() -> None:
    with (
        dead() as one,
        dead() as two,
        Client(f"{one}, {two}", repeats_max=0) as client,
        pytest.raises(Unreachable, match="Connection refused") as caught,
    ):
        client.version()

    assert one in caught.value.detail
    assert two in caught.value.detail
    assert not caught.value.may_have_arrived
    assert caught.value.idempotency_key == ""


# -- endpoints that answer something else ----------------------------------------------------------


async def test_a_busy_node_is_left_for_another(node: Rotad) -> None:
    strange = Strange(refusing(503, "3600"))

    async with serving(strange) as url, AsyncClient([url, node.url]) as client:
        await client.version()
        await client.version()

        assert client.url == node.url
    assert len(strange.asked) == 1


@pytest.mark.parametrize("failure", [gateway_error, hang_up])
async def test_a_gateway_without_a_node_is_left_for_another(node: Rotad, failure: Any) -> None:
    strange = Strange(failure)

    async with serving(strange) as url, AsyncClient([url, node.url]) as client:
        await client.version()

    assert len(strange.asked) == 1


async def test_the_error_for_busy_nodes_names_every_endpoint() -> None:
    async with (
        serving(Strange(refusing(503, "7"))) as one,
        serving(Strange(refusing(503, "5"))) as two,
        AsyncClient([one, two], repeats_max=0) as client,
    ):
        with pytest.raises(TooBusy) as caught:
            await client.version()

        assert one in caught.value.detail
        assert two in caught.value.detail
    assert caught.value.retry_after_s == 5.0


async def test_what_a_node_refuses_is_not_asked_elsewhere(node: Rotad) -> None:
    strange = Strange(refusing(409))

    async with serving(strange) as url, AsyncClient([node.url, url]) as client:
        await client.create_job({"name": "refused", "command": "true"})
        with pytest.raises(Conflict, match="refused"):
            await client.create_job({"name": "refused", "command": "false"})

    assert not strange.asked


# -- answers that are lost -------------------------------------------------------------------------


async def test_an_execution_is_made_once_though_the_answer_was_lost(node: Rotad) -> None:
    node.create(name="once", command="true")
    proxy = Strange(losing_answers_of(node.url), passing_on(node.url))

    async with serving(proxy) as url, AsyncClient(url) as client:
        made = await client.trigger("once")
        executions = [each.execution_id async for each in client.executions(job="once")]

    assert executions == [made.execution_id]


async def test_an_execution_is_made_once_though_it_was_asked_for_at_two_endpoints(
    node: Rotad,
) -> None:
    node.create(name="once-of-two", command="true")
    proxy = Strange(losing_answers_of(node.url))

    async with serving(proxy) as url, AsyncClient([url, node.url]) as client:
        made = await client.trigger("once-of-two")
        many = await client.trigger_many(["once-of-two"])
        executions = [each.execution_id async for each in client.executions(job="once-of-two")]

    assert len(proxy.asked) == 1
    assert sorted(executions) == sorted([made.execution_id, many[0].execution_id or ""])


async def test_many_executions_are_made_once_though_the_answer_was_lost(node: Rotad) -> None:
    node.create(name="many-once", command="true")
    proxy = Strange(losing_answers_of(node.url), passing_on(node.url))

    async with serving(proxy) as url, AsyncClient(url) as client:
        made = await client.trigger_many([*["many-once"] * 2, TriggerItem(job="many-once")])
        executions = [each.execution_id async for each in client.executions(job="many-once")]

    assert sorted(executions) == sorted(each.execution_id or "" for each in made)


async def test_a_deletion_with_a_lost_answer_is_reported_as_done(node: Rotad) -> None:
    node.create(name="deleted-once", command="true")
    proxy = Strange(losing_answers_of(node.url))

    async with serving(proxy) as url, AsyncClient([url, node.url]) as client:
        await client.delete_job("deleted-once")
        left = [each.name async for each in client.jobs(q="deleted-once")]

    assert left == []


async def test_a_versioned_change_with_a_lost_answer_is_reported_as_done(node: Rotad) -> None:
    node.create(name="changed-once", command="true")
    proxy = Strange(losing_answers_of(node.url))

    async with serving(proxy) as url, AsyncClient([url, node.url]) as client:
        job = await client.patch_job("changed-once", {"description": "new"}, if_version=1)

    assert (job.version, job.description) == (2, "new")


# -- copies that come late -------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["put", "delete", "pause"])
async def test_a_copy_that_comes_late_undoes_nothing(
    node: Rotad, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets no answer to its first request, repeats it at another node and continues."""
    monkeypatch.setattr("rota.client.transport.tries.SILENT_S", 0.2)
    job = {"name": f"late-{late}", "command": "true"}
    proxy = Strange(hold_up)
    if late != "put":
        node.create(**job)

    async with serving(proxy) as url, AsyncClient([url, node.url]) as client:
        match late:
            case "put":
                await client.put_job(job)
                await client.delete_job(job["name"])
            case "delete":
                await client.delete_job(job["name"])
                await client.put_job(job)
            case _:
                await client.pause_job(job["name"])
                await client.resume_job(job["name"])
        [held_up] = proxy.asked
        status = await bring(held_up, node.url)
        left = [(each.name, each.paused_at) async for each in client.jobs(q=job["name"])]

    assert status == {"put": 404, "delete": 204, "pause": 200}[late]
    assert left == ([] if late == "put" else [(job["name"], None)])
