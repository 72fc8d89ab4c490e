"""Progress of a running pipeline: commits offsets to a consumer group per flow, and writes to the topic `__pipelines`.

Each flow has the consumer group `<pipeline>.<flow>`. After each batch the pipeline commits the end offsets, so every
Kafka tool shows Spark's lag. The progress of a flow (state, rates, lag, batch time, state size, watermark, last error)
is a record with the key `<pipeline>.<flow>` in a compacted topic, which keeps the latest one. A driver writes it after
each batch and at least once per heartbeat. `read_progress` reads all of them, and calls a flow lost whose driver has
missed two heartbeats.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, TypedDict

from headrace.client.blocking.client import EARLIEST, LATEST, BlockingClient, TopicPartitionPair
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import write_records
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import Fault
from headrace.pipelines.expectations import DROP, counts_of
from headrace.pipelines.source.offsets import offsets_from_json, offsets_to_json
from headrace.pipelines.source.stream_state import StreamNotes
from headrace.records.builder import Record

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQueryProgress

PROGRESS_TOPIC: Final = "__pipelines"
RUNNING: Final = "running"
RESTARTING: Final = "restarting"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
# The driver died or cannot reach the brokers: it has not reported for two heartbeats.
LOST: Final = "lost"
HEARTBEAT_MS: Final = 5_000
# Readers read the whole topic, so compaction must be able to shorten it: it leaves the active segment as it is.
_CONFIGS: Final = {"cleanup.policy": "compact", "segment.ms": "3600000", "segment.bytes": str(32 << 20)}
# Name of the metrics that the runner adds to every flow (see `runner`).
WRITTEN: Final = "headrace_written"


class RuleTotal(TypedDict):
    action: str
    checked: int
    failed: int


class SnapshotProgress(TypedDict):
    table: str
    rows: int
    # How many the table has, about; None if the database does not know.
    of: int | None


class CommandState(TypedDict):
    """The last command that a person gave (see `flow_control`). `state`: begun, done, refused or failed."""

    id: str
    action: str
    by: str
    state: str
    message: str
    at_ms: int


class Place(TypedDict):
    """What a flow reads or writes that is no topic of the cluster, or the topic it writes."""

    kind: str
    name: str


class Places(TypedDict):
    origins: list[Place]
    target: Place


def flow_places(source: tuple[str, str], target: tuple[str, str]) -> Places:
    """Of a connector, by kind and name of its ends."""
    # The offsets of the flow name the topics that it reads.
    origins = [] if source[0] == "topic" else [Place(kind=source[0], name=source[1])]
    return Places(origins=origins, target=Place(kind=target[0], name=target[1]))


@dataclass
class FlowProgress:
    pipeline: str
    flow: str
    state: str = RUNNING
    batch_id: int = -1
    input_rows: int = 0
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    # None until the first batch has ended.
    lag: int | None = None
    # How long the flow has been behind. 0 if its last batch read everything.
    lag_seconds: float = 0.0
    # Only for change capture of databases whose positions are bytes of a log.
    lag_bytes: int | None = None
    # While change capture reads the existing rows.
    snapshot: SnapshotProgress | None = None
    batch_ms: int = 0
    # Since the start of the driver.
    read_rows: int = 0
    written_rows: int = 0
    dead_letters: int = 0
    # Rows that came after the watermark, so Spark dropped them.
    late_rows: int = 0
    # By place and rule: what the expectations of the flow counted since the start of the driver.
    rules: dict[str, RuleTotal] = field(default_factory=dict)
    state_rows: int = 0
    state_bytes: int = 0
    watermark: str | None = None
    missed: int = 0
    end_offsets: dict[str, dict[str, int]] = field(default_factory=dict)
    last_error: str | None = None
    restarts: int = 0
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    at_ms: int = 0
    heartbeat_ms: int = HEARTBEAT_MS
    # The id of the run if it takes commands (see `flow_control`); else empty.
    run: str = ""
    command: CommandState | None = None
    target: Place | None = None
    # Sources that are no topics, such as a database.
    origins: list[Place] = field(default_factory=list)
    # Of a trigger with an interval.
    trigger_ms: int | None = None
    # Parts of the last batch, as Spark names them.
    durations_ms: dict[str, int] = field(default_factory=dict)
    is_stateful: bool = False
    # How far the watermark is behind the newest event of the last batch.
    watermark_delay_ms: int | None = None
    # The query plan. Only some reports have it, because it is long.
    plan: str | None = None

    @property
    def dropped_rows(self) -> int:
        """Rows that the watermark or an expectation dropped."""
        return self.late_rows + sum(rule["failed"] for rule in self.rules.values() if rule["action"] == DROP)

    @property
    def key(self) -> str:
        return f"{self.pipeline}.{self.flow}"


def source_offsets(text: str | None) -> dict[TopicPartitionPair, int]:
    """The topic offsets in a progress event of `headrace` or `kafka`; empty for other sources."""
    try:
        return offsets_from_json(json.loads(text or ""))
    except (ValueError, TypeError):
        return {}


def _offset(text: str | None) -> Mapping[str, object]:
    """The offset of a change log; empty for other sources."""
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "position" in found else {}


def _snapshot(offset: Mapping[str, object]) -> SnapshotProgress | None:
    """How far the snapshot of change capture is; None if it is done or there is none."""
    state = offset.get("snapshot")
    if not isinstance(state, Mapping) or not state.get("todo") or state.get("table") is None:
        return None
    return SnapshotProgress(table=str(state["table"]), rows=int(state["rows"]), of=state.get("of"))


def update_from_event(flow: FlowProgress, event: StreamingQueryProgress) -> None:
    """Copies the numbers of Spark's progress event. Each event of a batch is taken once, so totals can be added."""
    ends: dict[TopicPartitionPair, int] = {}
    lag, lag_bytes, snapshot = 0, None, None
    for source in event.sources:
        end, latest = source_offsets(source.endOffset), source_offsets(source.latestOffset)
        lag += sum(max(latest.get(pair, offset) - offset, 0) for pair, offset in end.items())
        ends.update(end)
        taken, written = _offset(source.endOffset), _offset(source.latestOffset)
        if taken and written:
            behind = int(str(written.get("behind") or 0))
            is_bytes = written.get("unit") == "bytes"
            lag, lag_bytes = (lag, (lag_bytes or 0) + behind) if is_bytes else (lag + behind, lag_bytes)
            snapshot = _snapshot(taken)
    flow.batch_id, flow.input_rows, flow.batch_ms = event.batchId, event.numInputRows, event.batchDuration
    flow.input_rows_per_second = round(event.inputRowsPerSecond or 0.0, 1)
    flow.processed_rows_per_second = round(event.processedRowsPerSecond or 0.0, 1)
    flow.lag, flow.lag_bytes, flow.snapshot = lag, lag_bytes, snapshot
    if ends:
        flow.end_offsets = offsets_to_json(ends)
    flow.state_rows = sum(operator.numRowsTotal for operator in event.stateOperators)
    flow.state_bytes = sum(operator.memoryUsedBytes for operator in event.stateOperators)
    flow.late_rows += sum(operator.numRowsDroppedByWatermark for operator in event.stateOperators)
    flow.read_rows += event.numInputRows
    written_now = event.observedMetrics.get(WRITTEN)
    flow.written_rows += int(written_now["rows"] or 0) if written_now is not None else 0
    for count in counts_of(event.observedMetrics):
        new = RuleTotal(action=count.action, checked=0, failed=0)
        total = flow.rules.setdefault(f"{count.place}.{count.rule}", new)
        total["checked"] += count.checked
        total["failed"] += count.failed
    flow.watermark = (event.eventTime or {}).get("watermark")
    flow.watermark_delay_ms = _delay_ms((event.eventTime or {}).get("max"), flow.watermark)
    flow.durations_ms = {str(name): int(value) for name, value in (event.durationMs or {}).items()}
    flow.is_stateful = bool(event.stateOperators)


def _delay_ms(newest: str | None, watermark: str | None) -> int | None:
    """Both are ISO times. Before the first event Spark's watermark is 1970."""
    if newest is None or watermark is None or watermark.startswith("1970"):
        return None
    try:
        times = [datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (newest, watermark)]
    except ValueError:
        return None
    return max(0, int((times[0] - times[1]).total_seconds() * 1000))


class ProgressWriter:
    """Publishes progress and commits offsets. A fault is reported once and never stops the pipeline."""

    def __init__(self, bootstrap: str, report: Callable[[str], None], security: ClientSecurity | None = None) -> None:
        self._client = BlockingClient(
            bootstrap, client_id="headrace-pipeline", timeout_s=10, patience_s=5, security=security
        )
        self._report = report
        self._silent = False
        self._ready = False
        self._committed: dict[str, dict[TopicPartitionPair, int]] = {}
        self._notes = StreamNotes(self._client)

    def missed(self, query_id: str) -> int:
        """Number of records that were deleted before the query read them (only with failOnDataLoss=false)."""
        return self._notes.missed(query_id)

    def publish(self, flow: FlowProgress) -> None:
        flow.at_ms = int(time.time() * 1000)
        self._guarded(lambda: self._write(flow))

    def _write(self, flow: FlowProgress) -> None:
        if not self._ready:
            self._client.create_topic(PROGRESS_TOPIC, 1, configs=_CONFIGS)
            self._ready = True
        write_records(
            self._client,
            (PROGRESS_TOPIC, 0),
            [Record(flow.key.encode(), json.dumps(asdict(flow)).encode(), timestamp_ms=flow.at_ms)],
        )

    def commit(self, flow: FlowProgress) -> None:
        offsets = {(t, int(p)): offset for t, parts in flow.end_offsets.items() for p, offset in parts.items()}
        if offsets and self._committed.get(flow.key) != offsets:
            self._guarded(lambda: self._client.commit_offsets(flow.key, {tp: (o, "") for tp, o in offsets.items()}))
            self._committed[flow.key] = offsets

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
            self._silent = False
        except Fault as fault:
            if not self._silent:
                self._report(f"progress cannot be published: {fault.message or fault.code.name}")
            self._silent = True

    def close(self) -> None:
        self._client.close()


def remove_progress(client: BlockingClient, key: str) -> None:
    """Removes what a flow `<pipeline>.<flow>` has published: its record and its consumer group."""
    if PROGRESS_TOPIC in client.topics([PROGRESS_TOPIC]):
        now_ms = int(time.time() * 1000)
        write_records(client, (PROGRESS_TOPIC, 0), [Record(key.encode(), None, timestamp_ms=now_ms)])
    client.coordinator(key, 0).call("delete_groups", {"groups_names": [key]})


def read_topic(client: BlockingClient, partition: TopicPartitionPair) -> list[Record]:
    """All records of one partition. For small topics."""
    start = client.list_offsets({partition: EARLIEST})[partition]
    end = client.list_offsets({partition: LATEST})[partition]
    return list(fetched_records(client, partition, start, end, FetchSettings(stall_timeout_s=10)))


def read_progress(bootstrap: str, security: ClientSecurity | None = None) -> dict[str, dict[str, object]]:
    """The latest progress of every flow that reported to this cluster, by `<pipeline>.<flow>`."""
    with BlockingClient(bootstrap, timeout_s=10, patience_s=5, security=security) as client:
        if PROGRESS_TOPIC not in client.topics([PROGRESS_TOPIC]):
            return {}
        latest: dict[str, dict[str, object]] = {}
        for record in read_topic(client, (PROGRESS_TOPIC, 0)):
            name = (record.key or b"").decode()
            if record.value is None:
                latest.pop(name, None)
            else:
                latest[name] = json.loads(record.value)
        now_ms = int(time.time() * 1000)
        return {name: as_of(progress, now_ms) for name, progress in latest.items()}


def as_of(progress: dict[str, object], now_ms: int) -> dict[str, object]:
    """The progress with the state `lost` if its driver has missed two heartbeats. Records of earlier versions have no
    heartbeat."""
    at_ms, beat_ms = progress.get("at_ms"), progress.get("heartbeat_ms")
    is_alive = progress.get("state") in (RUNNING, RESTARTING)
    if is_alive and isinstance(at_ms, int) and isinstance(beat_ms, int) and now_ms - at_ms > 2 * beat_ms:
        return {**progress, "state": LOST}
    return progress


def describe(progress: Mapping[str, object]) -> str:
    """One line for a person."""
    name = f"{progress['pipeline']}.{progress['flow']}  {progress['state']}"
    if not has_batches(progress):
        return f"{name}  no batch yet"
    return (
        f"{name}  batch {progress['batch_id']}  {progress['processed_rows_per_second']:.0f} rows/s  "
        f"lag {progress['lag']}  {progress['batch_ms']} ms"
    )


def has_batches(progress: Mapping[str, object]) -> bool:
    """Whether a batch has ended. Before that a flow has no meaningful numbers."""
    batch = progress["batch_id"]
    return isinstance(batch, int) and batch >= 0
