"""Which requests only brokers may send, and where they are taken: the one place for that rule (DESIGN rule 11, adr 10).

Without an authorizer the network is what tells a broker from a client: with a listener of their own
(`inter.broker.listener.name`), brokers' requests are taken there and nowhere else, and a client that sends one on
another listener is answered CLUSTER_AUTHORIZATION_FAILED. With one listener for all nothing tells them apart, and they
are open, as in Kafka without an authorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.kernel.errors import ErrorCode, Refused

# Whether a request of that version is one that only a broker sends.
IsReplicas = Callable[[Any, int], bool]


def _always(_request: Any, _version: int) -> bool:
    return True


def _fetches_as_follower(request: Any, _version: int) -> bool:
    return bool(request.replica_id >= 0)


def _for_several_producers(_request: Any, version: int) -> bool:
    """From version 4 on it carries the transactions of many clients, for verification between brokers (KIP-890)."""
    return version >= 4


REPLICA_ONLY: Final[Mapping[int, IsReplicas]] = {
    1: _fetches_as_follower,  # Fetch: takes what is not committed, and moves the high watermark
    24: _for_several_producers,  # AddPartitionsToTxn
    27: _always,  # WriteTxnMarkers: ends other people's transactions
    56: _always,  # AlterPartition: the in-sync sets
    58: _always,  # Envelope: speaks for any client
    63: _always,  # BrokerHeartbeat: controlled shutdown
    67: _always,  # AllocateProducerIds
    73: _always,  # AssignReplicasToDirs: replicas on a failed or full disk
    83: _always,  # InitializeShareGroupState
    84: _always,  # ReadShareGroupState
    85: _always,  # WriteShareGroupState
    86: _always,  # DeleteShareGroupState
    87: _always,  # ReadShareGroupStateSummary
}


class ReplicaOnly:
    """`listener`: the brokers' own, or None where they share one with the clients."""

    def __init__(self, listener: str | None = None) -> None:
        self._listener = listener
        self._guarded: Mapping[int, IsReplicas] = {} if listener is None else REPLICA_ONLY

    def check(self, api_key: int, version: int, request: Any, listener: str) -> None:
        """Raises Refused for a broker's request that came where clients come."""
        is_replicas = self._guarded.get(api_key)
        if is_replicas is not None and listener != self._listener and is_replicas(request, version):
            raise Refused(
                ErrorCode.cluster_authorization_failed,
                f"only brokers may ask this, on listener {self._listener}; this is listener {listener}",
            )
