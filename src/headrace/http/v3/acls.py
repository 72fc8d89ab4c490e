"""ACLs: search, create, delete."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TypeVar

from starlette.responses import Response

from headrace.client.acls import create_acls, delete_acls, list_acls
from headrace.http.call import Call, as_json, field
from headrace.http.endpoint import OBJECT, TEXT, Endpoint, Schema, a_list, an_object
from headrace.http.v3.resources import CLUSTER, LIST_ANSWER, Links, check_cluster
from headrace.kernel.json_values import JsonObject
from headrace.security.acl.filters import AclFilter, EntryFilter, PatternFilter
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from headrace.web.errors import bad_request

ACLS = f"{CLUSTER}/acls"
E = TypeVar("E", bound=IntEnum)


def _named(kind: type[E], name: str, text: str | None, *, may_be_any: bool = True) -> E:
    if text is None and may_be_any:
        return kind["ANY"]
    allowed = [one.name for one in kind if one.name != "UNKNOWN" and (may_be_any or one.name not in ("ANY", "MATCH"))]
    if text is None or text.upper() not in allowed:
        raise bad_request(f"{name}={text!r}: must be one of {', '.join(allowed)}")
    return kind[text.upper()]


def _document(links: Links, acl: Acl) -> JsonObject:
    fields = {
        "resource_type": acl.pattern.resource_type.name,
        "resource_name": acl.pattern.name,
        "pattern_type": acl.pattern.pattern_type.name,
        "principal": acl.entry.principal,
        "host": acl.entry.host,
        "operation": acl.entry.operation.name,
        "permission": acl.entry.permission.name,
    }
    return links.resource("KafkaAcl", ("acls",), fields)


def _filter(call: Call) -> AclFilter:
    pattern = PatternFilter(
        _named(ResourceType, "resource_type", call.text("resource_type")),
        call.text("resource_name"),
        _named(PatternType, "pattern_type", call.text("pattern_type")),
    )
    entry = EntryFilter(
        call.text("principal"),
        call.text("host"),
        _named(Operation, "operation", call.text("operation")),
        _named(Permission, "permission", call.text("permission")),
    )
    return AclFilter(pattern, entry)


async def search_acls(call: Call) -> Response:
    wanted = _filter(call)
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        found = await list_acls(client, wanted)
    return as_json(links.listed("KafkaAclList", ("acls",), [_document(links, acl) for acl in found]))


async def create_acl(call: Call) -> Response:
    body = await call.document()

    def name(of: str) -> str:
        text: str = field(body, of, str)
        return text

    pattern = ResourcePattern(
        _named(ResourceType, "resource_type", name("resource_type"), may_be_any=False),
        name("resource_name"),
        _named(PatternType, "pattern_type", field(body, "pattern_type", str, "LITERAL"), may_be_any=False),
    )
    entry = Entry(
        name("principal"),
        field(body, "host", str, "*"),
        _named(Operation, "operation", name("operation"), may_be_any=False),
        _named(Permission, "permission", name("permission"), may_be_any=False),
    )
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        await create_acls(client, [Acl(pattern, entry)])
    return Response(status_code=201, headers={"Location": links.url("acls")})


async def remove_acls(call: Call) -> Response:
    for name in ("resource_type", "pattern_type", "operation", "permission"):
        if call.text(name) is None:
            raise bad_request(f"{name}: must be given; ANY selects every {name}")
    wanted = _filter(call)
    async with call.client() as client:
        links = Links(call, await check_cluster(call, client))
        deleted = await delete_acls(client, [wanted])
    return as_json({"data": [_document(links, acl) for acl in deleted]})


def _words(kind: type[IntEnum], keep: Callable[[str], bool] = lambda name: name != "UNKNOWN") -> Schema:
    return {"type": "string", "enum": [one.name for one in kind if keep(one.name)]}


_QUERY: dict[str, Schema] = {
    "resource_type": _words(ResourceType),
    "resource_name": TEXT,
    "pattern_type": _words(PatternType),
    "principal": TEXT,
    "host": TEXT,
    "operation": _words(Operation),
    "permission": _words(Permission),
}
_NEW = an_object(
    "resource_type", "resource_name", "principal", "operation", "permission",
    resource_type=_words(ResourceType), resource_name=TEXT, pattern_type=_words(PatternType), principal=TEXT, host=TEXT,
    operation=_words(Operation), permission=_words(Permission),
)  # fmt: skip
ENDPOINTS = (
    Endpoint("GET", ACLS, search_acls, "Search ACLs.", query=_QUERY, answer=LIST_ANSWER),
    Endpoint("POST", ACLS, create_acl, "Create an ACL.", body=_NEW, status=201, answer=None),
    Endpoint(
        "DELETE",
        ACLS,
        remove_acls,
        "Delete the ACLs that match.",
        query=_QUERY,
        required_query=("resource_type", "pattern_type", "operation", "permission"),
        answer=an_object("data", data=a_list(OBJECT)),
    ),
)
