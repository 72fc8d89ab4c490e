"""`headrace quotas ls|set|unset`: client quotas by user, client id or address."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

import typer

from headrace.cli.support.change_report import Row, report, verb
from headrace.cli.support.connection import (
    Bootstrap,
    DryRun,
    Failed,
    Output,
    Timeout,
    check_answer,
    connected,
    key_values,
)
from headrace.cli.support.output import Format, show
from headrace.cli.support.spelling import nearest
from headrace.client.cluster_client import ClusterClient
from headrace.wire.apis import ApiKey

KINDS: Final = ("user", "client-id", "ip")
KEYS: Final = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
    "connection_creation_rate",
)  # fmt: skip
_DEFAULT: Final = "default"

app = typer.Typer(no_args_is_help=True, help="Read and change client quotas.")


class QuotaOperation(TypedDict):
    """One change as AlterClientQuotas takes it."""

    key: str
    value: float
    remove: bool


Entity = Annotated[
    str, typer.Argument(help="user/NAME, client-id/NAME or ip/ADDRESS, joined by ','. NAME can be default.")
]


def parse_entity(text: str) -> list[dict[str, str | None]]:
    """`user/alice,client-id/default` → entity parts of a request. Raises BadParameter."""
    parts: list[dict[str, str | None]] = []
    for part in text.split(","):
        kind, slash, name = part.partition("/")
        if not slash or kind not in KINDS or not name:
            raise typer.BadParameter(f"{part!r}: must be {', '.join(f'{k}/NAME' for k in KINDS)}")
        parts.append({"entity_type": kind, "entity_name": None if name == _DEFAULT else name})
    return parts


@app.command("ls")
def ls(bootstrap: Bootstrap = None, output: Output = Format.TABLE, timeout: Timeout = 10.0) -> None:
    """List every quota.

    $ headrace quotas ls
    """

    async def action(client: ClusterClient) -> list[dict[str, object]]:
        answer = await client.request(ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False})
        check_answer(answer, "quotas")
        rows = []
        for entry in answer.entries or ():
            parts = sorted(entry.entity, key=lambda e: KINDS.index(str(e.entity_type)))
            named = ",".join(f"{e.entity_type}/{e.entity_name or _DEFAULT}" for e in parts)
            rows += [{"entity": named, "quota": str(v.key), "value": float(v.value)} for v in entry.values]
        return sorted(rows, key=lambda row: (str(row["entity"]), str(row["quota"])))

    show(connected(bootstrap, action, timeout=timeout), output, empty="no quotas")


@app.command("set")
def set_(
    entity: Entity,
    quotas: Annotated[list[str], typer.Argument(help="Quotas such as producer_byte_rate=1048576 …")],
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Set quotas of an entity.

    $ headrace quotas set client-id/loader producer_byte_rate=1048576
    """
    operations: list[QuotaOperation] = []
    for name, value in key_values(quotas, "quota").items():
        try:
            operations.append({"key": name, "value": float(value), "remove": False})
        except ValueError as error:
            raise typer.BadParameter(f"{name}={value!r}: must be a number") from error
    _alter(entity, operations, bootstrap, timeout, output, dry_run=dry_run)


@app.command()
def unset(
    entity: Entity,
    quotas: Annotated[list[str], typer.Argument(help="Names of quotas to remove.")],
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Remove quotas of an entity.

    $ headrace quotas unset client-id/loader producer_byte_rate
    """
    operations: list[QuotaOperation] = [{"key": quota, "value": 0.0, "remove": True} for quota in quotas]
    _alter(entity, operations, bootstrap, timeout, output, dry_run=dry_run)


def _alter(
    entity: str,
    operations: list[QuotaOperation],
    bootstrap: str | None,
    timeout: float,
    output: Format,
    *,
    dry_run: bool,
) -> None:
    parts = parse_entity(entity)
    for operation in operations:
        if operation["key"] not in KEYS:
            raise Failed(f"there is no quota {operation['key']!r}.{nearest(operation['key'], KEYS)}")

    async def action(client: ClusterClient) -> None:
        body = {"entries": [{"entity": parts, "ops": operations}], "validate_only": dry_run}
        check_answer((await client.to_controller(ApiKey.ALTER_CLIENT_QUOTAS, body)).entries[0], entity)

    connected(bootstrap, action, timeout=timeout)
    rows = [
        {
            "entity": entity, "quota": operation["key"], "value": None if operation["remove"] else operation["value"],
            "done": not dry_run,
        }
        for operation in operations
    ]  # fmt: skip
    report(rows, output, _change)


def _change(row: Row) -> str:
    limit = "no limit" if row["value"] is None else f"{row['value']:.15g}"
    return f"{verb(row, 'set', 'set')} {row['quota']} of {row['entity']} to {limit}"


app.command("list", hidden=True)(ls)
