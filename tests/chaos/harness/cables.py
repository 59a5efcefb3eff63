"""A cable that is slow: a program that carries frames between a host's cable and the switch.

Kernels can delay packets (netem), and many are built without; so it is done here. The host's cable
is unplugged from the switch and goes to a small switch of its own, and between the two the program
copies what it reads from one tap to the other, each frame after a time that is drawn: so they are
late, and overtake each other.

    eth0 --- to-n1 --- slow-n1 --- in-n1 =program= out-n1 --- switch

As a program: ``cables.py IN OUT LEAST_S MOST_S``, with names of taps.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time
from itertools import count

FRAME = 1 << 16
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
"""linux/if_tun.h"""


class SlowCable:
    """A cable made slow, until `end`.

    Args:
        cable: Its end at the switch.
        switch: The switch.
        least_s: That a frame is late by.
        most_s: Likewise.
    """

    def __init__(self, cable: str, switch: str, least_s: float, most_s: float) -> None:
        name = cable.removeprefix("to-")
        self._cable, self._switch, self._own = cable, switch, f"slow-{name}"
        self._taps = f"in-{name}", f"out-{name}"
        run("ip", "link", "add", self._own, "type", "bridge")
        for tap, plugged in zip(self._taps, (self._own, switch), strict=True):
            run("ip", "tuntap", "add", tap, "mode", "tap")
            run("ip", "link", "set", tap, "master", plugged, "up")
        run("ip", "link", "set", self._own, "up")
        argv = [sys.executable, "-S", "-E", __file__, *self._taps, f"{least_s}", f"{most_s}"]
        self._program = subprocess.Popen(argv)
        run("ip", "link", "set", cable, "master", self._own)

    def end(self) -> None:
        """Plug the cable into the switch again."""
        run("ip", "link", "set", self._cable, "master", self._switch)
        self._program.kill()
        self._program.wait()
        for name in (*self._taps, self._own):
            run("ip", "link", "del", name)


def run(*argv: str) -> None:
    """Run a program that has to succeed."""
    ran = subprocess.run(argv, capture_output=True)
    assert ran.returncode == 0, f"{' '.join(argv)}: {ran.stderr.decode()}"


def carry(taps: tuple[int, int], least_s: float, most_s: float) -> None:
    """Copy frames both ways for ever, each when its time has come."""
    late: list[tuple[float, int, int, bytes]] = []
    numbers = count()
    while True:
        timeout_s = max(0.0, late[0][0] - time.monotonic()) if late else None
        for source in select.select(taps, [], [], timeout_s)[0]:
            target = taps[1] if source == taps[0] else taps[0]
            due = time.monotonic() + random.uniform(least_s, most_s)
            heapq.heappush(late, (due, next(numbers), target, os.read(source, FRAME)))
        while late and late[0][0] <= time.monotonic():
            _, _, target, frame = heapq.heappop(late)
            os.write(target, frame)


def open_tap(name: str) -> int:
    """Return a tap that is there as a file, from which each read is a frame."""
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return file


if __name__ == "__main__":
    carry((open_tap(sys.argv[1]), open_tap(sys.argv[2])), float(sys.argv[3]), float(sys.argv[4]))
