"""`headrace up --brokers N`: runs a development cluster and its HTTP services in the foreground until Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.support.development_cluster import Cluster
from headrace.cli.support.keyboard import keys
from headrace.cli.support.output import Format, rich_table, show
from headrace.kernel.plurals import counted

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer()


@app.command()
def up(
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, max=20, help="Number of brokers.")] = 3,
    data: Annotated[Path, typer.Option("--data", help="Data directory of the cluster.")] = Path("data/cluster"),
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=0,
            max=65000,
            help="Port of the first broker; the others use the next ports. 0 chooses free ports.",
        ),
    ] = 9092,
    zookeeper_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of ZooKeeper. 0 chooses a free port.")
    ] = 2181,
    setting: Annotated[list[str] | None, typer.Option("--set", help="Setting KEY=VALUE for every broker.")] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="Use TLS, logins and ACLs. The command prints what clients need.")
    ] = False,
) -> None:
    """Run ZooKeeper, brokers, schema registry, HTTP API and web console until Ctrl-C or SIGTERM.

    The data stays on disk. A broker that ends is not restarted, so that you can watch the others without it. The key
    r or SIGUSR1 restarts it.

    $ headrace up --brokers 3

    $ headrace up --brokers 3 --secure
    """
    from headrace.cli.support.connection import key_values

    cluster = Cluster(brokers, data.absolute(), port, zookeeper_port, key_values(setting, "--set"), secure=secure)
    asked = Requests()
    code = 0
    try:
        cluster.start(asked.to_stop)
        if not asked.to_stop():
            who = f"{counted(brokers, 'broker')} {'serves' if brokers == 1 else 'serve'}"
            _say(f"{who} {cluster.bootstrap} (data and logs in {cluster.directory}; Ctrl-C stops all)")
            _say(f"the web console is on {cluster.console}")
            _say(f"the schema registry is on {cluster.registry}")
            _say(f"the HTTP API is on {cluster.http_api}")
            secured = cluster.security
            for line in secured.explanation(cluster.bootstrap, cluster.http_api) if secured is not None else ():
                _say(line)
            code = _watch(cluster, asked)
    finally:
        _say("stopping (once more to stop at once)")
        cluster.stop(asked.to_stop_at_once)
    _say("stopped")
    raise typer.Exit(code)


class Requests:
    """Signals that the command has received."""

    def __init__(self) -> None:
        self._stops = 0
        self._restart = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGUSR1, self._restart_ended)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stops += 1

    def _restart_ended(self, _number: int, _frame: FrameType | None) -> None:
        self._restart = True

    def to_stop(self) -> bool:
        return self._stops > 0

    def to_stop_at_once(self) -> bool:
        return self._stops > 1

    def to_restart(self) -> bool:
        """Whether a restart was requested since the last call."""
        asked, self._restart = self._restart, False
        return asked


def _watch(cluster: Cluster, asked: Requests) -> int:
    """Shows the state of each process until a stop is requested. Returns 1 if all brokers have ended by themselves."""
    with _screen(cluster) as draw, keys() as pressed:
        while not asked.to_stop():
            key = pressed()
            if asked.to_restart() or key == "r":
                cluster.restart_ended()
            draw()
            if cluster.all_ended:
                return 1
            time.sleep(0.2)
    return 0


def _how_to_restart(names: Sequence[str]) -> str:
    key = "press r, or " if sys.stdin.isatty() else ""
    return f"to restart {' and '.join(names)}: {key}kill -USR1 {os.getpid()}"


@contextmanager
def _screen(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Redraws a table in a terminal. Elsewhere prints a table once, and a line for each change."""
    if sys.stdout.isatty():
        from rich.live import Live

        def table() -> Table:
            caption = _how_to_restart(cluster.ended) if cluster.ended else None
            return rich_table(cluster.rows(), "headrace up", caption=caption)

        with Live(table(), auto_refresh=False) as screen:
            yield lambda: screen.update(table(), refresh=True)
        return
    show(cluster.rows(), Format.TABLE)
    sys.stdout.flush()
    known = cluster.states()

    def tell_changes() -> None:
        nonlocal known
        now = cluster.states()
        for name, state in now.items():
            if state != known[name]:
                ended = name in cluster.ended
                _say(f"{name}: {state}{f', see {name}.log; {_how_to_restart([name])}' if ended else ''}")
        known = now

    yield tell_changes


def _say(text: str) -> None:
    print(f"headrace up: {text}", flush=True)
