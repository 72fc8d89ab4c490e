"""One `LeaderFetcher` per leader broker; assigns each followed partition to the fetcher of its leader.

Subscribes to the roles of `Partitions`. The fetcher of a leader that left the image stays idle, because its address is
unknown. When the leader returns, perhaps on another port, the next attempt uses the new address. Owned by the event
loop.
"""

from __future__ import annotations

import asyncio

from headrace.cluster.view import ClusterView
from headrace.replication.fetcher import FetchSettings, LeaderFetcher, OpenChannel
from headrace.replication.leader_channel import WireChannel
from headrace.replication.partition import Partition
from headrace.replication.partitions import Partitions


class Fetchers:
    def __init__(
        self,
        partitions: Partitions,
        view: ClusterView,
        listener: str,
        settings: FetchSettings | None = None,
        connect: OpenChannel = WireChannel.open,
    ) -> None:
        self._partitions = partitions
        self._view = view
        self._listener = listener
        self._settings = settings or FetchSettings()
        self._connect = connect
        self._by_leader: dict[int, LeaderFetcher] = {}
        self._following: dict[Partition, LeaderFetcher] = {}
        self._unsubscribe = partitions.subscribe(self.role_changed)

    def start(self) -> None:
        """Starts fetching the present partitions; later changes arrive by subscription."""
        for partition in self._partitions.all():
            self.role_changed(partition)

    def role_changed(self, partition: Partition) -> None:
        before = self._following.pop(partition, None)
        if before is not None:
            before.remove(partition)
        if partition.closed or partition.is_leader or partition.leader_id in (-1, self._partitions.broker_id):
            return
        fetcher = self._by_leader.get(partition.leader_id)
        if fetcher is None:
            fetcher = self._fetcher_for(partition.leader_id)
        fetcher.add(partition)
        self._following[partition] = fetcher

    def logs_failed(self) -> None:
        """Stops fetching the partitions whose logs went offline."""
        for partition, fetcher in self._following.items():
            if partition.log.offline_reason is not None:
                fetcher.look_again(partition)

    def _fetcher_for(self, leader: int) -> LeaderFetcher:
        fetcher = LeaderFetcher(
            leader,
            lambda: self._address_of(leader),
            lambda: (self._partitions.broker_id, self._partitions.broker_epoch),
            self._settings,
            self._partitions.throttles,
            self._connect,
        )
        self._by_leader[leader] = fetcher
        return fetcher

    def _address_of(self, broker: int) -> tuple[str, int] | None:
        info = self._view.current.brokers.get(broker)
        endpoint = info.endpoint(self._listener) if info is not None else None
        return (endpoint.host, endpoint.port) if endpoint is not None else None

    @property
    def follows(self) -> int:
        """The number of followed partitions."""
        return len(self._following)

    async def close(self) -> None:
        self._unsubscribe()
        self._following.clear()
        fetchers, self._by_leader = list(self._by_leader.values()), {}
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers))
