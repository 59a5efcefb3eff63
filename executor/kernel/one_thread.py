"""A pool of one thread that is started at once.

A `ThreadPoolExecutor` starts its thread at first use. That fails if the processes of a task have
used up the threads that the user may have, just when the thread is needed to end them.
"""

from concurrent.futures import ThreadPoolExecutor


def one_thread(name: str) -> ThreadPoolExecutor:
    """Return a pool of one running thread, whose name begins with ``rota-`` and *name*.

    Raises:
        RuntimeError: No thread can be started.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix=f"rota-{name}")
    pool.submit(int).result()
    return pool
