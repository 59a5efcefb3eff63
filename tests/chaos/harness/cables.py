"""A slow cable: a program that carries frames between a host's cable and the switch.

Kernels can delay packets (netem), and many are built without; so it is done here. The host's cable
is unplugged from the switch and goes to a small switch of its own, and between the two the program
copies what it reads from one tap to the other, each frame after a time that is drawn: so they are
late, and overtake each other.

    eth0 --- to-n1 --- slow-n1 --- in-n1 =program= out-n1 --- switch

As a program: ``cables.py IN OUT LEAST_S MOST_S LEAST_S MOST_S``, with names of taps, and how late
is what comes from the host, and what goes to it.
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

Delay = tuple[float, float]
FRAME = 1 << 16
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
"""linux/if_tun.h"""


class SlowCable:
    """A cable made slow, until `end`.

    Args:
        cable: Its end at the switch.
        switch: The switch.
        out: Range of the delay of a frame from the host, in seconds.
        back: Likewise, of a frame to the host.
    """

    def __init__(self, cable: str, switch: str, out: Delay, back: Delay) -> None:
        name = cable.removeprefix("to-")
        self._cable, self._switch, self._own = cable, switch, f"slow-{name}"
        self._taps = f"in-{name}", f"out-{name}"
        run("ip", "link", "add", self._own, "type", "bridge")
        for tap, plugged in zip(self._taps, (self._own, switch), strict=True):
            run("ip", "tuntap", "add", tap, "mode", "tap")
            run("ip", "link", "set", tap, "master", plugged, "up")
        run("ip", "link", "set", self._own, "up")
        argv = [sys.executable, "-S", "-E", __file__, *self._taps, *map(str, out + back)]
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


def carry(taps: tuple[int, int], out: Delay, back: Delay) -> None:
    """Copy frames both ways, each after its delay, until the program is killed."""
    late: list[tuple[float, int, int, bytes]] = []
    numbers = count()
    while True:
        timeout_s = max(0.0, late[0][0] - time.monotonic()) if late else None
        for source in select.select(taps, [], [], timeout_s)[0]:
            target, delay = (taps[1], out) if source == taps[0] else (taps[0], back)
            due = time.monotonic() + random.uniform(*delay)
            heapq.heappush(late, (due, next(numbers), target, os.read(source, FRAME)))
        while late and late[0][0] <= time.monotonic():
            _, _, target, frame = heapq.heappop(late)
            os.write(target, frame)


def open_tap(name: str) -> int:
    """Return a tap device as a file; each read returns one frame."""
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return file


if __name__ == "__main__":
    one, two, three, four = map(float, sys.argv[3:])
    carry((open_tap(sys.argv[1]), open_tap(sys.argv[2])), (one, two), (three, four))
