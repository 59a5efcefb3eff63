"""Jobs for virtual time, from their definitions."""

from collections.abc import Mapping
from typing import Any

import msgspec

from rota.client.definitions import InvalidFile
from rota.core.errors import Refused
from rota.core.model.job import JobSpec
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody

NEXT_STEP = "; `rota validate -f` names the line"
"""The next step after an error in a job of a file."""


def spec_of(fields: Mapping[str, Any], next_step: str = "") -> JobSpec:  # Any: JSON, checked here.
    """Return the job that *fields* define; *next_step* ends the message of an error.

    Raises:
        InvalidFile: They are no valid definition.
    """
    try:
        return job_spec(msgspec.convert(fields, JobBody))
    except (msgspec.ValidationError, Refused) as error:
        detail = error.detail if isinstance(error, Refused) else str(error)
        name = fields.get("name")
        raise InvalidFile(f"job {name!r}: {detail}{next_step}") from error
