"""Commands for running flows, as records of the topic `__pipeline_commands`: stop, start, reset, replay.

A person gives a command, for example in the web console. The process that runs the flow reads the topic and carries it
out; its next report to `__pipelines` has the result. The right to write to the topic is the right to give commands, so
brokers decide who may, by ACLs.

A command names the run that it is for. A run has a random id, which its reports carry. So a command that came too late
never reaches the next run of the same pipeline, and no other process takes it. Blocking code.
"""

from __future__ import annotations

import json
import time
from typing import Final

from headrace.client.blocking.client import EARLIEST, LATEST, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import write_records
from headrace.kernel.dataclass import dataclass
from headrace.records.builder import Record

TOPIC: Final = "__pipeline_commands"
STOP: Final = "stop"
START: Final = "start"
RESET: Final = "reset"
REPLAY: Final = "replay"
ACTIONS: Final = (STOP, START, RESET, REPLAY)
# A run that was cut off from the brokers does not obey what a person wanted long ago.
VALID_MS: Final = 120_000
_PLACE: Final = (TOPIC, 0)
_SETTINGS: Final = FetchSettings(stall_timeout_s=5, max_wait_ms=100)
_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": "604800000", "segment.ms": "86400000"}


@dataclass(frozen=True, slots=True)
class FlowCommand:
    id: str
    run: str
    """The id of the run that shall obey."""
    flow: str
    """`<pipeline>.<flow>`."""
    action: str
    by: str
    """The principal that gave the command, as its program names it."""
    at_ms: int
    to: str = ""
    """Of a reset: `earliest` or offsets as JSON. Of a replay: the end of the range."""
    begin: str = ""
    """Of a replay: offsets as JSON."""

    def document(self) -> bytes:
        fields = {name: getattr(self, name) for name in ("id", "run", "flow", "action", "by", "at_ms", "to", "begin")}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def of(cls, value: bytes | None) -> FlowCommand | None:
        """None for a record that is no command: any program may write to the topic."""
        try:
            found = json.loads(value or b"")
            texts = [found.get(name, "") for name in ("id", "run", "flow", "action", "by", "to", "begin")]
            at_ms = int(found["at_ms"])
        except (ValueError, TypeError, AttributeError, KeyError):
            return None
        if not all(isinstance(text, str) for text in texts) or texts[3] not in ACTIONS:
            return None
        name, run, flow, action, by, to, begin = texts
        return cls(name, run, flow, action, by, at_ms, to, begin)


def ensure_topic(client: BlockingClient) -> None:
    """Raises Fault."""
    if TOPIC not in client.topics([TOPIC]):
        client.create_topic(TOPIC, 1, configs=_CONFIGS)


def give(client: BlockingClient, command: FlowCommand) -> None:
    """Raises Fault, for example if the principal may not write to the topic."""
    ensure_topic(client)
    write_records(client, _PLACE, [Record(command.flow.encode(), command.document(), (), command.at_ms)])


class CommandReader:
    """The commands for one run, from the end of the topic at its construction on. Raises Fault."""

    def __init__(self, client: BlockingClient, run: str) -> None:
        ensure_topic(client)
        self._client = client
        self._run = run
        self._next = client.list_offsets({_PLACE: LATEST})[_PLACE]

    def read(self) -> list[FlowCommand]:
        end = self._client.list_offsets({_PLACE: LATEST})[_PLACE]
        if end <= self._next:
            return []
        # Retention may have deleted records that were never read.
        start = max(self._next, self._client.list_offsets({_PLACE: EARLIEST})[_PLACE])
        now_ms = int(time.time() * 1000)
        found = []
        for record in fetched_records(self._client, _PLACE, start, end, _SETTINGS):
            command = FlowCommand.of(record.value)
            if command is not None and command.run == self._run and abs(now_ms - record.timestamp_ms) <= VALID_MS:
                found.append(command)
        self._next = end
        return found
