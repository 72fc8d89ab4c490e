"""Replication of one broker: composes its partitions, fetchers, ISR proposals and timers.

replication = Replication.for_broker(config, log_dirs, view, lease_held)
replication.start()                       # on the event loop, after the first image
replication.partitions.registered_as(epoch)   # whenever this broker has a (new) registration
await replication.close()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig, TopicConfig
from headrace.coordination.fallback_channel import Connect
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.replication.fetcher import FetchSettings, OpenChannel
from headrace.replication.fetchers import Fetchers
from headrace.replication.isr_changes import ControllerIsrChanges
from headrace.replication.leader_channel import WireChannel
from headrace.replication.lost_logs import LostLogs
from headrace.replication.partitions import LogConfigFor, Logs, Partitions
from headrace.replication.replica import Replica
from headrace.storage.log_config import LogConfig

logger = logging.getLogger(__name__)
_LONGEST_TICK_MS: Final = 250


class Replication:
    def __init__(
        self, partitions: Partitions, fetchers: Fetchers, isr_changes: ControllerIsrChanges, tick_ms: int
    ) -> None:
        self.partitions = partitions
        self.fetchers = fetchers
        self.isr_changes = isr_changes
        self._tick_s = tick_ms / 1000
        self._ticking: asyncio.Task[None] | None = None

    @classmethod
    def for_broker(
        cls,
        config: BrokerConfig,
        logs: Logs,
        view: ClusterView,
        log_config_for: LogConfigFor,
        *,
        listener: str,
        to_controller: Connect,
        when_no_room: Callable[[Replica], None],
        lost_logs: LostLogs | None = None,
        lease_held: Callable[[], bool] = lambda: True,
        connect: OpenChannel = WireChannel.open,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Replication:
        isr_changes = ControllerIsrChanges(view, listener, config.broker_id, to_controller)
        partitions = Partitions(
            config.broker_id,
            logs,
            view,
            log_config_for,
            isr_changes=isr_changes,
            when_no_room=when_no_room,
            lost_logs=lost_logs,
            lease_held=lease_held,
            serves_consumers_from_followers=(config.replica_selector_class or "").endswith("RackAwareReplicaSelector"),
            monotonic_ms=clock.monotonic_ms,
            wall_ms=clock.wall_ms,
        )
        partitions.throttles.set_rates(config)
        settings = FetchSettings(
            wait_max_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            backoff_ms=config.replica_fetch_backoff_ms,
            socket_timeout_ms=config.replica_socket_timeout_ms,
        )
        # A topic may have a shorter replica.lag.time.max.ms than the broker, but not below replica.fetch.wait.max.ms.
        tick_ms = min(_LONGEST_TICK_MS, config.replica_lag_time_max_ms // 2)
        return cls(partitions, Fetchers(partitions, view, listener, settings, connect), isr_changes, tick_ms)

    def settings_changed(self, config: BrokerConfig) -> None:
        """The broker's dynamic settings changed."""
        self.partitions.throttles.set_rates(config)
        self.partitions.broker_config_changed()

    def start(self) -> None:
        self.fetchers.start()
        self._ticking = asyncio.create_task(self._tick(), name="in-sync sets: who fell behind")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            try:
                self.partitions.tick()
            except Exception:  # the boundary of a tick: a bug in one tick must not end the timer
                logger.exception("looking after the in-sync sets failed")

    async def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
        await self.fetchers.close()
        await self.isr_changes.close()
        self.partitions.close()


def topic_log_config(broker_config: Callable[[], BrokerConfig]) -> LogConfigFor:
    """A topic's log settings: the overrides in the image over the broker's (dynamic) settings."""

    def log_config_for(topic: str, image: ClusterImage) -> LogConfig:
        return LogConfig.from_topic_config(TopicConfig(broker_config(), image.config_of("topic", topic)))

    return log_config_for
