"""Checks of sealed texts in jobs and in the parameters of triggers."""

from collections.abc import Iterable, Iterator

from rota.core.errors import Problem, invalid_fields
from rota.core.model.job import JobSpec
from rota.core.model.sealed_texts import PREFIX, boxes_in
from rota.core.model.work import Work
from rota.executor.secret_values import SecretUnavailable
from rota.node.access.verbs import Verb
from rota.node.api.requests.request_context import RequestContext
from rota.node.secrets.sealed_texts import OTHER_KEY
from rota.node.secrets.sealing import CannotOpen
from rota.node.secrets.secret_store import SEALING_KEY

INVALID = "invalid_sealed_text"
SEALED_MAX = 100
"""The most sealed texts of a job, and of a trigger: to open one takes some ten microseconds."""


async def check_sealed_job(request: RequestContext, spec: JobSpec) -> None:
    """Check the sealed texts of a job, and that the caller may use them.

    As for secrets, this is checked at every save: a caller that changes the command of a job could
    read them.

    Raises:
        Refused: Code ``forbidden``: the caller lacks the verb ``secret:use``; code
            ``invalid_sealed_text``: a text was sealed for another namespace or cluster, or is where
            tasks would get it as it is.
    """
    found = [*_texts_of(spec)]
    if not any(PREFIX in text for _, text, _ in found):
        return
    request.require(Verb.SECRET_USE, spec.namespace, of=spec.full_name)
    _check_count(text for _, text, _ in found)
    problems = [
        Problem(pointer, why)
        for pointer, text, refusal in found
        if PREFIX in text and (why := refusal or await _why_not(request, spec.namespace, text))
    ]
    if problems:
        raise invalid_fields(INVALID, problems)


async def check_sealed_parameters(request: RequestContext, spec: JobSpec, text: str) -> None:
    """Check the sealed texts in the parameters of a trigger of a job.

    Raises:
        Refused: As for `check_sealed_job`.
    """
    if PREFIX not in text:
        return
    request.require(Verb.SECRET_USE, spec.namespace, of=spec.full_name)
    _check_count([text])
    refusal = _no_variables(task.work for task in spec.tasks)
    if why := refusal or await _why_not(request, spec.namespace, text):
        raise invalid_fields(INVALID, [Problem("/parameters", why)])


def _check_count(texts: Iterable[str]) -> None:
    """Check that there are at most `SEALED_MAX` sealed texts in *texts*.

    Raises:
        Refused: Code ``invalid_sealed_text``.
    """
    count = sum(text.count(PREFIX) for text in texts)
    if count > SEALED_MAX:
        detail = f"there are {count:,} sealed texts; at most {SEALED_MAX} are allowed"
        raise invalid_fields(INVALID, [Problem("", f"{detail}; use a secret, as a file")])


def _texts_of(spec: JobSpec) -> Iterator[tuple[str, str, str]]:
    """Yield the texts of a job: pointer, text, and why it cannot be sealed; empty if it can."""
    yield "/parameters", spec.parameters, _no_variables(task.work for task in spec.tasks)
    for number, task in enumerate(spec.tasks):
        at = f"/tasks/{number}" if len(spec.tasks) > 1 else ""
        work, refusal = task.work, _no_variables([task.work])
        yield f"{at}/parameters", work.parameters, refusal
        for name, value in work.env:
            yield f"{at}/env/{name}", value, refusal
        elsewhere = "a sealed text is replaced in env and parameters only; pass it in a variable"
        for argument in (*work.argv, work.shell):
            yield f"{at}/command", argument, elsewhere
        yield f"{at}/stdin", work.stdin, elsewhere
        yield f"{at}/python", work.call.arguments if work.call else "", elsewhere


def _no_variables(works: Iterable[Work]) -> str:
    if any(work.executor == "container" for work in works):
        return (
            "a container cannot have sealed texts, because its engine writes variables to the "
            "disk; use a secret, as a file"
        )
    return ""


async def _why_not(request: RequestContext, namespace: str, text: str) -> str:
    """Return why the sealed texts in *text* cannot be opened; empty if they can.

    A key that was just made at another node is waited for, for a short time.
    """
    if await request.node.secrets.unknown(namespace, {SEALING_KEY}):
        return OTHER_KEY.format(namespace)
    for box in boxes_in(text):
        try:
            request.node.sealed_texts.open(namespace, box)
        except (CannotOpen, SecretUnavailable) as error:
            return str(error)
    return ""
