"""`headrace datagen`: test data from a plan in YAML."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.support.client_settings import client_security, librdkafka_settings
from headrace.cli.support.connection import Bootstrap, Failed, Output, Timeout, bootstrap_address, connected
from headrace.cli.support.output import Format, show, show_one
from headrace.cli.support.spelling import nearest
from headrace.kernel.plurals import counted

if TYPE_CHECKING:
    from headrace.datagen.generator import Generated, Generator
    from headrace.datagen.plan import Plan, Subjects
    from headrace.datagen.sending import Sent

app = typer.Typer(no_args_is_help=True, help="Make test data: realistic records, the same for the same seed.")

PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="A plan file, or the name of a shipped plan.")]
Rate = Annotated[float | None, typer.Option(min=0.001, help="Records per second. Default: the rate of the plan.")]
Seed = Annotated[int | None, typer.Option(help="Other random numbers. Default: the seed of the plan.")]


@app.command()
def run(
    plan: PlanFile,
    rate: Rate = None,
    for_: Annotated[
        str | None, typer.Option("--for", help="Stop after this time, for instance 30s or 2m. Default: until Ctrl-C.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many records.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Send as fast as possible. Event times keep the rate.")] = False,
    seed: Seed = None,
    replication: Annotated[
        int | None, typer.Option(min=1, help="Replication factor of new topics. Default: the plan's.")
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            envvar="HEADRACE_REGISTRY", help="URL of the schema registry, for topics in Avro or JSON with a schema."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the records as JSON lines. Send nothing.")] = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Send the records of a plan. Missing topics are created first.

    $ headrace datagen run orders --for 1s

    $ headrace datagen run orders --count 2 --dry-run
    """
    from headrace.datagen.encoding import registry_encoder, registry_subjects
    from headrace.datagen.errors import BadPlan
    from headrace.datagen.generator import Generator
    from headrace.datagen.plan import seconds
    from headrace.datagen.sending import NotSent, Sender, create_topics
    from headrace.serialization.errors import RegistryError, SerializationError

    try:
        found = _plan(plan, registry_subjects(registry, client_security(bootstrap)))
    except RegistryError as fault:
        raise Failed(str(fault)) from None
    if rate is not None:
        found.arrivals = replace(found.arrivals, rate=rate)
    try:
        limit = None if for_ is None else seconds(for_, "--for")
    except BadPlan as fault:
        raise typer.BadParameter(str(fault)) from None
    start_ms = int(time.time() * 1000) if found.start_ms is None else found.start_ms
    if dry_run:
        _print(Generator(found, start_ms=start_ms, seed=seed), limit, 10 if count is None and limit is None else count)
        return
    # Explains a wrong address better than librdkafka does.
    connected(bootstrap, lambda client: client.refresh(()), timeout=timeout)
    settings = {"bootstrap.servers": bootstrap_address(bootstrap), **librdkafka_settings(bootstrap), **_quiet()}
    line = _Line(shown=output is Format.TABLE and sys.stderr.isatty())
    try:
        encode = registry_encoder(found, registry, client_security(bootstrap))
        generator = Generator(found, start_ms=start_ms, seed=seed, encode=encode)
        create_topics(found, settings, replication=replication)
        with _interrupted() as stop:
            sent = Sender(settings, paced=not fast).run(
                generator, seconds=limit, count=count, look=line.show, stop=lambda: bool(stop)
            )
    except (NotSent, BadPlan, RegistryError, SerializationError) as fault:
        raise Failed(str(fault)) from None
    finally:
        line.clear()
    _report(sent, output)


@app.command(name="ls")
def list_plans(output: Output = Format.TABLE) -> None:
    """List the shipped plans.

    $ headrace datagen ls
    """
    from headrace.datagen.plan import load, shipped

    plans = [load(path) for path in shipped().values()]
    show(
        [
            {
                "plan": plan.name,
                "topics": ", ".join(topic.name for topic in plan.topics),
                "rate": int(plan.arrivals.rate),
                "description": plan.description,
            }
            for plan in plans
        ],
        output,
    )


@app.command(name="show")
def show_plan(plan: PlanFile) -> None:
    """Print a plan, to copy and change it.

    $ headrace datagen show orders
    """
    typer.echo(_path(plan).read_text(), nl=False)


def _path(name: str) -> Path:
    from headrace.datagen.plan import shipped

    path = Path(name)
    if path.is_file():
        return path
    known = shipped()
    if name in known:
        return known[name]
    if path.suffix or "/" in name:
        raise Failed(f"there is no file {name}")
    raise Failed(f"no plan {name!r}.{nearest(name, known)} `headrace datagen ls` lists the shipped plans.")


def _plan(name: str, subjects: Subjects | None) -> Plan:
    from headrace.datagen.errors import BadPlan
    from headrace.datagen.plan import load

    try:
        return load(_path(name), subjects)
    except (BadPlan, OSError) as fault:
        raise Failed(str(fault)) from None


def _print(records: Generator, limit: float | None, count: int | None) -> None:
    """One JSON document a line, which `headrace produce -F json` reads."""
    for record in islice(records, count):
        if limit is not None and record.at_s > limit:
            return
        typer.echo(json.dumps(_document(record)))


def _document(record: Generated) -> dict[str, object]:
    value: object = None if record.value is None else record.value.decode("utf-8", "replace")
    try:
        value = None if record.value is None else json.loads(record.value)
    except ValueError:
        pass
    key = None if record.key is None else record.key.decode()
    return {"topic": record.topic, "key": key, "timestamp": record.timestamp_ms, "value": value}


def _quiet() -> dict[str, object]:
    from headrace.cli.kafka_tools.support.librdkafka import quiet_log

    return dict(quiet_log())


@contextmanager
def _interrupted() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the sending cleanly: what was sent is acknowledged and counted."""
    signals: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda got, frame: signals.append(got)) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Line:
    """A live line of progress on stderr."""

    def __init__(self, *, shown: bool) -> None:
        self._shown, self._at, self._drawn = shown, 0.0, False

    def show(self, sent: Sent) -> None:
        now = time.monotonic()
        if not self._shown or now - self._at < 0.2:
            return
        self._at, self._drawn = now, True
        rate = sent.total / max(sent.seconds, 1e-3)
        topics = "  ".join(f"{topic} {number:,}" for topic, number in sorted(sent.records.items()))
        behind = f"  {sent.behind_s:.1f} s behind the plan" if sent.behind_s > 1 else ""
        print(f"\r{sent.total:,} records, {rate:,.0f}/s  {topics}{behind}\x1b[K", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _report(sent: Sent, output: Format) -> None:
    rate = round(sent.total / max(sent.seconds, 1e-3))
    if output is not Format.TABLE:
        show_one({"records": sent.total, "bytes": sent.bytes_, "seconds": round(sent.seconds, 3), "rate": rate,
                  "topics": dict(sorted(sent.records.items()))}, output)  # fmt: skip
        return
    where = ", ".join(f"{topic} {number:,}" for topic, number in sorted(sent.records.items()))
    typer.echo(f"sent {counted(sent.total, 'record')} in {sent.seconds:.1f} s, {rate:,}/s ({where})", err=True)
