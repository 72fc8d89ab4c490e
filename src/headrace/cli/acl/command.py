"""`headrace acl ls|add|rm|explain|for-producer|for-group|for-pipeline|role`: ACLs and roles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.acl.changes import create, delete, grant
from headrace.cli.acl.resources import (
    grant_command,
    parse_operation,
    parse_principal,
    parse_resource,
    row,
)
from headrace.cli.acl.roles import role_app
from headrace.cli.facts.pipeline_rights import Side, rights_of_mirror, rights_of_pipeline
from headrace.cli.support.connection import (
    Bootstrap,
    DryRun,
    Failed,
    Output,
    SomeTopics,
    Timeout,
    Yes,
    connected,
)
from headrace.cli.support.output import Format, show, show_one
from headrace.cli.support.pipeline_options import one_sentence
from headrace.client.acls import list_acls
from headrace.client.cluster_client import ClusterClient
from headrace.security.acl import least_rights
from headrace.security.acl.authorizer import Authorizer
from headrace.security.acl.explain import Question, explain, sentence
from headrace.security.acl.filters import AclFilter, EntryFilter, PatternFilter
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern
from headrace.wire.apis import ApiKey

app = typer.Typer(no_args_is_help=True, help="Access control lists: which principal may do what.")
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
    create([Acl(parse_resource(resource), entry)], bootstrap, output, timeout, dry_run=dry_run)


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
    delete(AclFilter(pattern, chosen), bootstrap, output, timeout, dry_run=dry_run, yes=yes)


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
    grant(rights, principal, bootstrap, output, timeout, apply=apply)


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
    grant(least_rights.of_group(group, topics), principal, bootstrap, output, timeout, apply=apply)


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
    cluster: Annotated[
        Side | None, typer.Option("--cluster", help="Of a mirror: only the ACLs of this cluster.", case_sensitive=False)
    ] = None,
    apply: Apply = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Print, or create, the least ACLs of a pipeline, connector or mirror. Finds the topics in its files.

    $ headrace acl for-pipeline wordcount --principal User:wordcount
    """
    from headrace.cli.facts.pipeline_topics import UnclearPattern, is_mirror

    named = frozenset(reads or ())
    try:
        with one_sentence():
            if is_mirror(directory):
                if writes or transactional_id_prefix is not None:
                    raise typer.BadParameter("a mirror writes the topics that it reads: give --reads only")
                parts = rights_of_mirror(directory, named)
            else:
                parts = rights_of_pipeline(directory, named, frozenset(writes or ()), transactional_id_prefix)
    except UnclearPattern as unclear:
        raise Failed(f"{directory}: {unclear}") from None
    if not parts:
        raise Failed(f"found no topics in the files of {directory}: name them with --reads and --writes")
    sides = {part.side for part in parts}
    if cluster is not None and cluster not in sides:
        raise typer.BadParameter(f"--cluster {cluster.value}: {directory} is not a mirror, it uses one cluster")
    if apply and len(sides) > 1 and cluster is None:
        raise typer.BadParameter("a mirror uses two clusters: give --cluster source or --cluster target with --apply")
    chosen = [part for part in parts if cluster is None or part.side is cluster]
    if output is not Format.TABLE and not apply and len(chosen) > 1:
        acls = [
            (part.side, acl) for part in chosen for acl in least_rights.acls(part.rights, parse_principal(principal))
        ]
        show([{"cluster": side, **row(acl)} for side, acl in acls], output)
        return
    for part in chosen:
        if output is Format.TABLE and not apply and part.side is not None:
            print(f"# {part.side}: {part.bootstrap}")
        grant(part.rights, principal, bootstrap, output, timeout, apply=apply)


async def _authorizer_settings(client: ClusterClient) -> dict[str, str]:
    """Super users and the default decision of a broker; empty if this principal may not read them."""
    node = next(iter((await client.refresh(())).nodes))
    names = ["super.users", "allow.everyone.if.no.acl.found"]
    resource: dict[str, Any] = {"resource_type": _BROKER, "resource_name": str(node), "configuration_keys": names}
    body = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    [result] = (await client.request(ApiKey.DESCRIBE_CONFIGS, body, node=node)).results
    return {str(one.name): str(one.value) for one in result.configs or () if one.value is not None}


app.command("list", hidden=True)(ls)
