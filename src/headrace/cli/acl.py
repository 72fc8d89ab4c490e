"""`headrace acl ls|add|rm|explain|for-producer|for-group|for-pipeline|role`: ACLs and roles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.support.acl_resources import (
    grant_command,
    parse_operation,
    parse_principal,
    parse_resource,
    row,
)
from headrace.cli.support.change_report import Row, report, verb
from headrace.cli.support.connection import (
    Bootstrap,
    DryRun,
    Failed,
    Output,
    SomeTopics,
    Timeout,
    Yes,
    connected,
    sure,
)
from headrace.cli.support.output import Format, show, show_one
from headrace.client.acls import create_acls, delete_acls, list_acls
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.plurals import counted
from headrace.security.acl import least_rights, roles
from headrace.security.acl.authorizer import Authorizer
from headrace.security.acl.explain import Question, explain, sentence
from headrace.security.acl.filters import AclFilter, EntryFilter, PatternFilter
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern
from headrace.wire.apis import ApiKey

app = typer.Typer(no_args_is_help=True, help="Access control lists: which principal may do what.")
role_app = typer.Typer(no_args_is_help=True, help="Roles and their members.")
app.add_typer(role_app, name="role")

Principal = Annotated[str, typer.Argument(help="Principal such as User:ann, User:* or Role:ops.")]
ForPrincipal = Annotated[str, typer.Option("--principal", "-p", help="Principal that gets the rights, e.g. User:ann.")]
Resource = Annotated[str, typer.Argument(help="topic/NAME, group/NAME, transactional-id/NAME, user/NAME or cluster.")]
Host = Annotated[str, typer.Option("--host", help="Address or CIDR range of the clients. Default: every address.")]
Apply = Annotated[bool, typer.Option("--apply", help="Create the ACLs. Default: only print them.")]
_BROKER = 4


@app.command("ls")
def ls(
    resource: Annotated[
        str | None, typer.Argument(help="Show the ACLs that cover this resource: topic/orders.")
    ] = None,
    principal: Annotated[str | None, typer.Option("--principal", "-p", help="Show the ACLs of this principal.")] = None,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """List all ACLs, the ACLs that cover a resource, or the ACLs of a principal.

    $ headrace acl ls

    $ headrace acl ls topic/orders --principal User:ann
    """
    pattern = PatternFilter()
    if resource is not None:
        asked = parse_resource(resource)
        pattern_type = asked.pattern_type if asked.pattern_type is PatternType.PREFIXED else PatternType.MATCH
        pattern = PatternFilter(asked.resource_type, asked.name, pattern_type)
    wanted = AclFilter(pattern, EntryFilter(principal=principal and parse_principal(principal)))
    found = connected(bootstrap, lambda client: list_acls(client, wanted), timeout=timeout)
    rows = sorted((row(acl) for acl in found), key=lambda one: tuple(one.values()))
    show(rows, output, empty="no ACLs")


@app.command()
def add(
    principal: Principal,
    operation: Annotated[str, typer.Argument(help="Operation such as READ, WRITE, CREATE, DESCRIBE or ALL.")],
    resource: Resource,
    deny: Annotated[bool, typer.Option("--deny", help="Deny the operation. A DENY wins over every ALLOW.")] = False,
    host: Host = "*",
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Allow, or deny, a principal one operation on a resource. NAME* is a prefix, * is every name.

    $ headrace acl add User:ann READ topic/orders

    $ headrace acl add User:loader WRITE topic/app-* --host 10.0.0.0/8
    """
    permission = Permission.DENY if deny else Permission.ALLOW
    entry = Entry(parse_principal(principal), host, parse_operation(operation), permission)
    _create([Acl(parse_resource(resource), entry)], bootstrap, output, timeout, dry_run=dry_run)


@app.command()
def rm(
    resource: Annotated[str | None, typer.Argument(help="Resource of the ACLs, as 'headrace acl ls' shows it.")] = None,
    principal: Annotated[str | None, typer.Option("--principal", "-p", help="Only ACLs of this principal.")] = None,
    operation: Annotated[str | None, typer.Option("--operation", help="Only ACLs of this operation.")] = None,
    host: Annotated[str | None, typer.Option("--host", help="Only ACLs with this host.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Remove ACLs of a resource, of a principal, or of both. Asks before it removes any.

    $ headrace acl rm topic/orders --principal User:ann --operation READ

    $ headrace acl rm --principal User:left-the-company --yes
    """
    if resource is None and principal is None:
        raise typer.BadParameter("give a resource, --principal, or both: this command does not remove every ACL")
    pattern = PatternFilter()
    if resource is not None:
        asked = parse_resource(resource)
        pattern = PatternFilter(asked.resource_type, asked.name, asked.pattern_type)
    chosen = EntryFilter(
        principal and parse_principal(principal), host, parse_operation(operation) if operation else Operation.ANY
    )
    _delete(AclFilter(pattern, chosen), bootstrap, output, timeout, dry_run=dry_run, yes=yes)


@app.command("explain")
def explain_(
    principal: Annotated[str, typer.Option("--principal", "-p", help="Principal that asks, e.g. User:ann.")],
    operation: Annotated[str, typer.Option("--operation", help="Operation, e.g. READ.")],
    resource: Annotated[str, typer.Option("--resource", help="topic/orders, group/NAME, cluster …")],
    host: Annotated[str, typer.Option("--host", help="Address of the client.")] = "127.0.0.1",
    claims: Annotated[
        list[str] | None, typer.Option("--claim", help="Claim of the client's token, e.g. groups=analysts; repeatable.")
    ] = None,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Say whether a principal may do an operation, by which rule, and which ACL is missing.

    $ headrace acl explain --principal User:ann --operation READ --resource topic/orders
    """
    asked = parse_resource(resource)
    if asked.pattern_type is PatternType.PREFIXED:
        raise typer.BadParameter(f"resource {resource!r}: must be one resource, not a prefix")
    question = Question(parse_principal(principal), host, parse_operation(operation), asked.resource_type, asked.name)

    async def action(client: ClusterClient) -> tuple[list[Acl], dict[str, str]]:
        return await list_acls(client), await _authorizer_settings(client)

    found, settings = connected(bootstrap, action, timeout=timeout)
    by_pattern: dict[ResourcePattern, list[Entry]] = {}
    for acl in found:
        by_pattern.setdefault(acl.pattern, []).append(acl.entry)
    authorizer = Authorizer(
        by_pattern,
        super_users=[name.strip() for name in settings.get("super.users", "").split(";")],
        allow_if_no_acl=settings.get("allow.everyone.if.no.acl.found") == "true",
    )
    answer = explain(authorizer.with_claims(tuple(f"Claim:{claim}" for claim in claims or ())), question)
    grant = None if answer.missing is None else grant_command(answer.missing)
    near = [f"{sentence(miss.acl)}: {miss.why}" for miss in answer.near_misses]
    if output is not Format.TABLE:
        show_one(
            {
                "allowed": answer.decision.allowed,
                "explanation": answer.sentence,
                "rule": answer.decision.rule,
                "near": near,
                "grant": grant,
            },
            output,
        )
        return
    print(answer.sentence)
    for line in near:
        print(f"Close, but: {line}.")
    if grant is not None:
        print(f"To allow it: {grant}")


@app.command("for-producer")
def for_producer(
    topics: SomeTopics,
    principal: ForPrincipal,
    transactional_id: Annotated[str | None, typer.Option("--transactional-id", help="Its transactional id.")] = None,
    creates: Annotated[bool, typer.Option("--creates-topics", help="Also allow it to create the topics.")] = False,
    apply: Apply = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Print, or create, the least ACLs of a producer.

    $ headrace acl for-producer orders --principal User:shop --apply
    """
    rights = least_rights.of_producer(topics, transactional_id, creates=creates)
    _grant(rights, principal, bootstrap, output, timeout, apply=apply)


@app.command("for-group")
def for_group(
    group: Annotated[str, typer.Argument(help="Consumer group.")],
    topics: SomeTopics,
    principal: ForPrincipal,
    apply: Apply = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Print, or create, the least ACLs of a consumer group.

    $ headrace acl for-group billing orders payments --principal User:billing
    """
    _grant(least_rights.of_group(group, topics), principal, bootstrap, output, timeout, apply=apply)


@app.command("for-pipeline")
def for_pipeline(
    directory: Annotated[
        Path, typer.Argument(help="Directory of the pipeline, or file of the connector.", exists=True)
    ],
    principal: ForPrincipal,
    reads: Annotated[list[str] | None, typer.Option("--reads", help="Topic that it reads; repeatable.")] = None,
    writes: Annotated[list[str] | None, typer.Option("--writes", help="Topic that it writes; repeatable.")] = None,
    transactional_id_prefix: Annotated[
        str | None, typer.Option("--transactional-id-prefix", help="Value of the sink option transactionalIdPrefix.")
    ] = None,
    apply: Apply = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Print, or create, the least ACLs of a pipeline or connector. Finds the topics in its files.

    $ headrace acl for-pipeline wordcount --principal User:wordcount
    """
    from headrace.cli.facts.pipeline_topics import topics_of_pipeline

    found = topics_of_pipeline(directory)
    reading, writing = (sorted({*one, *(more or ())}) for one, more in ((found.reads, reads), (found.writes, writes)))
    if not reading and not writing:
        raise Failed(f"found no topics in the files of {directory}: name them with --reads and --writes")
    rights = least_rights.of_pipeline(found.name, reading, writing, transactional_id_prefix)
    _grant(rights, principal, bootstrap, output, timeout, apply=apply)


# --- roles -----------------------------------------------------------------------------------------------------------


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
    _create(acls, bootstrap, output, timeout, dry_run=dry_run)


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
    _delete(wanted, bootstrap, output, timeout, dry_run=dry_run, yes=yes)


# --- shared ----------------------------------------------------------------------------------------------------------


def _grant(
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
        _create(acls, bootstrap, output, timeout, dry_run=False)
    elif output is Format.TABLE:
        for acl in acls:
            print(grant_command(acl))
    else:
        show([row(acl) for acl in acls], output)


def _create(acls: list[Acl], bootstrap: str | None, output: Format, timeout: float, *, dry_run: bool) -> None:
    async def action(client: ClusterClient) -> set[Acl]:
        there = set(await list_acls(client))
        new = [acl for acl in acls if acl not in there]
        if new and not dry_run:
            await create_acls(client, new)
        return there

    there = connected(bootstrap, action, timeout=timeout)
    rows = [{**row(acl), "done": not dry_run and acl not in there, "existed": acl in there} for acl in acls]
    report(rows, output, _added)


def _delete(
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


async def _authorizer_settings(client: ClusterClient) -> dict[str, str]:
    """Super users and the default decision of a broker; empty if this principal may not read them."""
    node = next(iter((await client.refresh(())).nodes))
    names = ["super.users", "allow.everyone.if.no.acl.found"]
    resource: dict[str, Any] = {"resource_type": _BROKER, "resource_name": str(node), "configuration_keys": names}
    body = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    [result] = (await client.request(ApiKey.DESCRIBE_CONFIGS, body, node=node)).results
    return {str(one.name): str(one.value) for one in result.configs or () if one.value is not None}


app.command("list", hidden=True)(ls)
