"""What a story can do: send records, start and kill services and brokers, wait for results.

On a terminal a story is paced, so that a person can follow it. Without one it runs as fast as it can.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace import connect
from headrace.client.blocking.client import BlockingClient
from headrace.datagen.generator import Generator
from headrace.datagen.sending import Sender
from headrace.demos.errors import DemoFailed
from headrace.demos.services import Service
from headrace.demos.topics import Contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.api.cluster import Cluster
    from headrace.demos.processes import Brokers

_LOOK_EVERY_S: Final = 0.05
# A story may kill brokers: what librdkafka would say about it is no news.
QUIET: Final = {"log_level": 0}


@dataclass
class Stage:
    bootstrap: str
    directory: Path
    """The demo's own directory, with `service.py`."""
    data: Path
    """Where the demo keeps its files."""
    generator: Generator
    records: int
    """How many records the story sends, if it does not run until it is stopped."""
    say: Callable[[str], None]
    is_paced: bool = False
    brokers: Brokers | None = None
    """None if the demo uses a cluster that it did not start."""
    spark: Callable[[], SparkSession] | None = None
    patience_s: float = 60.0
    settings: Mapping[str, str] = field(default_factory=dict)
    """What `resources` of the story has started, for instance the address of a database."""
    halfway: Callable[[], None] = lambda: None
    """Called when half of the records are sent. Tests kill brokers and executors there."""
    stopping: threading.Event = field(default_factory=threading.Event)
    services: list[Service] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, **QUIET}
        self.sender = Sender(settings, paced=self.is_paced)

    def cluster(self) -> Cluster:
        """Typed topics for the story itself."""
        return connect(self.bootstrap, settings=QUIET)

    def send(self, records: int) -> None:
        """Sends so many generated records more, and waits until the brokers have them. Raises NotSent."""
        self.sender.run(self.generator, count=self.sender.sent.total + records, stop=self.stopping.is_set)

    def service(self, role: str, *arguments: str, name: str | None = None, bootstrap: str | None = None) -> Service:
        """Starts `service.py ROLE BOOTSTRAP ARGUMENT …` of the demo's directory."""
        name = name or "-".join((role, *arguments))
        log = self.data / "services" / f"{name}.log"
        file = self.directory / "service.py"
        started = Service(file, name, role, bootstrap or self.bootstrap, arguments, log)
        self.services.append(started)
        return started

    def contents(self, *topics: str, bootstrap: str | None = None) -> Contents:
        """Topics that the story looks at, with a connection of its own."""
        return Contents(BlockingClient(bootstrap or self.bootstrap, client_id="headrace-demo-story"), topics)

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Raises DemoFailed when the time is over or a service has ended by itself."""
        deadline = time.monotonic() + self.patience_s
        while not condition():
            for service in self.services:
                service.check()
            if self.stopping.is_set():
                raise Stopped
            if time.monotonic() > deadline:
                raise DemoFailed(f"waited {self.patience_s:g} s for {what}; the logs are in {self.data}")
            time.sleep(_LOOK_EVERY_S)

    def wait_for_records(self, number: int, *topics: str, what: str | None = None) -> None:
        """Waits until the topics have so many committed records together."""
        read = self.contents(*topics)
        where = " and ".join(topics)

        def enough() -> bool:
            read.read_new()
            return sum(map(len, read.records.values())) >= number

        self.wait_for(enough, what or f"{number:,} records in {where}")

    def pause(self, seconds: float) -> None:
        """A moment for the person who watches. Nothing without a terminal."""
        if self.is_paced and self.stopping.wait(seconds):
            raise Stopped

    def end_services(self) -> None:
        """Lets the services finish their work. Raises DemoFailed if one of them failed."""
        for service in self.services:
            service.stop()

    def kill_services(self) -> None:
        for service in self.services:
            if service.process.poll() is None:
                service.kill()


class Stopped(Exception):
    """The person at the terminal has stopped the demo."""
