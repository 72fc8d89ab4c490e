"""ACLs in the coordination store, where Kafka's ZooKeeper mode keeps them, in Kafka's JSON.

    /kafka-acl/<Type>/<name>                      entries of a literal resource
    /kafka-acl-extended/prefixed/<Type>/<name>    entries of a prefix
    /kafka-acl-changes, /kafka-acl-extended-changes    announcements by other programs (`controller.acl_nodes`)

Brokers follow the cluster image, so Headrace itself announces nothing there.

A name is one path part: `/`, `%` and characters that ZooKeeper refuses are percent-encoded. Kafka does not encode
names, so the nodes of ordinary names are the same. An entry that cannot be read is an error and never left out: it may
be a DENY.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from headrace.security.acl.model import Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType

LITERAL: Final = "/kafka-acl"
EXTENDED: Final = "/kafka-acl-extended"
PREFIXED: Final = f"{EXTENDED}/prefixed"
LITERAL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
ROOTS: Final = (LITERAL, EXTENDED, LITERAL_CHANGES, EXTENDED_CHANGES)

_TYPES: Final = tuple(kind for kind in ResourceType if kind > ResourceType.ANY)
_FOLDERS: Final = {PatternType.LITERAL: LITERAL, PatternType.PREFIXED: PREFIXED}


def camel_case(name: str) -> str:
    """`TRANSACTIONAL_ID` as `TransactionalId`: the names of types, operations and permissions in nodes and tools."""
    return "".join(word.capitalize() for word in name.split("_"))


_TYPE_NAMES: Final = {kind: camel_case(kind.name) for kind in _TYPES}
_OPERATIONS: Final = {camel_case(operation.name): operation for operation in Operation if operation > Operation.ANY}
_PERMISSIONS: Final = {"Allow": Permission.ALLOW, "Deny": Permission.DENY}

# Parents before children.
PERSISTENT: Final = (
    LITERAL,
    *(f"{LITERAL}/{name}" for name in _TYPE_NAMES.values()),
    EXTENDED,
    PREFIXED,
    *(f"{PREFIXED}/{name}" for name in _TYPE_NAMES.values()),
    LITERAL_CHANGES,
    EXTENDED_CHANGES,
)


class UnreadableAcls(ValueError):
    """A node does not hold ACLs as this version writes them."""


def path(pattern: ResourcePattern) -> str:
    folder = _FOLDERS[pattern.pattern_type]
    return f"{folder}/{_TYPE_NAMES[pattern.resource_type]}/{encoded_name(pattern.name)}"


def folders() -> Iterator[tuple[ResourceType, PatternType, str]]:
    """Every folder of resources, with the type and pattern type of its nodes."""
    for pattern_type, folder in _FOLDERS.items():
        for kind, name in _TYPE_NAMES.items():
            yield kind, pattern_type, f"{folder}/{name}"


def encoded_name(name: str) -> str:
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return "".join(_encoded(char) if _must_be_encoded(char) else char for char in name)


def decoded_name(part: str) -> str:
    return unquote(part)


def _must_be_encoded(char: str) -> bool:
    code = ord(char)
    return char in "/%" or code < 0x20 or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or 0xFFF0 <= code <= 0xFFFF


def _encoded(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def encode_entries(entries: Iterable[Entry]) -> bytes:
    rows = [
        {
            "principal": entry.principal,
            "permissionType": camel_case(entry.permission.name),
            "operation": camel_case(entry.operation.name),
            "host": entry.host,
        }
        for entry in entries
    ]
    return json.dumps({"version": 1, "acls": rows}, separators=(",", ":")).encode()


def decode_entries(data: bytes) -> tuple[Entry, ...]:
    """Raises UnreadableAcls."""
    if not data:
        return ()  # a node that another tool created without content
    try:
        rows = json.loads(data)["acls"]
        found = [
            Entry(
                str(row["principal"]),
                str(row["host"]),
                _OPERATIONS[row["operation"]],
                _PERMISSIONS[row["permissionType"]],
            )
            for row in rows
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableAcls(f"{type(error).__name__}: {error}") from None
    return tuple(dict.fromkeys(found))
