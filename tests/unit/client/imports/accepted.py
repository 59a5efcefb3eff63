"""Imports for tests: every definition is decoded as a node decodes it."""

import msgspec

from rota.client.definitions import Definition, definitions_text, parse_definitions
from rota.client.imports.drafts import Source
from rota.client.imports.formats import FORMATS
from rota.client.imports.imported import Imported, imported
from rota.core.timing.instants import parse_instant
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.bodies.json_decoding import decode_distinct
from rota.wire.documents import JobBody

NOW = parse_instant("2027-01-01T00:00:00Z")
"""A Friday."""


def import_files(kind: str, *sources: Source, namespace: str | None = None) -> Imported:
    """Return the jobs in files, after a check that a node accepts them, also from YAML."""
    result = imported(FORMATS[kind], list(sources), after=NOW, namespace=namespace)
    definitions = [job.definition for job in result.jobs]
    for definition in definitions:
        job_spec(decode_distinct(msgspec.json.encode(definition), JobBody))
    if definitions:
        assert parse_definitions(definitions_text(definitions), "a test") == definitions
    return result


def import_text(kind: str, text: str, name: str = "file") -> Imported:
    """Return the jobs in one file, likewise."""
    return import_files(kind, Source(name, text))


def only_job(result: Imported) -> Definition:
    """Return the only definition of *result*."""
    (job,) = result.jobs
    return job.definition


def notes_of(result: Imported) -> list[tuple[int, str, str]]:
    """Return line, effect and first word of each note."""
    return [(note.line, note.effect, note.what.split()[0]) for note in result.report]
