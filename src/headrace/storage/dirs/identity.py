"""The owner of a log directory, from its `meta.properties`.

Kafka's keys name the broker, the cluster and the directory itself. Kafka ignores Headrace's keys. Three of them name
the coordination store that holds the topics of the logs here (`headrace.store`, `headrace.store.since`,
`headrace.zookeeper.connect`). Without that store the logs belong to no topic, so the broker refuses to start with
another one by mistake. `headrace.directories` names all log directories of the broker by id and path, if there are
several, so that a start notices a missing one. `headrace.checksum` covers all lines behind it: a changed digit would
give the broker another id. A file without a checksum is accepted, because Kafka and people write such files.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.kernel.checksum import crc32c
from headrace.kernel.dataclass import dataclass
from headrace.kernel.ids import uuid_from_text, uuid_to_text
from headrace.storage.dirs.checkpoints import META_PROPERTIES_FILE, CorruptFile, read_properties, write_properties

# The values of headrace.store. While a broker moves its state from the one store to the other, both may hold it.
EMBEDDED: Final = "embedded"
MOVING: Final = "moving"
ZOOKEEPER: Final = "zookeeper"
# The embedded store of a unit, which is in the directory of its first process.
UNIT: Final = "unit"
_DIRECTORIES: Final = "headrace.directories"
_CHECKSUM: Final = "headrace.checksum"


@dataclass(frozen=True, slots=True)
class StoreOwner:
    """The coordination store of a log directory, and since when the directory belongs to it."""

    kind: str
    since: str
    connect: str = ""  # of ZooKeeper, with the chroot


@dataclass(frozen=True, slots=True)
class Identity:
    """`home` is None in directories of Apache Kafka and of old Headrace releases that did not write the key.
    `directory_id` is None in directories of old Apache Kafka releases and in files that a person wrote."""

    node_id: int
    cluster_id: str | None
    directory_id: uuid.UUID | None
    home: StoreOwner | None = None
    directories: tuple[tuple[str, str], ...] = ()


def read_identity(directory: Path) -> Identity | None:
    """None if there is no file. Raises CorruptFile if the file does not name a broker."""
    path = directory / META_PROPERTIES_FILE
    if not path.exists():
        return None
    properties = read_properties(path)
    checksum = properties.pop(_CHECKSUM, None)
    if checksum is not None and checksum != _checksum(properties):
        raise CorruptFile(f"{path}: {_CHECKSUM} does not match (remove that line if you changed the file on purpose)")
    node_id = properties.get("node.id", properties.get("broker.id"))
    if node_id is None:
        raise CorruptFile(f"{path}: has no node.id")
    try:
        directory_id = properties.get("directory.id")
        return Identity(
            int(node_id),
            properties.get("cluster.id") or None,
            None if directory_id is None else uuid_from_text(directory_id),
            _home(properties),
            _directories(properties),
        )
    except (ValueError, TypeError) as wrong:
        raise CorruptFile(f"{path}: {wrong}") from None


def _home(properties: dict[str, str]) -> StoreOwner | None:
    kind = properties.get("headrace.store")
    if kind is None:
        return None
    if kind not in (EMBEDDED, UNIT, MOVING, ZOOKEEPER):
        raise ValueError(f"headrace.store={kind}: must be {EMBEDDED}, {UNIT}, {MOVING} or {ZOOKEEPER}")
    return StoreOwner(
        kind, properties.get("headrace.store.since", ""), properties.get("headrace.zookeeper.connect", "")
    )


def _directories(properties: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(path)) for key, path in json.loads(properties.get(_DIRECTORIES, "[]")))


def write_identity(directory: Path, identity: Identity) -> None:
    properties = {"node.id": str(identity.node_id), "version": "1"}
    if identity.directory_id is not None:
        properties["directory.id"] = uuid_to_text(identity.directory_id)
    if identity.cluster_id is not None:
        properties["cluster.id"] = identity.cluster_id
    if identity.home is not None:
        properties["headrace.store"] = identity.home.kind
        properties["headrace.store.since"] = identity.home.since
        if identity.home.connect:
            properties["headrace.zookeeper.connect"] = identity.home.connect
    if identity.directories:
        properties[_DIRECTORIES] = json.dumps(identity.directories)
    write_properties(directory / META_PROPERTIES_FILE, {_CHECKSUM: _checksum(properties), **properties})


def _checksum(properties: Mapping[str, str]) -> str:
    lines = sorted(f"{name}={value}" for name, value in properties.items())
    return f"{crc32c(chr(10).join(lines).encode()):08x}"
