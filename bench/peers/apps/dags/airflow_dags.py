# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
"""Airflow's DAGs: one task, a chain of ten, and one that runs a process; each marks its number."""

from airflow.sdk import chain, dag, task
from bench.peers.apps.marks import mark, mark_by_process


@task
def mark_nth(place, **context):
    """Mark the number at *place* in the configuration of this run."""
    asked = context["dag_run"].conf
    mark(asked["path"], asked["numbers"][place])


@task
def run_process(**context):
    """Mark the number in the configuration of this run by a process."""
    asked = context["dag_run"].conf
    mark_by_process(asked["path"], asked["numbers"][0])


@dag(schedule=None)
def one():
    """One task."""
    mark_nth(0)


@dag(schedule=None)
def ten():
    """Ten tasks, each after the one before."""
    chain(*(mark_nth.override(task_id=f"mark_{place}")(place) for place in range(10)))


@dag(schedule=None)
def one_process():
    """One task, which runs a process."""
    run_process()


one()
ten()
one_process()
