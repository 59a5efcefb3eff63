"""Webhooks: the services whose signed requests become events from outside."""

from collections.abc import Sequence

from rota.core.errors import Problem
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.model.shared_document import Definition
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.node.access.verbs import Verb
from rota.node.api.kinds.document_kind import DocumentKind
from rota.node.api.requests.permissions import in_cluster
from rota.node.api.requests.request_context import RequestContext
from rota.wire.documents import WebhookBody


def problems_of(name: str, body: WebhookBody) -> list[Problem]:
    """Return the errors of a webhook."""
    del name
    if is_name(body.namespace):
        return []
    return [Problem("/namespace", f"{in_quotes(body.namespace)} is not a name: {NAME_RULE}")]


def _dangling(
    request: RequestContext, body: WebhookBody, before: Definition | None
) -> Sequence[Problem]:
    """Return the error about the secret of a webhook."""
    del before
    secrets, namespace = request.node.secrets, body.namespace
    if not is_name(namespace) or secrets.get(namespace, body.secret) is not None:
        return []
    hint = did_you_mean(body.secret, secrets.names_in(namespace))
    otherwise = f"set it first: `rota secret set {body.secret} -n {namespace} < FILE`"
    detail = f"{in_quotes(namespace)} has no secret {in_quotes(body.secret)}; {hint or otherwise}"
    return [Problem("/secret", detail)]


WEBHOOKS = DocumentKind(
    plural="webhooks",
    singular="webhook",
    title="Webhooks",
    about="webhook",
    not_found_code="webhook_not_found",
    invalid_code="invalid_webhook",
    body=WebhookBody,
    reading=in_cluster(Verb.ADMIN, Verb.AUDIT),
    writing=in_cluster(Verb.ADMIN),
    problems_of=problems_of,
    dangling=_dangling,
)
