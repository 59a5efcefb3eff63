"""Wiring of the API: its context, and the feeds for which its requests wait."""

from dataclasses import dataclass

from rota.node.access.access_control import AccessControl
from rota.node.context import NodeContext
from rota.node.feeds.completion_waiters import CompletionWaiters
from rota.node.feeds.events import Events
from rota.node.runtime.attempt_wiring import AttemptParts
from rota.node.runtime.cluster_wiring import ClusterParts
from rota.node.runtime.foundation import NodeFoundation
from rota.node.runtime.readiness import Readiness, ServingPhase
from rota.node.secrets.secret_store import SecretStore
from rota.node.shards.local_shards import Shards
from rota.node.system.bounded_calls import BoundedCalls
from rota.node.webhooks.webhook_sender import WebhookSender
from rota.storage.history import History


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedParts:
    """Feeds of ends of executions and of events, for which requests of the API wait."""

    waiters: CompletionWaiters
    events: Events

    def close(self) -> None:
        """End all waits, because the node stops."""
        self.waiters.close()
        self.events.close()


def wire_feeds(base: NodeFoundation) -> FeedParts:
    """Return the feeds of a node; a random name marks the events of this process."""
    return FeedParts(
        waiters=CompletionWaiters(), events=Events(f"{base.entropy.draw() >> 32:08x}", base.clock)
    )


def wire_context(
    base: NodeFoundation,
    shards: Shards,
    cluster: ClusterParts,
    attempts: AttemptParts,
    *,
    access: AccessControl,
    secrets: SecretStore,
    feeds: FeedParts,
    webhooks: WebhookSender,
    history: History,
    phase: ServingPhase,
) -> NodeContext:
    """Return the parts of a node that the API uses.

    Args:
        base: The foundation of the node.
        shards: The shards of the node.
        cluster: The parts for the membership.
        attempts: The parts for attempts.
        access: The access control of the node.
        secrets: The secrets.
        feeds: The feeds of the node.
        webhooks: The webhooks of the shards.
        history: The history of the shards.
        phase: The phase of the API.
    """
    environment, node_id = base.environment, base.config.node_id
    is_linked = environment.others is not None
    return NodeContext(
        config=base.config,
        clock=base.clock,
        entropy=base.entropy,
        shards=shards,
        attempts=attempts.local,
        history=history,
        waiters=feeds.waiters,
        events=feeds.events,
        try_webhook=webhooks.try_once,
        hook_retries=webhooks.retries_of,
        metrics=environment.metrics,
        membership=cluster.membership,
        documents=cluster.documents,
        access=access,
        facts=base.facts,
        namespaces=base.namespaces,
        secrets=secrets,
        continuity=base.continuity,
        coordinator=environment.coordinator,
        copies=environment.copies,
        others=environment.others,
        etcd=cluster.etcd_guard,
        # A check takes microseconds, and milliseconds on a slow network disk.
        file_checks=BoundedCalls("rota-file-check", within_s=1.0, running_max=8),
        unready=Readiness(
            node_id,
            shards,
            base.self_check,
            environment.warden,
            phase=phase,
            linked_nodes=(lambda: environment.network.peers) if is_linked else None,
        ),
    )
