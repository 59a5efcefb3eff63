"""``rota dev --nodes``: a temporary local cluster, until Ctrl-C."""

import signal
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import sleep
from types import FrameType

import rota
from rota.client.cli.display.printing import out, say
from rota.client.cli.setup.dev_access import access_line, export_line
from rota.client.dev.demo_jobs import save_demo_jobs
from rota.client.dev.local_cluster import SESSION_TTL, LocalCluster, folder_for_a_while

LOOK_S = 0.2
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Stopped(BaseException):
    """A signal requests the end; this is no Exception, so that no handler catches it."""


def run_cluster(
    size: int,
    *,
    port: int,
    data_dir: Path | None,
    slots: int | None,
    log_level: str,
    has_demo: bool,
    is_open: bool,
) -> int:
    """Run a cluster until a signal arrives, and return the exit status.

    Args:
        size: The number of nodes.
        port: The API port of the first node; 0 for free ports.
        data_dir: The directory of all data, which is kept; None for a temporary one.
        slots: The number of slots of each node; None for the default.
        log_level: The log level of each node.
        has_demo: Whether to create the demonstration jobs.
        is_open: Whether the nodes accept requests without a token.

    Raises:
        RotaError: A required program is missing, or does not start.
    """
    place = nullcontext(data_dir.absolute()) if data_dir else folder_for_a_while()
    with _until_stopped(), place as folder:
        cluster = LocalCluster(
            folder,
            size,
            port=port,
            slots=slots,
            log_level=log_level,
            session_ttl=SESSION_TTL,
            is_open=is_open,
        )
        with cluster:
            if has_demo:
                save_demo_jobs(cluster.urls, cluster.token)
            _greet(cluster, is_kept=data_dir is not None)
            while True:
                sleep(LOOK_S)
                cluster.tend(say)
    return 0


@contextmanager
def _until_stopped() -> Generator[None]:
    """Leave the body at the first signal; further signals are ignored during the cleanup."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        for each in STOPPING:
            signal.signal(each, signal.SIG_IGN)
        raise _Stopped

    before = {number: signal.signal(number, stop) for number in STOPPING}
    try:
        yield
    except _Stopped:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _greet(cluster: LocalCluster, *, is_kept: bool) -> None:
    nodes = [
        f"  {name:4}  {node.url}  process {node.process.pid if node.process else '?':<8} "
        f"log {node.log_path}\n"
        for name, node in cluster.nodes.items()
    ]
    fate = "kept; delete it for a fresh start" if is_kept else "deleted at the end"
    last = cluster.nodes[f"n{len(cluster.nodes)}"].process
    out(
        f"rota {rota.__version__}: {len(cluster.nodes)} temporary nodes; Ctrl-C stops "
        f"them\n{''.join(nodes)}"
        f"  etcd  {cluster.etcd.url}  log {cluster.etcd.log_path}\n"
        f"  data  {cluster.folder} ({fate})\n"
        f"{access_line(cluster.nodes['n1'].url, is_open=cluster.token is None)}"
        "\n"
        "In another terminal:\n"
        f"{export_line(cluster.urls, is_usual=False)}"
        "  rota cluster status\n"
        '  rota jobs create hello --schedule "@every 1s" -- echo hello\n'
        "  rota ledger hello -w\n"
        f"  kill -9 {last.pid if last else ''}    # it is started again after 5 s"
    )
