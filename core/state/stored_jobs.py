"""The jobs of a shard in memory, each as it is stored.

A node may have a million of them, nearly all of which do nothing for hours: as objects they would
take five times the memory of their bytes. Those that were saved or decoded last are kept ready.
"""

from collections.abc import Iterator, MutableMapping
from typing import cast

from rota.core.model.ids import JobId
from rota.core.model.job import Job
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.codec import decode_record, encode_record

READY_MAX = 64
"""Jobs of a shard that stay decoded, 1.5 kB each; another one costs some microseconds."""


class Jobs(MutableMapping[JobId, Job]):
    """Jobs by id, in the order in which they came. Like any dict, but each is kept as bytes."""

    __slots__ = ("_ready", "_stored")

    def __init__(self) -> None:
        self._stored: dict[JobId, bytes] = {}
        self._ready: dict[JobId, Job] = {}

    def __getitem__(self, job_id: JobId) -> Job:
        job = self._ready.get(job_id)
        if job is None:
            job = cast(Job, decode_record(Table.JOB, self._stored[job_id]))
            self._make_ready(job_id, job)
        return job

    def __setitem__(self, job_id: JobId, job: Job) -> None:
        self._stored[job_id] = encode_record(job)
        self._make_ready(job_id, job)

    def __delitem__(self, job_id: JobId) -> None:
        del self._stored[job_id]
        self._ready.pop(job_id, None)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._stored

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def copy(self) -> "Jobs":
        """Return a mapping of the same jobs that goes its own way."""
        other = Jobs()
        other._stored = dict(self._stored)
        return other

    def _make_ready(self, job_id: JobId, job: Job) -> None:
        if job_id not in self._ready and len(self._ready) >= READY_MAX:
            del self._ready[next(iter(self._ready))]
        self._ready[job_id] = job
