"""Checks of sealed texts in jobs and in the parameters of triggers."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rota.core.errors import Problem, invalid_fields
from rota.core.model.job import JobSpec
from rota.core.model.sealed_texts import PREFIX, boxes_in
from rota.core.model.work import Work
from rota.executor.secret_values import SecretUnavailable
from rota.node.access.verbs import Verb
from rota.node.api.documents.job_bodies import PROBLEMS_MAX
from rota.node.api.requests.request_context import RequestContext
from rota.node.secrets.sealed_texts import OTHER_KEY
from rota.node.secrets.sealing import CannotOpen
from rota.node.secrets.secret_store import SEALING_KEY

INVALID = "invalid_sealed_text"
SEALED_MAX = 100
"""The most different sealed texts of a job, and of a trigger: to open one takes some ten us."""


async def check_sealed_job(request: RequestContext, spec: JobSpec) -> None:
    """Check the sealed texts of a job, and that the caller may use them.

    As for secrets, this is checked at every save: a caller that changes the command of a job could
    read them.

    Raises:
        Refused: Code ``forbidden``: the caller lacks the verb ``secret:use``; code
            ``invalid_sealed_text``: a text was sealed for another namespace or cluster, or is where
            tasks would get it as it is.
    """
    found = [each for each in _texts_of(spec) if PREFIX in each.text]
    if found:
        await _check(request, spec, found)


async def check_sealed_parameters(request: RequestContext, spec: JobSpec, text: str) -> None:
    """Check the sealed texts in the parameters of a trigger of a job.

    Raises:
        Refused: As for `check_sealed_job`.
    """
    if PREFIX in text:
        refusal = _no_variables(task.work for task in spec.tasks)
        await _check(request, spec, [_Text("/parameters", text, refusal)])


class _Text(NamedTuple):
    """A text of a job.

    Attributes:
        pointer: Its place in the definition.
        text: The text.
        refusal: Why it cannot have sealed texts; empty if it can.
    """

    pointer: str
    text: str
    refusal: str


def _texts_of(spec: JobSpec) -> Iterator[_Text]:
    yield _Text("/parameters", spec.parameters, _no_variables(task.work for task in spec.tasks))
    for number, task in enumerate(spec.tasks):
        at = f"/tasks/{number}" if len(spec.tasks) > 1 else ""
        work, refusal = task.work, _no_variables([task.work])
        yield _Text(f"{at}/parameters", work.parameters, refusal)
        for name, value in work.env:
            yield _Text(f"{at}/env/{name}", value, refusal)
        elsewhere = "a sealed text is replaced in env and parameters only; pass it in a variable"
        for argument in (*work.argv, work.shell):
            yield _Text(f"{at}/command", argument, elsewhere)
        yield _Text(f"{at}/stdin", work.stdin, elsewhere)
        yield _Text(f"{at}/python", work.call.arguments if work.call else "", elsewhere)


def _no_variables(works: Iterable[Work]) -> str:
    if any(work.executor == "container" for work in works):
        return (
            "a container cannot have sealed texts, because its engine writes variables to the "
            "disk; use a secret, as a file"
        )
    return ""


async def _check(request: RequestContext, spec: JobSpec, found: list[_Text]) -> None:
    """Check texts with sealed texts; one that all tasks have is opened once.

    Raises:
        Refused: As for `check_sealed_job`.
    """
    request.require(Verb.SECRET_USE, spec.namespace, of=spec.full_name)
    boxes = {box for each in found for box in boxes_in(each.text)}
    if len(boxes) > SEALED_MAX:
        detail = f"there are {len(boxes):,} sealed texts; at most {SEALED_MAX} are allowed"
        raise invalid_fields(INVALID, [Problem("", f"{detail}; use a secret, as a file")])
    # A key that was just made at another node is waited for, for a short time.
    has_key = not await request.node.secrets.unknown(spec.namespace, {SEALING_KEY})
    faults = {box: _why_not(request, spec.namespace, box, has_key=has_key) for box in boxes}
    problems = [
        Problem(each.pointer, why)
        for each in found
        if (why := each.refusal or next(filter(None, map(faults.get, boxes_in(each.text))), ""))
    ]
    if problems:
        raise invalid_fields(INVALID, problems[:PROBLEMS_MAX])


def _why_not(request: RequestContext, namespace: str, box: str, *, has_key: bool) -> str:
    """Return why a sealed text cannot be opened; empty if it can."""
    if not has_key:
        return OTHER_KEY.format(namespace)
    try:
        request.node.sealed_texts.open(namespace, box)
    except (CannotOpen, SecretUnavailable) as error:
        return str(error)
    return ""
