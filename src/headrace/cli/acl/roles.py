"""`headrace acl role ls|add|rm`: roles and their members."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.acl.changes import create, delete
from headrace.cli.acl.resources import parse_principal
from headrace.cli.support.connection import Bootstrap, DryRun, Output, Timeout, Yes, connected
from headrace.cli.support.output import Format, show
from headrace.client.acls import list_acls
from headrace.security.acl import roles
from headrace.security.acl.filters import AclFilter, EntryFilter, PatternFilter
from headrace.security.acl.model import Acl, Operation, Permission

role_app = typer.Typer(no_args_is_help=True, help="Roles and their members.")


def _role(name: str) -> str:
    if not name.removeprefix(roles.ROLE_PREFIX).strip():
        raise typer.BadParameter(f"role {name!r}: must have a name, such as analysts")
    return name if name.startswith(roles.ROLE_PREFIX) else f"{roles.ROLE_PREFIX}{name}"


Role = Annotated[str, typer.Argument(help="Name of the role, with or without Role:.")]
Members = Annotated[
    list[str], typer.Argument(help="Members such as User:ann, or claims of tokens such as Claim:groups=analysts.")
]


@role_app.command("ls")
def role_ls(bootstrap: Bootstrap = None, output: Output = Format.TABLE, timeout: Timeout = 10.0) -> None:
    """List roles with their members and the number of their ACLs.

    $ headrace acl role ls
    """
    found = connected(bootstrap, list_acls, timeout=timeout)
    members: dict[str, list[str]] = {}
    for acl in found:
        if roles.is_role(acl.pattern) and acl.entry.operation is Operation.ALL:
            denied = "not " if acl.entry.permission is Permission.DENY else ""
            members.setdefault(acl.pattern.name, []).append(f"{denied}{acl.entry.principal}")
        elif acl.entry.principal.startswith(roles.ROLE_PREFIX):
            members.setdefault(acl.entry.principal, [])
    rows = [
        {"role": role, "members": sorted(who), "acls": sum(acl.entry.principal == role for acl in found)}
        for role, who in sorted(members.items())
    ]
    show(rows, output, empty="no roles")


@role_app.command("add")
def role_add(
    role: Role,
    members: Members,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Make principals members of a role. Give rights to the role itself with 'headrace acl add Role:NAME …'.

    $ headrace acl role add analysts User:ann User:bob
    """
    pattern = roles.role_pattern(_role(role))
    acls = [Acl(pattern, roles.membership(parse_principal(member))) for member in members]
    create(acls, bootstrap, output, timeout, dry_run=dry_run)


@role_app.command("rm")
def role_rm(
    role: Role,
    member: Annotated[str, typer.Argument(help="Member such as User:ann.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Remove a member from a role.

    $ headrace acl role rm analysts User:bob
    """
    pattern = roles.role_pattern(_role(role))
    wanted = AclFilter(
        PatternFilter(pattern.resource_type, pattern.name, pattern.pattern_type),
        EntryFilter(principal=parse_principal(member), operation=Operation.ALL),
    )
    delete(wanted, bootstrap, output, timeout, dry_run=dry_run, yes=yes)
