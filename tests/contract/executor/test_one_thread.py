"""Pools of one thread: what needs them works where no further thread can be started."""

from threading import Thread, current_thread

import pytest

from rota.executor.kernel.one_thread import one_thread


def test_its_thread_runs_before_the_first_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: Thread) -> None:
        raise RuntimeError(f"can't start {thread.name}")

    pool = one_thread("tester")
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", refuse)
        thread = pool.submit(current_thread).result(10)
    pool.shutdown()

    assert thread.name.startswith("rota-tester")
