"""Threads, event loops and interrupts of `Client`."""

import asyncio
import gc
import signal
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from types import FrameType

import pytest

from rota.client import Client
from rota.client.errors import (
    NotFound,
)
from rota.wire.documents import (
    EventView,
)

WAIT_S = 20.0


def client_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "rota-client"}


def test_a_closed_client_leaves_no_thread(url: str) -> None:
    before = client_threads()

    with Client(url) as client:
        client.version()
        assert client_threads() - before

    assert client_threads() == before


def test_an_unreferenced_client_leaves_no_thread(url: str) -> None:
    before = client_threads()
    client = Client(url)
    client.version()

    del client
    gc.collect()

    assert client_threads() == before


def test_an_unreferenced_client_after_an_error_leaves_no_thread(url: str) -> None:
    before = client_threads()
    client = Client(url)
    with pytest.raises(NotFound):
        client.job("absent")

    del client
    gc.collect()

    assert client_threads() == before


async def test_a_blocking_client_works_under_a_running_loop(url: str) -> None:
    with Client(url) as client:
        assert client.ready()


def test_threads_share_a_client(client: Client) -> None:
    names: list[str] = []
    threads = [
        threading.Thread(target=lambda: names.append(client.version().node_id)) for _ in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert len(names) == 8


def test_calls_of_a_closed_client_are_refused(url: str) -> None:
    client = Client(url)
    client.close()

    with pytest.raises(RuntimeError, match="the client is closed"):
        client.version()


def test_a_list_is_not_cut_short_when_the_client_is_closed(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.client.paging.PAGE", 2)
    for number in range(3):
        client.create_job({"name": f"c{number}", "namespace": "closed", "command": "true"})
    own = Client(url)
    jobs = own.jobs(namespace="closed")
    next(jobs)

    own.close()

    assert next(jobs).name == "c1"
    with pytest.raises(RuntimeError, match="the client is closed"):
        next(jobs)


def test_a_client_with_another_timeout_keeps_the_first_alive(url: str) -> None:
    before = client_threads()
    near = Client(url).within(5.0)
    gc.collect()

    assert near.ready()

    near.close()
    assert client_threads() == before


@contextmanager
def interrupted() -> Generator[None]:
    """Raise `KeyboardInterrupt` in the main thread after 0.2 s."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.get_ident()
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_an_interrupted_wait_leaves_the_client_usable(client: Client) -> None:
    client.create_job({"name": "interrupted", "command": "sleep 60"})
    execution_id = client.trigger("interrupted").execution_id

    with pytest.raises(KeyboardInterrupt), interrupted():
        client.wait(execution_id)

    assert client.cancel(execution_id).execution_id == execution_id


def test_an_interrupted_iterator_is_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    has_left = threading.Event()

    async def slow_to_leave(*stream: object) -> AsyncGenerator[EventView, None]:
        del stream
        try:
            await asyncio.Event().wait()
            yield pytest.fail("nothing comes")
        finally:
            await asyncio.sleep(0.1)
            has_left.set()

    monkeypatch.setattr("rota.client.streams.streams.follow_events", slow_to_leave)

    with pytest.raises(KeyboardInterrupt), interrupted():
        next(client.events())

    assert has_left.is_set()
