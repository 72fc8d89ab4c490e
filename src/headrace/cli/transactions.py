"""`headrace transactions ls|describe|end`: lists, describes and aborts transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from headrace.cli.support.change_report import Row, report_one, verb
from headrace.cli.support.connection import (
    Bootstrap,
    DryRun,
    Failed,
    Output,
    Timeout,
    Yes,
    check_answer,
    complete_live,
    connected,
    sure,
)
from headrace.cli.support.output import Format, show, show_one
from headrace.cli.support.spelling import nearest
from headrace.client.cluster_client import TRANSACTION, ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.describe_transactions import TransactionState

app = typer.Typer(no_args_is_help=True, help="List, describe and end transactions.")


class TransactionRow(TypedDict):
    transactional_id: str
    state: str
    producer: int
    coordinator: int


async def transaction_rows(client: ClusterClient, older_than_ms: int = -1) -> list[TransactionRow]:
    body = {
        "state_filters": [], "producer_id_filters": [], "duration_filter": older_than_ms,
        "transactional_id_pattern": None,
    }  # fmt: skip
    rows: list[TransactionRow] = []
    for node in sorted(client.metadata.nodes):
        answer = await client.request(ApiKey.LIST_TRANSACTIONS, body, node=node)
        check_answer(answer, f"broker {node}")
        rows += [
            {
                "transactional_id": str(t.transactional_id), "state": str(t.transaction_state),
                "producer": int(t.producer_id), "coordinator": node,
            }
            for t in answer.transaction_states
        ]  # fmt: skip
    return sorted(rows, key=lambda row: row["transactional_id"])


async def _ids(client: ClusterClient) -> list[str]:
    return [row["transactional_id"] for row in await transaction_rows(client)]


def complete_id(ctx: typer.Context, incomplete: str) -> list[str]:
    return complete_live(ctx, _ids, incomplete)


TransactionalId = Annotated[str, typer.Argument(help="The transactional id.", autocompletion=complete_id)]


@app.command("ls")
def ls(
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than", min=0, help="Show only transactions that are open for more than this many seconds."
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """List transactional ids and their states.

    $ headrace transactions ls --older-than 60
    """

    async def action(client: ClusterClient) -> list[TransactionRow]:
        return await transaction_rows(client, -1 if older_than is None else int(older_than * 1000))

    show(connected(bootstrap, action, timeout=timeout), output, empty="no transactions")


async def _state(client: ClusterClient, name: str) -> tuple[int, TransactionState]:
    node = await client.coordinator(name, TRANSACTION)
    found = (
        await client.request(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": [name]}, node=node)
    ).transaction_states
    if found[0].error_code == ErrorCode.transactional_id_not_found:
        known = [row["transactional_id"] for row in await transaction_rows(client)]
        raise Failed(f"transactional id {name!r} does not exist.{nearest(name, known)}")
    check_answer(found[0], f"transactional id {name}")
    return node, found[0]


@app.command()
def describe(
    transactional_id: TransactionalId,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show state, age and partitions of a transaction.

    $ headrace transactions describe payments-1
    """

    async def action(client: ClusterClient) -> dict[str, object]:
        node, found = await _state(client, transactional_id)
        started = found.transaction_start_time
        return {
            "transactional_id": transactional_id,
            "state": str(found.transaction_state),
            "coordinator": node,
            "producer": int(found.producer_id),
            "epoch": int(found.producer_epoch),
            "timeout_s": found.transaction_timeout.total_seconds(),
            "open_for_s": round(time.time() - started.timestamp(), 1) if started else None,
            "partitions": [f"{t.topic}-{p}" for t in found.topics for p in t.partitions],
        }

    show_one(connected(bootstrap, action, timeout=timeout), output)


@app.command()
def end(
    transactional_id: TransactionalId,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Abort an open transaction and fence its producer.

    $ headrace transactions end payments-1 --yes
    """

    async def action(client: ClusterClient) -> dict[str, object]:
        node, found = await _state(client, transactional_id)
        row = {
            "transactional_id": transactional_id, "state": str(found.transaction_state),
            "producer": int(found.producer_id), "done": False,
        }  # fmt: skip
        if dry_run:
            return row
        sure("Abort it and fence its producer?", yes, [_ending(row)])
        # A short timeout is below every transaction.max.timeout.ms. The next producer brings its own.
        body = {
            "transactional_id": transactional_id, "transaction_timeout": 1_000, "producer_id": -1,
            "producer_epoch": -1, "enable2_pc": False, "keep_prepared_txn": False,
        }  # fmt: skip
        check_answer(await client.request(ApiKey.INIT_PRODUCER_ID, body, node=node), transactional_id)
        return {**row, "done": True}

    row = connected(bootstrap, action, timeout=timeout)
    report_one(row, output, _ending(row))


def _ending(row: Row) -> str:
    what = f"{row['transactional_id']} ({row['state']}, producer {row['producer']})"
    return f"{verb(row, 'aborted', 'abort')} {what}"


app.command("list", hidden=True)(ls)
