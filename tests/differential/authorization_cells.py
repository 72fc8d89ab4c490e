"""Table of requests with the rights that they need. Each case gives several cells: one principal with one set of ACLs
each.

A right is written OPERATION:TYPE:name. `{cell}` in a right or a request is the name of the cell, for requests that
change something. `Id(topic)` is the id of the topic on each broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headrace.security.acl.model import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from headrace.wire.apis import api_name
from tests.differential.servers import Server
from tests.support.clock import PATIENCE_S

Body = dict[str, Any]
CLUSTER: Final = f"CLUSTER:{CLUSTER_NAME}"


class Id(NamedTuple):
    topic: str


class Right(NamedTuple):
    operation: Operation
    resource_type: ResourceType
    name: str

    @classmethod
    def of(cls, words: str) -> Right:
        operation, resource_type, name = words.split(":", 2)
        return cls(Operation[operation], ResourceType[resource_type], name)


class Grant(NamedTuple):
    """One ACL of a cell's principal."""

    right: Right
    pattern: PatternType = PatternType.LITERAL
    permission: Permission = Permission.ALLOW


@dataclass(frozen=True)
class Case:
    name: str
    api_key: int
    version: int
    body: Body
    rights: tuple[str, ...]
    # The administrator sends these before the cells of the case run.
    before: Callable[[Server], None] | None = None
    patience_s: float = PATIENCE_S

    @property
    def id(self) -> str:
        return f"{api_name(self.api_key)}-v{self.version}-{self.name}"


@dataclass(frozen=True)
class Cell:
    """A request by a principal that has exactly these ACLs."""

    case: Case
    kind: str
    number: int
    grants: tuple[Grant, ...]

    @property
    def id(self) -> str:
        return f"{self.case.id}-{self.kind}"

    @property
    def user(self) -> str:
        return f"c{self.number}"

    def request(self, server: Server) -> Body:
        filled: Body = fill(self.case.body, self.user, server)
        return filled


def fill(value: Any, cell: str, server: Server | None = None) -> Any:
    if isinstance(value, Id):
        assert server is not None
        return server.known[fill(value.topic, cell)]
    if isinstance(value, str):
        return value.replace("{cell}", cell)
    if isinstance(value, dict):
        return {key: fill(one, cell, server) for key, one in value.items()}
    if isinstance(value, list):
        return [fill(one, cell, server) for one in value]
    return value


# An operation of the resource type that does not imply the operation on the left.
_UNRELATED: Final = {
    Operation.READ: Operation.CREATE,
    Operation.WRITE: Operation.READ,
    Operation.CREATE: Operation.DESCRIBE,
    Operation.DELETE: Operation.READ,
    Operation.ALTER: Operation.DESCRIBE,
    Operation.DESCRIBE: Operation.CREATE,
    Operation.CLUSTER_ACTION: Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
    Operation.IDEMPOTENT_WRITE: Operation.DESCRIBE,
}
# Groups and transactional ids have fewer operations.
_UNRELATED_IN_GROUP: Final = {Operation.READ: Operation.DELETE, Operation.DESCRIBE: Operation.DESCRIBE_CONFIGS}
_UNRELATED_IN_ID: Final = {Operation.WRITE: Operation.DESCRIBE, Operation.DESCRIBE: Operation.TWO_PHASE_COMMIT}


def _unrelated(right: Right) -> Right:
    operation = right.operation
    if right.resource_type is ResourceType.GROUP:
        other = _UNRELATED_IN_GROUP.get(operation, _UNRELATED[operation])
    elif right.resource_type is ResourceType.TRANSACTIONAL_ID:
        other = _UNRELATED_IN_ID[operation]
    else:
        other = _UNRELATED[operation]
    return right._replace(operation=other)


def _prefix(name: str) -> str:
    return name.removesuffix("{cell}") if name.endswith("{cell}") else name[:-1]


def _kinds(rights: list[Right]) -> Iterator[tuple[str, list[Grant]]]:
    named = [right for right in rights if right.resource_type is not ResourceType.CLUSTER]
    right = [Grant(one) for one in rights]
    yield "nobody", []
    yield "right", right
    yield "all-operations", [Grant(one._replace(operation=Operation.ALL)) for one in rights]
    yield "denied", [*right, *(one._replace(permission=Permission.DENY) for one in right)]
    yield "wrong-operation", [Grant(_unrelated(one)) for one in rights]
    if named:
        others = [Grant(one) for one in rights if one not in named]
        yield "by-prefix", others + [Grant(one._replace(name=_prefix(one.name)), PatternType.PREFIXED) for one in named]
        yield "by-wildcard", others + [Grant(one._replace(name="*")) for one in named]
        yield "wrong-name", others + [Grant(one._replace(name=f"{one.name}x")) for one in named]
    if len(rights) > 1:
        for missing in rights:
            kept = [Grant(one) for one in rights if one is not missing]
            yield f"without-{missing.operation.name}-{missing.resource_type.name}", kept


def cells(cases: list[Case]) -> list[Cell]:
    found: list[Cell] = []
    for case in cases:
        for kind, grants in _kinds([Right.of(words) for words in case.rights]):
            found.append(Cell(case, kind, len(found), tuple(grants)))
    return found
