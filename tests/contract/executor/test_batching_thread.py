"""A thread that gets together what a turn of the loop has for it: order, errors, hanging work."""

import asyncio
import threading
from collections.abc import Coroutine
from functools import partial

import pytest

from contract.executor.executor_host import LIMIT_S, LOOPS, wait_until
from rota.executor.process.batching_thread import PART, BatchingThread


class Heard:
    """What came back to the loop, and in which thread."""

    def __init__(self) -> None:
        self.results: list[int] = []
        self.threads: set[int] = set()

    def take(self, result: int) -> None:
        """Take a result."""
        self.results.append(result)
        self.threads.add(threading.get_ident())

    async def wait_for(self, *results: int) -> None:
        """Wait until exactly these have come."""
        await wait_until(lambda: self.results == list(results))


@pytest.fixture(params=LOOPS)
def loop_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(loop_name: str, scenario: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(scenario)


def test_results_come_on_the_loop_in_the_order_of_the_questions(loop_name: str) -> None:
    async def scenario() -> None:
        together, heard = BatchingThread("test"), Heard()
        numbers = range(2 * PART + 1)

        for number in numbers:
            together.ask(partial(int, number), heard.take)
        await heard.wait_for(*numbers)

        assert heard.threads == {threading.get_ident()}
        together.close()

    run(loop_name, scenario())


def test_work_is_done_in_one_other_thread(loop_name: str) -> None:
    async def scenario() -> None:
        together, heard = BatchingThread("test"), Heard()

        together.ask(threading.get_ident, heard.take)
        together.ask(threading.get_ident, heard.take)
        await wait_until(lambda: len(heard.results) == 2)

        assert heard.results[0] == heard.results[1] != threading.get_ident()
        together.close()

    run(loop_name, scenario())


def test_work_that_hangs_holds_up_no_result_from_before_it(loop_name: str) -> None:
    async def scenario() -> None:
        together, heard, may_go_on = BatchingThread("test"), Heard(), threading.Event()

        together.ask(partial(int, 1), heard.take)
        together.ask(may_go_on.wait, heard.take)
        try:
            await heard.wait_for(1)
        finally:
            may_go_on.set()

        await heard.wait_for(1, True)
        together.close()

    run(loop_name, scenario())


def test_what_work_raises_is_raised_on_the_loop_and_the_rest_is_done(loop_name: str) -> None:
    async def scenario() -> None:
        together, heard, errors = BatchingThread("test"), Heard(), list[object]()
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(context.get("exception"))
        )

        together.ask(partial(int, "x"), heard.take)
        together.ask(partial(int, 2), heard.take)
        await heard.wait_for(2)

        assert [type(error) for error in errors] == [ValueError]
        together.close()

    run(loop_name, scenario())


def test_nothing_is_begun_after_close(loop_name: str) -> None:
    async def scenario() -> None:
        together, heard, errors = BatchingThread("test"), Heard(), list[object]()
        began, may_go_on = threading.Event(), threading.Event()
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(context.get("exception"))
        )

        def work() -> bool:
            began.set()
            return may_go_on.wait()

        together.ask(work, heard.take)
        await asyncio.to_thread(began.wait, LIMIT_S)
        together.ask(partial(int, 2), heard.take)
        together.close()
        may_go_on.set()
        await heard.wait_for(True)
        await wait_until(
            lambda: not any("rota-test" in each.name for each in threading.enumerate())
        )

        assert heard.results == [True]
        assert errors == []

    run(loop_name, scenario())
