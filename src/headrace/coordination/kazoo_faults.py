"""kazoo's exceptions as the faults of the store port."""

from __future__ import annotations

from typing import Final

from kazoo import exceptions as kazoo

from headrace.coordination.store import (
    BadVersion,
    ConnectionLost,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    StoreFailed,
    StoreFault,
)

_FAULTS: Final[dict[type[Exception], type[StoreFault]]] = {
    kazoo.NoNodeError: NoNode,
    kazoo.NodeExistsError: NodeExists,
    kazoo.BadVersionError: BadVersion,
    kazoo.NotEmptyError: NotEmpty,
    kazoo.ConnectionLoss: ConnectionLost,
    kazoo.ConnectionClosedError: ConnectionLost,
    kazoo.OperationTimeoutError: ConnectionLost,
    kazoo.SessionExpiredError: SessionExpired,
}
# Results of the operations in a failed multi that did not cause the failure.
BYSTANDERS: Final = (kazoo.RolledBackError, kazoo.RuntimeInconsistency)


def fault_of(error: Exception, path: str) -> StoreFault:
    for known, fault in _FAULTS.items():
        if isinstance(error, known):
            return fault(f"{path}: {type(error).__name__}")
    if isinstance(error, kazoo.NoAuthError | kazoo.AuthFailedError):
        return StoreFailed(
            f"{path}: ZooKeeper denies access: zookeeper.digest.user and zookeeper.digest.password must name the "
            "user that created the nodes"
        )
    return StoreFault(f"{path}: {type(error).__name__} {error}".rstrip())
