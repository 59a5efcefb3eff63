"""The formats of other schedulers that can be imported."""

from collections.abc import Mapping

from rota.client.imports.airflow import read_dags
from rota.client.imports.apscheduler import read_scheduler
from rota.client.imports.celery_beat import read_beat
from rota.client.imports.cronjob import read_cronjobs
from rota.client.imports.crontab import read_crontabs
from rota.client.imports.dkron import read_dkron
from rota.client.imports.drafts import Reader
from rota.client.imports.github_actions import read_workflows
from rota.client.imports.systemd import read_timers

FORMATS: Mapping[str, Reader] = {
    "crontab": read_crontabs,
    "cronjob": read_cronjobs,
    "systemd": read_timers,
    "dkron": read_dkron,
    "celery-beat": read_beat,
    "airflow": read_dags,
    "github-actions": read_workflows,
    "apscheduler": read_scheduler,
}
"""The reader of each format, by the name of the format."""
