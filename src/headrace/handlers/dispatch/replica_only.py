"""Which requests only brokers may send, and on which listener (ADR 10).

Without an authorizer only the listener distinguishes a broker from a client. If brokers have a listener of their own
(`inter.broker.listener.name`), the broker accepts their requests only there and answers CLUSTER_AUTHORIZATION_FAILED on
other listeners. With one listener for all it accepts them from every client, as Kafka does without an authorizer. With
an authorizer they also need ClusterAction (`authorization`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.kernel.errors import ErrorCode, Refused
from headrace.wire.apis import ApiKey
from headrace.wire.fetch_request import FetchRequest

# Whether only brokers send a request of that version.
IsReplicas = Callable[[object, int], bool]


def _always(_request: object, _version: int) -> bool:
    return True


def _fetches_as_follower(request: object, _version: int) -> bool:
    assert isinstance(request, FetchRequest)
    return request.replica_id >= 0


def _for_several_producers(_request: object, version: int) -> bool:
    """From version 4 on it carries the transactions of many clients, for verification between brokers (KIP-890)."""
    return version >= 4


REPLICA_ONLY: Final[Mapping[int, IsReplicas]] = {
    ApiKey.FETCH: _fetches_as_follower,  # reads what is not committed, and moves the high watermark
    ApiKey.ADD_PARTITIONS_TO_TXN: _for_several_producers,
    ApiKey.WRITE_TXN_MARKERS: _always,  # ends any producer's transactions
    ApiKey.ALTER_PARTITION: _always,  # the in-sync replicas
    ApiKey.ENVELOPE: _always,  # speaks for any client
    ApiKey.BROKER_HEARTBEAT: _always,  # controlled shutdown
    ApiKey.ALLOCATE_PRODUCER_IDS: _always,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _always,  # replicas on a failed or full disk
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _always,
    ApiKey.READ_SHARE_GROUP_STATE: _always,
    ApiKey.WRITE_SHARE_GROUP_STATE: _always,
    ApiKey.DELETE_SHARE_GROUP_STATE: _always,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _always,
}


class ReplicaOnly:
    """`listener`: the inter-broker listener, or None if brokers share one with clients."""

    def __init__(self, listener: str | None = None) -> None:
        self._listener = listener
        self.guarded: Mapping[int, IsReplicas] = {} if listener is None else REPLICA_ONLY

    def check(self, api_key: int, version: int, request: object, listener: str) -> None:
        """Raises Refused for a broker's request on a client listener."""
        is_replicas = self.guarded.get(api_key)
        if is_replicas is not None and listener != self._listener and is_replicas(request, version):
            raise Refused(
                ErrorCode.cluster_authorization_failed,
                f"only brokers may ask this, on listener {self._listener}; this is listener {listener}",
            )
