"""Creates and deletes ACLs for the commands of `headrace acl`, and reports each."""

from __future__ import annotations

from headrace.cli.acl.resources import grant_command, parse_principal, row
from headrace.cli.support.change_report import Row, report, verb
from headrace.cli.support.connection import Failed, connected, sure
from headrace.cli.support.output import Format, show
from headrace.client.acls import create_acls, delete_acls, list_acls
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.plurals import counted
from headrace.security.acl import least_rights
from headrace.security.acl.explain import sentence
from headrace.security.acl.filters import AclFilter
from headrace.security.acl.model import Acl


def grant(
    rights: list[least_rights.Right],
    principal: str,
    bootstrap: str | None,
    output: Format,
    timeout: float,
    *,
    apply: bool,
) -> None:
    acls = least_rights.acls(rights, parse_principal(principal))
    if apply:
        create(acls, bootstrap, output, timeout, dry_run=False)
    elif output is Format.TABLE:
        for acl in acls:
            print(grant_command(acl))
    else:
        show([row(acl) for acl in acls], output)


def create(acls: list[Acl], bootstrap: str | None, output: Format, timeout: float, *, dry_run: bool) -> None:
    async def action(client: ClusterClient) -> set[Acl]:
        there = set(await list_acls(client))
        new = [acl for acl in acls if acl not in there]
        if new and not dry_run:
            await create_acls(client, new)
        return there

    there = connected(bootstrap, action, timeout=timeout)
    rows = [{**row(acl), "done": not dry_run and acl not in there, "existed": acl in there} for acl in acls]
    report(rows, output, _added)


def delete(
    wanted: AclFilter, bootstrap: str | None, output: Format, timeout: float, *, dry_run: bool, yes: bool
) -> None:
    found = connected(bootstrap, lambda client: list_acls(client, wanted), timeout=timeout)
    if not found:
        raise Failed("no ACL matches: 'headrace acl ls' lists them")
    if not dry_run:
        sure(f"Remove {counted(len(found), 'ACL')}?", yes, [sentence(acl) for acl in found])
        connected(bootstrap, lambda client: delete_acls(client, [wanted]), timeout=timeout)
    report([{**row(acl), "done": not dry_run} for acl in found], output, _removed)


def _added(one: Row) -> str:
    what = f"{one['permission']} {one['operation']} on {one['resource']} for {one['principal']} from {one['host']}"
    return f"{what} exists already" if one["existed"] else f"{verb(one, 'added', 'add')} {what}"


def _removed(one: Row) -> str:
    what = f"{one['permission']} {one['operation']} on {one['resource']} for {one['principal']} from {one['host']}"
    return f"{verb(one, 'removed', 'remove')} {what}"
