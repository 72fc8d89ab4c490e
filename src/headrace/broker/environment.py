"""What a broker takes from outside: its clock, the store of its cluster, and who sees requests before it does.

A broker of a machine uses the system's clock, ZooKeeper, and serves every request itself. Tests give it other ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from headrace.config import BrokerConfig, ConfigError
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.dataclass import dataclass
from headrace.net.connection import Connection
from headrace.net.replies import Reply

if TYPE_CHECKING:
    from headrace.coordination.store import ClusterStore

Serve = Callable[[memoryview, Connection], Reply]


async def open_cluster_store(config: BrokerConfig) -> ClusterStore:
    if config.shares_store:
        why = "only `headrace start` runs several processes; a broker that another program starts is one process"
        raise ConfigError("broker.processes", config.broker_processes, why)
    from headrace.coordination.zookeeper import open_zookeeper  # imported here: a standalone broker starts faster

    return await open_zookeeper(config)


def unchanged(serve: Serve) -> Serve:
    return serve


@dataclass(frozen=True, slots=True)
class Environment:
    """`open_store` opens the store of a cluster member; a standalone broker uses its own embedded one. `intercept`
    takes the function that serves a frame and returns the one that connections call."""

    clock: Clock = SYSTEM_CLOCK
    open_store: Callable[[BrokerConfig], Awaitable[ClusterStore]] = open_cluster_store
    intercept: Callable[[Serve], Serve] = unchanged


MACHINE: Final = Environment()
