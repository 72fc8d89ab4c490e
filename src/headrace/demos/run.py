"""Runs one demo: brokers, records or a story, a pipeline or services, a live picture, and a check in plain Python.

On a terminal a demo runs until Ctrl-C. Without a terminal it ends by itself: exit code 0 if its result equals the
separate computation, 1 if not.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live

from headrace.client.blocking.client import LATEST, READ_COMMITTED, BlockingClient
from headrace.datagen.fields import SerialNumber
from headrace.datagen.generator import Generator
from headrace.datagen.sending import create_topics
from headrace.demos.catalogue import Demo
from headrace.demos.demo_topic import DemoTopic
from headrace.demos.errors import DemoFailed
from headrace.demos.history import History
from headrace.demos.lake import Lake
from headrace.demos.picture import Cell, Picture
from headrace.demos.picture_text import rendered
from headrace.demos.processes import Brokers
from headrace.demos.screen import Screen
from headrace.demos.stage import Stage, Stopped
from headrace.demos.topics import Contents, Result
from headrace.pipelines.flows.progress import FlowProgress
from headrace.pipelines.flows.spec import BOOTSTRAP, load_spec
from headrace.pipelines.source.offsets import offsets_from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.flows.runner import PipelineRun

RECORDS: Final = 4000
"""So many records are generated without a terminal."""
_LOOK_EVERY_S: Final = 0.25
_END_S: Final = 60.0
_MOST_REPLICAS: Final = 3
# Rows of the tables on the page of the web console, and in the output at the end.
_PAGE_ROWS: Final = 12
_END_ROWS: Final = 10


@dataclass
class DemoRun:
    demo: Demo
    bootstrap: str
    data: Path
    console: Console
    spark: SparkSession | None = None
    patience_s: float = 300.0
    records: int = RECORDS
    brokers: Brokers | None = None
    halfway: Callable[[], None] = lambda: None
    """What happens between the two halves of the records."""
    storage: str | None = None
    """Where the pipeline keeps its tables and checkpoints, for instance in HDFS; below `data` if it is not given."""
    settled_s: float = 30.0
    """A pipeline that has read everything and writes nothing for so long will not correct its results any more."""

    @property
    def _storage(self) -> str:
        return self.storage or str(self.data / "pipeline")

    def prepare(self) -> None:
        """Creates the topics. Raises NotSent or a Fault if the brokers refuse them."""
        self.plan, self.check, self.story = self.demo.plan, self.demo.check, self.demo.story
        self.client = BlockingClient(self.bootstrap, client_id=f"headrace-demo-{self.demo.name}")
        replicas = min(_MOST_REPLICAS, self.client.broker_count())
        # The usual advice: three replicas, and acks=all waits for two, so that one broker can fail.
        durable = {"min.insync.replicas": "2"} if replicas == _MOST_REPLICAS else {}
        more, generated = self.demo.inputs, [topic.name for topic in self.plan.topics]
        if getattr(self.check, "GENERATES_ELSEWHERE", False):
            generated = []
        else:
            for each in self.plan.topics:
                each.configs.update(durable)
            create_topics(self.plan, {"bootstrap.servers": self.bootstrap, "log_level": 0}, replication=replicas)
        for topic, wanted in {**more, **self.check.OUTPUTS}.items():
            configs = {**wanted.configs, **durable}
            self.client.create_topic(topic, wanted.partitions, replication_factor=replicas, configs=configs)
        self.inputs = Contents(self.client, [*generated, *more])
        lake = Lake(self._storage)
        self.outputs = Contents(self.client, self.check.OUTPUTS, lake)
        self._go_on(lake)
        self.published = DemoTopic(self.client, self.demo.name, self.check.TITLE)
        self.history = History(self.demo.trend)
        self._faults: list[BaseException] = []
        self._ended = threading.Event()

    def _go_on(self, lake: Lake) -> None:
        """After an earlier run with the same data. Raises DemoFailed if the demo cannot go on."""
        self.inputs.read_new()
        earlier = {topic: len(records) for topic, records in self.inputs.records.items() if records}
        if not earlier and self.storage is not None and lake.has_tables():
            raise DemoFailed(
                f"{self.storage} has the tables of an earlier run, and the topics of this run are empty: name another "
                "--storage, or the --data of that run"
            )
        if earlier and self.story is not None and not getattr(self.story, "GOES_ON", False):
            raise DemoFailed(
                f"topic {next(iter(earlier))!r} has records of an earlier run, and the story of {self.demo.name!r} "
                "begins with empty topics: name another --data directory"
            )
        for topic in self.plan.topics:
            for values in topic.fields.values():
                if isinstance(values, SerialNumber):
                    values.go_on_after(earlier.get(topic.name, 0))
        self._seed = self.plan.seed + sum(earlier.values())

    def close(self) -> None:
        self.client.close()

    # What runs beside the picture

    @contextmanager
    def _running(self, *, is_paced: bool, seconds: float | None) -> Iterator[PipelineRun | None]:
        """The pipeline, if there is one, and the story, until the block ends."""
        generator = Generator(self.plan, start_ms=self.plan.start_ms or int(time.time() * 1000), seed=self._seed)
        started: Callable[[Path], AbstractContextManager[Mapping[str, str]]] | None
        started = getattr(self.story, "resources", None)
        with started(self.data) if started is not None else nullcontext(dict[str, str]()) as settings:
            self.stage = Stage(
                self.bootstrap, self.demo.directory, self.data, generator, self.records, self._say,
                is_paced=is_paced, brokers=self.brokers, spark=self._session, patience_s=self.patience_s / 2,
                settings=settings, halfway=self.halfway,
            )  # fmt: skip
            play = (lambda: self._send(is_paced, seconds)) if self.story is None else self._play
            thread = self._thread(play, f"story {self.demo.name}", then=self._ended.set)
            try:
                with self._pipeline(settings) if self.demo.has_pipeline else nullcontext(None) as run:
                    thread.start()
                    yield run
            finally:
                self.stage.stopping.set()
                if thread.is_alive():
                    thread.join(_END_S)
                self.stage.kill_services()

    def _thread(self, work: Callable[[], None], name: str, then: Callable[[], None] = lambda: None) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except Stopped:
                pass
            except BaseException as error:
                # Boundary of the thread: `_raise_fault` raises the error in the main thread.
                self._faults.append(error)
            finally:
                then()

        return threading.Thread(target=guarded, name=name, daemon=True)

    def _play(self) -> None:
        assert self.story is not None
        self.story.run(self.stage)
        self.stage.end_services()

    def _send(self, is_paced: bool, seconds: float | None) -> None:
        """The story of a demo without `story.py`: records arrive."""
        stage, sender = self.stage, self.stage.sender
        if is_paced:
            sender.run(stage.generator, seconds=seconds, stop=stage.stopping.is_set)
            return
        for count in (self.records // 2, self.records):
            sender.run(stage.generator, count=count, stop=stage.stopping.is_set)
            if count < self.records:
                stage.halfway()

    def _say(self, text: str) -> None:
        self.console.print(f"· {text}", highlight=False)

    def _session(self) -> SparkSession:
        from headrace.pipelines.session import spark_session

        if self.spark is None:
            # The picture has the terminal for itself.
            self.spark = self._own_spark = spark_session(self.demo.name, output=self.data / "spark.log")
        return self.spark

    @contextmanager
    def _pipeline(self, started: Mapping[str, str]) -> Iterator[PipelineRun]:
        """The pipeline runs in this process until the block ends."""
        from headrace.pipelines.flows.runner import PipelineRun

        settings = {BOOTSTRAP: self.bootstrap, **started}
        spec = load_spec(self.demo.directory).with_settings(settings, storage=self._storage)
        run = PipelineRun(
            spec, self._session(), report=lambda text: self.console.print(text, style="yellow")
        )  # fmt: skip
        thread = self._thread(run.supervise, f"pipeline {self.demo.name}")
        try:
            run.start()
            thread.start()
            yield run
        finally:
            run.stop()
            if thread.is_alive():
                thread.join(_END_S)
            _forget_tables(run)

    def stop_spark(self) -> None:
        """Stops the session that this run has started."""
        if (own := getattr(self, "_own_spark", None)) is not None:
            own.stop()

    def _raise_fault(self) -> None:
        if self._faults:
            raise self._faults[0]

    # With and without a terminal

    def run_once(self) -> bool:
        """Runs as fast as possible and compares the result."""
        expected: Result | None = None
        with self._running(is_paced=False, seconds=None) as run:
            deadline = time.monotonic() + self.patience_s
            changed_at, found = time.monotonic(), dict[str, object]()
            while True:
                self._raise_fault()
                has_ended = self._ended.is_set()
                self.outputs.read_new()
                before, found = found, self.check.found(self.outputs)
                if found != before or not has_ended:
                    changed_at = time.monotonic()
                if has_ended and expected is None:
                    self.inputs.read_new()
                    expected = self.check.expected(self.inputs)
                if expected is not None and found == expected:
                    break
                facts = self._facts(run)
                # Services have no lag: the story ends when they have done their work.
                if has_ended and facts.get("lag", 0) == 0 and time.monotonic() - changed_at > self.settled_s:
                    break
                if time.monotonic() > deadline:
                    raise DemoFailed(self._too_slow(has_ended, facts))
                self._note(found, facts)
                self.published.publish("running", facts, self._picture(found, _PAGE_ROWS))
                time.sleep(_LOOK_EVERY_S)
        assert expected is not None
        state = "equal" if found == expected else "different"
        self._note(found, {}, is_last=True)
        self.published.publish(state, self._facts(None), self._picture(found, _PAGE_ROWS))
        self.console.print(rendered(self._picture(found, _END_ROWS)))
        return self._report(found, expected)

    def _too_slow(self, has_ended: bool, facts: Mapping[str, Cell]) -> str:
        """A result that is not complete is neither equal nor different."""
        if not has_ended:
            why = "its story goes on"
        elif facts.get("lag", 0) == 0:
            why = "its results still change"
        else:
            why = f"the pipeline has not read everything (lag {facts['lag']})"
        return f"the demo did not end within {self.patience_s:g} s: {why}; its logs are in {self.data}"

    def _report(self, found: Result, expected: Result) -> bool:
        by = "Spark's" if self.demo.uses_spark else "The services'"
        if found == expected:
            than = "without Spark" if self.demo.uses_spark else "in plain Python"
            self.console.print(f"{by} {len(found):,} results equal a computation {than}.", highlight=False)
            return True
        wrong = {key: (found.get(key), value) for key, value in expected.items() if found.get(key) != value}
        extra = [key for key in found if key not in expected]
        self.console.print(
            f"{by} results differ from a computation in plain Python. Found and expected: "
            f"{dict(list(wrong.items())[:5])}; not expected at all: {extra[:5]}",
            style="red",
            highlight=False,
            markup=False,
        )
        return False

    def show_until_stopped(self, seconds: float | None) -> bool:
        """Runs at the planned pace and shows the result as it changes. False if a story ended with other results than
        expected."""
        state, expected, found = "running", dict[str, object](), dict[str, object]()
        screen = Screen(self.console, self.demo.name, self.bootstrap)
        with self._running(is_paced=True, seconds=seconds) as run:
            # The start of Spark does not count: `seconds` is the time in which a person sees something.
            began = time.monotonic()
            with Live(console=self.console, refresh_per_second=4) as live, suppress(KeyboardInterrupt):
                while seconds is None or time.monotonic() < began + seconds:
                    self._raise_fault()
                    has_ended = self._ended.is_set() and self.story is not None
                    self.outputs.read_new()
                    found = self.check.found(self.outputs)
                    if has_ended:
                        self.inputs.read_new()
                        expected = self.check.expected(self.inputs)
                        state = "equal" if found == expected else "different"
                    facts = self._facts(run)
                    self._note(found, facts)
                    self.published.publish(state, facts, self._picture(found, _PAGE_ROWS))
                    live.update(screen.drawn(facts, state, functools.partial(self._picture, found)))
                    time.sleep(_LOOK_EVERY_S)
            self.console.print("Stopping …")
        facts = self._facts(None)
        self.published.publish("stopped", facts, self._picture(found, _PAGE_ROWS))
        self.console.print(f"{facts['sent']:,} records in {time.monotonic() - began:.0f} s.", highlight=False)
        return state == "running" or self._report(found, expected)

    def _note(self, found: Result, facts: Mapping[str, Cell], *, is_last: bool = False) -> None:
        lag = facts.get("lag")
        self.history.note(found, lag if isinstance(lag, int) else None, is_last=is_last)

    def _picture(self, found: Result, rows: int) -> Picture:
        return self.history.added_to(self.check.picture(found, rows))

    def _facts(self, run: PipelineRun | None) -> dict[str, Cell]:
        facts: dict[str, Cell] = {"sent": self.stage.sender.sent.total}
        if run is not None:
            facts["lag"] = lag_now(self.client, [flow.progress for flow in run.flows])
        return facts


def lag_now(client: BlockingClient, flows: Sequence[FlowProgress]) -> int | None:
    """Records that the flows have not read yet; None before the first batch of each.

    A flow reports its lag when a batch ends, so a burst during a long batch would look like no lag at all.
    """
    if any(flow.lag is None for flow in flows):
        return None
    read = [(flow, offsets_from_json(flow.end_offsets)) for flow in flows]
    partitions = {partition for _, ends in read for partition in ends}
    latest = client.list_offsets(dict.fromkeys(partitions, LATEST), isolation=READ_COMMITTED) if partitions else {}
    return sum(
        sum(max(0, latest[partition] - end) for partition, end in ends.items()) if ends else flow.lag or 0
        for flow, ends in read
    )


def _forget_tables(run: PipelineRun) -> None:
    """From the session's catalogue only; their files stay. Another run in this session has files of its own."""
    from pyspark.pipelines.output import Table as PipelineTable

    for item in (*(flow.resolved for flow in run.flows), *run.views):
        if isinstance(item.target, PipelineTable):
            run.spark.sql(f"DROP TABLE IF EXISTS `{item.target.name}`")
