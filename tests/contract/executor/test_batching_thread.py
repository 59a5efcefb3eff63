"""A thread that does the work of a turn of the loop in batches: order, errors, hanging work."""

import asyncio
import threading
from collections.abc import Coroutine
from functools import partial

import pytest

from contract.executor.executor_host import LIMIT_S, LOOPS, wait_until
from rota.executor.process.batching_thread import HANGING_MAX, LOOK_S, PART, BatchingThread


class Results:
    """The results that reached the loop, and the threads of their callbacks."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.threads: set[int] = set()

    def take(self, result: int) -> None:
        """Record a result."""
        self.values.append(result)
        self.threads.add(threading.get_ident())

    async def wait_for(self, *results: int) -> None:
        """Wait until exactly *results* have been recorded."""
        await wait_until(lambda: self.values == list(results))


@pytest.fixture(params=LOOPS)
def loop_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(loop_name: str, scenario: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(scenario)


def test_results_arrive_on_the_loop_in_the_order_of_the_requests(loop_name: str) -> None:
    async def scenario() -> None:
        batching, results = BatchingThread("test"), Results()
        numbers = range(2 * PART + 1)

        for number in numbers:
            batching.ask(partial(int, number), results.take)
        await results.wait_for(*numbers)

        assert results.threads == {threading.get_ident()}
        batching.close()

    run(loop_name, scenario())


def test_work_is_done_in_one_other_thread(loop_name: str) -> None:
    async def scenario() -> None:
        batching, results = BatchingThread("test"), Results()

        batching.ask(threading.get_ident, results.take)
        batching.ask(threading.get_ident, results.take)
        await wait_until(lambda: len(results.values) == 2)

        assert results.values[0] == results.values[1] != threading.get_ident()
        batching.close()

    run(loop_name, scenario())


def test_work_that_hangs_delays_no_earlier_result(loop_name: str) -> None:
    async def scenario() -> None:
        batching, results, may_continue = BatchingThread("test"), Results(), threading.Event()

        batching.ask(partial(int, 1), results.take)
        batching.ask(may_continue.wait, results.take)
        try:
            await results.wait_for(1)
        finally:
            may_continue.set()

        await results.wait_for(1, True)
        batching.close()

    run(loop_name, scenario())


def test_work_that_hangs_delays_later_work_for_a_limited_time(loop_name: str) -> None:
    async def scenario() -> None:
        batching, results = BatchingThread("test", hangs_s=0.05), Results()
        may_continue = threading.Event()

        batching.ask(may_continue.wait, results.take)
        batching.ask(partial(int, 2), results.take)
        batching.ask(partial(int, 3), results.take)
        try:
            await results.wait_for(2, 3)
        finally:
            may_continue.set()

        await results.wait_for(2, 3, True)
        batching.ask(partial(int, 4), results.take)
        await results.wait_for(2, 3, True, 4)
        batching.close()

    run(loop_name, scenario())


def test_no_more_threads_hang_than_a_few(loop_name: str) -> None:
    async def scenario() -> None:
        batching, results = BatchingThread("test", hangs_s=0.0), Results()
        may_continue = threading.Event()
        for _ in range(HANGING_MAX + 3):
            batching.ask(may_continue.wait, results.take)
        await wait_until(lambda: len(threads_of_test()) == HANGING_MAX + 1)

        await asyncio.sleep(5 * LOOK_S)  # A look in which no other thread may be started.

        assert len(threads_of_test()) == HANGING_MAX + 1
        may_continue.set()
        await results.wait_for(*[True] * (HANGING_MAX + 3))
        batching.close()

    run(loop_name, scenario())


def threads_of_test() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if "rota-test" in each.name]


def test_an_exception_is_raised_on_the_loop_and_other_work_is_done(loop_name: str) -> None:
    async def scenario() -> None:
        batching, results, errors = BatchingThread("test"), Results(), list[object]()
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(context.get("exception"))
        )

        batching.ask(partial(int, "x"), results.take)
        batching.ask(partial(int, 2), results.take)
        await results.wait_for(2)

        assert [type(error) for error in errors] == [ValueError]
        batching.close()

    run(loop_name, scenario())


def test_nothing_is_begun_after_close(loop_name: str) -> None:
    async def scenario() -> None:
        batching, results, errors = BatchingThread("test"), Results(), list[object]()
        began, may_continue = threading.Event(), threading.Event()
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(context.get("exception"))
        )

        def work() -> bool:
            began.set()
            return may_continue.wait()

        batching.ask(work, results.take)
        await asyncio.to_thread(began.wait, LIMIT_S)
        batching.ask(partial(int, 2), results.take)
        batching.close()
        may_continue.set()
        await results.wait_for(True)
        await wait_until(lambda: not threads_of_test())

        assert results.values == [True]
        assert errors == []

    run(loop_name, scenario())
