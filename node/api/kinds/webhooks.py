"""Webhooks: the services whose signed requests become events from outside."""

from collections.abc import Sequence

from rota.core.errors import Problem
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.model.shared_document import Definition
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.executor.secret_values import SecretUnavailable
from rota.node.access.verbs import Verb
from rota.node.api.kinds.document_kind import DocumentKind
from rota.node.api.requests.permissions import in_cluster
from rota.node.api.requests.request_context import RequestContext
from rota.node.webhooks.incoming_webhook import key_rule, keys_in
from rota.wire.documents import WebhookBody


def problems_of(name: str, body: WebhookBody) -> list[Problem]:
    """Return the errors of a webhook."""
    del name
    return [
        Problem(f"/{field}", f"{in_quotes(value)} is not a name: {NAME_RULE}")
        for field, value in (("namespace", body.namespace), ("secret", body.secret))
        if not is_name(value)
    ]


def _dangling(
    request: RequestContext, body: WebhookBody, before: Definition | None
) -> Sequence[Problem]:
    """Return the errors about the secret of a webhook."""
    del before
    secrets, namespace = request.node.secrets, body.namespace
    if not (is_name(namespace) and is_name(body.secret)):
        return []
    if secrets.get(namespace, body.secret) is not None:
        return _problems_of_keys(request, body)
    hint = did_you_mean(body.secret, secrets.names_in(namespace))
    otherwise = f"set it first: `rota secret set {body.secret} -n {namespace} < FILE`"
    detail = f"{in_quotes(namespace)} has no secret {in_quotes(body.secret)}; {hint or otherwise}"
    return [Problem("/secret", detail)]


def _problems_of_keys(request: RequestContext, body: WebhookBody) -> Sequence[Problem]:
    try:
        secret = request.node.secrets.value(body.namespace, body.secret)
    except SecretUnavailable:
        return []  # Another node may have the key of the key ring.
    if keys_in(body.format, secret):
        return []
    return [Problem("/secret", f"has no line with {key_rule(body.format)}")]


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
