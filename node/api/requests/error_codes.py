"""Codes of errors. Programs match them, so a code never changes its meaning."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of error.

    Attributes:
        status: The HTTP status of the error.
        meaning: The cause of the error, as shown in the reference.
    """

    status: int
    meaning: str


CODES = {
    "unexpected_body": Code(400, "a GET, HEAD or OPTIONS request has a body"),
    "malformed_json": Code(400, "the body is not valid JSON"),
    "bad_request": Code(400, "the HTTP request is malformed"),
    "unauthenticated": Code(401, "the request has no valid credential"),
    "forbidden": Code(403, "the caller lacks the verb that the operation requires"),
    "not_a_node": Code(
        403, "the request has a header that only nodes send to the peer ports of each other"
    ),
    "webhook_rejected": Code(403, "the delivery has no valid signature, or no id"),
    "cross_origin": Code(403, "a browser sent the request for a page of another origin"),
    "local_only": Code(
        403, "the operation is allowed only to the user of the node, on the node's unix socket"
    ),
    "host_not_allowed": Code(
        403, "`Host` is not an address, not `localhost` and not in `allowed_hosts`"
    ),
    "job_not_found": Code(404, "the job does not exist"),
    "version_not_found": Code(404, "the job has no such version, or it is no longer stored"),
    "type_not_found": Code(404, "the job type does not exist"),
    "calendar_not_found": Code(404, "the calendar does not exist"),
    "webhook_not_found": Code(404, "the webhook does not exist"),
    "key_not_found": Code(404, "the key does not exist"),
    "role_not_found": Code(404, "the role does not exist"),
    "state_not_found": Code(404, "the state of the job has no such key"),
    "backfill_not_found": Code(404, "the backfill does not exist"),
    "namespace_not_found": Code(404, "the namespace has no document"),
    "issuer_not_found": Code(404, "the issuer does not exist"),
    "binding_not_found": Code(404, "the binding does not exist"),
    "secret_not_found": Code(404, "the secret does not exist"),
    "execution_not_found": Code(404, "the execution does not exist"),
    "task_not_found": Code(404, "the execution has no such task"),
    "attempt_not_found": Code(404, "the task has no such attempt, or it has not started"),
    "node_not_found": Code(404, "the node does not exist"),
    "shard_not_found": Code(404, "no shard has this number"),
    "no_such_path": Code(404, "the path does not exist"),
    "method_not_allowed": Code(
        405, "the path does not support the method; `Allow` lists its methods"
    ),
    "body_too_slow": Code(408, "the body did not arrive within 30 s"),
    "job_exists": Code(409, "a job with this name exists"),
    "calendar_in_use": Code(409, "a job or another document names the calendar"),
    "key_exists": Code(409, "a key with this name exists"),
    "no_key_ring": Code(409, "the node has no key ring, so it cannot encrypt secrets"),
    "already_initialized": Code(409, "the cluster has, or had, a key"),
    "not_finished": Code(409, "the execution has not finished"),
    "backfill_active": Code(409, "a backfill of the job has not ended"),
    "backfill_ended": Code(409, "the backfill has ended"),
    "not_waiting": Code(409, "the task does not wait for an approval"),
    "not_unfinished": Code(409, "the execution has ended"),
    "event_posted": Code(409, "the event was posted to the execution before, with other data"),
    "too_many_events": Code(409, "the execution has as many events as are allowed"),
    "too_many_listeners": Code(409, "too many jobs have a trigger for the event"),
    "state_held": Code(409, "an execution holds the key until it ends"),
    "not_forward": Code(409, "the value is not after the one before"),
    "nothing_to_rerun": Code(409, "none of the execution's tasks would run again"),
    "version_not_kept": Code(409, "the definition that the execution ran is no longer stored"),
    "namespace_paused": Code(409, "the namespace is paused, so no execution begins in it"),
    "quota_exceeded": Code(409, "the namespace has as much as its quota allows"),
    "overlap": Code(
        409, "the job is running, and its overlap policy does not allow another execution"
    ),
    "last_node": Code(409, "no other node can take the copies of this node"),
    "node_alive": Code(409, "the node is alive"),
    "node_in_use": Code(409, "a copy on the node counts, so writes wait for this copy"),
    "shard_sound": Code(409, "the shard needs no repair"),
    "coordinator_behind": Code(409, "etcd has an older configuration of the shard than a node"),
    "coordination_sound": Code(409, "etcd lost nothing that needs a recovery"),
    "coordination_lost": Code(409, "etcd lost its state, and the cluster is not recovered yet"),
    "other_cluster": Code(409, "etcd has a different cluster with the same name"),
    "copies_alive": Code(409, "a copy that counts exists, so no acknowledged write has to be lost"),
    "copy_missing": Code(409, "the node has no complete copy of the shard"),
    "loss_not_accepted": Code(409, "the request may lose data and does not accept the loss"),
    "epochs_exhausted": Code(409, "no epoch above the promised one is left for the shard"),
    "contention": Code(409, "other requests changed the same at the same time"),
    "version_mismatch": Code(
        412, "the job or document does not have the version in `If-Match`, or exists already"
    ),
    "body_too_large": Code(413, "the body exceeds the node's limit"),
    "unsupported_media_type": Code(415, "the `Content-Type` is not `application/json`"),
    "unsupported_encoding": Code(415, "the body has a `Content-Encoding`"),
    "invalid_body": Code(422, "a field is unknown or missing, or has the wrong type"),
    "invalid_job": Code(422, "the definition of the job is invalid"),
    "invalid_answer": Code(422, "the answer does not match the form of the task"),
    "invalid_event": Code(422, "the event is invalid"),
    "invalid_state": Code(422, "the key or the value is invalid"),
    "state_full": Code(422, "the state of the job has as much as is allowed"),
    "invalid_type": Code(422, "the definition of the job type is invalid"),
    "invalid_backfill": Code(422, "the backfill is invalid"),
    "invalid_webhook": Code(422, "the definition of the webhook is invalid"),
    "invalid_calendar": Code(422, "the calendar is invalid"),
    "invalid_key": Code(422, "the definition of the key is invalid"),
    "invalid_secret": Code(422, "the name or the value of the secret is invalid"),
    "invalid_role": Code(422, "the definition of the role is invalid"),
    "invalid_namespace": Code(422, "the definition of the namespace is invalid"),
    "unknown_namespace": Code(
        422, "the namespace has no document, and `unknown_namespaces` is `refuse`"
    ),
    "policy_violation": Code(422, "the policy of the namespace does not allow a field of the job"),
    "invalid_issuer": Code(422, "the definition of the issuer is invalid"),
    "invalid_binding": Code(422, "the definition of the binding is invalid"),
    "document_too_large": Code(422, "the definition of a document has more than 64 KiB of JSON"),
    "past_schedule": Code(422, "an `@at` has passed, and the job has no `misfire` policy"),
    "unknown_type": Code(422, "a task has a type that the node does not have"),
    "unknown_calendar": Code(422, "a calendar does not exist"),
    "unknown_secret": Code(422, "a secret that the job names does not exist in its namespace"),
    "unknown_dependency": Code(422, "a job in `dependencies` does not exist"),
    "invalid_if_match": Code(422, "`If-Match` is not an `ETag`"),
    "invalid_if_none_match": Code(422, "`If-None-Match` is not `*`"),
    "invalid_parameters": Code(
        422, "the parameters are too long, or do not match the schema of the job, or of its type"
    ),
    "invalid_rerun": Code(
        422,
        "the body has `fromTask` and `tasks`, or `overrides` for parameters that are no object; or "
        "`markSuccess` has the task `fromTask`",
    ),
    "invalid_query": Code(422, "a parameter of the query is unknown or malformed"),
    "invalid_event_id": Code(422, "`Last-Event-ID` is not the id of an event"),
    "invalid_execution_id": Code(422, "an item of a list is not an execution id"),
    "no_items": Code(422, "the list is empty"),
    "too_many_items": Code(422, "the list has more than 1,000 items"),
    "invalid_idempotency_key": Code(
        422, "the key has more than 255 characters, or characters that are not printable"
    ),
    "idempotency_key_reused": Code(422, "the key was used for a different request"),
    "too_many_executions": Code(429, "the shard has the maximum number of executions"),
    "too_many_jobs": Code(429, "the shard has the maximum number of jobs"),
    "too_many_documents": Code(
        429, "the cluster has 10,000 shared documents, or 64 MiB of definitions"
    ),
    "too_many_secrets": Code(
        429, "the namespace has 1,000 secrets, or the secrets of all namespaces have 32 MiB"
    ),
    "too_many_logins": Code(
        429, "the address sent more than 10 invalid credentials within a second"
    ),
    "too_many_requests": Code(
        429, "the principal sent more requests a second than `principal_rate` allows"
    ),
    "internal": Code(500, "a bug in rota; the node's log has the details under the request id"),
    "record_unreadable": Code(
        500,
        "a stored record is damaged, or has the format of another version; `detail` names it",
    ),
    "catching_up": Code(503, "the replaced job still has past fire times to decide"),
    "outbox_full": Code(
        503, "too many changes of a job's dependencies wait for a shard that is closed"
    ),
    "busy": Code(
        503,
        "too many requests wait, request bodies in flight exceed 256 MiB (128 MiB of one address), "
        "or too many requests change one job",
    ),
    "too_many_waiters": Code(503, "too many requests wait for executions"),
    "too_many_readers": Code(503, "1,000 requests already follow events, or 250 of the caller"),
    "webhook_unavailable": Code(503, "the node cannot check deliveries of the webhook"),
    "disk_full": Code(503, "the disk of the node is nearly full"),
    "storage_unavailable": Code(
        503, "the node cannot write to its disk; whether the request took effect is unknown"
    ),
    "not_ready": Code(
        503,
        "the node is starting or stopping, has not read the keys yet, or etcd has lost state",
    ),
    "stopping": Code(503, "the node is stopping"),
    "not_primary": Code(503, "the primary of the shard cannot be reached; nothing was changed"),
    "coordinator_unavailable": Code(
        503, "etcd does not respond, or refuses the request; nothing was changed"
    ),
    "copies_unreached": Code(503, "nodes with copies that count did not respond"),
    "nodes_unreached": Code(503, "nodes that may have newer configurations did not respond"),
    "nodes_unaware": Code(503, "some nodes have not detected yet that etcd lost its state"),
    "recovery_overtaken": Code(503, "the configuration changed during the recovery"),
    "not_committed": Code(
        503, "earlier writes of the shard could not be committed within 10 s, so it cannot be read"
    ),
    "outcome_unknown": Code(
        503,
        "etcd did not respond, or the shard could not commit the request within 10 s; whether it "
        "took effect is unknown",
    ),
    "primary_lost": Code(
        503,
        "the primary of the shard was lost during the request; whether the request took effect is "
        "unknown",
    ),
}

KEYED = ("invalid_idempotency_key", "idempotency_key_reused")
"""Codes of operations with an idempotency key."""
READING = (
    "storage_unavailable",
    "stopping",
    "not_primary",
    "not_committed",
    "primary_lost",
    "record_unreadable",
)
"""Codes of operations that read committed state."""
DECIDING = ("busy", "disk_full", "outcome_unknown", *READING)
"""Codes of operations that send a command to a shard."""
WAITING = (*READING, "too_many_waiters")
"""Codes of operations that wait for executions to end."""
