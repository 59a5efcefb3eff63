"""The operations of the API: method, path, documents, and what a repetition does.

Handlers are bound to these rows (`rota.node.api.requests.operations`), and the clients make their
calls from them (`rota.client.requests`). Verbs and errors are declared by the handlers.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from rota.wire.documents import (
    BackfillList,
    BackfillView,
    CalendarPreview,
    ChainList,
    ChangePage,
    ClusterView,
    CreatedManyView,
    DocumentChangesView,
    DocumentPage,
    DocumentView,
    EventView,
    ExecutionList,
    ExecutionView,
    ExplanationView,
    HashesView,
    HookTests,
    InventoryView,
    JobList,
    JobView,
    KeyRingView,
    LedgerPage,
    NewTokenView,
    NextFires,
    NodeView,
    PromiseView,
    QuotaView,
    ReceivedEventView,
    RecoveryView,
    RepairView,
    RewrapView,
    SecretPage,
    SecretView,
    ShardLossView,
    StateList,
    StateView,
    TriggeredManyView,
    TriggeredView,
    VersionView,
    WhoamiView,
)

T_co = TypeVar("T_co", covariant=True)


class Repetition(Enum):
    """What a repetition of a request does, whose first answer was lost."""

    READS = "The operation changes nothing."
    KEYED = "With the same idempotency key, it has no further effect."
    HARMLESS = "It has no further effect."
    UNSAFE = "It has a further effect, or is refused."


@dataclass(frozen=True, slots=True)
class Operation(Generic[T_co]):
    """One operation.

    Attributes:
        method: The HTTP method.
        path: The path, with the names of variable parts in braces.
        view: The document in the answer; ``bytes`` for text, None for an answer without content.
        repetition: What a repetition does.
    """

    method: str
    path: str
    view: type[T_co]
    repetition: Repetition = Repetition.READS

    def of(self, kind: str) -> "Operation[T_co]":
        """Return the operation for a kind of shared documents, such as ``types``."""
        path = self.path.replace("{kind}", kind)
        return Operation(self.method, path, self.view, self.repetition)


_API = "/api/v1"
_JOBS, _JOB = f"{_API}/jobs", f"{_API}/jobs/{{job}}"
_EXECUTIONS, _EXECUTION = f"{_API}/executions", f"{_API}/executions/{{execution}}"
_KIND, _DOCUMENT = f"{_API}/{{kind}}", f"{_API}/{{kind}}/{{document}}"
_NAMESPACE = f"{_API}/namespaces/{{document}}"
_SECRET = f"{_API}/secrets/{{namespace}}/{{secret}}"
_BACKFILL = f"{_JOB}/backfills/{{backfill}}"
_STATE = f"{_JOB}/state/{{key}}"
_NODE, _SHARD = f"{_API}/nodes/{{node}}", f"{_API}/shards/{{shard}}"
_NOTHING = type(None)
_KEYED, _HARMLESS, _UNSAFE = Repetition.KEYED, Repetition.HARMLESS, Repetition.UNSAFE

CREATE_JOB = Operation("POST", _JOBS, JobView, _KEYED)
CREATE_JOBS = Operation("POST", f"{_JOBS}:batch", CreatedManyView, _KEYED)
PUT_JOBS = Operation("PUT", f"{_JOBS}:batch", CreatedManyView, _HARMLESS)
PUT_JOB = Operation("PUT", _JOB, JobView, _KEYED)
PATCH_JOB = Operation("PATCH", _JOB, JobView, _KEYED)
DELETE_JOB = Operation("DELETE", _JOB, _NOTHING, _KEYED)
PAUSE_JOB = Operation("POST", f"{_JOB}/pause", JobView, _KEYED)
RESUME_JOB = Operation("POST", f"{_JOB}/resume", JobView, _KEYED)
GET_JOB = Operation("GET", _JOB, JobView)
LIST_JOBS = Operation("GET", _JOBS, JobList)
TEST_HOOKS = Operation("POST", f"{_JOB}/hooks/test", HookTests)
CREATE_BACKFILL = Operation("POST", f"{_JOB}/backfills", BackfillView, _KEYED)
LIST_BACKFILLS = Operation("GET", f"{_JOB}/backfills", BackfillList)
GET_BACKFILL = Operation("GET", _BACKFILL, BackfillView)
PAUSE_BACKFILL = Operation("POST", f"{_BACKFILL}/pause", BackfillView, _HARMLESS)
RESUME_BACKFILL = Operation("POST", f"{_BACKFILL}/resume", BackfillView, _HARMLESS)
CANCEL_BACKFILL = Operation("POST", f"{_BACKFILL}/cancel", BackfillView, _HARMLESS)
LIST_STATE = Operation("GET", f"{_JOB}/state", StateList)
GET_STATE = Operation("GET", _STATE, StateView)
PUT_STATE = Operation("PUT", _STATE, StateView, _HARMLESS)
DELETE_STATE = Operation("DELETE", _STATE, _NOTHING, _HARMLESS)
NEXT_FIRES = Operation("GET", f"{_JOB}/next", NextFires)
LEDGER = Operation("GET", f"{_JOB}/ledger", LedgerPage)
EXPLAIN = Operation("GET", f"{_JOB}/explain", ExplanationView)
UNFIRED = Operation("GET", f"{_API}/ledger", LedgerPage)

CHANGES = Operation("GET", f"{_API}/changes", ChangePage)
VERIFY_CHANGES = Operation("GET", f"{_API}/changes:verify", ChainList)

LIST_DOCUMENTS = Operation("GET", _KIND, DocumentPage)
GET_DOCUMENT = Operation("GET", _DOCUMENT, DocumentView)
DOCUMENT_CHANGES = Operation("GET", f"{_DOCUMENT}/changes", DocumentChangesView)
PUT_DOCUMENT = Operation("PUT", _DOCUMENT, DocumentView, _HARMLESS)
DELETE_DOCUMENT = Operation("DELETE", _DOCUMENT, _NOTHING, _UNSAFE)
PREVIEW_CALENDARS = Operation("POST", f"{_API}/calendars:preview", CalendarPreview)
DELIVER_WEBHOOK = Operation("POST", f"{_API}/webhooks/{{document}}", ReceivedEventView, _HARMLESS)
PAUSE_NAMESPACE = Operation("POST", f"{_NAMESPACE}:pause", DocumentView, _HARMLESS)
RESUME_NAMESPACE = Operation("POST", f"{_NAMESPACE}:resume", DocumentView, _HARMLESS)
NAMESPACE_QUOTA = Operation("GET", f"{_NAMESPACE}/quota", QuotaView)

WHOAMI = Operation("GET", f"{_API}/whoami", WhoamiView)
CREATE_KEY = Operation("POST", f"{_API}/keys", NewTokenView, _UNSAFE)
ROTATE_KEY = Operation("POST", f"{_API}/keys/{{document}}/rotate", NewTokenView, _UNSAFE)
INIT_ACCESS = Operation("POST", f"{_API}/auth:init", NewTokenView, _UNSAFE)

LIST_SECRETS = Operation("GET", f"{_API}/secrets", SecretPage)
GET_SECRET = Operation("GET", _SECRET, SecretView)
PUT_SECRET = Operation("PUT", _SECRET, SecretView, _HARMLESS)
DELETE_SECRET = Operation("DELETE", _SECRET, _NOTHING, _UNSAFE)
KEY_RING = Operation("GET", f"{_API}/keyring", KeyRingView)
REWRAP_SECRETS = Operation("POST", f"{_API}/keyring:rewrap", RewrapView, _HARMLESS)

TRIGGER_JOB = Operation("POST", f"{_JOB}/trigger", TriggeredView, _KEYED)
# Each item has an idempotency key of its own.
TRIGGER_JOBS = Operation("POST", f"{_EXECUTIONS}:batch", TriggeredManyView, _HARMLESS)
RERUN = Operation("POST", f"{_EXECUTION}/rerun", TriggeredView, _KEYED)
GET_EXECUTION = Operation("GET", _EXECUTION, ExecutionView)
LIST_EXECUTIONS = Operation("GET", _EXECUTIONS, ExecutionList)
WAIT = Operation("GET", f"{_EXECUTION}/wait", ExecutionView)
WAIT_FOR_MANY = Operation("POST", f"{_EXECUTIONS}:wait", ExecutionList)
CANCEL = Operation("POST", f"{_EXECUTION}/cancel", ExecutionView, _HARMLESS)
ANSWER_TASK = Operation("POST", f"{_EXECUTION}/tasks/{{task}}/answer", ExecutionView, _HARMLESS)
POST_EVENT = Operation("POST", f"{_EXECUTION}/events", ExecutionView, _HARMLESS)
OUTPUT = Operation("GET", f"{_EXECUTION}/tasks/{{task}}/output", bytes)
EVENTS = Operation("GET", f"{_API}/events", EventView)
SEND_EVENT = Operation("POST", f"{_API}/events", ReceivedEventView, _HARMLESS)

CLUSTER = Operation("GET", f"{_API}/cluster", ClusterView)
DRAIN_NODE = Operation("POST", f"{_NODE}:drain", NodeView, _HARMLESS)
UNDRAIN_NODE = Operation("POST", f"{_NODE}:undrain", NodeView, _HARMLESS)
FORGET_NODE = Operation("DELETE", _NODE, _NOTHING, _UNSAFE)
SHARD_PROMISE = Operation("GET", f"{_SHARD}/promise", PromiseView)
REPAIR_SHARD = Operation("POST", f"{_SHARD}:repair", RepairView, _UNSAFE)
RECOVER_SHARD = Operation("POST", f"{_SHARD}:recover", ShardLossView, _UNSAFE)
INVENTORY = Operation("GET", f"{_API}/cluster/inventory", InventoryView)
INVENTORY_HASHES = Operation("GET", f"{_API}/cluster/inventory/hashes", HashesView)
RECOVER_COORDINATION = Operation("POST", f"{_API}/cluster/recovery", RecoveryView, _UNSAFE)

VERSION = Operation("GET", "/version", VersionView)
LIVE = Operation("GET", "/livez", bytes)
READY = Operation("GET", "/readyz", bytes)
METRICS = Operation("GET", "/metrics", bytes)
OPENAPI = Operation("GET", "/openapi.json", bytes)
