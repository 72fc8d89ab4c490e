"""A demo on a standalone Spark cluster and three brokers, while an executor and a broker are killed in the middle.

python -m tests.demos.survival taxi|bank|social [--records 3000]
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from headrace.client.blocking.client import BlockingClient
from headrace.demos.catalogue import demos
from headrace.demos.processes import DevelopmentCluster, running_brokers
from headrace.demos.run import DemoRun
from headrace.demos.topics import Contents
from headrace.pipelines.session import spark_session
from tests.pipelines.spark_cluster import SparkCluster
from tests.support.clock import wait_for


def survives(name: str, records: int, directory: Path) -> bool:
    with (
        running_brokers(directory / "brokers", 3, port=0) as brokers,
        SparkCluster(directory / "spark", workers=2) as cluster,
    ):
        assert isinstance(brokers, DevelopmentCluster)
        settings = {
            "spark.executor.memory": "768m",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
        }
        spark = spark_session(name, master=cluster.url, settings=settings)
        demo = demos()[name]
        run = DemoRun(demo, brokers.bootstrap, directory / "data", Console(width=160), spark, 220.0, records, brokers)
        (directory / "data").mkdir()

        def halfway() -> None:
            """When the first results are there: the pipeline is at work."""
            with BlockingClient(brokers.bootstrap) as client:
                outputs = Contents(client, demo.check.OUTPUTS)
                wait_for(lambda: outputs.read_new() > 0, "the first results")
            brokers.kill(1)
            wait_for(lambda: cluster.kill_executor(random.Random(3)), "an executor to kill")
            run.console.print("killed: broker 1 and an executor")

        run.halfway = halfway
        run.prepare()
        try:
            right = run.run_once()
            run.console.print(f"restarts of flows: {_restarts(brokers.bootstrap)}")
            return right
        finally:
            run.close()
            spark.stop()


def _restarts(bootstrap: str) -> dict[str, int]:
    with BlockingClient(bootstrap) as client:
        reports = Contents(client, ["__pipelines"])
        reports.read_new()
        return {flow: int(each.get("restarts", 0)) for flow, each in reports.latest("__pipelines").items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--records", type=int, default=3000)
    chosen = parser.parse_args()
    # A test that gives up ends the brokers and the Spark cluster too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="headrace-survival-") as folder:
        sys.exit(0 if survives(chosen.name, chosen.records, Path(folder)) else 1)
