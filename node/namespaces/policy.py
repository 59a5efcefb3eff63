"""The policy of a namespace: what its tasks may do on the machines of the nodes.

A job is checked when it is saved, and each attempt again on the node that would run it, because a
policy may have become stricter since.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from rota.core.errors import Problem
from rota.core.model.permitted_binds import is_permitted
from rota.core.model.sizes import format_size, parse_size
from rota.core.model.work import Bind, Image, ResourceLimits, Selector, Work
from rota.core.model.work_checks import PROFILES, is_unsandboxed
from rota.core.model.work_kinds import kind_of
from rota.core.quoting import in_quotes
from rota.wire.documents import LimitsBody, NamespaceBody, PolicyBody

NETWORKS = ("none", "isolated", "any")
"""The accesses to the network, from the strictest to the widest."""
NO_LIMITS = ResourceLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy; None means that everything is allowed.

    Attributes:
        executors: The executors that tasks may use.
        sandbox: The least strict profile that a task may have.
        network: The widest access to the network.
        binds: The folders at or below which the sources of binds lie.
        images: Patterns of the images of containers.
        users: The users as which programs without a sandbox run.
        limits: The widest limits of an attempt; zero is no limit.
        nodes: The labels of the nodes on which tasks run.
    """

    executors: tuple[str, ...] | None = None
    sandbox: str = "none"
    network: str = "any"
    binds: tuple[str, ...] | None = None
    images: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    limits: ResourceLimits = NO_LIMITS
    nodes: Selector = ()

    def problems_of(self, work: Work) -> Iterator[Problem]:
        """Return what the policy does not allow, with pointers into the definition of the task."""
        if self.executors is not None and work.executor not in self.executors:
            yield Problem(
                f"/{kind_of(work.executor).field}",
                f"the executor {in_quotes(work.executor)} is not allowed; "
                f"{_listed('allowed are', self.executors)}",
            )
            return
        yield from self._problems_of_user(work)
        yield from self._problems_of_limits(work)
        if work.image is not None:
            yield from self._problems_of_container(work.image)
        elif kind_of(work.executor).is_program:
            yield from self._problems_of_process(work)
        elif self.sandbox != "none" or self.network != "any":
            yield Problem(
                f"/{kind_of(work.executor).field}",
                f"a task of the executor {in_quotes(work.executor)} has no sandbox; use a command "
                f"with the sandbox {in_quotes(self._least_profile)}, or a container",
            )

    def problems_of_selector(self, selector: Selector) -> Iterator[Problem]:
        """Return the labels of nodes that a task lacks in its ``nodeSelector``."""
        for label, value in self.nodes:
            if (label, value) not in selector:
                yield Problem(
                    "/nodeSelector",
                    f"the label {in_quotes(f'{label}={value}')} of a node is required; add "
                    f"{in_quotes(label)}: {in_quotes(value)}",
                )

    def lacks(self, labels: Mapping[str, str]) -> str:
        """Return a label that tasks require of a node with *labels*; empty for none."""
        found = (f"{label}={value}" for label, value in self.nodes if labels.get(label) != value)
        return next(found, "")

    @property
    def _least_profile(self) -> str:
        return self.sandbox if self.sandbox != "none" else "default"

    def _problems_of_process(self, work: Work) -> Iterator[Problem]:
        profile = work.sandbox.profile
        if PROFILES.index(profile) < PROFILES.index(self.sandbox):
            yield Problem(
                "/sandbox",
                f"the sandbox {in_quotes(profile)} is not allowed; write {in_quotes(self.sandbox)}",
            )
        elif _is_wider(network := _network_of_process(work), self.network):
            remedy = (
                'write the sandbox "strict"'
                if self.network == "isolated"
                else 'write the sandbox "strict" without "network": true'
            )
            yield _network_problem("/sandbox/network", network, self.network, remedy)
        yield from self._problems_of_binds(work.sandbox.binds, "/sandbox/binds")

    def _problems_of_user(self, work: Work) -> Iterator[Problem]:
        is_of_node = is_unsandboxed(work)
        if self.users is None or not (is_of_node or work.user) or work.user in self.users:
            return
        found = f"the user {in_quotes(work.user)}" if work.user else "the user of the node"
        yield Problem("/user", f"{found} is not allowed; {_listed('allowed are', self.users)}")

    def _problems_of_limits(self, work: Work) -> Iterator[Problem]:
        most, given = self.limits, work.limits
        if most == NO_LIMITS:
            return
        if not kind_of(work.executor).has_limits:
            detail = f"tasks of the executor {in_quotes(work.executor)} have no limits"
            yield Problem(f"/{kind_of(work.executor).field}", detail)
            return
        for field, limit, largest, text in (
            ("cpu", given.cpu, most.cpu, f"{most.cpu:g}"),
            ("memory", given.memory, most.memory, format_size(most.memory)),
            ("pids", given.pids, most.pids, str(most.pids)),
        ):
            if largest and not 0 < limit <= largest:
                found = "the limit is larger than allowed" if limit else "a limit is required"
                yield Problem(f"/limits/{field}", f"{found}; write {text} or less")

    def _problems_of_container(self, image: Image) -> Iterator[Problem]:
        if self.images is not None and not any(fnmatchcase(image.name, p) for p in self.images):
            yield Problem(
                "/container/image",
                f"the image {in_quotes(image.name)} is not allowed; "
                f"{_listed('allowed are', self.images)}",
            )
        if _is_wider(network := _network_of_container(image), self.network):
            remedy = f"write {'bridge' if self.network == 'isolated' else 'none'}"
            yield _network_problem("/container/network", network, self.network, remedy)
        yield from self._problems_of_binds(image.binds, "/container/binds")

    def _problems_of_binds(self, binds: tuple[Bind, ...], pointer: str) -> Iterator[Problem]:
        if self.binds is None:
            return
        for number, bind in enumerate(binds):
            if not is_permitted(bind, self.binds):
                use = "writable " if bind.is_writable else ""
                yield Problem(
                    f"{pointer}/{number}",
                    f"a {use}bind of {in_quotes(bind.source)} is not allowed; "
                    f"{_listed('allowed are folders in', self.binds)}",
                )


OPEN = Policy()
"""Everything is allowed."""
STRICT = Policy(executors=("process", "container"), sandbox="strict", network="isolated", binds=())
"""Tasks are kept from the machine, its user and each other."""
DEFAULT_POLICIES: Mapping[str, Policy] = {"open": OPEN, "strict": STRICT}
"""The values of the setting ``default_policy``."""


def policy_in(definition: object) -> Policy:
    """Return the policy in the document of a namespace.

    Raises:
        msgspec.ValidationError: The definition is not understood.
        ValueError: Likewise.
    """
    return policy_of(msgspec.convert(definition, NamespaceBody))


def policy_of(namespace: NamespaceBody) -> Policy:
    """Return the policy of a namespace.

    Raises:
        ValueError: The policy is not understood.
    """
    body = namespace.policy or PolicyBody()
    if body.sandbox not in PROFILES or body.network not in NETWORKS:
        raise ValueError("a profile or an access to the network is unknown")
    return Policy(
        executors=None if body.executors is None else tuple(body.executors),
        sandbox=body.sandbox,
        network=body.network,
        binds=None if body.binds is None else tuple(body.binds),
        images=None if body.images is None else tuple(body.images),
        users=None if body.users is None else tuple(body.users),
        limits=_limits_of(body.limits or LimitsBody()),
        nodes=tuple(sorted(body.nodes.items())),
    )


def _limits_of(body: LimitsBody) -> ResourceLimits:
    memory = body.memory
    return ResourceLimits(
        cpu=body.cpu or 0.0,
        memory=parse_size(memory) if isinstance(memory, str) else memory or 0,
        pids=body.pids or 0,
    )


def _network_of_process(work: Work) -> str:
    """Return the access to the network that the sandbox of a process leaves."""
    if work.sandbox.profile == "none":
        return "any"
    if not work.sandbox.has_network:
        return "none"
    return "isolated" if work.sandbox.profile == "strict" else "any"


def _network_of_container(image: Image) -> str:
    """Return the access to the network that a container has."""
    if image.network == "none":
        return "none"
    return "any" if image.network == "host" else "isolated"


def _is_wider(network: str, allowed: str) -> bool:
    return NETWORKS.index(network) > NETWORKS.index(allowed)


def _network_problem(pointer: str, network: str, allowed: str, remedy: str) -> Problem:
    return Problem(
        pointer,
        f"the network {in_quotes(network)} is not allowed, only {in_quotes(allowed)}; {remedy}",
    )


def _listed(begin: str, items: tuple[str, ...]) -> str:
    return f"{begin} {', '.join(items)}" if items else "none is allowed"
