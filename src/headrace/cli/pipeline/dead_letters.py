"""`headrace pipeline dlq`: dead letters, the rows that a pipeline could not decode."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from headrace.cli.support.change_report import report_one
from headrace.cli.support.connection import Bootstrap, Output, Yes, sure
from headrace.cli.support.output import Format
from headrace.cli.support.output import show as table
from headrace.cli.support.pipeline_options import (
    CommandConfig,
    cluster_client,
    one_sentence,
)
from headrace.kernel.plurals import counted

Topic = Annotated[str, typer.Argument(help="The topic, with or without .dlq.", metavar="TOPIC")]
ByError = Annotated[str | None, typer.Option("--error", help="Only letters whose reason contains this text.")]
ByKey = Annotated[str | None, typer.Option("--key", help="Only letters with this key.")]
ByPartition = Annotated[
    int | None, typer.Option("--partition", help="Only letters of this partition of the .dlq topic.")
]
ByOffset = Annotated[int | None, typer.Option("--offset", help="Only the letter at this offset of the .dlq topic.")]

app = typer.Typer(no_args_is_help=True, help="Dead letters: rows that a pipeline could not decode.")


@app.command("ls")
def list_dead_letters(
    bootstrap: Bootstrap = None, command_config: CommandConfig = None, output: Output = Format.TABLE
) -> None:
    """List topics with dead letters: how many wait, and the last error.

    $ headrace pipeline dlq ls

    $ headrace pipeline dlq ls -o json
    """
    with one_sentence():
        from headrace.pipelines.flows.dead_letters import list_dead_letters as listed

        with cluster_client(bootstrap, command_config) as client:
            rows = [dataclasses.asdict(letters) for letters in listed(client)]
        table(rows, output, empty="no dead letters")


@app.command()
def show(
    topic: Topic,
    error: ByError = None,
    key: ByKey = None,
    partition: ByPartition = None,
    offset: ByOffset = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Show waiting dead letters: reason, retries, place, key, headers and value. Binary data is in base64.

    $ headrace pipeline dlq show orders

    $ headrace pipeline dlq show orders --error 'not JSON' -o json
    """
    with one_sentence():
        from headrace.pipelines.flows.dead_letters import LetterFilter, waiting_letters

        with cluster_client(bootstrap, command_config) as client:
            letters = waiting_letters(client, topic, LetterFilter(error, key, partition, offset))
    rows = [dataclasses.asdict(letter) for letter in letters]
    table(rows, output, empty="no dead letters")


@app.command()
def retry(
    topic: Topic,
    error: ByError = None,
    key: ByKey = None,
    partition: ByPartition = None,
    offset: ByOffset = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Write each waiting dead letter back to its topic, once. The options choose letters; the others keep waiting.

    $ headrace pipeline dlq retry orders
    """
    with one_sentence():
        from headrace.pipelines.flows.dead_letters import LetterFilter, retry_dead_letters

        with cluster_client(bootstrap, command_config) as client:
            sent = retry_dead_letters(client, topic, LetterFilter(error, key, partition, offset))
    report_one({"topic": topic, "records": sent, "done": True}, output, f"{counted(sent, 'record')} sent back")


@app.command()
def edit(
    topic: Topic,
    offset: Annotated[int, typer.Option(help="Offset of the letter in the topic of dead letters.")],
    value: Annotated[str, typer.Option(help="The new value, or base64:… for bytes.")],
    partition: Annotated[int, typer.Option(help="Partition of the letter.")] = 0,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Write one dead letter back to its topic with another value.

    $ headrace pipeline dlq edit orders --offset 0 --value '{"id": "a", "amount": 1}'
    """
    with one_sentence():
        from headrace.pipelines.errors import PipelineError
        from headrace.pipelines.flows.dead_letters import LetterFilter, retry_dead_letters, value_from_text

        chosen = LetterFilter(partition=partition, offset=offset)
        with cluster_client(bootstrap, command_config) as client:
            sent = retry_dead_letters(client, topic, chosen, value=value_from_text(value))
        if not sent:
            raise PipelineError(
                f"no dead letter waits at offset {offset} of partition {partition}: "
                f"see 'headrace pipeline dlq show {topic}'"
            )
    report_one({"topic": topic, "offset": offset, "done": True}, output, f"the letter at offset {offset} was sent back")


@app.command()
def drop(
    topic: Topic,
    error: ByError = None,
    key: ByKey = None,
    partition: ByPartition = None,
    offset: ByOffset = None,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Stop waiting dead letters from being retried. They stay in the topic until its retention deletes them.

    $ headrace pipeline dlq drop orders --error 'not JSON' --yes
    """
    with one_sentence():
        from headrace.pipelines.flows.dead_letters import LetterFilter, drop_dead_letters, waiting_letters

        chosen = LetterFilter(error, key, partition, offset)
        with cluster_client(bootstrap, command_config) as client:
            count = len(waiting_letters(client, topic, chosen))
            if count:
                sure(f"Drop {counted(count, 'dead letter')} of {topic}?", yes)
            dropped = drop_dead_letters(client, topic, chosen) if count else 0
    report_one({"topic": topic, "letters": dropped, "done": True}, output, f"{counted(dropped, 'letter')} dropped")
