"""`headrace log standalone DIR…`: converts a broker's log directories for a standalone broker, without ZooKeeper."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.support.connection import Failed, Output, Yes, key_values, sure
from headrace.cli.support.output import Format, show_one
from headrace.kernel.plurals import counted


def standalone(
    directories: Annotated[
        list[Path], typer.Argument(help="All log directories of one broker, which must be stopped.", exists=True)
    ],
    zookeeper: Annotated[
        str, typer.Option("--zookeeper", help="Read the topics from this ensemble, HOST:PORT/CHROOT.")
    ] = "",
    broker_id: Annotated[
        int | None,
        typer.Option("--broker-id", min=0, help="Broker id, when the directories name none. Default: 0."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Setting KEY=VALUE of the broker, for example zookeeper.digest.user."),
    ] = None,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Turn log directories into those of a standalone broker, with the topics from ZooKeeper or from the logs.

    Use it for a broker that left its cluster, or whose coordination store is missing or damaged. Topics from the logs
    keep all records. Their retention and compaction are off until you set them again.

    $ headrace log standalone data --zookeeper localhost:2181/orders --yes

    $ headrace log standalone data --yes
    """
    from headrace.broker.standalone import make_standalone
    from headrace.config import load_broker_config
    from headrace.kernel.errors import Fault

    settings = {"log.dirs": ",".join(map(str, directories))}
    if broker_id is not None:
        settings["broker.id"] = str(broker_id)
    if zookeeper:
        settings["zookeeper.connect"] = zookeeper
    config = load_broker_config({**settings, **key_values(setting, "--set")})
    source = f"with the topics from ZooKeeper at {zookeeper}" if zookeeper else "with topics made from its logs"
    sure(f"Let {', '.join(map(str, directories))} serve alone from now on, {source}?", yes)
    try:
        done = asyncio.run(make_standalone(config))
    except Fault as fault:
        raise Failed(fault.message) from fault
    if output is not Format.TABLE:
        show_one(
            {
                "broker": done.broker_id,
                "cluster": done.cluster_id,
                "topics": done.topics,
                "basis": done.basis,
                "replaced": None if done.replaced is None else str(done.replaced),
                "made_from_logs": list(done.findings.made),
                "left": list(done.findings.left),
            },
            output,
        )
        return
    typer.echo(
        f"broker {done.broker_id} of cluster {done.cluster_id} is a standalone broker "
        f"with {counted(done.topics, 'topic')}"
    )
    typer.echo(f"they come from {done.basis}")
    if done.replaced is not None:
        typer.echo(f"the former store is now {done.replaced}")
    if done.findings.made:
        typer.echo(f'made from their logs, with all settings at "keep everything": {", ".join(done.findings.made)}')
    for reason in done.findings.left:
        typer.echo(f"without a topic: {reason}")
