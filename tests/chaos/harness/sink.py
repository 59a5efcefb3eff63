"""A fenced sink, to which attempts of a job write, and which refuses older tokens.

It is outside of all hosts. A datagram is ``job execution task attempt token``; it is accepted
unless its job has written with a higher token before, and what became of it is written down:

    sink.jsonl    {"at": 70.3, "job": ..., "execution": ..., "task": ..., "attempt": 1,
                   "token": ..., "accepted": true}
"""

import socket
import threading

from chaos.harness.histories import History

FAREWELL = b""
"""An empty datagram ends the sink."""


class Sink:
    """Accepts writes of attempts while the body runs.

    Args:
        address: Of the harness, as hosts reach it.
        history: Record of the writes.

    Attributes:
        address: And port.
    """

    def __init__(self, address: str, history: History) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self.address = "{}:{}".format(*self._socket.getsockname())
        self._history = history
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Sink":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.sendto(FAREWELL, self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        highest: dict[str, str] = {}
        while written := self._socket.recv(1 << 12):
            job, execution, task, attempt, token = written.decode().split()
            is_accepted = token >= highest.get(job, "")
            if is_accepted:
                highest[job] = token
            self._history.add(
                job=job,
                execution=execution,
                task=task,
                attempt=int(attempt),
                token=token,
                accepted=is_accepted,
            )
