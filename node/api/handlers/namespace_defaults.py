"""Defaults of a namespace in the save of a job.

They are copied into the job, like the template of a job type, which takes precedence over them: a
field that has its built-in default in the job gets the default of the namespace.
"""

from typing import cast

import msgspec

from rota.node.namespaces.namespaces import Namespaces
from rota.wire.bodies.job_templates import Fields, body_of
from rota.wire.documents import HOOK_FIELDS, JobBody, Json


def with_namespace(namespaces: Namespaces, body: JobBody) -> JobBody:
    """Return the job *body* with the defaults of its namespace; *body* itself if there are none.

    Raises:
        Refused: As for `body_of`.
    """
    defaults = namespaces.defaults_of(body.namespace)
    if not defaults:
        return body
    own = cast("Fields", msgspec.to_builtins(body))
    return body_of(_without_hooks_of(defaults, body), own)


def _without_hooks_of(defaults: Fields, body: JobBody) -> Fields:
    """Return *defaults* without the hooks that would trigger the job *body* by its own events."""
    names = (body.name, f"{body.namespace}/{body.name}")

    def kept(field: str, value: Json) -> Json:
        if field not in HOOK_FIELDS:
            return value
        return [each for each in value if each.get("job") not in names]

    found = {field: kept(field, value) for field, value in defaults.items()}
    if not found.get("onLate") and not body.on_late:
        found.pop("lateAfter", None)  # It has no effect without a hook, and would be an error.
    return found
