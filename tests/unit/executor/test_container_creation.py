"""Requests for containers, without an engine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.core.model.attempt import AttemptKey, Order, Token
from rota.core.model.ids import Epoch, ExecutionId, Index, NodeId
from rota.core.model.work import Image, ResourceLimits, Work
from rota.core.timing.instants import Instant
from rota.executor.attempt_settings import AttemptSettings
from rota.executor.container.creation import creation
from rota.executor.launch.binds import ProtectedPaths
from rota.executor.secret_values import NO_SECRETS, SecretValues

Json = Any  # Any: the JSON of a request, checked by each test.
MIB = 1 << 20
UNLIMITED = ResourceLimits()
TERMS = AttemptSettings(container_memory=64 * MIB, container_pids=20)


def host_config(limits: ResourceLimits, settings: AttemptSettings) -> dict[str, Json]:
    """Return the part of the request about the host."""
    return msgspec.convert(request(limits, settings)["HostConfig"], dict[str, Json])


def request(
    limits: ResourceLimits = UNLIMITED,
    settings: AttemptSettings = TERMS,
    secrets: Path | None = None,
    values: SecretValues = NO_SECRETS,
) -> dict[str, Json]:
    """Return the request that creates a container."""
    order = Order(
        key=AttemptKey(ExecutionId("3f2a9c0011223344-0660c1a4f8fe40-0000"), "main", 1),
        token=Token(Epoch(1), Index(1)),
        work=Work(executor="container", image=Image(name="busybox"), limits=limits),
        fire_at=Instant(0),
    )
    return creation(
        order,
        node_id=NodeId("n"),
        store_id="s",
        folder=None,
        secrets=secrets,
        values=values,
        kept=ProtectedPaths("/data", ()),
        settings=settings,
        has_log_driver=True,
    )


def test_a_container_gets_the_paths_of_its_token_and_no_value() -> None:
    folder = Path("/dev/shm/rota-secrets-s/one")
    values = SecretValues(files={"db": b"VALUE-1"}, token=b"VALUE-2", authority=b"VALUE-3")

    body = request(secrets=folder, values=values)
    without_files = request(secrets=folder, values=SecretValues(token=b"VALUE-2"))

    assert "ROTA_SECRETS=/run/rota-secrets" in body["Env"]
    assert "ROTA_TOKEN_FILE=/run/rota-secrets/.rota-token" in body["Env"]
    assert "ROTA_CA=/run/rota-secrets/.rota-ca" in body["Env"]
    assert "VALUE" not in str(body)
    assert not [each for each in without_files["Env"] if "ROTA_SECRETS" in each or "CA=" in each]


@pytest.mark.parametrize(
    ("limits", "memory", "pids"),
    [
        (ResourceLimits(), 64 * MIB, 20),
        (ResourceLimits(memory=MIB), MIB, 20),
        (ResourceLimits(pids=3), 64 * MIB, 3),
        (ResourceLimits(cpu=0.5, memory=256 * MIB, pids=99), 256 * MIB, 99),
    ],
)
def test_a_container_has_its_own_limits_or_those_of_its_node_and_no_swap(
    limits: ResourceLimits, memory: int, pids: int
) -> None:
    asked = host_config(limits, TERMS)

    assert (asked["Memory"], asked["MemorySwap"], asked["PidsLimit"]) == (memory, memory, pids)
    assert asked.get("NanoCpus", 0) == limits.cpu * 1e9


def test_a_node_may_leave_containers_without_limits() -> None:
    asked = host_config(ResourceLimits(), AttemptSettings(container_memory=0, container_pids=0))

    assert not {"Memory", "MemorySwap", "PidsLimit", "NanoCpus"} & asked.keys()


def test_a_container_gets_no_rights_of_root() -> None:
    asked = host_config(ResourceLimits(), TERMS)

    assert asked["CapDrop"] == ["ALL"]
    assert asked["SecurityOpt"] == ["no-new-privileges"]
    assert not {"Privileged", "Devices", "PidMode", "IpcMode", "UsernsMode"} & asked.keys()
