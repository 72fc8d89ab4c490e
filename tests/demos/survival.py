"""A demo on three brokers and two executors, while an executor and a broker are killed in the middle.

python -m tests.demos.survival taxi|bank|social [--records 2000]

Brokers and executors are processes of their own. Besides them only the driver is a JVM, so that a small machine can
run it: the brokers are a `process_cluster`, and `local-cluster` is a standalone cluster with its master in the driver.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console

from headrace.client.blocking.client import BlockingClient
from headrace.demos.catalogue import demos
from headrace.demos.run import DemoRun
from headrace.demos.topics import Contents
from headrace.pipelines.session import spark_session
from headrace.testing.process_cluster import process_cluster
from tests.support.clock import Stopwatch, wait_for

_MASTER: Final = "local-cluster[2,1,768]"
_SETTINGS: Final = {
    "spark.executor.memory": "768m",
    # As a local session: a run of two minutes never profits from the second compiler.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
_PATIENCE_S: Final = 600.0


def survives(name: str, records: int, directory: Path) -> bool:
    watch, console = Stopwatch(), Console(width=160)
    with process_cluster(brokers=3) as brokers:
        console.print(f"{watch.seconds:.0f} s: three brokers")
        spark = spark_session(name, master=_MASTER, settings=_SETTINGS)
        console.print(f"{watch.seconds:.0f} s: a Spark cluster")
        demo = demos()[name]
        run = DemoRun(demo, brokers.bootstrap, directory / "data", console, spark, _PATIENCE_S, records)
        (directory / "data").mkdir()

        def halfway() -> None:
            """When the first results are there: the pipeline is at work."""
            with BlockingClient(brokers.bootstrap) as client:
                outputs = Contents(client, demo.check.OUTPUTS)
                wait_for(lambda: outputs.read_new() > 0, "the first results", within=_PATIENCE_S / 2)
            brokers.kill(1)
            wait_for(lambda: len(executors()) > 0, "an executor to kill")
            os.kill(random.Random(3).choice(executors()), signal.SIGKILL)
            console.print(f"{watch.seconds:.0f} s: killed: broker 1 and an executor")

        run.halfway = halfway
        run.prepare()
        try:
            right = run.run_once()
            console.print(f"{watch.seconds:.0f} s: restarts of flows: {_restarts(brokers.bootstrap)}")
            return right
        finally:
            run.close()
            spark.stop()


def executors() -> list[int]:
    """The JVMs that run tasks: descendants of this process."""
    parents: dict[int, int] = {}
    running: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if _EXECUTOR in (entry / "cmdline").read_bytes():
                    running.append(int(entry.name))
            except OSError:
                continue  # it has ended
    return sorted(pid for pid in running if _descends(pid, parents))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


def _restarts(bootstrap: str) -> dict[str, int]:
    with BlockingClient(bootstrap) as client:
        reports = Contents(client, ["__pipelines"])
        reports.read_new()
        return {flow: int(each.get("restarts", 0)) for flow, each in reports.latest("__pipelines").items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--records", type=int, default=2000)
    chosen = parser.parse_args()
    # A test that gives up ends the brokers and the Spark cluster too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="headrace-survival-") as folder:
        sys.exit(0 if survives(chosen.name, chosen.records, Path(folder)) else 1)
