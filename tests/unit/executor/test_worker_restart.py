"""Restarts of a worker's program, before a call that is to run changed code."""

import os
import signal
import socket

import pytest

from rota.executor.python.worker import Launch, start_again

LAUNCH = Launch({"pending": -1}, {})


def blocked_signals() -> set[signal.Signals | int]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_worker_that_was_sent_term_does_not_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def execve(path: str, argv: list[str], environment: dict[str, str]) -> None:
        del path, argv, environment
        pytest.fail("it has started again")

    monkeypatch.setattr(os, "execve", execve)
    ours, theirs = socket.socketpair()

    with ours, theirs:
        start_again(b"{}", theirs, LAUNCH, is_terminated=lambda: True)

    assert signal.SIGTERM not in blocked_signals()


def test_without_an_interpreter_a_worker_continues_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()

    def execve(path: str, argv: list[str], environment: dict[str, str]) -> None:
        del path, argv, environment
        assert theirs.get_inheritable()
        assert signal.SIGTERM in blocked_signals()
        raise FileNotFoundError

    monkeypatch.setattr(os, "execve", execve)
    with ours, theirs:
        descriptors = os.listdir("/proc/self/fd")

        start_again(b"{}", theirs, LAUNCH, is_terminated=lambda: False)

        assert not theirs.get_inheritable()
        assert os.listdir("/proc/self/fd") == descriptors
    assert signal.SIGTERM not in blocked_signals()
