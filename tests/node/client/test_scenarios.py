"""Common uses of rota with `Client`, with `AsyncClient` and with the ``rota`` command.

Each has an adapter, a `Way`; the scenarios are the same for all. The adapter of the command
maps its exit statuses to the errors of the clients.
"""
# ruff: noqa: D102 - the names of the methods explain them

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import pytest

from rota.client import AsyncClient, Client
from rota.client.errors import Conflict, Invalid, NotFound, RequestFailed, Unreachable
from rota.wire.documents import (
    ExecutionView,
    JobView,
    LedgerEntryView,
    NextFireView,
    ProblemView,
    TriggeredView,
)
from support.rota_program import Rota, until
from support.rotad import Rotad
from support.strange_servers import dead

T = TypeVar("T")
Fields = dict[str, object]
WAIT_S = 20.0


class Way(Protocol):
    """A way to talk to a node; every job is named with its namespace."""

    def create(self, job: Fields) -> JobView: ...
    def replace(self, job: Fields) -> JobView: ...
    def show(self, job: str) -> JobView: ...
    def jobs(self, namespace: str, **filters: str) -> list[JobView]: ...
    def pause(self, job: str, reason: str) -> None: ...
    def resume(self, job: str) -> None: ...
    def delete(self, job: str) -> None: ...
    def next_fires(self, job: str, count: int) -> list[NextFireView]: ...
    def ledger(self, job: str, *, newest_first: bool = False) -> list[LedgerEntryView]: ...
    def trigger(self, job: str, key: str | None = None) -> str: ...
    def wait(self, execution_id: str) -> ExecutionView: ...
    def cancel(self, execution_id: str) -> None: ...
    def executions(self, job: str) -> list[ExecutionView]: ...
    def output(self, execution_id: str, *, attempt: int | None = None) -> bytes: ...
    def followed_output(self, execution_id: str) -> bytes: ...


class ByClient:
    """The blocking client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def create(self, job: Fields) -> JobView:
        return self.client.create_job(job)

    def replace(self, job: Fields) -> JobView:
        return self.client.put_job(job)

    def show(self, job: str) -> JobView:
        return self.client.job(job)

    def jobs(self, namespace: str, **filters: str) -> list[JobView]:
        return list(self.client.jobs(namespace=namespace, **_filters(filters)))

    def pause(self, job: str, reason: str) -> None:
        self.client.pause_job(job, reason=reason)

    def resume(self, job: str) -> None:
        self.client.resume_job(job)

    def delete(self, job: str) -> None:
        self.client.delete_job(job)

    def next_fires(self, job: str, count: int) -> list[NextFireView]:
        return self.client.next_fires(job, count=count)

    def ledger(self, job: str, *, newest_first: bool = False) -> list[LedgerEntryView]:
        return list(self.client.ledger(job, newest_first=newest_first))

    def trigger(self, job: str, key: str | None = None) -> str:
        return self.client.trigger(job, idempotency_key=key).execution_id

    def wait(self, execution_id: str) -> ExecutionView:
        return self.client.wait(execution_id, timeout_s=WAIT_S)

    def cancel(self, execution_id: str) -> None:
        self.client.cancel(execution_id)

    def executions(self, job: str) -> list[ExecutionView]:
        return list(self.client.executions(job=job))

    def output(self, execution_id: str, *, attempt: int | None = None) -> bytes:
        return self.client.output(execution_id, attempt=attempt)

    def followed_output(self, execution_id: str) -> bytes:
        return b"".join(self.client.output(execution_id, follow=True))


class ByAsyncClient:
    """The client for event loops."""

    def __init__(self, client: AsyncClient, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.client = client
        self._run = run  # Any: it returns what the coroutine does

    def create(self, job: Fields) -> JobView:
        return self._of(self.client.create_job(job))

    def replace(self, job: Fields) -> JobView:
        return self._of(self.client.put_job(job))

    def show(self, job: str) -> JobView:
        return self._of(self.client.job(job))

    def jobs(self, namespace: str, **filters: str) -> list[JobView]:
        return self._all(self.client.jobs(namespace=namespace, **_filters(filters)))

    def pause(self, job: str, reason: str) -> None:
        self._of(self.client.pause_job(job, reason=reason))

    def resume(self, job: str) -> None:
        self._of(self.client.resume_job(job))

    def delete(self, job: str) -> None:
        self._of(self.client.delete_job(job))

    def next_fires(self, job: str, count: int) -> list[NextFireView]:
        return self._of(self.client.next_fires(job, count=count))

    def ledger(self, job: str, *, newest_first: bool = False) -> list[LedgerEntryView]:
        return self._all(self.client.ledger(job, newest_first=newest_first))

    def trigger(self, job: str, key: str | None = None) -> str:
        return self._of(self.client.trigger(job, idempotency_key=key)).execution_id

    def wait(self, execution_id: str) -> ExecutionView:
        return self._of(self.client.wait(execution_id, timeout_s=WAIT_S))

    def cancel(self, execution_id: str) -> None:
        self._of(self.client.cancel(execution_id))

    def executions(self, job: str) -> list[ExecutionView]:
        return self._all(self.client.executions(job=job))

    def output(self, execution_id: str, *, attempt: int | None = None) -> bytes:
        return self._of(self.client.output(execution_id, attempt=attempt))

    def followed_output(self, execution_id: str) -> bytes:
        return b"".join(self._all(self.client.output(execution_id, follow=True)))

    def _of(self, result: Awaitable[T]) -> T:
        async def wait() -> T:
            return await result

        return self._run(wait())  # type: ignore[no-any-return]  # see above

    def _all(self, items: AsyncIterator[T]) -> list[T]:
        async def collect() -> list[T]:
            return [item async for item in items]

        return self._run(collect())  # type: ignore[no-any-return]  # see above


class ByCommand:
    """The command line."""

    def __init__(self, rota: Rota, directory: Path) -> None:
        self._rota = rota
        self._file = directory / "job.json"

    def create(self, job: Fields) -> JobView:
        return self._one(JobView, "jobs", "create", "-f", self._written(job))

    def replace(self, job: Fields) -> JobView:
        return self._one(JobView, "jobs", "apply", "-f", self._written(job))

    def show(self, job: str) -> JobView:
        return self._one(JobView, "jobs", "show", job)

    def jobs(self, namespace: str, **filters: str) -> list[JobView]:
        flags = [text for name, value in filters.items() for text in (f"--{name}", value)]
        return self._many(JobView, "jobs", "list", "-n", namespace, *flags)

    def pause(self, job: str, reason: str) -> None:
        self._run("jobs", "pause", job, "--reason", reason)

    def resume(self, job: str) -> None:
        self._run("jobs", "resume", job)

    def delete(self, job: str) -> None:
        self._run("jobs", "delete", job)

    def next_fires(self, job: str, count: int) -> list[NextFireView]:
        return self._many(NextFireView, "next", job, "--count", str(count))

    def ledger(self, job: str, *, newest_first: bool = False) -> list[LedgerEntryView]:
        flags = ["--reverse"] if newest_first else []
        return self._many(LedgerEntryView, "ledger", job, *flags)

    def trigger(self, job: str, key: str | None = None) -> str:
        flags = [] if key is None else ["--idempotency-key", key]
        return self._one(TriggeredView, "trigger", job, *flags).execution_id

    def wait(self, execution_id: str) -> ExecutionView:
        self._run("executions", "wait", execution_id, "--timeout", f"{WAIT_S:g}", also=1)
        return self._one(ExecutionView, "executions", "show", execution_id)

    def cancel(self, execution_id: str) -> None:
        self._run("executions", "cancel", execution_id)

    def executions(self, job: str) -> list[ExecutionView]:
        return self._many(ExecutionView, "executions", "list", job)

    def output(self, execution_id: str, *, attempt: int | None = None) -> bytes:
        flags = [] if attempt is None else ["--attempt", str(attempt)]
        return self._run("output", execution_id, "main", *flags).encode()

    def followed_output(self, execution_id: str) -> bytes:
        return self._run("output", execution_id, "main", "--follow").encode()

    def _written(self, job: Fields) -> str:
        self._file.write_text(json.dumps(job))
        return str(self._file)

    def _one(self, kind: type[T], *argv: str) -> T:
        return msgspec.json.decode(self._run(*argv, "-o", "jsonl"), type=kind)

    def _many(self, kind: type[T], *argv: str) -> list[T]:
        return msgspec.json.decode(self._run(*argv, "-o", "json"), type=list[kind])  # type: ignore[valid-type]  # decoded, not checked

    def _run(self, *argv: str, also: int = 0) -> str:
        ran = self._rota(*argv)
        if ran.status in FAILURES:
            raise FAILURES[ran.status](ran.err)
        assert ran.status in (0, also), ran.err
        return ran.out


def _refused(kind: type[RequestFailed], said: str) -> RequestFailed:
    return kind(ProblemView(type="", title="", status=0, code="", detail=said))


FAILURES: dict[int, Callable[[str], RequestFailed]] = {
    3: lambda said: _refused(NotFound, said),
    5: lambda said: _refused(Conflict, said),
    6: lambda said: Unreachable(said, may_have_arrived=False),
    9: lambda said: _refused(Invalid, said),
}


def _filters(given: dict[str, str]) -> dict[str, Any]:  # Any: of several types
    """Return filters as the clients take them: a label is ``KEY=VALUE``."""
    others: dict[str, Any] = {name: value for name, value in given.items() if name != "label"}
    label, _, value = given.get("label", "").partition("=")
    return {**others, "labels": {label: value}} if label else others


@contextmanager
def by_client(url: str, request: pytest.FixtureRequest) -> Generator[Way]:
    del request
    with Client(url, repeats_max=1) as client:
        yield ByClient(client)


@contextmanager
def by_async_client(url: str, request: pytest.FixtureRequest) -> Generator[Way]:
    del request
    with asyncio.Runner() as runner:
        client = AsyncClient(url, repeats_max=1)
        yield ByAsyncClient(client, runner.run)
        runner.run(client.close())


@contextmanager
def by_command(url: str, request: pytest.FixtureRequest) -> Generator[Way]:
    rota: Rota = request.getfixturevalue("rota_alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROTA_URL", url)
        yield ByCommand(rota, request.getfixturevalue("tmp_path"))


WAYS = {"Client": by_client, "AsyncClient": by_async_client, "rota": by_command}


@pytest.fixture(params=WAYS)
def name(request: pytest.FixtureRequest) -> str:
    """The name of a way, which is also a namespace of its own."""
    return str(request.param)


@pytest.fixture
def way(name: str, node: Rotad, request: pytest.FixtureRequest) -> Iterator[Way]:
    """Each way to talk to the node."""
    with WAYS[name](node.url, request) as way:
        yield way


# -- jobs ------------------------------------------------------------------------------------------


def test_a_job_is_created_once(way: Way, name: str) -> None:
    job: Fields = {"name": "made", "namespace": name, "schedule": "@daily", "command": "true"}

    made, again = way.create(job), way.create(job)

    assert again.job_id == made.job_id
    assert way.show(f"{name}/made").schedules[0].schedule == "@daily"


def test_another_job_of_the_same_name_is_a_conflict(way: Way, name: str) -> None:
    way.create({"name": "taken", "namespace": name, "command": "true"})

    with pytest.raises(Conflict, match="taken"):
        way.create({"name": "taken", "namespace": name, "command": "false"})


def test_a_job_is_replaced_by_its_next_version(way: Way, name: str) -> None:
    way.create({"name": "next", "namespace": name, "command": "true"})

    second = way.replace({"name": "next", "namespace": name, "command": "echo second"})
    same = way.replace({"name": "next", "namespace": name, "command": "echo second"})

    assert (second.version, same.version) == (2, 2)
    assert way.output(way.wait(way.trigger(f"{name}/next")).execution_id) == b"second\n"


def test_jobs_are_listed_with_filters(way: Way, name: str) -> None:
    namespace = f"list-{name}"
    for job in ("a", "b", "c"):
        labels = {"kind": "last" if job == "c" else "first"}
        way.create({"name": job, "namespace": namespace, "command": "true", "labels": labels})
    way.pause(f"{namespace}/b", "")

    assert [job.name for job in way.jobs(namespace)] == ["a", "b", "c"]
    assert [job.name for job in way.jobs(namespace, label="kind=first")] == ["a", "b"]
    assert [job.name for job in way.jobs(namespace, status="paused")] == ["b"]
    assert way.jobs(f"no-{name}") == []


def test_a_job_is_paused_and_resumed(way: Way, name: str) -> None:
    way.create({"name": "held", "namespace": name, "schedule": "@hourly", "command": "true"})

    way.pause(f"{name}/held", "moving house")
    paused = way.show(f"{name}/held")
    way.resume(f"{name}/held")
    resumed = way.show(f"{name}/held")

    assert (paused.status, paused.pause_reason) == ("paused", "moving house")
    assert (resumed.status, resumed.paused_at) == ("scheduled", None)


def test_coming_fire_times_are_listed(way: Way, name: str) -> None:
    way.create({"name": "coming", "namespace": name, "schedule": "0 6 * * *", "command": "true"})

    fires = way.next_fires(f"{name}/coming", 3)

    assert [fire.at[10:16] for fire in fires] == ["T06:00"] * 3


def test_the_ledger_has_the_outcomes_of_fire_times(way: Way, name: str) -> None:
    job = way.create(
        {"name": "ticking", "namespace": name, "schedule": "@every 1s", "command": "true"}
    )
    until(lambda: len(way.ledger(f"{name}/ticking")) >= 2)
    way.delete(f"{name}/ticking")

    entries = way.ledger(job.job_id)
    newest = way.ledger(job.job_id, newest_first=True)

    assert {entry.outcome for entry in entries} == {"fired"}
    assert [entry.fire_time for entry in entries] == [entry.fire_time for entry in newest][::-1]
    assert {entry.execution_id for entry in entries} == {
        each.execution_id for each in way.executions(job.job_id)
    }


def test_a_deleted_job_is_gone(way: Way, name: str) -> None:
    way.create({"name": "gone", "namespace": name, "command": "true"})

    way.delete(f"{name}/gone")

    with pytest.raises(NotFound, match="gone"):
        way.show(f"{name}/gone")
    with pytest.raises(NotFound, match="gone"):
        way.delete(f"{name}/gone")


# -- executions ------------------------------------------------------------------------------------


def test_a_trigger_with_the_same_key_makes_one_execution(way: Way, name: str) -> None:
    way.create({"name": "keyed", "namespace": name, "command": "true"})

    first, second = way.trigger(f"{name}/keyed", "k"), way.trigger(f"{name}/keyed", "k")
    other = way.trigger(f"{name}/keyed")

    assert first == second != other
    assert {each.execution_id for each in way.executions(f"{name}/keyed")} == {first, other}


def test_an_execution_succeeds(way: Way, name: str) -> None:
    way.create({"name": "good", "namespace": name, "command": "echo well; echo done"})

    execution = way.wait(way.trigger(f"{name}/good"))

    assert (execution.status, execution.progress) == ("success", 100)
    assert way.output(execution.execution_id) == b"well\ndone\n"
    assert way.followed_output(execution.execution_id) == b"well\ndone\n"


def test_a_failed_execution_has_exit_code_and_output(way: Way, name: str) -> None:
    way.create({"name": "bad", "namespace": name, "command": "echo sorry; exit 3"})

    execution = way.wait(way.trigger(f"{name}/bad"))

    assert execution.status == "failed"
    [attempt] = (execution.tasks or {})["main"].attempts
    assert (attempt.outcome, attempt.exit_code) == ("failed", 3)
    assert way.output(execution.execution_id) == b"sorry\n"


def test_retries_are_seen_as_attempts(way: Way, name: str) -> None:
    retries = {"limit": 1, "backoff": "fixed", "delay": "10ms"}
    command = 'echo "try $ROTA_ATTEMPT"; test "$ROTA_ATTEMPT" = 2'
    way.create({"name": "again", "namespace": name, "command": command, "retries": retries})

    execution = way.wait(way.trigger(f"{name}/again"))

    attempts = (execution.tasks or {})["main"].attempts
    assert [attempt.outcome for attempt in attempts] == ["failed", "success"]
    assert way.output(execution.execution_id, attempt=1) == b"try 1\n"
    assert way.output(execution.execution_id) == b"try 2\n"


def test_an_execution_is_cancelled(way: Way, name: str) -> None:
    way.create({"name": "long", "namespace": name, "command": "sleep 60"})
    execution_id = way.trigger(f"{name}/long")

    way.cancel(execution_id)

    assert way.wait(execution_id).status == "cancelled"


# -- refused requests ------------------------------------------------------------------------------


def test_what_is_not_there_is_not_found(way: Way, name: str) -> None:
    for ask in (way.show, way.trigger, way.ledger):
        with pytest.raises(NotFound, match="absent"):
            ask(f"{name}/absent")
    with pytest.raises(NotFound, match="0000"):
        way.output("0000")


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"schedule": "61 * * * *", "command": "true"}, "/schedule"),
        ({"command": "true", "retires": 3}, "/retires"),
        ({}, "command"),
    ],
)
def test_errors_of_an_invalid_job_are_reported(
    way: Way, name: str, wrong: Fields, where: str
) -> None:
    with pytest.raises(Invalid) as caught:
        way.create({"name": "wrong", "namespace": name, **wrong})

    texts = [caught.value.detail, *(error.pointer for error in caught.value.errors)]
    assert any(where in text for text in texts), texts


def test_an_unreachable_node_is_reported_with_its_address(
    name: str, request: pytest.FixtureRequest
) -> None:
    with dead() as url, WAYS[name](url, request) as way, pytest.raises(Unreachable, match=url):
        way.show("job")
