"""Checks of the cluster, from what its nodes report, and of etcd."""

from collections.abc import Iterator, Sequence

from rota.client.cli.cluster.cluster_views import status_of
from rota.client.cli.doctor.checks import CheckView, fine
from rota.client.cli.human import counted
from rota.wire.documents import ClusterView

ETCD_S = 5.0
"""The maximum delay of an answer of etcd, in seconds."""


def checks_of_cluster(view: ClusterView) -> Iterator[CheckView]:
    """Yield the checks of nodes, of their troubles, of shards, and of access."""
    status = status_of(view)
    alive = len(status.active) + len(status.draining)
    if status.gone:
        yield CheckView(
            check="nodes",
            state="fail",
            seen=f"{', '.join(status.gone)} of {len(view.nodes)} gone",
            mend="start them, or remove lost ones with `rota node forget`",
        )
    else:
        yield fine("nodes", f"{alive} of {len(view.nodes)} alive")
    # Clock, disk, event loop, etcd and links to peers, as the nodes themselves measure them.
    for trouble in status.troubles:
        yield CheckView(
            check="health", state="fail", seen=trouble, mend="see docs/how-to/operate.md"
        )
    silent = [each.node_id for each in view.nodes if each.troubles is None and each.session]
    if silent:
        yield CheckView(
            check="health",
            state="warn",
            seen=f"no answer from {', '.join(silent)}",
            mend="check the network between the nodes, and their logs",
        )
    elif not status.troubles:
        yield fine("health", "no node reports a problem")
    yield _shards(view)
    for warning in status.warnings:
        yield CheckView(
            check="access", state="warn", seen=warning, mend="see docs/how-to/use-keys.md"
        )


def _shards(view: ClusterView) -> CheckView:
    status = status_of(view)
    if status.open < status.shards:
        return CheckView(
            check="shards",
            state="fail",
            seen=f"{status.shards - status.open} of {status.shards} are not open",
            mend="`rota cluster shards --unwell` lists them",
        )
    if status.short_of_copies:
        return CheckView(
            check="shards",
            state="warn",
            seen=f"{status.short_of_copies} of {status.shards} lack copies",
            mend="start more nodes, or wait for `rota cluster moves`",
        )
    return fine("shards", f"{counted(status.shards, 'shard', 'shards')} open, with all copies")


def checks_of_etcd(urls: Sequence[str], ca: str | None) -> Iterator[CheckView]:
    """Yield a check for each member of etcd, by its page ``/health``, which needs no user.

    Args:
        urls: The URLs of the members.
        ca: The file of the authorities of their certificates; None for those of the system.
    """
    for url in urls:
        fault = _fault_of_etcd(url, ca)
        yield (
            fine("etcd", f"{url} answers")
            if fault is None
            else CheckView(
                check="etcd",
                state="fail",
                seen=f"{url}: {fault}",
                mend="start it, or correct the URL; see docs/how-to/run-a-cluster.md",
            )
        )


def _fault_of_etcd(url: str, ca: str | None) -> str | None:
    """Return why a member of etcd does not work; None if it does."""
    import ssl
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    if not url.startswith(("http://", "https://")):
        return "this is no URL; write http://HOST:2379"
    try:
        context = ssl.create_default_context(cafile=ca)
        with urlopen(f"{url.rstrip('/')}/health", timeout=ETCD_S, context=context) as answer:
            text = answer.read(4096).decode(errors="replace")
    except HTTPError as error:
        return f"it answers {error.code}"
    except (URLError, OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
    return None if '"true"' in text else "it reports that it is not healthy"
