"""``rota dev``: a temporary local node."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

import rota
from rota.client.cli.display.printing import out
from rota.client.cli.inputs.options import examples
from rota.client.cli.jobs.job_flags import Fields
from rota.client.cli.setup.dev_access import access_line, export_line, page_line
from rota.client.dev.local_node import LocalNode, NodeNotStarted
from rota.client.transport.endpoints import DEFAULT_URL

DEFAULT_PORT = 7400
FIRST_COMMANDS = """\
  rota jobs create hello --schedule "@every 5s" -- echo hello
  rota trigger hello --wait
  rota executions"""
DEMO_COMMANDS = """\
  rota jobs
  rota executions -w
  rota output demo-flaky@latest"""
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(
    epilog=examples(
        "rota dev",
        "rota dev --demo",
        "rota dev -f crontab.txt",
        "rota dev --port 7500",
        "rota dev --nodes 3",
        "rota dev --open",
    )
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the API on 127.0.0.1; 0 for any free port.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="ROTA_DATA_DIR",
    show_envvar=True,
    help="Directory of its data.  [default: ~/.local/state/rota-data; for a port other than 7400, "
    "the name has the port number]",
)
@click.option(
    "--nodes",
    "size",
    type=click.IntRange(1, 9),
    default=1,
    help="Number of nodes; several nodes form a cluster with its own etcd, on ports from --port "
    "on. The data of such a cluster is deleted at the end unless --data-dir is given.",
)
@click.option(
    "--slots",
    type=click.IntRange(1),
    envvar="ROTA_SLOTS",
    show_envvar=True,
    help="Number of tasks that may run at the same time on a node.",
)
@click.option(
    "--open",
    "is_open",
    is_flag=True,
    help="Require no token: every program and every user on this machine can use the node.",
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="Save the jobs of a crontab, or of a file with definitions (.yaml, .json). Repeatable.",
)
@click.option("--demo", is_flag=True, help="Create demonstration jobs, which soon run.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show the whole log of the node, not only warnings."
)
def dev(
    port: int,
    *,
    data_dir: Path | None,
    size: int,
    slots: int | None,
    is_open: bool,
    files: tuple[str, ...],
    demo: bool,
    verbose: bool,
) -> int:
    """Run a temporary node, until Ctrl-C.

    The node needs no other program, can be reached from this machine only, and keeps its jobs for
    the next start. It requires a token, which `rota` and the Python client of the same user find by
    themselves. Settings of `rotad` may be given as environment variables (ROTA_...), except the
    address, `auth`, `bootstrap_key_file` and `on_stop`.
    """
    if files and size > 1:
        raise click.UsageError("-f is for one node; use `rota apply -f` with several")
    jobs = _jobs_of(files)
    if size > 1:
        from rota.client.cli.setup.dev_cluster import run_cluster

        return run_cluster(
            size,
            port=port,
            data_dir=data_dir,
            slots=slots,
            log_level="info",
            has_demo=demo,
            is_open=is_open,
        )
    where = (data_dir or default_data_dir(port)).absolute()
    usual_level, usual_log = ("info", "all") if verbose else ("warning", "off")
    node = LocalNode(
        where,
        port=port,
        slots=slots,
        log_level=os.environ.get("ROTA_LOG_LEVEL", usual_level),
        # Refusals are shown in the terminal of the client.
        flags=("--access-log", os.environ.get("ROTA_ACCESS_LOG", usual_log)),
        is_open=is_open,
        is_bound=True,
    )
    with _forwarding_signals(node) as forwarded:
        try:
            node.start()
        except NodeNotStarted as error:
            if forwarded and error.exit_status is not None:
                return _shell_status(error.exit_status)
            raise
        if demo:
            _save_demo_jobs(node)
        if jobs:
            _save(node, jobs)
        _greet(node, has_demo=demo)
        assert node.process is not None
        try:
            return _shell_status(node.process.wait())
        finally:
            node.withdraw_token()


@contextmanager
def _forwarding_signals(node: LocalNode) -> Generator[list[int], None, None]:
    """Send the node the signals that would end this process, and yield a list of those sent."""
    forwarded: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        forwarded.append(number)
        if node.process is not None:
            node.process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        yield forwarded
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def default_data_dir(port: int) -> Path:
    """Return the default data directory of a node with the API on *port*.

    The directory does not depend on the current directory. Nodes on different ports have different
    directories.
    """
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / ("rota-data" if port in {0, DEFAULT_PORT} else f"rota-data-{port}")


def _save_demo_jobs(node: LocalNode) -> None:
    from rota.client.dev.demo_jobs import save_demo_jobs

    try:
        save_demo_jobs(node.url, node.token.text if node.token else None)
    except BaseException:
        node.stop()
        raise


def _jobs_of(files: tuple[str, ...]) -> list[Fields]:
    if not files:
        return []
    from rota.client.cli.setup.dev_files import jobs_of

    return jobs_of(files)


def _save(node: LocalNode, jobs: list[Fields]) -> None:
    from rota.client.cli.setup.dev_files import save_jobs

    try:
        save_jobs(jobs, node.url, node.token.text if node.token else None)
    except BaseException:
        node.stop()
        raise


def _shell_status(exit_status: int) -> int:
    return exit_status if exit_status >= 0 else 128 - exit_status


def _greet(node: LocalNode, *, has_demo: bool) -> None:
    elsewhere = export_line(node.url, is_usual=node.url == DEFAULT_URL)
    out(
        f"rota {rota.__version__}: a temporary node; Ctrl-C stops it\n"
        f"  API   {node.url}\n"
        f"{page_line(node.url, is_open=node.token is None)}"
        f"  data  {node.data_dir} (kept; delete it for a fresh start)\n"
        f"{access_line(node.url, is_open=node.token is None)}"
        "\n"
        "In another terminal:\n"
        f"{elsewhere}{DEMO_COMMANDS if has_demo else FIRST_COMMANDS}"
    )
