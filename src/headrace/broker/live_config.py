"""The broker's settings as they are now: the file's, with the cluster's dynamic ones laid over them.

Follows the cluster image. Subscribed before everything else that follows it, so that whoever acts on an image finds its
settings in force.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from headrace.cluster.core.image import ClusterImage
from headrace.config import BrokerConfig, ConfigError

log = logging.getLogger("headrace.broker")


class LiveConfig:
    def __init__(self, static: BrokerConfig, broker_id: int) -> None:
        self.current = static
        self._static = static
        self._name = str(broker_id)
        self._subscribers: list[Callable[[BrokerConfig], None]] = []

    def __call__(self) -> BrokerConfig:
        return self.current

    def subscribe(self, callback: Callable[[BrokerConfig], None]) -> None:
        self._subscribers.append(callback)

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        own, default = new.config_of("broker", self._name), new.config_of("broker", "")
        if own == old.config_of("broker", self._name) and default == old.config_of("broker", ""):
            return
        try:
            self.current = self._static.with_dynamic(own, default)
        except ConfigError as error:
            log.error("the dynamic settings of this broker do not fit together, the old ones stay: %s", error)
            return
        for callback in self._subscribers:
            callback(self.current)
