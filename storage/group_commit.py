"""Group commit: a thread that syncs the store whenever there are batches to sync.

While one sync runs, further batches gather, and the next sync makes all of them durable together:
the slower the disk, the larger the groups. The event loop never waits.

The two threads synchronize without a lock on the hot path:

    1. the loop writes a batch, then calls `GroupCommit.wrote`;
    2. `wrote` signals unless a signal is already pending;
    3. the flusher takes the signal, clears *pending*, and only then begins the sync.

A write that found *pending* set in (2) was written before (3) cleared it, so the sync that follows
covers it. A write that found it clear leaves a signal, which the flusher takes next.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from time import perf_counter_ns
from typing import TypeVar

from rota.storage.store import Store, StoreFailed, Ticket

_T = TypeVar("_T")

CLOSE_TIMEOUT_S = 5.0  # A sync takes milliseconds; a disk that hangs must not hold up the exit.


class GroupCommit:
    """A thread that makes the writes to a store durable, and reports to the event loop.

    The thread starts at once. All methods are called in the loop's thread.

    Args:
        store: The store; no other code may call its ``sync``.
        loop: The event loop in which *on_durable* and *on_failed* are called.
        on_durable: Called after each sync with the newest ticket that is durable now.
        on_failed: Called at most once, with the error that ended the flusher: a `StoreError`, or
            another exception because of a bug. Nothing becomes durable after that.
        on_sync: Called in the flusher's thread with the duration of each sync, in seconds.

    Attributes:
        sync_count: The number of syncs that have succeeded.
        last_sync_s: The duration of the last of these syncs, in seconds.
        durable: The newest ticket known to be durable; written by the flusher's thread.
    """

    def __init__(
        self,
        store: Store,
        *,
        loop: AbstractEventLoop,
        on_durable: Callable[[Ticket], None],
        on_failed: Callable[[Exception], None],
        on_sync: Callable[[float], None] | None = None,
    ) -> None:
        self.sync_count = 0
        self.last_sync_s = 0.0
        self.durable = Ticket(0)
        self._store = store
        self._loop = loop
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._on_sync = on_sync
        self._written = Ticket(0)
        self._is_pending = False
        self._is_closing = False
        # A SimpleQueue, because its put costs 0.1 us and its get sleeps in C; Event.set takes 1 us.
        self._signals: SimpleQueue[None] = SimpleQueue()
        # A daemon, so that a sync that never returns cannot keep the process from exiting.
        self._flusher = Thread(target=self._run, name="rota-flusher", daemon=True)
        self._flusher.start()

    def wrote(self, ticket: Ticket) -> None:
        """Request that *ticket*, the newest written, is made durable soon; costs 0.1 us."""
        self._written = ticket
        if not self._is_pending:
            self._is_pending = True
            self._signals.put(None)

    def close(self, *, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Wait for the last sync, then end the thread; idempotent.

        The result of that sync is still reported when the loop runs next.

        Raises:
            StoreFailed: The disk did not answer within *timeout_s*. The thread may still use the
                store, so the caller exits without closing the store.
        """
        self._is_closing = True
        self._signals.put(None)
        self._flusher.join(timeout_s)
        if self._flusher.is_alive():
            raise StoreFailed(
                f"the disk has not finished a sync within {timeout_s:g} s; the last writes may not "
                "be durable. Look for a failing or overloaded disk"
            )

    def _run(self) -> None:
        try:
            is_closing = False
            while not is_closing:
                self._signals.get()
                is_closing = self._is_closing  # Before the sync: all writes precede the closing.
                self._is_pending = False
                if self._written > self.durable:
                    self._sync()
        except Exception as error:
            # Not only StoreError: if a bug ended the flusher silently, every caller would wait for
            # durability for ever.
            self._call_back(self._on_failed, error)

    def _sync(self) -> None:
        # perf_counter, not a Clock: it measures the real disk, and no decision depends on it.
        began_ns = perf_counter_ns()
        self.durable = self._store.sync()
        self.last_sync_s = (perf_counter_ns() - began_ns) / 1e9
        self.sync_count += 1
        if self._on_sync:
            self._on_sync(self.last_sync_s)
        self._call_back(self._on_durable, self.durable)

    def _call_back(self, callback: Callable[[_T], None], argument: _T) -> None:
        with suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(callback, argument)
