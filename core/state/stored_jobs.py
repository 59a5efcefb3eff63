"""The jobs of a shard in memory, in encoded form.

A node may hold a million jobs, nearly all of them idle for hours, and objects take five times the
memory of the encoded jobs. The last jobs saved or decoded are also kept as objects.
"""

from collections.abc import Iterator, MutableMapping
from typing import cast

from rota.core.model.ids import JobId
from rota.core.model.job import Job
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.codec import decode_record, encode_record

DECODED_MAX = 64
"""The number of jobs of a shard that stay decoded, 1.5 kB each; decoding one takes microseconds."""


class Jobs(MutableMapping[JobId, Job]):
    """A mapping of jobs by id, in the order of insertion, that stores them as bytes."""

    __slots__ = ("_decoded", "_stored")

    def __init__(self) -> None:
        self._stored: dict[JobId, bytes] = {}
        self._decoded: dict[JobId, Job] = {}

    def __getitem__(self, job_id: JobId) -> Job:
        job = self._decoded.get(job_id)
        if job is None:
            job = cast(Job, decode_record(Table.JOB, self._stored[job_id]))
            self._keep_decoded(job_id, job)
        return job

    def __setitem__(self, job_id: JobId, job: Job) -> None:
        self._stored[job_id] = encode_record(job)
        self._keep_decoded(job_id, job)

    def __delitem__(self, job_id: JobId) -> None:
        del self._stored[job_id]
        self._decoded.pop(job_id, None)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._stored

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def copy(self) -> "Jobs":
        """Return an independent mapping of the same jobs."""
        other = Jobs()
        other._stored = dict(self._stored)
        return other

    def _keep_decoded(self, job_id: JobId, job: Job) -> None:
        if job_id not in self._decoded and len(self._decoded) >= DECODED_MAX:
            del self._decoded[next(iter(self._decoded))]
        self._decoded[job_id] = job
