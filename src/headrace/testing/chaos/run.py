"""A whole run: the cluster, the load, the application, the faults, and the check of the history."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from headrace.testing.chaos.application import Application
from headrace.testing.chaos.fault_steps import Faults
from headrace.testing.chaos.history import ANY_OFFSET, Anomalies, History, Place, Value, check
from headrace.testing.chaos.load import Group, Watcher, Writer
from headrace.testing.chaos.plan import Plan
from headrace.testing.chaos.report import Report
from headrace.testing.chaos.target import Target, target_of
from headrace.testing.chaos.tokens import Tokens

_POLL_S: Final = 0.2


def run_plan(plan: Plan, say: Callable[[str], None] = lambda text: None) -> Report:
    """Runs the application under the plan. Calls `say` with what happens. Raises PlanError."""
    directory = Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    try:
        with target_of(plan) as target:
            return _Run(plan, target, directory, say).report()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class _Run:
    def __init__(self, plan: Plan, target: Target, directory: Path, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._target = target
        tokens = Tokens()
        for topic in filter(None, (plan.input, plan.output)):
            target.create(topic, plan.partitions)
        self._began_at = time.monotonic()
        self._watched = plan.output or plan.input
        self._watcher = Watcher(target.bootstrap, self._watched, tokens, self._began_at)
        self._writer = Writer(plan, target.bootstrap, tokens, self._began_at)
        self._group = None if plan.group is None else Group(target.bootstrap, plan.group, plan.input)
        environment = {
            "HEADRACE_BOOTSTRAP": target.bootstrap,
            "HEADRACE_INPUT": plan.input,
            "HEADRACE_OUTPUT": plan.output or "",
            "HEADRACE_GROUP": plan.group or "",
        }
        self._application = Application(
            plan.application, plan.directory.absolute(), environment, directory / "application.log"
        )
        self._faults = Faults(plan, target, self._application, self._began_at)
        self._stopped = threading.Event()

    def report(self) -> Report:
        plan = self._plan
        self._say(f"run {plan.duration_s:g} s at {plan.rate:g} records/s against {self._target.bootstrap}")
        watched = threading.Event()
        watching = threading.Thread(target=self._watcher.watch, args=(watched,), name="chaos watcher", daemon=True)
        faults = threading.Thread(target=self._faults.run, args=(self._stopped,), name="chaos faults", daemon=True)
        try:
            watching.start()
            faults.start()
            self._writer.write(self._stopped)
            faults.join()
            self._target.heal()
            self._say("the faults are over: wait until the application has caught up")
            self._settle()
        finally:
            self._stopped.set()
            faults.join()
            self._application.stop()
            watched.set()
            watching.join()
        return self._checked()

    def _settle(self) -> None:
        """Until everything was read and written, or nothing new came for the time of the plan."""
        done, changed_at = -1, time.monotonic()
        while time.monotonic() - changed_at < self._plan.settle_s:
            seen = len(self._watcher.seen_at)
            read = len(self._writer.acked) if self._group is None else len(self._group.delivered(self._writer.acked))
            if self._writer.acked.keys() <= self._watcher.seen_at.keys() and read >= len(self._writer.acked):
                return
            if seen + read != done:
                done, changed_at = seen + read, time.monotonic()
            time.sleep(_POLL_S)

    def _checked(self) -> Report:
        final = self._watcher.final()
        acked = self._writer.acked
        delivered = None if self._group is None else self._group.delivered(acked)
        if self._plan.output is not None:  # the output has offsets of its own
            acked = {value: Place(place.partition, ANY_OFFSET) for value, place in acked.items()}
        anomalies = check(History(acked=acked, delivered=delivered, final=final))
        if self._plan.guarantee == "at-least-once":
            # A record that comes again is allowed, and stands after later ones: only first places have an order.
            anomalies.disordered = check(History(final=_first_places(final))).disordered
        return Report(
            plan=self._plan,
            anomalies=_asked(anomalies, self._plan),
            allowed={name: count for name, count in anomalies.counts.items() if count},
            acked_at=self._writer.acked_at,
            seen_at=self._watcher.seen_at,
            steps=self._faults.steps,
            refused=self._writer.refused,
            others=self._watcher.others,
            crashes=self._application.crashes,
            starts=self._application.starts,
            application_output=self._application.last_output(),
        )


def _first_places(final: dict[int, list[tuple[int, Value]]]) -> dict[int, list[tuple[int, Value]]]:
    kept: dict[int, list[tuple[int, Value]]] = {}
    for partition, records in final.items():
        known: set[Value] = set()
        kept[partition] = []
        for offset, value in records:
            if value not in known:
                known.add(value)
                kept[partition].append((offset, value))
    return kept


def _asked(found: Anomalies, plan: Plan) -> Anomalies:
    """The anomalies that the plan does not allow."""
    return replace(
        found,
        acked_lost=[] if plan.guarantee == "at-most-once" else found.acked_lost,
        doubled=[] if plan.guarantee == "at-least-once" else found.doubled,
        disordered=found.disordered if plan.ordered else [],
    )
