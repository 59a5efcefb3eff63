# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# ruff: noqa: D103 - the functions are described in rota_app
"""APScheduler 3 with PostgreSQL: the scheduler runs all jobs in the process of the driver."""

import os
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from bench.peers.apps.marks import mark, mark_by_process

url = os.environ["BENCH_POSTGRES"].replace("postgresql://", "postgresql+psycopg://")
scheduler = BackgroundScheduler(
    jobstores={"default": SQLAlchemyJobStore(url=url)},
    executors={"default": ThreadPoolExecutor(10)},
    # None: a late job is run nevertheless; by default it is dropped after a second.
    job_defaults={"misfire_grace_time": None},
    timezone=UTC,
)
scheduler.start()


def mark_in_turn(path, numbers):
    mark(path, numbers[0])
    if numbers[1:]:
        scheduler.add_job(mark_in_turn, args=(path, numbers[1:]))


def submit(path, numbers):
    for number in numbers:
        scheduler.add_job(mark, args=(path, number))


def at(path, dues):
    for number, due in dues.items():
        when = datetime.fromtimestamp(due, UTC)
        scheduler.add_job(mark, "date", run_date=when, args=(path, number))


def chain(path, numbers):
    scheduler.add_job(mark_in_turn, args=(path, list(numbers)))


def spawn(path, numbers):
    for number in numbers:
        scheduler.add_job(mark_by_process, args=(path, number))


def close():
    scheduler.shutdown()
