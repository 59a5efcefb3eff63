"""The API's documents: bodies of requests and of responses, in JSON with camelCase names.

Instants are RFC 3339 in UTC with microseconds. A duration is a number of seconds or text such as
``"1h30m"``. Later versions may add fields. Clients ignore unknown fields; nodes refuse them.

>>> import msgspec
>>> msgspec.json.encode(JobBody(name="hello", command="echo hello", stop_grace="5s"))
b'{"name":"hello","command":"echo hello","stopGrace":"5s"}'
"""

from rota.wire.documents.cluster import (
    ClusterView,
    LoadView,
    MoveView,
    NodeView,
    PromiseView,
    RepairView,
    ReplicaView,
    ShardView,
    VersionView,
)
from rota.wire.documents.document import ITEMS_MAX, Json, Profile, Timespan
from rota.wire.documents.events import EventView
from rota.wire.documents.executions import (
    AttemptView,
    DuplicateView,
    ErrorView,
    ExecutionList,
    ExecutionView,
    RerunBody,
    TaskView,
    WaitManyBody,
)
from rota.wire.documents.fire_times import LedgerEntryView, LedgerPage, NextFires, NextFireView
from rota.wire.documents.jobs import (
    CreatedItem,
    CreatedManyView,
    CreateManyBody,
    JobBody,
    JobList,
    JobView,
    LastExecutionView,
    LastSuccessView,
    PauseBody,
    RecentView,
    ScheduleBody,
    ScheduleView,
)
from rota.wire.documents.problems import FieldProblem, ProblemView
from rota.wire.documents.recovery import (
    ConfigurationView,
    CopyView,
    HashesView,
    HeldView,
    InventoryView,
    RecoveryView,
    ShardLossView,
    ShardRecoveryView,
)
from rota.wire.documents.shared_documents import (
    DocumentChangesView,
    DocumentChangeView,
    DocumentPage,
    DocumentView,
    JobTypeBody,
)
from rota.wire.documents.tasks import (
    ContainerBody,
    LimitsBody,
    LimitsView,
    PythonBody,
    RetryBody,
    SandboxBody,
    SandboxView,
    TaskBody,
    TaskSpecView,
)
from rota.wire.documents.triggers import (
    TriggerBody,
    TriggeredItem,
    TriggeredManyView,
    TriggeredView,
    TriggerItem,
    TriggerManyBody,
)

__all__ = [
    "ITEMS_MAX",
    "AttemptView",
    "ClusterView",
    "ConfigurationView",
    "ContainerBody",
    "CopyView",
    "CreateManyBody",
    "CreatedItem",
    "CreatedManyView",
    "DocumentChangeView",
    "DocumentChangesView",
    "DocumentPage",
    "DocumentView",
    "DuplicateView",
    "ErrorView",
    "EventView",
    "ExecutionList",
    "ExecutionView",
    "FieldProblem",
    "HashesView",
    "HeldView",
    "InventoryView",
    "JobBody",
    "JobList",
    "JobTypeBody",
    "JobView",
    "Json",
    "LastExecutionView",
    "LastSuccessView",
    "LedgerEntryView",
    "LedgerPage",
    "LimitsBody",
    "LimitsView",
    "LoadView",
    "MoveView",
    "NextFireView",
    "NextFires",
    "NodeView",
    "PauseBody",
    "ProblemView",
    "Profile",
    "PromiseView",
    "PythonBody",
    "RecentView",
    "RecoveryView",
    "RepairView",
    "ReplicaView",
    "RerunBody",
    "RetryBody",
    "SandboxBody",
    "SandboxView",
    "ScheduleBody",
    "ScheduleView",
    "ShardLossView",
    "ShardRecoveryView",
    "ShardView",
    "TaskBody",
    "TaskSpecView",
    "TaskView",
    "Timespan",
    "TriggerBody",
    "TriggerItem",
    "TriggerManyBody",
    "TriggeredItem",
    "TriggeredManyView",
    "TriggeredView",
    "VersionView",
    "WaitManyBody",
]
