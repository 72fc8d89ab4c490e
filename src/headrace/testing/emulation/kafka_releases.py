"""What earlier releases of Kafka answer to ApiVersions: the highest version of each API, and their features.

The versions are those of the message classes in `kafka-clients` of the last patch of each release, for the listener of
its brokers: ZooKeeper brokers up to 3.2, where KRaft was a preview, and KRaft brokers from 3.3 on. Versions that a
release calls unstable are left out, as its brokers leave them out. The features are the answers of a
new cluster. `tests/differential/test_kafka_releases.py` starts brokers of these releases and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from headrace.kernel.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    """Supported levels, and the finalized one: 0 if the feature is off."""

    lowest: int
    highest: int
    finalized: int


@dataclass(frozen=True, slots=True)
class Release:
    """`highest`: by API key. `off`: APIs that the release has, and refuses with its default settings. A release before
    3.3 has no features."""

    highest: Mapping[int, int]
    features: Mapping[str, Feature] = field(default_factory=dict)
    off: frozenset[int] = frozenset()


def _numbered(*highest: int | None) -> dict[int, int]:
    """The highest version of each API, by its key, from key 0 on; None for an API that the release does not have."""
    return {key: version for key, version in enumerate(highest) if version is not None}


def _metadata(level: int, lowest: int = 1) -> dict[str, Feature]:
    return {"metadata.version": Feature(lowest, level, level)}


# Keys 4 to 7 and 56 are between brokers and their controller: no client sends them.
_KAFKA_2_8: Final = _numbered(
    # 0–9: Produce, Fetch, ListOffsets, Metadata, …, OffsetCommit, OffsetFetch
    *(9, 12, 6, 11, None, None, None, None, 8, 7),
    # 10–19: FindCoordinator, groups, SASL handshake, ApiVersions, CreateTopics
    *(3, 7, 4, 4, 5, 5, 4, 1, 3, 7),
    # 20–29: DeleteTopics, DeleteRecords, InitProducerId, epochs, transactions, DescribeAcls
    *(6, 2, 4, 4, 3, 3, 3, 1, 3, 2),
    # 30–39: ACLs, configs, log directories, SaslAuthenticate, CreatePartitions, tokens
    *(2, 2, 4, 2, 2, 2, 2, 3, 2, 2),
    # 40–49: tokens, DeleteGroups, ElectLeaders, IncrementalAlterConfigs, reassignments, OffsetDelete, quotas
    *(2, 2, 2, 2, 1, 0, 0, 0, 1, 1),
    # 50–61: SCRAM users, …, UpdateFeatures, …, DescribeCluster, DescribeProducers
    *(0, 0, None, None, None, None, None, 0, None, None, 0, 0),
)
# ListOffsets, OffsetFetch, FindCoordinator; DescribeTransactions and ListTransactions are new.
_KAFKA_3_0: Final = _KAFKA_2_8 | {2: 7, 9: 8, 10: 4, 65: 0, 66: 0}
# Fetch by topic ids.
_KAFKA_3_1: Final = _KAFKA_3_0 | {1: 13, 3: 12}
# Reasons of joins and leaves.
_KAFKA_3_2: Final = _KAFKA_3_1 | {11: 9, 13: 5, 35: 3}
# The first release for KRaft in production: without delegation tokens and SCRAM users.
_KRAFT_LACKS: Final = (38, 39, 40, 41, 50, 51)
_KAFKA_3_3: Final = {key: version for key, version in _KAFKA_3_2.items() if key not in _KRAFT_LACKS} | {
    29: 3, 30: 3, 31: 3, 35: 4, 55: 1, 57: 1, 64: 0,
}  # fmt: skip
_KAFKA_3_5: Final = _KAFKA_3_3 | {1: 15, 2: 8, 50: 0, 51: 0}
_KAFKA_3_6: Final = _KAFKA_3_5 | {24: 4, 38: 3, 39: 2, 40: 2, 41: 3}
# Consumer groups (KIP-848) in early access, client metrics (KIP-714).
_KAFKA_3_7: Final = _KAFKA_3_6 | {0: 10, 1: 16, 8: 9, 9: 9, 60: 1, 68: 0, 71: 0, 72: 0, 74: 0}
_KAFKA_3_8: Final = _KAFKA_3_7 | {0: 11, 10: 5, 16: 5, 22: 5, 24: 5, 25: 4, 26: 4, 28: 4, 66: 1, 69: 0, 75: 0}
_KAFKA_3_9: Final = _KAFKA_3_8 | {1: 17, 2: 9, 10: 6, 18: 4, 55: 2, 80: 0, 81: 0}
# Consumer groups, and transactions that brokers verify (KIP-890).
_KAFKA_4_0: Final = _KAFKA_3_9 | {0: 12, 2: 10, 3: 13, 15: 6, 26: 5, 28: 5, 57: 2, 60: 2, 68: 1, 69: 1}
# Share groups (KIP-932) in preview.
_KAFKA_4_1: Final = _KAFKA_4_0 | {
    0: 13, 1: 18, 45: 1, 66: 2, 74: 1, 76: 1, 77: 1, 78: 1, 79: 1,
    83: 0, 84: 0, 85: 0, 86: 0, 87: 0, 90: 0, 91: 0, 92: 0,
}  # fmt: skip
# Streams groups (KIP-1071).
_KAFKA_4_2: Final = _KAFKA_4_1 | {
    2: 11, 8: 10, 9: 10, 27: 2, 78: 2, 79: 2, 80: 1, 85: 1, 87: 1, 88: 0, 89: 0, 90: 1,
}  # fmt: skip

# Heartbeats of consumer groups, which brokers take with their default settings from 4.0 on.
_CONSUMER_GROUPS: Final = frozenset({68})
# Heartbeats, fetches and acknowledgements of share groups, the same from 4.2 on.
_SHARE_GROUPS: Final = frozenset({76, 78, 79})
# A quorum of controllers that is written in the settings has level 0.
_KRAFT: Final = {"kraft.version": Feature(0, 1, 0)}
_FEATURES_4_0: Final = {
    **_KRAFT,
    "transaction.version": Feature(0, 2, 2),
    "group.version": Feature(0, 1, 1),
    "eligible.leader.replicas.version": Feature(0, 1, 0),
}
_FEATURES_4_1: Final = {
    **_FEATURES_4_0,
    "eligible.leader.replicas.version": Feature(0, 1, 1),
    "share.version": Feature(0, 1, 0),
}

RELEASES: Final = {
    "2.8": Release(_KAFKA_2_8),
    "3.0": Release(_KAFKA_3_0),
    "3.1": Release(_KAFKA_3_1),
    "3.2": Release(_KAFKA_3_2),
    "3.3": Release(_KAFKA_3_3, _metadata(7)),
    "3.4": Release(_KAFKA_3_3, _metadata(8)),
    "3.5": Release(_KAFKA_3_5, _metadata(11)),
    "3.6": Release(_KAFKA_3_6, _metadata(14)),
    "3.7": Release(_KAFKA_3_7, _metadata(19), _CONSUMER_GROUPS),
    "3.8": Release(_KAFKA_3_8, _metadata(20), _CONSUMER_GROUPS),
    "3.9": Release(_KAFKA_3_9, {**_metadata(21), **_KRAFT}, _CONSUMER_GROUPS),
    "4.0": Release(_KAFKA_4_0, {**_metadata(25, 7), **_FEATURES_4_0}),
    "4.1": Release(_KAFKA_4_1, {**_metadata(27, 7), **_FEATURES_4_1}, _SHARE_GROUPS),
    "4.2": Release(
        _KAFKA_4_2,
        {
            **_metadata(29, 7),
            **_FEATURES_4_1,
            "share.version": Feature(0, 1, 1),
            "streams.version": Feature(0, 1, 1),
        },
    ),
}
