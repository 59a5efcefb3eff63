"""Coordinators of a node, as its settings name them."""

from rota.node.coordination.credentials import Credentials
from rota.node.coordination.etcd import EtcdCoordinator
from rota.node.coordination.etcd_gateway import GatewayOptions
from rota.node.system.config import NodeConfig
from rota.node.system.entropy import Entropy

COORDINATION_FILE = "COORDINATION"
"""The file of the coordinator of a single node, in the data directory."""


def etcd_coordinator(config: NodeConfig, entropy: Entropy) -> EtcdCoordinator:
    """Return the coordinator of a cluster; nothing is sent yet.

    Args:
        config: The settings of a node, with endpoints of etcd.
        entropy: The source of random numbers.
    """
    return EtcdCoordinator(
        # Nodes begin at different endpoints, so that one member does not get all requests.
        GatewayOptions(
            endpoints=config.etcd,
            first=entropy.draw() % len(config.etcd),
            credentials=Credentials(
                user=config.etcd_user,
                password_file=config.etcd_password_file,
                ca_file=config.etcd_ca,
                certificate_file=config.etcd_cert,
                key_file=config.etcd_key,
            ),
        ),
        cluster=config.cluster,
        entropy=entropy,
    )
