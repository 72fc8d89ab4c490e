"""`headrace consume TOPIC…`: read, filter, format, follow, count and export records."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.facts.topic_facts import leaders_of
from headrace.cli.kafka_tools.support.group_offsets import committed
from headrace.cli.records.filter import WrongFilter, compile_filter
from headrace.cli.records.reader import Span, read
from headrace.cli.records.text import Decoding, Seen, document, template
from headrace.cli.support.client_settings import client_settings
from headrace.cli.support.connection import (
    Bootstrap,
    SomeTopics,
    Timeout,
    bootstrap_address,
    connected,
    existing_topics,
)
from headrace.cli.support.contexts import registry_of as registry_of_context
from headrace.cli.support.output import Format, show_one
from headrace.cli.support.progress import progress
from headrace.cli.support.registry_address import LOCAL_REGISTRY, NO_REGISTRY
from headrace.client.cluster_client import ClusterClient
from headrace.client.places import Kind, Place, parse_place
from headrace.client.positions import beyond_end, offset_at
from headrace.kernel.ids import TopicPartition
from headrace.kernel.isolation import READ_COMMITTED, READ_UNCOMMITTED
from headrace.kernel.plurals import counted

app = typer.Typer()


@app.command()
def consume(
    topics: SomeTopics,
    since: Annotated[
        str | None,
        typer.Option("--from", help="Start: beginning, end, an offset (120), the last N (-5), a time, or '1h ago'."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Stop before this offset or time. Accepts the same forms as --from.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many records.")] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Keep reading new records. Starts at the end of the topic unless --from is given."
        ),
    ] = False,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Read only these partitions.")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", "-w", help='key == "a" and value.amount > 5')] = None,
    form: Annotated[str | None, typer.Option("--format", "-F", help="A template: '%k %s\\n' or '{key}\\n'.")] = None,
    key: Annotated[Decoding, typer.Option("--key", help="Format of the printed keys.")] = Decoding.AUTO,
    value: Annotated[Decoding, typer.Option("--value", help="Format of the printed values.")] = Decoding.AUTO,
    to: Annotated[Path | None, typer.Option("--to", help="Write a .ndjson, .csv or .parquet file.")] = None,
    only_count: Annotated[bool, typer.Option("--only-count", "-c", help="Print only the number of records.")] = False,
    rates: Annotated[bool, typer.Option("--rates", help="Print records and bytes per second, every second.")] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", help="Read as this group, on from its offsets unless --from is given, and commit them."
        ),
    ] = None,
    idle: Annotated[
        float | None, typer.Option("--idle", min=0.1, help="Stop after this many seconds without a new record.")
    ] = None,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Print records of open and aborted transactions, too.")
    ] = False,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            "-r",
            envvar="HEADRACE_REGISTRY",
            metavar="URL",
            help="Decode records by the schemas of this registry; none prints their bytes. Without it: the registry of "
            f"the context, or {LOCAL_REGISTRY} if the brokers are on this machine.",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="Output format: table, json (one line per record) or yaml.")
    ] = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Read the existing records and stop; with --follow keep reading.

    $ headrace consume orders --from beginning -F '%p %o %k %s\\n'

    $ headrace consume orders --from '10 minutes ago' --where 'value.amount >= 5' -o json

    $ headrace consume orders --from -5 --to orders.parquet

    $ headrace consume orders --follow --from beginning --count 2

    $ headrace consume orders --registry http://127.0.0.1:8081
    """
    address = bootstrap_address(bootstrap)
    start = _place(since or ("end" if follow else "beginning"), "--from")
    stop = None if follow and until is None else _place(until or "end", "--until")
    try:
        wanted = (lambda record: True) if where is None else compile_filter(where)
        write = _printer(output, form, key, value)
    except WrongFilter as error:
        raise typer.BadParameter(str(error)) from error
    except ValueError as error:
        raise typer.BadParameter(f"--format: {error}") from error

    async def plan(client: ClusterClient) -> dict[TopicPartition, Span]:
        known = leaders_of(await existing_topics(client, topics))
        chosen = sorted(p for p in known if not partition or p.partition in partition)
        if partition and (missing := set(partition) - {p.partition for p in chosen}):
            raise typer.BadParameter(f"--partition {min(missing)}: {', '.join(topics)} has no such partition")
        spans = await _spans(client, chosen, start, stop, READ_UNCOMMITTED if uncommitted else READ_COMMITTED)
        # From the beginning the group would read its records again, and its offsets would go back.
        return spans if group is None or since is not None else await _from_group(client, group, spans)

    spans = connected(bootstrap, plan, timeout=timeout)
    _explain_nothing(start, spans, since, follow=follow, until=until)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tally = _Tally(rates)
    stream = read(
        address,
        spans,
        committed_only=not uncommitted,
        group=group,
        idle_s=idle,
        on_idle=tally.tick,
        client=client_settings(bootstrap),
    )
    readable = _by_schema(stream, registry, bootstrap)
    matching = _limited((tally.saw(record) for record in readable if wanted(record)), count)
    total = sum((span.end or 0) - span.start for span in spans.values()) if stop is not None else None
    try:
        if to is not None:
            from headrace.cli.records.files import Export

            with (
                Export(to) as sink,
                progress(
                    "exporting", total=total if count is None else min(count, total or count), unit="records"
                ) as advance,
            ):
                for record in matching:
                    sink.write(record)
                    advance(1)
        else:
            for record in matching:
                if not only_count and not rates:
                    write(record)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        stream.throw(error)  # not written, so it does not count as read: the group's offset stays before this record
    finally:
        stream.close()
    if to is not None and output is Format.TABLE:
        typer.echo(f"wrote {counted(tally.records, 'record')} to {to}", err=True)
    elif only_count or to is not None:
        result = {"records": tally.records, "bytes": tally.size}
        if output is Format.TABLE:
            typer.echo(str(tally.records))
        else:
            show_one(result, output)


def _explain_nothing(
    start: Place, spans: Mapping[TopicPartition, Span], since: str | None, *, follow: bool, until: str | None
) -> None:
    """Reports on standard error that there is no record yet at the start position."""
    short = beyond_end(start, {p: span.start for p, span in spans.items()})
    is_empty = until is None and not follow and all(span.start == span.end for span in spans.values())
    if short is not None:
        what = f"--from {since} is beyond the end: {short}"
    elif is_empty and start.kind in (Kind.OFFSET, Kind.TIME):
        what = f"there is no record at or after --from {since}"
    else:
        return
    typer.echo(what + ("; waiting for new records" if follow else ""), err=True)


def _place(text: str, option: str) -> Place:
    try:
        return parse_place(text, int(time.time() * 1000))
    except ValueError as error:
        raise typer.BadParameter(f"{option} {error}") from error


async def _spans(
    client: ClusterClient, partitions: list[TopicPartition], start: Place, stop: Place | None, isolation: int
) -> dict[TopicPartition, Span]:
    first = await offset_at(client, partitions, start, isolation_level=isolation)
    if stop is None:
        return {p: Span(first[p], None) for p in partitions}
    if stop.kind is Kind.OFFSET:
        # Limited to the log end offset: the reader does not wait for records that are not written yet.
        ends = await offset_at(client, partitions, Place(Kind.END), isolation_level=isolation)
        last = {p: min(stop.value, ends[p]) for p in partitions}
    else:
        last = await offset_at(client, partitions, stop, isolation_level=isolation)
    return {p: Span(first[p], last[p]) for p in partitions}


async def _from_group(
    client: ClusterClient, group: str, spans: Mapping[TopicPartition, Span]
) -> dict[TopicPartition, Span]:
    """The spans from the committed offsets on. Partitions without one keep their start."""
    known = await committed(client, group)
    found = dict(spans)
    for partition, span in spans.items():
        if partition in known:
            at = known[partition].offset
            found[partition] = Span(at if span.end is None else min(max(at, span.start), span.end), span.end)
    return found


def _by_schema(records: Iterator[Seen], registry: str | None, where: str | None) -> Iterator[Seen]:
    """Decodes records that name a schema. One that does not decode stays as it is, and the reason is reported."""
    chosen = registry or registry_of_context(where)
    if chosen == NO_REGISTRY:
        return records
    return _by_chosen_registry(records, chosen, where) if chosen else _by_local_registry(records, where)


def _by_chosen_registry(records: Iterator[Seen], registry: str, where: str | None) -> Iterator[Seen]:
    from headrace.cli.records.schema_records import RecordsDecoding, registry_of

    decoding = RecordsDecoding(registry_of(registry, where))
    for record in records:
        seen = decoding.decoded(record)
        if seen.error is not None:
            typer.echo(f"{seen.topic}-{seen.partition} @{seen.offset} is shown raw: {seen.error}", err=True)
        yield seen


def _by_local_registry(records: Iterator[Seen], where: str | None) -> Iterator[Seen]:
    """Looks for a registry on this machine when the first record names a schema. Without one, records stay bytes."""
    from headrace.cli.records.schema_records import local_decoding, names_schema

    is_first, decoding = True, None
    for record in records:
        if is_first and names_schema(record):
            is_first = False
            decoding = local_decoding(bootstrap_address(where), where)
            typer.echo(
                f"{record.topic}: records name schemas; --registry URL decodes them"
                if decoding is None
                else f"{record.topic}: decoded by the schema registry {LOCAL_REGISTRY}; --registry none prints bytes",
                err=True,
            )
        yield record if decoding is None else decoding.decoded(record)


def _limited(records: Iterator[Seen], count: int | None) -> Iterator[Seen]:
    for number, record in enumerate(records, 1):
        yield record
        if number == count:
            return


def _printer(output: Format, form: str | None, key: Decoding, value: Decoding) -> Callable[[Seen], None]:
    import json

    if output is Format.JSON:
        return lambda record: print(
            json.dumps(document(record, key, value), ensure_ascii=False, separators=(",", ":")), flush=True
        )
    if output is Format.YAML:
        import yaml

        return lambda record: print(
            "---\n" + yaml.safe_dump(document(record, key, value), sort_keys=False, allow_unicode=True),
            end="", flush=True,
        )  # fmt: skip
    default = "{value}\\n" if not sys.stdout.isatty() else "{topic}-{partition} @{offset} {time}  {key}  {value}\\n"
    line = template(form if form is not None else default, key, value)
    out = sys.stdout

    def write(record: Seen) -> None:
        out.write(line(record))
        out.flush()

    return write


class _Tally:
    """Counts records. Reports the rate once a second if requested."""

    def __init__(self, rates: bool) -> None:
        self.records = self.size = 0
        self._rates = rates
        self._since: tuple[float, int, int] = (time.monotonic(), 0, 0)

    def saw(self, record: Seen) -> Seen:
        self.records += 1
        self.size += len(record.key or b"") + len(record.value or b"")
        self.tick()
        return record

    def tick(self) -> None:
        if not self._rates:
            return
        now = time.monotonic()
        then, records, size = self._since
        if now - then >= 1:
            rate: dict[str, object] = {
                "records": self.records,
                "records_per_s": round((self.records - records) / (now - then), 1),
                "mb_per_s": round((self.size - size) / (now - then) / 1e6, 3),
            }
            print("  ".join(f"{name} {number}" for name, number in rate.items()), flush=True)
            self._since = (now, self.records, self.size)
