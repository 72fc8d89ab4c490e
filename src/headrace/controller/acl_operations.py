"""ACLs: operations for the ledger. An error of one row affects only that row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.cluster.core.changes import AclsSet
from headrace.cluster.core.image import ClusterImage
from headrace.controller.core.acls import MAX_DELETED, AclChanges, check_filter, selected
from headrace.controller.ledger import Decision
from headrace.controller.results import AclResult
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.security.acl.filters import AclFilter
from headrace.security.acl.model import Acl, Entry, ResourcePattern

Acls = Mapping[ResourcePattern, tuple[Entry, ...]]


def create_acls(acls: Sequence[Acl]) -> Callable[[ClusterImage], Decision[list[AclResult]]]:
    def decide(image: ClusterImage) -> Decision[list[AclResult]]:
        draft = AclChanges(image)
        results = []
        for acl in acls:
            try:
                draft.create(acl)
            except Fault as fault:
                results.append(AclResult(fault.code, fault.message))
                continue
            results.append(AclResult())
        return Decision(results, draft.changes())

    return decide


def delete_acls(filters: Sequence[AclFilter]) -> Callable[[ClusterImage], Decision[list[AclResult]]]:
    """Each filter selects among the ACLs as they were before the request."""

    def decide(image: ClusterImage) -> Decision[list[AclResult]]:
        draft = AclChanges(image)
        results = []
        deleted: set[Acl] = set()
        for wanted in filters:
            try:
                check_filter(wanted)
            except Fault as fault:
                results.append(AclResult(fault.code, fault.message))
                continue
            found = tuple(selected(image.acls, wanted))
            deleted.update(found)
            if len(deleted) > MAX_DELETED:
                raise Refused(
                    ErrorCode.invalid_request,
                    f"Cannot remove more than {MAX_DELETED} acls in a single delete operation.",
                )
            draft.delete(found)
            results.append(AclResult(acls=found))
        return Decision(results, draft.changes())

    return decide


def current_acls(image: ClusterImage) -> Decision[Acls]:
    return Decision(image.acls)


def adopt_acls(known: Acls, stored: Acls) -> Callable[[ClusterImage], Decision[bool]]:
    """Updates the image from the nodes. False, without a change, if the image's ACLs differ from `known`."""

    def decide(image: ClusterImage) -> Decision[bool]:
        if image.acls is not known:
            return Decision(False)
        changes = [
            AclsSet(pattern, stored.get(pattern, ()), is_stored=True)
            for pattern in {**known, **stored}
            if set(known.get(pattern, ())) != set(stored.get(pattern, ()))
        ]
        return Decision(True, changes)

    return decide
