"""The word count demo: `headrace demo wordcount`, which `make run` starts.

The demo starts a broker process (port 9092 if free), creates the two topics of the documentation, runs the shipped
pipeline on local Spark, sends sample lines, and reads the counts from the output topic. On a terminal it continues
until Ctrl-C. Without a terminal it ends by itself: exit code 0 if the counts equal a count of the input topic in plain
Python, 1 if not.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import write_records
from headrace.demos.catalogue import without_java
from headrace.demos.demo_topic import DemoTopic
from headrace.demos.processes import DevelopmentCluster, embedded_broker, running_brokers, web_console
from headrace.demos.wordcount.sample_text import LINES
from headrace.demos.wordcount.screen import (
    INPUT_TOPIC,
    OUTPUT_TOPIC,
    TITLE,
    Snapshot,
    fitting_rows,
    hints,
    panels,
    picture,
    print_plain,
    program,
    what_next,
)
from headrace.kernel.errors import Fault
from headrace.kernel.plurals import counted
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.progress import FlowProgress
from headrace.pipelines.flows.spec import BOOTSTRAP, load_spec
from headrace.pipelines.flows.templates import WORDCOUNT
from headrace.pipelines.spark.java import JavaMissing, find_java
from headrace.records.builder import Record

_PATIENCE_S: Final = 180.0
_LINE_EVERY_S: Final = 0.5
_MOST_REPLICAS: Final = 3


def count_words(lines: list[str]) -> Counter[str]:
    """The same count without Spark."""
    return Counter(word for line in lines for word in re.split(r"\W+", line.lower()) if word)


class TopicReader:
    """Reads a one-partition topic as it grows."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._client = BlockingClient(bootstrap, client_id="headrace-demo")
        self._partition = (topic, 0)
        self._at = self._client.list_offsets({self._partition: EARLIEST})[self._partition]

    def read_new(self) -> list[Record]:
        end = self._client.list_offsets({self._partition: LATEST}, isolation=READ_COMMITTED)[self._partition]
        settings = FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=10, max_wait_ms=50)
        found = list(fetched_records(self._client, self._partition, self._at, end, settings))
        self._at = max(self._at, end)
        return found


@dataclass
class WordCountDemo:
    bootstrap: str
    console: Console
    storage: Path
    lines_sent: int = 0
    last_line: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    _fault: list[BaseException] = field(default_factory=list)

    def prepare(self) -> None:
        self._client = BlockingClient(self.bootstrap, client_id="headrace-demo")
        replicas = min(_MOST_REPLICAS, self._client.broker_count())
        self._client.create_topic(INPUT_TOPIC, 1, replication_factor=replicas)
        self._client.create_topic(OUTPUT_TOPIC, 1, replication_factor=replicas, configs={"cleanup.policy": "compact"})
        self._output = TopicReader(self.bootstrap, OUTPUT_TOPIC)
        self._published = DemoTopic(self._client, "wordcount", TITLE)

    def start_pipeline(self) -> None:
        from headrace.pipelines.flows.runner import PipelineRun
        from headrace.pipelines.session import spark_session

        spec = load_spec(WORDCOUNT).with_settings({BOOTSTRAP: self.bootstrap}, storage=str(self.storage))
        self.storage.mkdir(parents=True, exist_ok=True)
        self.spark = spark_session("wordcount", output=self.storage.parent / "spark.log")
        self.run = PipelineRun(spec, self.spark, report=lambda text: self.console.print(text, style="yellow"))
        self.run.start()

        def supervise() -> None:
            try:
                self.run.supervise()
            except BaseException as error:
                # Boundary of the thread: `look` raises the error in the main thread.
                self._fault.append(error)

        self._supervisor = threading.Thread(target=supervise, name="pipeline", daemon=True)
        self._supervisor.start()

    def stop_pipeline(self) -> None:
        if hasattr(self, "run"):
            self.run.stop()
            self._supervisor.join(60)
        if hasattr(self, "spark"):
            self.spark.stop()

    def send(self, line: str) -> None:
        record = Record(None, line.encode(), timestamp_ms=int(time.time() * 1000))
        write_records(self._client, (INPUT_TOPIC, 0), [record])
        self.lines_sent += 1
        self.last_line = line

    def look(self) -> Snapshot:
        if self._fault:
            raise self._fault[0]
        for record in self._output.read_new():
            if record.key is not None and record.value is not None:
                self.counts[record.key.decode()] = int.from_bytes(record.value, "big", signed=True)
        progress = self.run.flows[0].progress if self.run.flows else FlowProgress("wordcount", "counts")
        batches = max(progress.batch_id + 1, 0)
        snapshot = Snapshot(
            dict(self.counts),
            self.lines_sent,
            progress.lag if batches else None,
            progress.batch_ms if batches else None,
            batches,
            self.last_line,
        )
        self.publish("running", snapshot)
        return snapshot

    def publish(self, state: str, snapshot: Snapshot) -> None:
        """For the page of the demo in the web console."""
        self._published.publish(state, {"lines sent": snapshot.lines_sent, "lag": snapshot.lag}, panels(snapshot))

    def expected(self) -> Counter[str]:
        """Counts the input topic itself, which includes lines of other producers and earlier runs."""
        return count_words(
            [(record.value or b"").decode() for record in TopicReader(self.bootstrap, INPUT_TOPIC).read_new()]
        )

    def show_until_stopped(self, seconds: float | None) -> None:
        shown = hints(self.bootstrap)
        self.console.print(shown)
        rows = fitting_rows(self.console.height, len(self.console.render_lines(shown)))
        with Live(console=self.console, refresh_per_second=4, transient=False) as live:
            began, sent_at, next_line = time.monotonic(), 0.0, 0
            while seconds is None or time.monotonic() < began + seconds:
                if time.monotonic() - sent_at > _LINE_EVERY_S:
                    self.send(LINES[next_line % len(LINES)])
                    sent_at, next_line = time.monotonic(), next_line + 1
                live.update(picture(self.look(), self.bootstrap, rows=rows))
                time.sleep(0.1)

    def run_once(self) -> bool:
        """Sends every line, waits for the counts, and returns whether they are right."""
        for number, line in enumerate(LINES, 1):
            self.send(line)
            if number % 8 == 0:
                print_plain(self.console, self._wait_for(self.expected()))
        expected = self.expected()
        snapshot = self._wait_for(expected)
        self.publish("equal" if snapshot.counts == expected else "different", snapshot)
        if snapshot.counts == expected:
            self.console.print(
                f"{counted(sum(expected.values()), 'word')} in {counted(snapshot.lines_sent, 'line')}: "
                f"Spark's {len(expected)} counts equal "
                "those of a count made apart."
            )
            return True
        wrong = {w: (snapshot.counts.get(w), n) for w, n in expected.items() if snapshot.counts.get(w) != n}
        self.console.print(f"the counts differ (Spark's, expected): {dict(list(wrong.items())[:10])}", style="red")
        return False

    def _wait_for(self, expected: Counter[str]) -> Snapshot:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            snapshot = self.look()
            if snapshot.counts == expected or time.monotonic() > deadline:
                return snapshot
            time.sleep(0.1)


def run_wordcount(
    *,
    data: Path | None = None,
    bootstrap: str | None = None,
    interactive: bool | None = None,
    seconds: float | None = None,
    brokers: int = 1,
) -> int:
    """Returns the exit code. With `bootstrap` it uses a running cluster instead of starting a broker. `seconds` limits
    the time on a terminal."""
    console = Console(soft_wrap=True)
    on_terminal = sys.stdout.isatty() if interactive is None else interactive
    temporary = None
    if data is None:
        temporary = None if on_terminal else Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        data = temporary or Path("data") / "demo"
    try:
        if bootstrap is not None:
            return _run(bootstrap, console, data / "pipeline", on_terminal, seconds)
        find_java()  # before a broker starts: without Java there is nothing to wait for
        pipeline = data.resolve() / "pipeline"
        if brokers > 1:
            console.print(f"Starting {counted(brokers, 'broker')} …", highlight=False)
            with running_brokers(data.resolve() / "brokers", brokers) as cluster:
                assert isinstance(cluster, DevelopmentCluster)
                console.print(f"{counted(brokers, 'broker')} on {cluster.bootstrap}. Starting Spark …", highlight=False)
                _name_page(console, cluster.console)
                return _run(cluster.bootstrap, console, pipeline, on_terminal, seconds)
        console.print("Starting a broker …")
        with embedded_broker(data.resolve() / "broker") as address:
            console.print(f"The broker serves {address}. Starting Spark …")
            # The broker stops with the demo. Its data stays, unless the directory is temporary.
            files = "" if temporary else f" --data {data / 'broker'}"
            when = f", while a broker runs ({program()} start{files})"
            with web_console(address, data.resolve() / "console.log") as url:
                _name_page(console, url)
                return _run(address, console, pipeline, on_terminal, seconds, when)
    except JavaMissing as error:
        console.print(f"headrace: {error}\n{without_java()}", style="red", highlight=False, markup=False)
        return 1
    except (PipelineError, Fault) as error:
        console.print(f"headrace: {error}", style="red", markup=False)
        if temporary is not None and any(temporary.rglob("*.log")):
            console.print(f"The files of this run are kept in {temporary}", highlight=False)
            temporary = None
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _name_page(console: Console, url: str | None) -> None:
    if url is not None:
        page = f"{url.rstrip('/')}/clusters/local/demos?name=wordcount"
        console.print(f"The web console is on {url}; it shows the demo on {page}", highlight=False)


def _run(
    bootstrap: str, console: Console, storage: Path, on_terminal: bool, seconds: float | None, when: str = ""
) -> int:
    demo = WordCountDemo(bootstrap, console, storage)
    try:
        demo.prepare()
        demo.start_pipeline()
        console.print(f"The pipeline runs: {INPUT_TOPIC} → words, counted → {OUTPUT_TOPIC}")
        if on_terminal:
            demo.show_until_stopped(seconds)
            console.print("Stopping …")
            return 0
        right = demo.run_once()
        console.print(f"\nType next{when}:\n{what_next(bootstrap)}", highlight=False)
        return 0 if right else 1
    except KeyboardInterrupt:
        console.print("Stopping …")
        return 0
    finally:
        demo.stop_pipeline()


if __name__ == "__main__":
    sys.exit(run_wordcount())
