"""The current settings of the broker: the configuration file, overridden by the cluster's dynamic values.

Follows the cluster image. It is the first subscriber, so that the settings of an image are in force when other parts
follow that image.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from headrace.cluster.core.image import ClusterImage
from headrace.config import BrokerConfig, ConfigError

log = logging.getLogger("headrace.broker")

_MIN_INSYNC: Final = "min.insync.replicas"


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
        known = self.current.warnings
        try:
            self.current = self._static.with_dynamic(own, default)
        except ConfigError as error:
            log.error("the dynamic settings of this broker do not fit together, the old ones stay: %s", error)
            return
        for warning in self.current.warnings:
            if warning not in known:
                log.warning("%s", warning)
        in_file, stored = self._static.static.get(_MIN_INSYNC), default.get(_MIN_INSYNC)
        if in_file is not None and stored is not None and stored != in_file:
            log.warning(
                "%s=%s in the file has no effect: the cluster has %s stored for all brokers since its birth, "
                "which kafka-configs.sh --entity-type brokers --entity-default changes",
                _MIN_INSYNC,
                in_file,
                stored,
            )
        for callback in self._subscribers:
            callback(self.current)
