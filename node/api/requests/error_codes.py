"""The codes of failures: programs match them, so none ever changes its meaning."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """What a failure is.

    Attributes:
        status: The HTTP status that it comes with.
        meaning: When it comes, for people.
    """

    status: int
    meaning: str


CODES = {
    "unexpected_body": Code(400, "a question (GET, HEAD, OPTIONS) has a body, which none needs"),
    "malformed_json": Code(400, "the body is not JSON"),
    "bad_request": Code(400, "the request is not HTTP as it should be"),
    "forbidden": Code(403, "whoever asks may not do this"),
    "cross_origin": Code(403, "a browser sent it for a page of another origin"),
    "host_not_allowed": Code(
        403, "`Host` is neither an address, `localhost` nor in `allowed_hosts`"
    ),
    "job_not_found": Code(404, "there is no such job"),
    "execution_not_found": Code(404, "there is no such execution"),
    "task_not_found": Code(404, "the execution has no such task"),
    "attempt_not_found": Code(404, "the task has no such attempt yet"),
    "node_not_found": Code(404, "there is no such node"),
    "shard_not_found": Code(404, "there is no shard of that number"),
    "no_such_path": Code(404, "there is no such endpoint"),
    "method_not_allowed": Code(405, "`Allow` names those that are"),
    "body_too_slow": Code(408, "the body did not come within 30 s"),
    "job_exists": Code(409, "another job has that name"),
    "overlap": Code(
        409,
        "the job is busy and its overlap policy forbids another execution",
    ),
    "last_node": Code(409, "no other node is there that could hold what the node holds"),
    "node_alive": Code(409, "the node lives, and would be back at once"),
    "node_in_use": Code(409, "copies on the node count, so writes wait for it"),
    "shard_sound": Code(409, "nothing is wrong with the shard that a repair would mend"),
    "coordinator_behind": Code(409, "etcd knows less of the shard than a node does"),
    "coordination_sound": Code(409, "etcd lost nothing that a recovery would bring back"),
    "coordination_lost": Code(409, "etcd lost its state, and the cluster is not recovered yet"),
    "other_cluster": Code(409, "etcd has another cluster under the name of this one"),
    "copies_alive": Code(409, "a copy that counts is there: nothing has to be given up"),
    "copy_missing": Code(409, "the node has no whole copy of the shard"),
    "loss_not_accepted": Code(409, "what is asked for may lose data, and that is not accepted"),
    "epochs_exhausted": Code(409, "the shard has no epoch left above the promised one"),
    "version_mismatch": Code(412, "the job is not at the version that `If-Match` names"),
    "body_too_large": Code(413, "the body is larger than the node takes"),
    "unsupported_media_type": Code(415, "the body is not `application/json` by its Content-Type"),
    "unsupported_encoding": Code(415, "the body has a `Content-Encoding`"),
    "invalid_body": Code(422, "a field that does not exist, is missing, or has the wrong type"),
    "invalid_job": Code(422, "a job that cannot work"),
    "past_schedule": Code(422, "an `@at` has passed, and the job names no `misfire` policy"),
    "unknown_type": Code(422, "a task has a type that this node does not know"),
    "unknown_dependency": Code(422, "a job of `dependencies` does not exist"),
    "invalid_if_match": Code(422, "`If-Match` is not an `ETag` of a job"),
    "invalid_if_none_match": Code(422, "`If-None-Match` is not `*`"),
    "invalid_parameters": Code(422, "parameters of a trigger are too long"),
    "invalid_query": Code(422, "a parameter of the query does not exist or cannot be read"),
    "invalid_event_id": Code(422, "`Last-Event-ID` is not the id of an event"),
    "invalid_execution_id": Code(422, "an id in a list is not one"),
    "no_items": Code(422, "there are none"),
    "too_many_items": Code(422, "there are more than 1,000"),
    "invalid_idempotency_key": Code(422, "it is longer than 255 characters, or not printable"),
    "idempotency_key_reused": Code(422, "the key was used for another request"),
    "too_many_executions": Code(429, "the shard holds as many executions as it may"),
    "too_many_jobs": Code(429, "the shard holds as many jobs as it may"),
    "internal": Code(500, "a bug in rota; the node's log has the details under the request id"),
    "record_unreadable": Code(
        500, "a stored record is damaged, or of another version's format; `detail` names it"
    ),
    "catching_up": Code(503, "a replaced job still decides fire times of its past"),
    "letters_waiting": Code(
        503, "too many changes of a job's dependencies wait for a shard that is closed"
    ),
    "busy": Code(
        503,
        "too many requests wait already, their bodies fill 256 MiB (128 MiB of one address), or "
        "too many change one job",
    ),
    "too_many_waiters": Code(503, "too many requests wait for executions already"),
    "too_many_readers": Code(503, "1,000 requests follow events already"),
    "disk_full": Code(503, "the node's disk is nearly full"),
    "storage_unavailable": Code(
        503, "the node cannot write; it is not known whether the request took effect"
    ),
    "not_ready": Code(503, "the node is starting or stopping, or etcd went back"),
    "stopping": Code(503, "the node is stopping"),
    "not_primary": Code(
        503, "no node that can be reached decides for the shard; nothing was decided"
    ),
    "coordinator_unavailable": Code(503, "etcd does not answer, or refuses; nothing was changed"),
    "copies_unreached": Code(503, "copies that count could not be asked what they have"),
    "nodes_unreached": Code(503, "nodes that may know more could not be asked what they have"),
    "nodes_unaware": Code(503, "nodes have not learned yet that etcd lost its state"),
    "recovery_overtaken": Code(503, "what was to be replaced changed meanwhile"),
    "outcome_unknown": Code(503, "etcd did not answer; it is not known whether it was changed"),
    "primary_lost": Code(
        503,
        "the node that decides for the shard was lost meanwhile; it is not known whether the "
        "request took effect",
    ),
}

KEYED = ("invalid_idempotency_key", "idempotency_key_reused")
"""Of an operation that takes an idempotency key."""
READING = ("storage_unavailable", "stopping", "not_primary", "primary_lost", "record_unreadable")
"""Of an operation that shows what is committed."""
DECIDING = ("busy", "disk_full", *READING)
"""Of an operation that asks a shard for a decision."""
WAITING = (*READING, "too_many_waiters")
"""Of an operation that waits for the ends of executions."""
