"""Topics that come into being by being asked for: by clients (`auto.create.topics.enable`) and by coordinators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from headrace.broker.live_config import LiveConfig
from headrace.cluster.view import ClusterView
from headrace.controller.core.topics import NewTopic
from headrace.controller.gateway import ControllerGateway
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC

log = logging.getLogger("headrace.broker")

# Internal topic → (partitions, replication factor, segment size) keys, and what else makes it what it is.
_INTERNAL: Final = {
    GROUP_METADATA_TOPIC: (
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        {"cleanup.policy": "compact", "compression.type": "producer"},
    ),
    TRANSACTION_STATE_TOPIC: (
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        {"cleanup.policy": "compact", "compression.type": "uncompressed", "unclean.leader.election.enable": "false"},
    ),
    SHARE_GROUP_STATE_TOPIC: (
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        {"cleanup.policy": "delete", "compression.type": "uncompressed", "retention.ms": "-1"},
    ),
}


class TopicCreation:
    """Owned by the event loop. Askers of the same topic share one creation."""

    def __init__(self, config: LiveConfig, view: ClusterView, gateway: ControllerGateway) -> None:
        self._config = config
        self._view = view
        self._gateway = gateway
        self._under_way: dict[str, asyncio.Task[bool]] = {}

    def is_enabled(self) -> bool:
        return bool(self._config()["auto.create.topics.enable"])

    def begin(self, names: Iterable[str]) -> None:
        """Sets the creation of each going, unless it is under way already."""
        for name in names:
            self._once(name)

    async def ensure(self, name: str) -> bool:
        """Whether the topic is there, now at the latest."""
        return name in self._view.current.topics or await asyncio.shield(self._once(name))

    def _once(self, name: str) -> asyncio.Task[bool]:
        task = self._under_way.get(name)
        if task is None:
            task = self._under_way[name] = asyncio.create_task(self._create(name))
            task.add_done_callback(lambda _: self._under_way.pop(name, None))
        return task

    async def _create(self, name: str) -> bool:
        try:
            (result,) = await self._gateway.create_topics([self._new_topic(name)])
        except Fault as fault:
            log.warning("topic %s could not be created: %s", name, fault.message)
            return False
        if result.error not in (ErrorCode.none, ErrorCode.topic_already_exists):
            log.warning("topic %s could not be created: %s", name, result.message or result.error.name)
            return False
        return name in self._view.current.topics

    def _new_topic(self, name: str) -> NewTopic:
        internal = _INTERNAL.get(name)
        if internal is None:
            return NewTopic(name)
        partitions, replication_factor, segment_bytes, configs = internal
        config = self._config()
        # As many replicas as are asked for, or as there are brokers; Kafka would wait for the brokers.
        return NewTopic(
            name,
            int(config[partitions]),
            int(config[replication_factor]),
            configs={**configs, "segment.bytes": str(config[segment_bytes])},
        )
