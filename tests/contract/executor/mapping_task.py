"""A task like a database: one thread writes to a shared mapping, another starts processes.

While the file system of the mapping stands still, the environment of this process cannot be read.
"""

import ctypes
import mmap
import os
import sys
import threading
import time

PAGES = 400
PAUSE_S = 0.02


def write(address: int) -> None:
    page = 0
    while True:
        # By a call that lets go of the interpreter's lock: else the other thread would not fork.
        ctypes.CDLL(None).memset(ctypes.c_void_p(address + page * mmap.PAGESIZE), page % 256, 8)
        page = (page + 1) % PAGES
        time.sleep(PAUSE_S)


def fork() -> None:
    while True:
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
        time.sleep(PAUSE_S)


def main(path: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, PAGES * mmap.PAGESIZE)
    mapping = mmap.mmap(file, PAGES * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    threading.Thread(target=write, args=(address,), daemon=True).start()
    fork()


main(sys.argv[1])
