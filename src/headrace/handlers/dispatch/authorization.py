"""Authorization of requests: the one place between the handlers and the authorizer.

Each handler class declares the rights that its API needs (`Needs`). The dispatcher checks a right that every request of
the API needs on the cluster before it calls the handler. The handler checks rights on single topics, groups,
transactional ids, users and tokens through `RequestContext.access`, because a denied one costs only its own row of the
answer.

A broker without an authorizer gives every request the same `UNRESTRICTED` access, which allows everything. With one,
the access of a request has the principal and the address of its client. A forwarded request has those of the client
that sent it, so the controller authorizes it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from logging import DEBUG
from typing import TYPE_CHECKING, Final, Protocol

from headrace.handlers.dispatch.audit import Audit, logger
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.model import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from headrace.security.acl.authorizer import Authorizer

MAX_KEPT: Final = 10_000
# Allowed checks that one access remembers. The authorizer remembers the others, too, but each costs twice as much.
MAX_GRANTED: Final = 100

_FAILED: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
    ResourceType.DELEGATION_TOKEN: ErrorCode.delegation_token_authorization_failed,
    ResourceType.USER: ErrorCode.delegation_token_authorization_failed,
}


# Value of a field `*_authorized_operations` that the client did not request.
NOT_ASKED: Final = -(2**31)


class Access(ABC):
    """The rights of the client of one request."""

    __slots__ = ()

    @abstractmethod
    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool: ...

    @abstractmethod
    def may_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may do this on any resource of the type."""

    @abstractmethod
    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The allowed operations as bits of the fields `*_authorized_operations`."""

    @abstractmethod
    def filter(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> set[str]:
        """The names that the client may see. For lists: omitted names are not logged as denied."""

    def may_cluster(self, operation: Operation) -> bool:
        """For an alternative right on the cluster: without it the request is not denied yet."""
        return bool(self.filter(operation, ResourceType.CLUSTER, (CLUSTER_NAME,)))

    def require(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Raises Refused with the code of the resource type."""
        if not self.may(operation, resource_type, name):
            raise denied(resource_type)

    def require_cluster(self, operation: Operation) -> None:
        self.require(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def denied(resource_type: ResourceType) -> Refused:
    """The fault of a request that lacks a right on a resource of this type. Its message names no resource."""
    words = resource_type.name.replace("_", " ").capitalize()
    return Refused(_FAILED[resource_type], f"{words} authorization failed.")


# The code and message of a denied topic, for an answer with one row for each topic.
DENIED_TOPIC: Final = (ErrorCode.topic_authorization_failed, "Topic authorization failed.")

_ALL_BITS: Final = {
    resource_type: sum(1 << operation for operation in operations)
    for resource_type, operations in SUPPORTED_OPERATIONS.items()
}


class _Unrestricted(Access):
    __slots__ = ()

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return True

    def may_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        return True

    def operations(self, resource_type: ResourceType, name: str) -> int:
        return _ALL_BITS[resource_type]

    def filter(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> set[str]:
        return set(names)


UNRESTRICTED: Final[Access] = _Unrestricted()


def cluster_operations(access: Access) -> int:
    """The field `cluster_authorized_operations`; empty for a client that may not describe the cluster."""
    if not access.may_cluster(Operation.DESCRIBE):
        return 0
    return access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


class RestrictedAccess(Access):
    """Rights of one principal at one address, in requests of one API, by one authorizer."""

    __slots__ = ("_allows", "_audit", "_authorizer", "_granted", "_host", "_principal", "api_key")

    def __init__(self, authorizer: Authorizer, audit: Audit, principal: str, host: str, api_key: int) -> None:
        self._authorizer = authorizer
        self._allows = authorizer.allows
        self._audit = audit
        self._principal = principal
        self._host = host
        self._granted: set[tuple[Operation, ResourceType, str]] = set()
        self.api_key = api_key

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        is_logged = 0 < logger.level <= DEBUG
        if (operation, resource_type, name) in self._granted and not is_logged:
            return True
        allowed = self._allows(self._principal, self._host, operation, resource_type, name)
        if not allowed or is_logged:
            principal, host = self._principal, self._host
            decision = self._authorizer.decide(principal, host, operation, resource_type, name)
            self._audit.decided(decision, principal, host, operation, resource_type, name, self.api_key)
        elif len(self._granted) < MAX_GRANTED:
            self._granted.add((operation, resource_type, name))
        return allowed

    def may_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        return self._authorizer.allows_any(self._principal, self._host, operation, resource_type)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        return self._authorizer.operations(self._principal, self._host, resource_type, name)

    def filter(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> set[str]:
        allows, principal, host = self._allows, self._principal, self._host
        return {name for name in names if allows(principal, host, operation, resource_type, name)}


class AuthorizerInForce(Protocol):
    """`current` is replaced when ACLs change."""

    current: Authorizer


class Authorization:
    """Gives each request its access. Without an authorizer every request may do everything.

    Accesses are cached while the authorizer is the same, because creating one costs as much as the check.
    """

    __slots__ = ("_accesses", "_audit", "_authorizer", "_kept_for", "is_open")

    def __init__(self, authorizer: AuthorizerInForce | None = None, audit: Audit | None = None) -> None:
        self._authorizer = authorizer
        self._audit = Audit() if audit is None else audit
        self._kept_for: Authorizer | None = None
        self._accesses: dict[tuple[str, str, int] | tuple[str, str, int, tuple[str, ...]], Access] = {}
        self.is_open = authorizer is None

    def access(self, principal: str, host: str, api_key: int, claims: tuple[str, ...] = ()) -> Access:
        if self._authorizer is None:
            return UNRESTRICTED
        authorizer = self._authorizer.current
        key = (principal, host, api_key, claims) if claims else (principal, host, api_key)
        if authorizer is self._kept_for:
            try:
                return self._accesses[key]
            except KeyError:
                pass
        if authorizer is not self._kept_for or len(self._accesses) >= MAX_KEPT:
            self._kept_for = authorizer
            self._accesses.clear()
        of_client = authorizer.with_claims(claims)
        made = self._accesses[key] = RestrictedAccess(of_client, self._audit, principal, host, api_key)
        return made


# For fallback requests: only brokers can write to the coordination store.
OPEN: Final = Authorization()


# One operation, or several.
Operations = Operation | tuple[Operation, ...]


@dataclass(frozen=True)
class Needs:
    """The rights that an API needs.

    `request` is an operation on the cluster that every request of the API needs: the dispatcher checks it. The others
    are the operations that the handler checks, by the type of the resource: some requests need them, or some rows.
    """

    request: Operation | None = None
    cluster: Operations = ()
    topic: Operations = ()
    group: Operations = ()
    transactional_id: Operations = ()
    delegation_token: Operations = ()
    user: Operations = ()

    def check(self, access: Access) -> None:
        """Raises Refused when the whole request is denied."""
        if self.request is not None:
            access.require_cluster(self.request)

    def __iter__(self) -> Iterator[tuple[Operation, ResourceType]]:
        """Every right, with its resource type."""
        if self.request is not None:
            yield self.request, ResourceType.CLUSTER
        for resource_type in _FAILED:
            operations: Operations = getattr(self, resource_type.name.lower())
            for operation in (operations,) if isinstance(operations, Operation) else operations:
                yield operation, resource_type


NOTHING: Final = Needs()
