"""What is compared: how each system is configured, and what a loss of power leaves of its jobs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench.peers.servers import Served, postgres, redis

Server = Callable[[Path], AbstractContextManager[Served]]
REDIS_DURABILITY = (
    "Redis 7, append-only file synced every second: a second of acknowledged jobs may be lost, on "
    "one disk"
)
POSTGRES_DURABILITY = "PostgreSQL, every commit synced, on one disk"


@dataclass(frozen=True, kw_only=True)
class System:
    """A scheduler.

    Attributes:
        name: As it is asked for.
        packages: What its environment has, of PyPI.
        app: Its module in `bench.peers.apps`.
        server: Where it keeps jobs.
        setup: Programs to be run once, before the workers.
        workers: Programs that run beside the driver; none: the driver's process runs everything.
        configuration: In words, and where its own documentation advises it.
        durability: Of what it has acknowledged.
    """

    name: str
    packages: tuple[str, ...]
    app: str
    server: Server
    setup: tuple[tuple[str, ...], ...] = ()
    workers: tuple[tuple[str, ...], ...] = ()
    configuration: str
    durability: str


CELERY = "bench.peers.apps.celery_app"
DRAMATIQ = "bench.peers.apps.dramatiq_app"
TASKIQ = "bench.peers.apps.taskiq_app"
PROCRASTINATE = "bench.peers.apps.procrastinate_app"

SYSTEMS = {
    system.name: system
    for system in (
        System(
            name="celery",
            packages=("celery[redis]>=5.5,<6",),
            app="celery_app",
            server=redis,
            workers=(("celery", "-A", CELERY, "worker", "--concurrency", "2", "-l", "WARNING"),),
            configuration="prefork, a worker process for each of two cores (its default), results "
            "ignored (docs, Optimizing), acknowledged when begun (its default)",
            durability=REDIS_DURABILITY,
        ),
        System(
            name="dramatiq",
            packages=("dramatiq[redis]>=2,<3",),
            app="dramatiq_app",
            server=redis,
            workers=(("dramatiq", DRAMATIQ, "--processes", "2", "--threads", "8"),),
            configuration="a process for each of two cores with 8 threads (its defaults), no "
            "results, acknowledged when done (its default)",
            durability=REDIS_DURABILITY,
        ),
        System(
            name="taskiq",
            packages=("taskiq>=0.12,<0.14", "taskiq-redis>=1.1,<2"),
            app="taskiq_app",
            server=redis,
            workers=(
                ("taskiq", "worker", f"{TASKIQ}:broker", "--workers", "2", "--log-level", "ERROR"),
                (
                    *("taskiq", "scheduler", f"{TASKIQ}:scheduler"),
                    *("--update-interval", "1", "--log-level", "ERROR"),
                ),
            ),
            configuration="two worker processes (its default), the broker on Redis streams, which "
            "acknowledges (taskiq-redis docs), the scheduler looks every second instead of every "
            "minute; a chain is a task that asks for the next",
            durability=REDIS_DURABILITY,
        ),
        System(
            name="procrastinate",
            packages=("procrastinate>=3,<4", "psycopg[binary]>=3.2,<4"),
            app="procrastinate_app",
            server=postgres,
            setup=(("procrastinate", "--app", f"{PROCRASTINATE}.app", "schema", "--apply"),),
            workers=(
                (
                    *("procrastinate", "--log-level", "warning", "--app", f"{PROCRASTINATE}.app"),
                    *("worker", "--concurrency", "10"),
                ),
            ),
            configuration="one worker process, ten jobs at a time, woken by LISTEN/NOTIFY (its "
            "default); batch_defer for many; a chain is a task that asks for the next",
            durability=POSTGRES_DURABILITY,
        ),
        System(
            name="apscheduler",
            packages=("apscheduler[sqlalchemy]>=3.11,<4", "psycopg[binary]>=3.2,<4"),
            app="apscheduler_app",
            server=postgres,
            configuration="BackgroundScheduler with SQLAlchemyJobStore on PostgreSQL and ten "
            "threads (its user guide), in the process that asks; late jobs are run (its default "
            "drops them after a second); a chain is a job that adds the next",
            durability=POSTGRES_DURABILITY,
        ),
    )
}
