"""Execution of a schedule's faults, in order, with a history of their times."""

import time

from chaos.harness.cluster import Cluster, NeverHappened
from chaos.harness.deeds import DEEDS
from chaos.harness.histories import History
from chaos.harness.schedule import KINDS, Fault

SAFE_S = 60.0
"""Limit of the wait for all copies before a fault that needs them; then it is skipped."""


class Nemesis:
    """Does faults to a cluster.

    Args:
        cluster: The victim.
        faults: In order.
        history: Record of the faults.
    """

    def __init__(self, cluster: Cluster, faults: list[Fault], history: History) -> None:
        self._cluster = cluster
        self._faults = faults
        self._history = history

    def run(self, minutes: float) -> None:
        """Carry out all faults, as planned or later; return when they are over.

        Faults that took longer than planned, until the cluster was whole, delay the later ones:
        after *minutes* only the first fault of each kind begins.
        """
        began = time.monotonic()
        done: set[str] = set()
        for fault in self._faults:
            self._cluster.let_pass(began + fault.begins_s - time.monotonic())
            if time.monotonic() - began > minutes * 60 and fault.kind in done:
                continue
            done.add(fault.kind)
            if KINDS[fault.kind].calm and not self._is_safe():
                self._note(fault, "skip")
            else:
                self._carry_out(fault)
        self._cluster.let_pass(began + minutes * 60 - time.monotonic())

    def _carry_out(self, fault: Fault) -> None:
        deed = DEEDS[fault.kind]
        self._note(fault, "begin", revision=self._cluster.etcd_revision())
        for act in (deed.do, deed.undo):
            try:
                act(self._cluster, fault)
            except (NeverHappened, AssertionError, OSError) as error:
                # The judge reports a cluster that is not whole at the end; and on a full machine
                # etcd may have no leader in time. The other faults are still done.
                print(f"{time.strftime('%T')} LATE  {error}", flush=True)
            if act is deed.do:
                self._cluster.let_pass(fault.lasts_s)
        self._note(fault, "end")

    def _is_safe(self) -> bool:
        try:
            self._cluster.wait_safe(SAFE_S)
        except NeverHappened as error:
            print(f"{time.strftime('%T')} {error}", flush=True)
            return False
        return True

    def _note(self, fault: Fault, event: str, **facts: int | None) -> None:
        self._history.add(
            fault=fault.number, event=event, kind=fault.kind, hosts=list(fault.hosts), **facts
        )
        print(f"{time.strftime('%T')} {event:5} {fault.kind} {' '.join(fault.hosts)}", flush=True)
