"""`headrace up --brokers N`: a development cluster (ZooKeeper and N brokers) in the foreground; Ctrl-C stops all."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from headrace.cli.development_cluster import Cluster
from headrace.cli.output import Format, rich_table

app = typer.Typer()


@app.command()
def up(
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, max=20, help="How many.")] = 3,
    data: Annotated[Path, typer.Option("--data", help="Where everything is kept.")] = Path("data/cluster"),
    port: Annotated[int, typer.Option("--port", min=0, max=65000, help="Of the first; 0 takes free ones.")] = 9092,
    zookeeper_port: Annotated[int, typer.Option(min=0, max=65535, help="Of ZooKeeper; 0 takes a free one.")] = 2181,
    setting: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE for every broker.")] = None,
) -> None:
    """Run ZooKeeper and brokers of a development cluster until Ctrl-C or SIGTERM; the data stays.

    $ headrace up --brokers 3
    """
    from headrace.cli.connecting import key_values

    cluster = Cluster(brokers, data.absolute(), port, zookeeper_port, key_values(setting, "--set"))
    asked = 0

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1

    def stopping() -> bool:
        return asked > 0

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    code = 0
    try:
        cluster.start(stopping)
        if not stopping():
            who = "1 broker serves" if brokers == 1 else f"{brokers} brokers serve"
            _say(f"{who} {cluster.bootstrap} (data in {cluster.directory}; Ctrl-C stops all)")
            code = _watch(cluster, stopping)
    finally:
        _say("stopping (once more to stop at once)")
        cluster.stop(lambda: asked > 1)
    _say("stopped")
    raise typer.Exit(code)


def _watch(cluster: Cluster, stopping: Callable[[], bool]) -> int:
    """Shows the state of each process until told to stop; 1 when all brokers have ended by themselves."""
    if sys.stdout.isatty():
        from rich.live import Live

        with Live(rich_table(cluster.rows(), "headrace up"), auto_refresh=False) as screen:
            while not stopping():
                screen.update(rich_table(cluster.rows(), "headrace up"), refresh=True)
                if cluster.all_ended:
                    return 1
                time.sleep(0.5)
        return 0
    from headrace.cli.output import show

    show(cluster.rows(), Format.TABLE)
    sys.stdout.flush()
    known = cluster.states()
    while not stopping():
        now = cluster.states()
        for name, state in now.items():
            if state != known[name]:
                _say(f"{name}: {state}")
        known = now
        if cluster.all_ended:
            return 1
        time.sleep(0.2)
    return 0


def _say(text: str) -> None:
    print(f"headrace up: {text}", flush=True)
