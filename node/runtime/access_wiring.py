"""Wiring of the access control of a node."""

from dataclasses import dataclass

from rota.node.access.access_control import AccessControl, AuthMode
from rota.node.access.bootstrap import BootstrapKey
from rota.node.access.task_tokens import AttemptFacts
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.runtime.foundation import NodeFoundation
from rota.node.system.background import Service
from rota.node.system.bootstrap_key import read_bootstrap_key


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessParts:
    """The access control, and its background work in the order of its start."""

    control: AccessControl
    services: tuple[Service, ...]


def wire_access(
    base: NodeFoundation, documents: SharedDocuments, facts: AttemptFacts
) -> AccessParts:
    """Return the access control of a node with *documents*, and with *facts* about attempts."""
    metrics, file = base.environment.metrics, base.config.bootstrap_key_file
    mode, rate = AuthMode(base.config.auth), base.config.principal_rate
    control = AccessControl(mode, documents, base.clock, metrics, rate=rate, facts=facts)
    services: list[Service] = [control.streams, control.signing_keys]
    if file is not None:
        services.append(BootstrapKey(documents, control.table, read_bootstrap_key(file)))
    return AccessParts(control=control, services=tuple(services))
