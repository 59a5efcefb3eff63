"""Chaos on real processes: ``python -m chaos --minutes 10 --seed 1 --nodes 3 --nemesis kill``.

Exits with 0 if the judge finds nothing, 1 if it finds a broken rule, 2 if the run did not finish.
A run that fails keeps its folder and prints the commands that repeat and judge it again.
"""

import argparse
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from chaos.harness import disks, shim
from chaos.harness.cluster import INSTALLED
from chaos.harness.network import Loopback, Namespaces, Network, enclosed
from chaos.harness.run import Plan, run
from chaos.harness.schedule import (
    COMPILER,
    KINDS,
    MIXED,
    NAMESPACES,
    NONE,
    VOLUMES,
    Fault,
    schedule,
)
from chaos.harness.workloads import Rates
from chaos.judge.__main__ import main as judge


def main() -> int:
    """Run, judge, and report."""
    args = _arguments()
    network = Namespaces() if enclosed() else Loopback()
    can = _can(network)
    names = [f"n{number + 1}" for number in range(args.nodes)]
    faults = schedule(args.nemesis, args.seed, args.minutes, names, can=can, members=args.etcd)
    faults = faults[: args.faults]
    plan = Plan(
        seed=args.seed,
        minutes=args.minutes,
        nemesis=args.nemesis,
        nodes=args.nodes,
        members=args.etcd,
        rates=Rates(args.fires, args.submissions, many=args.many),
        faults=faults,
        attempt_lease_s=args.attempt_lease,
        flags=tuple(args.flag),
        package=args.package.resolve(),
        is_secure=args.secure,
    )
    folder = args.folder or Path(tempfile.mkdtemp(prefix="rota-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    again = (
        f"make chaos MINUTES={args.minutes:g} SEED={args.seed} NODES={args.nodes} "
        f"ETCD={args.etcd} NEMESIS={args.nemesis} SECURE={'yes' if args.secure else ''}"
    )
    print(f"{again}: {len(faults)} faults; {folder}", flush=True)
    if args.nemesis == MIXED:
        _print_left_out(faults)
    try:
        run(plan, network, folder)
        status = judge(folder)
    except Exception:
        traceback.print_exc()
        status = 2
    if status == 0 and not args.folder:
        shutil.rmtree(folder)
    elif status:
        print(f"FAILED; histories and logs: {folder}\nagain: {again}")
        print(f"judge again: PYTHONPATH=src:tests .venv/bin/python -P -m chaos.judge {folder}")
    return status


def _can(network: Network) -> list[str]:
    """Return what this machine has; print what is missing."""
    no_shim = shim.lacking()
    if no_shim:
        print(f"NO WALL CLOCKS AND NO DISKS OF THEIR OWN ({no_shim})", flush=True)
    no_volumes = disks.lacking() if network.can_cut else "no namespaces to mount them in"
    if no_volumes:
        print(f"NO DISKS THAT STAND STILL ({no_volumes})", flush=True)
    return (
        [NAMESPACES] * network.can_cut + [COMPILER] * (not no_shim) + [VOLUMES] * (not no_volumes)
    )


def _print_left_out(faults: list[Fault]) -> None:
    if left_out := sorted(set(KINDS) - {fault.kind for fault in faults}):
        print(f"LEFT OUT: {', '.join(left_out)}; see --help", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="of faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--etcd", type=int, default=1, help="members")
    kinds = ", ".join([MIXED, NONE, *KINDS])
    parser.add_argument("--nemesis", default=MIXED, help=f"one, or some with commas: {kinds}")
    parser.add_argument("--faults", type=int, help="at most so many")
    parser.add_argument("--fires", type=int, default=100, help="a second")
    parser.add_argument("--submissions", type=float, default=50.0, help="a second")
    parser.add_argument("--many", type=int, default=0, help="jobs that fire every 5 s; only those")
    parser.add_argument("--folder", type=Path, help="kept in any case")
    parser.add_argument("--attempt-lease", type=int, default=15, help="in seconds")
    parser.add_argument("--package", type=Path, default=INSTALLED, help="the rota of the nodes")
    parser.add_argument("--flag", action="append", default=[], help="one of rotad's, as --flag=--x")
    parser.add_argument("--secure", action="store_true", help="with keys, and TLS on all ports")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
