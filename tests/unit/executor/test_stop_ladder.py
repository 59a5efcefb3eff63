"""The stop ladder: times of TERM and KILL, and the reports about them."""

from collections.abc import Callable, Coroutine

from rota.core.model.attempt import Outcome
from rota.core.model.work import Work
from rota.core.timing.instants import SECOND, Duration
from rota.executor.stop_ladder import StopLadder
from sim.loop import VirtualLoop

GRACE = Duration(10 * SECOND)


class Bench:
    """A ladder on virtual time, and the signals that it has sent, with their instants in s."""

    def __init__(self, work: Work) -> None:
        self.loop = VirtualLoop()  # type: ignore[abstract]  # the ladder asks only for timers
        self.sent: list[tuple[str, float]] = []
        self.has_ended = False
        self.is_leader_gone = False
        self.ladder = StopLadder(
            self.loop,
            work,
            has_ended=lambda: self.has_ended,
            terminate=lambda: self.sent.append(("TERM", self.loop.time())),
            kill=self._kill,
        )

    def _kill(self) -> bool:
        self.sent.append(("KILL", self.loop.time()))
        return not self.is_leader_gone

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        done = self.loop.create_future()
        self.loop.call_later(seconds, done.set_result, None)
        await done


def play(
    scenario: Callable[[Bench], Coroutine[None, None, None]], timeout: Duration = Duration(0)
) -> Bench:
    """Return the bench after *scenario* and a minute."""
    bench = Bench(Work(timeout=timeout, stop_grace=Duration(3 * SECOND)))

    async def whole() -> None:
        await scenario(bench)
        await bench.sleep(60)

    bench.loop.run(whole())
    return bench


def test_kill_follows_term_after_the_grace() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start()
        bench.ladder.stop(GRACE)

    bench = play(scenario)

    assert bench.sent == [("TERM", 0.0), ("KILL", 10.0)]
    assert bench.ladder.outcome is Outcome.CANCELLED
    assert bench.ladder.reason == "stopped on request; killed, as it had not ended 10s after TERM"


def test_nothing_is_killed_that_ends_within_the_grace() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start()
        bench.ladder.stop(GRACE)
        await bench.sleep(9)
        assert bench.ladder.is_in_grace
        bench.ladder.end()

    bench = play(scenario)

    assert bench.sent == [("TERM", 0.0)]
    assert bench.ladder.reason == "stopped on request"


def test_a_further_request_only_shortens_the_grace() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start()
        bench.ladder.stop(GRACE)
        await bench.sleep(1)
        bench.ladder.stop(Duration(2 * SECOND))
        bench.ladder.stop(Duration(20 * SECOND))

    bench = play(scenario)

    assert bench.sent == [("TERM", 0.0), ("KILL", 3.0)]
    assert bench.ladder.grace == 2 * SECOND


def test_without_a_grace_the_kill_is_not_left_to_the_next_turn_of_the_loop() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start()
        bench.ladder.stop(Duration(0))
        assert bench.ladder.was_killed

    bench = play(scenario)

    assert bench.sent == [("TERM", 0.0), ("KILL", 0.0)]
    assert bench.ladder.reason == "stopped on request; killed at once"


def test_a_request_before_the_start_takes_effect_at_the_start() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.stop(GRACE)
        bench.ladder.stop(Duration(2 * SECOND))
        bench.ladder.stop(Duration(5 * SECOND))
        await bench.sleep(1)
        bench.ladder.start()

    bench = play(scenario)

    assert bench.sent == [("TERM", 1.0), ("KILL", 3.0)]


def test_a_request_that_came_too_late_may_be_withdrawn() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.stop(GRACE)
        bench.ladder.withdraw()
        bench.ladder.start()

    bench = play(scenario)

    assert bench.sent == []
    assert bench.ladder.outcome is None


def test_the_timeout_counts_what_has_run_already() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start(elapsed=Duration(4 * SECOND))

    bench = play(scenario, timeout=Duration(5 * SECOND))

    assert bench.sent == [("TERM", 1.0), ("KILL", 4.0)]
    assert bench.ladder.outcome is Outcome.TIMED_OUT
    assert bench.ladder.reason == (
        "still running after its timeout of 5s; killed, as it had not ended 3s after TERM"
    )


def test_a_request_after_the_timeout_does_not_change_the_outcome() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start()
        await bench.sleep(6)
        bench.ladder.stop(Duration(SECOND))

    bench = play(scenario, timeout=Duration(5 * SECOND))

    assert bench.sent == [("TERM", 5.0), ("KILL", 7.0)]
    assert bench.ladder.outcome is Outcome.TIMED_OUT


def test_an_attempt_that_has_ended_keeps_its_own_outcome() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start()
        bench.has_ended = True
        bench.ladder.stop(GRACE)

    bench = play(scenario, timeout=Duration(5 * SECOND))

    assert bench.sent == []
    assert bench.ladder.outcome is None
    assert bench.ladder.reason == ""


def test_no_signal_is_sent_after_the_end() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start()
        bench.ladder.end()
        bench.ladder.stop(Duration(0))

    bench = play(scenario, timeout=Duration(5 * SECOND))

    assert bench.sent == []
    assert bench.ladder.outcome is None


def test_another_try_has_the_whole_timeout_again() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start()
        await bench.sleep(4)
        bench.ladder.end()
        bench.ladder.start()

    bench = play(scenario, timeout=Duration(5 * SECOND))

    assert bench.sent == [("TERM", 9.0), ("KILL", 12.0)]


def test_remains_of_an_attempt_that_ended_within_its_grace_are_killed_quietly() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ladder.start()
        bench.ladder.stop(GRACE)
        bench.is_leader_gone = True

    bench = play(scenario)

    assert bench.sent == [("TERM", 0.0), ("KILL", 10.0)]
    assert bench.ladder.reason == "stopped on request"
