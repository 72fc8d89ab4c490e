"""Feature levels (KIP-584): what this release can do, what a new cluster starts with, and how levels may move."""

from __future__ import annotations

from typing import Final

from headrace.cluster.core.changes import FeatureSet
from headrace.cluster.core.image import ClusterImage
from headrace.kernel.errors import ErrorCode, Refused

# name → (lowest, highest) level. The numbers are those of Apache Kafka 4.3, because clients act on them:
# transaction.version 2 switches them to KIP-890, group.version 1 offers KIP-848.
SUPPORTED: Final[dict[str, tuple[int, int]]] = {
    "group.version": (0, 1),
    "metadata.version": (7, 30),
    "share.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
}
AT_BIRTH: Final[dict[str, int]] = {name: highest for name, (_, highest) in SUPPORTED.items()}

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def change_level(image: ClusterImage, name: str, level: int, upgrade_type: int) -> FeatureSet | None:
    """The change, or None when the level is already that. Raises Refused."""
    code = ErrorCode.invalid_update_version
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        what = f"Invalid update version {level} for feature {name}."
        why = f"{what} The controller does not support the given upgrade type."
        raise Refused(code, why)
    if name not in SUPPORTED:
        raise Refused(
            code, f"Invalid update version {level} for feature {name}. The broker does not support this feature."
        )
    lowest, highest = SUPPORTED[name]
    if level < 0 or (level > 0 and not lowest <= level <= highest) or (level == 0 and lowest > 0):
        why = f"Invalid update version {level} for feature {name}. This release supports {lowest} to {highest}."
        raise Refused(code, why)
    now = image.features.get(name, 0)
    if level == now:
        return None
    if level > now and upgrade_type != UPGRADE:
        why = f"Invalid update version {level} for feature {name}. Can't downgrade to a newer version."
        raise Refused(code, why)
    if level < now and upgrade_type == UPGRADE:
        why = (
            f"Invalid update version {level} for feature {name}. "
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
        raise Refused(code, why)
    if name == "metadata.version" and level < now and upgrade_type == SAFE_DOWNGRADE:
        why = f"Invalid metadata.version {level}. Refusing the downgrade because it might delete metadata."
        raise Refused(code, why)
    return FeatureSet(name, level)
