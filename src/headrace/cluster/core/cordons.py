"""Cordoned brokers (KIP-1066): brokers whose log directories all get no new partitions. Pure.

A broker registers its directories and the cordons of its configuration file. A dynamic `cordoned.log.dirs` of the
broker replaces the latter.
"""

from __future__ import annotations

from typing import Final

from headrace.cluster.core.image import BrokerInfo, ClusterImage

KEY: Final = "cordoned.log.dirs"
ALL: Final = "*"


def is_cordoned(image: ClusterImage, broker_id: int) -> bool:
    broker = image.registered(broker_id)
    if broker is None or not broker.log_dirs:
        return False
    names = cordoned_names(image, broker)
    return ALL in names or all(not names.isdisjoint(directory) for directory in broker.log_dirs)


def cordoned_names(image: ClusterImage, broker: BrokerInfo) -> frozenset[str]:
    dynamic = image.config_of("broker", str(broker.id)).get(KEY)
    if dynamic is None:
        return frozenset(broker.cordoned_log_dirs)
    return frozenset(name.strip() for name in dynamic.split(",") if name.strip())
