"""Feature levels (KIP-584): the supported levels of this release, the finalized levels, and which brokers support them.

The controller finalizes and stores levels; level 0 is not stored. Every broker registers with the levels that it
supports. The controller finalizes a level only if all brokers support it, and rejects a broker that does not support
the finalized levels. (Kafka's ZooKeeper mode does the same.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.cluster.core.image import BrokerInfo, ClusterImage
from headrace.kernel.errors import ErrorCode, Refused

CONSUMER_GROUPS: Final = "group.version"
SHARE_GROUPS: Final = "share.version"
STREAMS_GROUPS: Final = "streams.version"
ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"
# name → (lowest, highest) level. The numbers are those of Apache Kafka 4.3, because clients act on them:
# transaction.version 2 switches them to KIP-890, group.version 1 offers KIP-848, streams.version 1 offers KIP-1071.
SUPPORTED: Final[dict[str, tuple[int, int]]] = {
    CONSUMER_GROUPS: (0, 1),
    "metadata.version": (7, 30),
    SHARE_GROUPS: (0, 1),
    STREAMS_GROUPS: (0, 1),
    "transaction.version": (0, 2),
    ELIGIBLE_LEADERS: (0, 1),
}
INITIAL_LEVELS: Final[dict[str, int]] = {name: highest for name, (_, highest) in SUPPORTED.items()}

# (name, lowest, highest), as in a registration.
Ranges = Iterable[tuple[str, int, int]]
OWN_RANGES: Final = tuple((name, lowest, highest) for name, (lowest, highest) in SUPPORTED.items())


def level_of(image: ClusterImage, name: str) -> int:
    """The finalized level. Before the first controller stores levels, this is the level that it will store."""
    return (image.features or INITIAL_LEVELS).get(name, 0)


def require(image: ClusterImage, name: str) -> None:
    """Raises UNSUPPORTED_VERSION if the feature of a request is at level 0. As in Kafka, ApiVersions still lists such
    requests.
    """
    if level_of(image, name) == 0:
        raise Refused(
            ErrorCode.unsupported_version,
            f"feature {name} is at level 0: raise it with kafka-features.sh upgrade --feature {name}=1",
        )


def ranges_of(broker: BrokerInfo) -> dict[str, tuple[int, int]]:
    """The ranges of a broker. Old releases register without ranges and support exactly the present ones."""
    return {name: (lowest, highest) for name, lowest, highest in broker.features or OWN_RANGES}


def why_unfit(image: ClusterImage, broker: BrokerInfo) -> str | None:
    """Why this broker does not support the finalized levels, or None if it does."""
    ranges = ranges_of(broker)
    for name, level in image.features.items():
        lowest, highest = ranges.get(name, (0, 0))
        if not lowest <= level <= highest:
            able = f"supports {lowest} to {highest}" if name in ranges else "does not know this feature"
            return (
                f"the cluster has finalized {name} at level {level}, broker {broker.id} {able}: "
                "run the release of the other brokers, or lower the level with kafka-features.sh downgrade first"
            )
    return None
