"""Every key, declared once, by subject; the tables that the rest of the package reads.

Brokers: server, network, log, compaction, replication, transactions, groups, share_groups, streams_groups, zookeeper,
headrace (Headrace's own). Topics and groups: topic, group, client_metrics. Security: `security`.
Kept from other releases and modes: kraft, tiered_storage, older_releases.

`BROKER_KEYS`, `TOPIC_KEYS`, `GROUP_KEYS` and `CLIENT_METRICS_KEYS` are by name, in the order of their declaration.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.config.key import Key
from headrace.config.keys import (
    client_metrics,
    compaction,
    group,
    groups,
    headrace,
    kraft,
    log,
    network,
    older_releases,
    replication,
    server,
    share_groups,
    streams_groups,
    tiered_storage,
    topic,
    transactions,
    zookeeper,
)
from headrace.config.keys.security import access, oauth, sasl, tls, zookeeper_tls

__all__ = ["BROKER_KEYS", "CLIENT_METRICS_KEYS", "GROUP_KEYS", "SUBJECTS", "TOPIC_KEYS"]


def _table(keys: Iterable[Key]) -> dict[str, Key]:
    table: dict[str, Key] = {}
    for key in keys:
        assert key.name not in table, f"{key.name} is declared twice"
        table[key.name] = key
    return table


SUBJECTS: dict[str, tuple[Key, ...]] = {
    "The broker": server.KEYS,
    "Listeners and connections": network.KEYS,
    "The log": log.KEYS,
    "Compaction and compression": compaction.KEYS,
    "Replication and elections": replication.KEYS,
    "Groups and offsets": groups.KEYS,
    "Share groups": share_groups.KEYS,
    "Streams groups": streams_groups.KEYS,
    "Transactions": transactions.KEYS,
    "TLS": tls.KEYS,
    "SASL": (*sasl.KEYS, *oauth.KEYS),
    "Access control and secrets": access.KEYS,
    "Tiered storage": tiered_storage.KEYS,
    "KRaft": kraft.KEYS,
    "ZooKeeper": (*zookeeper.KEYS, *zookeeper_tls.KEYS),
    "Older releases": older_releases.KEYS,
    "Headrace's own": headrace.KEYS,
}
BROKER_KEYS = _table(key for keys in SUBJECTS.values() for key in keys)
TOPIC_KEYS = _table((*topic.KEYS, *headrace.TOPIC_KEYS))
GROUP_KEYS = _table(group.KEYS)
CLIENT_METRICS_KEYS = _table(client_metrics.KEYS)
