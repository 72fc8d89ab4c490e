"""A plant delivers files. A connector brings them to a topic, the pipeline to the lake."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from headrace.demos.stage import Stage

FILES = 4


def run(stage: Stage) -> None:
    landing = stage.data / "landing"
    landing.mkdir(parents=True, exist_ok=True)
    with _connector(stage):
        lines = 0
        for number in range(FILES):
            records = [record.value or b"" for record in islice(stage.generator, stage.records // FILES)]
            # A file is complete when it has its name: the connector reads it once.
            half = landing / f".{number}.part"
            half.write_bytes(b"\n".join(records) + b"\n")
            half.rename(landing / f"plant-{number}.json")
            lines += len(records)
            stage.sender.sent.records["readings"] += len(records)
            stage.say(f"plant-{number}.json arrives with {len(records):,} lines")
            stage.pause(5)
            stage.wait_for_records(lines, "readings-raw")
        with stage.cluster() as cluster:
            journal = cluster.topic("delivered-lines", dict)
            for file in sorted(landing.glob("plant-*.json")):
                for at, line in enumerate(file.read_bytes().splitlines()):
                    journal.send({"line": line.decode()}, key=f"{file.name}:{at}")


@contextmanager
def _connector(stage: Stage) -> Iterator[None]:
    """`headrace pipeline run connector.yml` in this process."""
    from headrace.pipelines.connectors.connector import connector_run, load_connector

    assert stage.spark is not None
    os.environ["HEADRACE_DEMO_BOOTSTRAP"], os.environ["HEADRACE_DEMO_DATA"] = stage.bootstrap, str(stage.data)
    spec = load_connector(stage.directory / "connector.yml", stage.bootstrap)
    running = connector_run(spec, stage.spark(), once=False, report=lambda _: None)
    running.start()
    thread = threading.Thread(target=running.supervise, name="connector", daemon=True)
    thread.start()
    try:
        yield
    finally:
        running.stop()
        thread.join(60)
