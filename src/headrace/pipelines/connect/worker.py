"""Many connectors in one process, and in one Spark session if they need Spark.

A connector has a configuration and a state that a person asked for: running, paused or stopped. Each of its files runs
as a task. Calls may come from several threads; a lock lets them change one thing at a time. After a restart of the
process every connector is in the state that it had.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headrace import __version__
from headrace.kernel.json_values import JsonObject
from headrace.pipelines.connect import connector_offsets
from headrace.pipelines.connect.connector_store import PAUSED, RUNNING, STOPPED, ConnectorStore, StoredConnector
from headrace.pipelines.connect.connector_task import FAILED, ConnectorTask, Runner
from headrace.pipelines.connect.translation import OWN, class_of, plugin_classes
from headrace.pipelines.connectors.connector import ConnectorSpec
from headrace.pipelines.errors import PipelineError

_STATES: Final = (RUNNING, PAUSED, STOPPED)


class UnknownConnector(PipelineError):
    pass


class ConnectorExists(PipelineError):
    pass


class WrongState(PipelineError):
    pass


class Worker:
    def __init__(
        self, store: ConnectorStore, runner: Runner, kafka: Mapping[str, str], report: Callable[[str], None]
    ) -> None:
        self.store, self._runner, self._kafka, self._report = store, runner, kafka, report
        self._connectors: dict[str, StoredConnector] = {}
        self._tasks: dict[str, list[ConnectorTask]] = {}
        self._lock = threading.RLock()

    def start(self) -> None:
        """Starts the stored connectors. One that cannot start is failed and keeps the others running."""
        with self._lock:
            for connector in self.store.load():
                self._connectors[connector.name] = connector
                self._start_tasks(connector.name)

    def close(self) -> None:
        """Stops all tasks and keeps the states, so the next start continues."""
        with self._lock:
            for name in list(self._tasks):
                self._stop_tasks(name)

    def _start_tasks(self, name: str) -> None:
        if self._connectors[name].state == RUNNING:
            self._tasks[name] = [ConnectorTask(spec, self._runner) for spec in self.specs(name)]

    def _stop_tasks(self, name: str) -> None:
        tasks = self._tasks.get(name, [])
        for task in tasks:
            task.ask_to_stop()
        # A task that does not stop in time raises. It stays known, so that the next request waits for it again.
        for task in tasks:
            task.stop()
        self._tasks.pop(name, None)

    def specs(self, name: str) -> list[ConnectorSpec]:
        return self.store.specs(name, self._kafka)

    def names(self) -> list[str]:
        return sorted(self._connectors)

    def connector(self, name: str) -> StoredConnector:
        if name not in self._connectors:
            raise UnknownConnector(f"Connector {name} not found")
        return self._connectors[name]

    def create(self, name: str, config: Mapping[str, str], state: str = RUNNING) -> None:
        with self._lock:
            if name in self._connectors:
                raise ConnectorExists(f"Connector {name} already exists")
            if state not in _STATES:
                raise WrongState(f"initial_state {state!r}: must be one of {', '.join(_STATES)}")
            self._put(StoredConnector(name, dict(config), state))

    def configure(self, name: str, config: Mapping[str, str]) -> bool:
        """Changes or creates a connector. Returns whether it is new."""
        with self._lock:
            is_new = name not in self._connectors
            state = RUNNING if is_new else self._connectors[name].state
            self._put(StoredConnector(name, dict(config), state))
            return is_new

    def _put(self, connector: StoredConnector) -> None:
        self.store.check(connector.name, connector.config)
        self._stop_tasks(connector.name)
        self.store.save(connector)
        self._connectors[connector.name] = connector
        self._start_tasks(connector.name)
        self._report(f"connector {connector.name}: {connector.state.lower()}")

    def set_state(self, name: str, state: str) -> None:
        with self._lock:
            before = self.connector(name)
            if before.state == state:
                return
            changed = StoredConnector(name, before.config, state)
            self._stop_tasks(name)
            self.store.save(changed)
            self._connectors[name] = changed
            self._start_tasks(name)
            self._report(f"connector {name}: {state.lower()}")

    def restart(self, name: str, *, task: int | None = None, only_failed: bool = False) -> list[int]:
        """Starts tasks again. Returns their numbers."""
        restarted = []
        with self._lock:
            self.connector(name)
            tasks = self._tasks.get(name, [])
            if task is not None and task >= len(tasks):
                raise UnknownConnector(f"Unknown task: {name}-{task}")
            for number, one in enumerate(tasks):
                if task in (None, number) and (one.state == FAILED or not only_failed):
                    one.stop()
                    tasks[number] = ConnectorTask(one.spec, self._runner)
                    restarted.append(number)
        return restarted

    def remove(self, name: str) -> None:
        with self._lock:
            self.connector(name)
            self._stop_tasks(name)
            self.store.remove(name)
            del self._connectors[name]
            self._report(f"connector {name}: deleted")

    def kind(self, name: str) -> str:
        """`source` or `sink`, seen from Kafka."""
        connector = self.connector(name)
        given = class_of(connector.config.get("connector.class", "")) or ""
        if given != OWN:
            return plugin_classes().get(given, "source")
        return "sink" if any(spec.source.kind == "topic" for spec in self.specs(name)) else "source"

    def status(self, name: str, worker_id: str) -> JsonObject:
        connector = self.connector(name)
        # Kafka Connect has the version of the connector's class here. The classes are parts of this program.
        where: JsonObject = {"worker_id": worker_id, "version": __version__}
        tasks: list[JsonObject] = []
        for number, task in enumerate(self._tasks.get(name, [])):
            entry: JsonObject = {"id": number, "state": task.state, **where}
            tasks.append({**entry, "trace": task.trace} if task.trace is not None else entry)
        if connector.state == PAUSED:
            tasks = [{"id": number, "state": PAUSED, **where} for number, _ in enumerate(self.specs(name))]
        return {
            "name": name,
            "connector": {"state": connector.state, **where},
            "tasks": tasks,
            "type": self.kind(name),
        }

    def task_count(self, name: str) -> int:
        """A stopped connector has no tasks."""
        return 0 if self.connector(name).state == STOPPED else len(self.specs(name))

    def topics(self, name: str) -> list[str]:
        """The topics that a connector uses. As in Kafka Connect, one that does not exist uses none."""
        found = set()
        for spec in self.specs(name) if name in self._connectors else ():
            for end in (spec.source, spec.target):
                if end.kind == "topic" and "name" in end.settings:
                    found.update(end.names("name"))
        return sorted(found)

    def offsets(self, name: str) -> list[JsonObject]:
        self.connector(name)
        return [entry for spec in self.specs(name) for entry in connector_offsets.offsets_of(spec)]

    def _stopped_specs(self, name: str) -> list[ConnectorSpec]:
        if self.connector(name).state != STOPPED:
            raise WrongState(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        return self.specs(name)

    def alter_offsets(self, name: str, entries: Sequence[Mapping[str, object]]) -> None:
        with self._lock:
            for spec, own in connector_offsets.by_file(self._stopped_specs(name), entries):
                connector_offsets.alter(spec, own)

    def reset_offsets(self, name: str) -> None:
        with self._lock:
            for spec in self._stopped_specs(name):
                connector_offsets.reset(spec)
