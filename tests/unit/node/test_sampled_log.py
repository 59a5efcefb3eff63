"""The limit of log lines of one kind, and the count of those left out."""

import logging
from typing import cast

import pytest

from rota.core.timing.instants import SECOND, Duration, Instant
from rota.node.system.sampled_log import SampledLog

log = logging.getLogger("test.sampled_log")


class Sampled:
    """A log of two lines in 10 s, with a settable time and the facts of each written line."""

    def __init__(self, written: pytest.LogCaptureFixture) -> None:
        self.now = Instant(SECOND)
        self._written = written
        self.log = SampledLog(
            log, "request refused", now=lambda: self.now, limit=2, period=Duration(10 * SECOND)
        )

    def pass_s(self, seconds: int) -> None:
        """Let time pass."""
        self.now = Instant(self.now + seconds * SECOND)

    @property
    def lines(self) -> list[tuple[str, int | None, int | None]]:
        """Event, number and count of omitted lines, for each line."""
        return [
            (each.getMessage(), _fact(each, "number"), _fact(each, "suppressed"))
            for each in self._written.records
        ]


def _fact(record: logging.LogRecord, name: str) -> int | None:
    return cast("int | None", vars(record).get(name))


@pytest.fixture
def sampled(caplog: pytest.LogCaptureFixture) -> Sampled:
    """A log of two lines in 10 s."""
    return Sampled(caplog)


def test_lines_beyond_the_limit_of_a_period_are_left_out(sampled: Sampled) -> None:
    written = [sampled.log.write(number=number) for number in range(5)]

    assert written == [True, True, False, False, False]
    assert sampled.lines == [("request refused", 0, None), ("request refused", 1, None)]


def test_the_first_line_of_the_next_period_has_the_count_of_those_left_out(
    sampled: Sampled,
) -> None:
    for number in range(5):
        sampled.log.write(number=number)

    sampled.pass_s(10)
    for number in (5, 6):
        sampled.log.write(number=number)

    assert sampled.lines[2:] == [("request refused", 5, 3), ("request refused", 6, None)]


def test_a_report_after_the_period_has_the_count_once(sampled: Sampled) -> None:
    for number in range(5):
        sampled.log.write(number=number)

    sampled.log.report()
    early = len(sampled.lines)
    sampled.pass_s(10)
    sampled.log.report()
    sampled.log.report()

    assert early == 2
    assert sampled.lines[2:] == [("request refused", None, 3)]


def test_an_event_that_comes_now_and_then_is_never_left_out(sampled: Sampled) -> None:
    for number in range(6):
        sampled.log.write(number=number)
        sampled.pass_s(5)

    assert sampled.lines == [("request refused", number, None) for number in range(6)]
