"""Creates topics on first use: by clients (`auto.create.topics.enable`) and by coordinators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.broker.live_config import LiveConfig
from headrace.cluster.view import ClusterView
from headrace.controller.core.topics import NewTopic
from headrace.controller.gateway import ControllerGateway
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC

log = logging.getLogger("headrace.broker")

# Internal topic → setting names of its partitions, replication factor and configs, and its fixed configs.
_INTERNAL: Final = {
    GROUP_METADATA_TOPIC: (
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        {"segment.bytes": "offsets.topic.segment.bytes"},
        {"cleanup.policy": "compact", "compression.type": "producer"},
    ),
    TRANSACTION_STATE_TOPIC: (
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        {
            "segment.bytes": "transaction.state.log.segment.bytes",
            "min.insync.replicas": "transaction.state.log.min.isr",
        },
        {"cleanup.policy": "compact", "compression.type": "uncompressed", "unclean.leader.election.enable": "false"},
    ),
    SHARE_GROUP_STATE_TOPIC: (
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        {
            "segment.bytes": "share.coordinator.state.topic.segment.bytes",
            "min.insync.replicas": "share.coordinator.state.topic.min.isr",
        },
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    ),
}
# Settings of every internal topic, independent of the broker's settings.
INTERNAL_SETTINGS: Final = {name: fixed for name, (*_, fixed) in _INTERNAL.items()}

NO_CONFIGS: Final[Mapping[str, str]] = {}


class TopicCreation:
    """Owned by the event loop. Requests for the same topic share one creation."""

    def __init__(self, config: LiveConfig, view: ClusterView, gateway: ControllerGateway) -> None:
        self._config = config
        self._view = view
        self._gateway = gateway
        self._under_way: dict[str, asyncio.Task[bool]] = {}

    def is_enabled(self) -> bool:
        return self._config().auto_create_topics_enable

    def begin(self, names: Iterable[str]) -> None:
        """Starts the creation of each topic, unless it is in progress already."""
        for name in names:
            self._once(name)

    async def ensure(self, name: str, configs: Mapping[str, str] = NO_CONFIGS) -> bool:
        """Creates the topic with these settings if it is missing. True when it exists."""
        return name in self._view.current.topics or await asyncio.shield(self._once(name, configs))

    def _once(self, name: str, configs: Mapping[str, str] = NO_CONFIGS) -> asyncio.Task[bool]:
        task = self._under_way.get(name)
        if task is None:
            task = self._under_way[name] = asyncio.create_task(self._create(name, configs))
            task.add_done_callback(lambda _: self._under_way.pop(name, None))
        return task

    async def _create(self, name: str, configs: Mapping[str, str]) -> bool:
        try:
            (result,) = await self._gateway.create_topics([self._new_topic(name, configs)])
        except Fault as fault:
            log.warning("topic %s could not be created: %s", name, fault.message)
            return False
        if result.error not in (ErrorCode.none, ErrorCode.topic_already_exists):
            log.warning("topic %s could not be created: %s", name, result.message or result.error.name)
            return False
        return name in self._view.current.topics

    def _new_topic(self, name: str, given: Mapping[str, str]) -> NewTopic:
        internal = _INTERNAL.get(name)
        if internal is None:
            return NewTopic(name, configs=dict(given))
        partitions, replication_factor, keys, configs = internal
        config = self._config()
        # With fewer brokers than replicas the controller refuses, and the client retries FindCoordinator.
        replicas = int(config[replication_factor])
        own = {name: str(config[key]) for name, key in keys.items()}
        if int(own.get("min.insync.replicas", 0)) > replicas:
            own["min.insync.replicas"] = str(replicas)  # a larger value would reject every write for ever
        return NewTopic(name, int(config[partitions]), replicas, configs={**configs, **own})
