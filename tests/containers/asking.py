"""Continuous requests to a cluster through the default client.

Run in the network of a container engine, with the arguments URL JOB. Triggers the job until its
standard input ends, then waits for every execution, and prints the results as JSON.
"""

import json
import sys
from threading import Event, Thread

from rota.client import Client
from rota.core.errors import RotaError

PAUSE_S = 0.05


def main(url: str, job: str) -> None:
    """Trigger *job* through the node at *url* and print the results."""
    executions: list[str] = []
    failures: list[str] = []
    is_over = Event()
    Thread(target=_wait_for_end_of_input, args=(is_over,), daemon=True).start()
    with Client(url) as rota:
        while not is_over.wait(PAUSE_S):
            try:
                executions.append(rota.trigger(job).execution_id)
            except RotaError as error:
                failures.append(f"{type(error).__name__}: {error}")
        statuses = {each: rota.wait(each, timeout_s=60).status for each in executions}
    lost = [each for each, status in statuses.items() if status != "success"]
    json.dump({"asked": len(executions), "failures": failures, "lost": lost}, sys.stdout)


def _wait_for_end_of_input(is_over: Event) -> None:
    sys.stdin.read()
    is_over.set()


main(*sys.argv[1:])
