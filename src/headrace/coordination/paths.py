"""The node layout. Kafka's names where Kafka has such a node, so that people and tools recognise them.

/cluster/id                                  cluster id
/cluster/incoming                            the cluster whose state is being moved here from an embedded store
/cluster/moved                               the embedded store to which this state was moved
/cluster/image                               version of the newest change
/cluster/changes/<version>                   changes of that version (the last few are kept)
/cluster/brokers/<id>                        registrations that the controller has accepted
/cluster/letters/<id>-<session>-<n> (ephemeral)  fallback requests, then their answers
/controller            (ephemeral)           id of the controller; /controller_epoch counts terms
/brokers/ids/<id>      (ephemeral)           live brokers
/brokers/topics/<topic>[/partitions/<n>/state]
/config/<topics|brokers|groups|…>/<name>     overrides;  /config/quotas/<entity>
/config/users/<name>                         SCRAM credentials
/admin/delete_topics/<topic>                 deletions in progress
/latest_producer_id_block                    the last allocated block of producer ids
/feature/<name>                              finalized feature levels
/kafka-acl, /kafka-acl-extended, their -changes  ACLs (`security.acl.store_format`)
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from headrace.security.acl import store_format

CLUSTER_ID: Final = "/cluster/id"
INCOMING: Final = "/cluster/incoming"
MOVED: Final = "/cluster/moved"
IMAGE: Final = "/cluster/image"
CHANGES: Final = "/cluster/changes"
ACCEPTED_BROKERS: Final = "/cluster/brokers"
FALLBACK_REQUESTS: Final = "/cluster/letters"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONFIG: Final = "/config"
QUOTAS: Final = "/config/quotas"
DELETE_TOPICS: Final = "/admin/delete_topics"
PRODUCER_IDS: Final = "/latest_producer_id_block"
FEATURES: Final = "/feature"

# Resource type in the image → folder under /config.
CONFIG_FOLDERS: Final = {
    "topic": "topics",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "client-metrics": "client-metrics",
    "group": "groups",
    "user": "users",
    "delegation-token": "delegation-tokens",
}
# The cluster-wide default of brokers has an empty name, which a node cannot have; this is Kafka's name for it.
DEFAULT_NAME: Final = "<default>"

# Nodes of every cluster, in the order of creation. New nodes go to the end: a store of an older version lacks the last
# of them, and `controller.member.prepare_store` adds all that are missing.
PERSISTENT: Final = (
    "/cluster",
    CHANGES,
    ACCEPTED_BROKERS,
    FALLBACK_REQUESTS,
    "/brokers",
    BROKER_IDS,
    TOPICS,
    CONFIG,
    *(f"{CONFIG}/{folder}" for folder in CONFIG_FOLDERS.values()),
    QUOTAS,
    "/admin",
    DELETE_TOPICS,
    FEATURES,
    *store_format.PERSISTENT,
)


# Nodes that may hold credentials: users, the changes and requests that carry them, and delegation tokens.
_PRIVATE: Final = (f"{CONFIG}/users", CHANGES, INCOMING, FALLBACK_REQUESTS, "/delegation_token")


def is_private(path: str) -> bool:
    """Whether only the cluster itself may read a node with zookeeper.set.acl=true (CVE-2019-0201, CVE-2024-23944)."""
    return path.startswith(tuple(f"{one}/" for one in _PRIVATE)) or path in _PRIVATE


def change(version: int) -> str:
    return f"{CHANGES}/{version:020d}"


def broker_id(broker: int) -> str:
    return f"{BROKER_IDS}/{broker}"


def accepted_broker(broker: int) -> str:
    return f"{ACCEPTED_BROKERS}/{broker}"


def fallback_request(broker: int, session_id: int, number: int) -> str:
    return f"{FALLBACK_REQUESTS}/{broker}-{session_id:x}-{number}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def topic_partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}"


def partition_state(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}/state"


def config(resource_type: str, name: str) -> str:
    return f"{CONFIG}/{CONFIG_FOLDERS[resource_type]}/{escape(name) if name else DEFAULT_NAME}"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def feature(name: str) -> str:
    return f"{FEATURES}/{name}"


def escape(name: str) -> str:
    """Escapes free text (groups, clients, users) to one legal path part, as Kafka's sanitizer does."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def unescape(name: str) -> str:
    return unquote(name)
