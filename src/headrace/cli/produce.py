"""`headrace produce TOPIC`: records from arguments, standard input or files, sent with acks=all by librdkafka."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.records.lines import Incoming, json_lines, keyed_lines, plain_lines
from headrace.cli.support.client_settings import librdkafka_settings
from headrace.cli.support.connection import (
    Bootstrap,
    DryRun,
    Failed,
    Output,
    Timeout,
    Topic,
    bootstrap_address,
    connected,
    key_values,
    missing_topic,
)  # fmt: skip
from headrace.cli.support.output import Format, show_one
from headrace.cli.support.progress import Share, progress
from headrace.cli.support.registry_address import Registry, registry_address
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.plurals import counted

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import ClientError, Message, Producer
    from headrace.serialization.registry_client import RegistryClient

app = typer.Typer()


class Input(StrEnum):
    LINES = "lines"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@app.command()
def produce(
    topic: Topic,
    values: Annotated[list[str] | None, typer.Argument(help="Values. Default: lines of standard input.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key for records without a key.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="Header NAME=VALUE for every record.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Send all records to this partition.")
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="Read records from this file; - is standard input.")
    ] = None,
    form: Annotated[
        Input | None,
        typer.Option("--format", "-F", help="Input format: lines, json, csv or parquet. Default: by the file name."),
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="Text between key and value of a line; \\t is a tab.")
    ] = None,
    null: Annotated[
        str | None, typer.Option("--null", help="Write a tombstone for a value that equals this text.")
    ] = None,
    acks: Annotated[str, typer.Option(help="Required acknowledgements: all, 1 or 0.")] = "all",
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="Compression: none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="Maximum number of records per second.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            help="Encode values, which are JSON, by this schema: a file (.avsc, .json, .proto, .xsd) or latest.",
        ),
    ] = None,
    key_schema: Annotated[str | None, typer.Option("--key-schema", help="The same for keys.")] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", help="Name of the subject: topic, record or topic-record.")
    ] = "topic",
    record_name: Annotated[
        str | None, typer.Option("--record", help="Name of the record or Protobuf message, if the schema has several.")
    ] = None,
    schema_in_header: Annotated[
        bool,
        typer.Option(
            "--schema-in-header", help="Name the schema in a header, by its GUID, and not by its id before the data."
        ),
    ] = False,
    registry: Registry = None,
    repartition: Annotated[
        bool, typer.Option("--repartition", help="Ignore the partitions in the input and choose them by key.")
    ] = False,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Send records. Standard input and text files are lines, KEY<TAB>VALUE with -K '\\t', or JSON documents.

    $ headrace produce orders 'first' 'second' --key alice

    $ printf 'alice\\t10\\nbob\\t20\\n' | headrace produce orders -K '\\t'

    $ echo '{"key": "c", "value": {"amount": 5}, "headers": {"source": "web"}}' | headrace produce orders -F json

    With --schema or --key-schema the text is JSON, and the records carry the id of their schema.
    """
    address = bootstrap_address(bootstrap)
    headers = tuple((name, value.encode()) for name, value in key_values(header, "--header").items())
    mark = None if separator is None else separator.replace("\\t", "\t")
    if mark == "":
        raise typer.BadParameter("--key-separator must not be empty")
    share = Share()
    records = _records(values, file, form, mark, null, share)
    # No progress line if a user types the records.
    typed = not values and not file and sys.stdin.isatty()

    async def look(client: ClusterClient) -> int:
        known = (await client.refresh(None)).topics
        if topic not in known and not create:
            raise Failed(await missing_topic(client, topic, known, " --create lets it be created."))
        return len(known[topic].partitions) if topic in known else 0

    count = connected(bootstrap, look, timeout=timeout)
    if partition is not None and count and partition >= count:
        raise Failed(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
    # A dry run changes nothing: encoding would register the schema.
    schemas = (None, None) if dry_run else (key_schema, schema)

    def registry_client() -> RegistryClient:
        from headrace.cli.records.schema_records import registry_of

        return registry_of(registry_address(registry, bootstrap), bootstrap)

    encode = _encoding(topic, schemas, strategy, record_name, registry_client, in_header=schema_in_header)
    # A lost answer must not write records twice. librdkafka permits it with acks=all only.
    once = "true" if acks in ("all", "-1") else "false"
    chosen = {"acks": acks, "enable.idempotence": once, "compression.type": compression}
    settings = {**chosen, **librdkafka_settings(bootstrap)}
    sender = _Sender(address, topic, settings, dry_run, count)
    with progress("sending", share=share, unit="records", shown=not typed) as advance:
        for record in _paced(records, rate):
            sender.send(
                encode(
                    Incoming(
                        record.key if record.key is not None or key is None else key.encode(),
                        record.value,
                        (*headers, *record.headers),
                        record.timestamp_ms,
                        partition if partition is not None else None if repartition else record.partition,
                    )
                )
            )
            advance(1)
        sender.finish()
    result = {"topic": topic, "records": sender.sent, "bytes": sender.size, "seconds": round(sender.seconds, 3)}
    if output is not Format.TABLE:
        show_one({**result, "partitions": {str(p): n for p, n in sorted(sender.where.items())}}, output)
        return
    where = ", ".join(f"{n} in partition {p}" for p, n in sorted(sender.where.items()))
    verb = "would send" if dry_run else "sent"
    typer.echo(f"{verb} {counted(sender.sent, 'record')} to {topic}{f' ({where})' if where else ''}", err=True)


def _encoding(
    topic: str,
    schemas: tuple[str | None, str | None],
    strategy: str,
    record: str | None,
    registry: Callable[[], RegistryClient],
    *,
    in_header: bool,
) -> Callable[[Incoming], Incoming]:
    """`schemas`: of keys and of values."""
    if schemas == (None, None):
        return lambda given: given
    from headrace.cli.records.schema_records import RecordsEncoding, encoder_of

    client = registry()
    key, value = (
        None
        if text is None
        else encoder_of(client, topic, text, strategy, is_key=is_key, message=record, option=option)
        for text, is_key, option in zip(schemas, (True, False), ("--key-schema", "--schema"), strict=True)
    )
    return RecordsEncoding(topic, key, value, in_header=in_header).encoded


def _records(
    values: list[str] | None,
    files: list[Path] | None,
    form: Input | None,
    mark: str | None,
    null: str | None,
    share: Share,
) -> Iterator[Incoming]:
    if values and files:
        raise typer.BadParameter("give values or --file, not both")
    if values:
        lines = [value.encode() for value in values]
        yield from _text(lines, "argument", form or Input.LINES, mark, null)
        return
    for path in files or [Path("-")]:
        if str(path) == "-":
            yield from _text(sys.stdin.buffer, "standard input", form or Input.LINES, mark, null)
            continue
        if not path.is_file():
            raise Failed(f"there is no file {path}")
        yield from _file(path, form or _by_ending(path), mark, null, share)


def _by_ending(path: Path) -> Input:
    from headrace.cli.records.files import SUFFIXES

    kind = SUFFIXES.get(path.suffix.lower(), "lines")
    return Input.JSON if kind == "ndjson" else Input(kind)


def _file(path: Path, form: Input, mark: str | None, null: str | None, share: Share) -> Iterator[Incoming]:
    from headrace.cli.records import files as record_files

    if form is Input.CSV:
        yield from record_files.read_csv(path, share)
    elif form is Input.PARQUET:
        yield from record_files.read_parquet(path, share)
    else:
        with path.open("rb") as lines:
            yield from _text(_measured(lines, path.stat().st_size, share), str(path), form, mark, null)


def _measured(lines: Iterable[bytes], size: int, share: Share) -> Iterator[bytes]:
    read = 0
    for line in lines:
        read += len(line)
        share.done = read / size
        yield line


def _text(lines: Iterable[bytes], source: str, form: Input, mark: str | None, null: str | None) -> Iterator[Incoming]:
    if form is Input.JSON:
        return json_lines(lines, source)
    if form is not Input.LINES:
        raise Failed(f"{form} can only be read from a file: --file NAME")
    if mark is not None:
        return keyed_lines(lines, mark, source, null_value=null)
    return plain_lines(lines, null_value=null)


def _paced(records: Iterator[Incoming], rate: float | None) -> Iterator[Incoming]:
    began = time.monotonic()
    for number, record in enumerate(records):
        if rate is not None:
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        yield record


class _Sender:
    """Sends records with librdkafka and counts them by partition."""

    def __init__(self, address: str, topic: str, settings: dict[str, str], dry_run: bool, partitions: int) -> None:
        self.topic, self._partitions = topic, partitions
        self.sent = self.size = 0
        self.where: Counter[int] = Counter()
        self._failed: str | None = None
        self._began = time.monotonic()
        self.seconds = 0.0
        self._producer = None if dry_run else _producer(address, settings)

    def send(self, record: Incoming) -> None:
        if record.partition is not None and self._partitions and record.partition >= self._partitions:
            has = f"{self.topic!r} has partitions 0 to {self._partitions - 1}"
            raise Failed(f"a record names partition {record.partition}, {has}: --repartition ignores what it names")
        self.size += len(record.key or b"") + len(record.value or b"")
        if self._producer is None:
            self.sent += 1
            return
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.produce(
                    self.topic, record.value, record.key, -1 if record.partition is None else record.partition,
                    on_delivery=self._delivered, timestamp=record.timestamp_ms or 0, headers=list(record.headers),
                )  # fmt: skip
                break
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                raise Failed(f"{self.topic}: {error.args[0].str()}") from error
            if self._failed:
                raise Failed(self._failed)
        self._producer.poll(0)
        if self._failed:
            raise Failed(self._failed)

    def _delivered(self, error: ClientError | None, message: Message) -> None:
        if error is not None:
            self._failed = self._failed or f"{self.topic}: {error.str()}{_way_out(error, self.topic)}"
            return
        self.sent += 1
        self.where[message.partition()] += 1

    def finish(self) -> None:
        if self._producer is not None:
            left = self._producer.flush()
            if self._failed or left:
                raise Failed(self._failed or f"{counted(left, 'record')} not acknowledged")
        self.seconds = time.monotonic() - self._began


def _way_out(error: ClientError, topic: str) -> str:
    """Remedy for the error, if there is a known one."""
    if error.name() in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
        return f". See headrace configs get topic/{topic} max.message.bytes --all"
    if error.name() in ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"):
        return ". See headrace doctor"
    return ""


def _producer(address: str, settings: dict[str, str]) -> Producer:
    from confluent_kafka import KafkaException
    from confluent_kafka import Producer as Client

    from headrace.cli.kafka_tools.support.librdkafka import quiet_log

    try:
        made: Producer = Client(
            {
                "bootstrap.servers": address, "client.id": "headrace-cli", "linger.ms": 5,
                # The topic limits the record size, not this client.
                "message.timeout.ms": 60_000, "message.max.bytes": 1_000_000_000, **settings, **quiet_log(),
            }
        )  # fmt: skip
    except KafkaException as error:
        raise Failed(error.args[0].str()) from error
    return made
