"""What happens when: the faults of a plan, unrolled to moments with the seed of the plan."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Final, cast

from headrace.testing.chaos.application import Application
from headrace.testing.chaos.plan import FaultPlan, Plan
from headrace.testing.chaos.target import Target
from headrace.testing.faults import Fault, FaultArguments

_COMMAND_TIMEOUT_S: Final = 60.0


@dataclass(slots=True)
class Step:
    """A fault that happened, in seconds since the beginning of the run."""

    label: str
    began_s: float
    ended_s: float
    note: str = ""


def moments(plan: Plan) -> list[tuple[float, FaultPlan]]:
    """(time, fault) in order. A repeated fault comes at its interval, moved by up to a fifth of it."""
    chance = random.Random(plan.seed)
    found = []
    for one in plan.faults:
        at = one.at_s
        while at < plan.duration_s:
            found.append((at, one))
            if one.every_s is None:
                break
            at += one.every_s * chance.uniform(0.8, 1.2)
    return sorted(found, key=lambda moment: moment[0])


class Faults:
    """Carries the faults out, each in a thread of its own so that they can overlap."""

    def __init__(self, plan: Plan, target: Target, application: Application, began_at: float) -> None:
        self._plan = plan
        self._target = target
        self._application = application
        self._began_at = began_at
        self._chance = random.Random(plan.seed + 1)
        self._brokers = threading.Lock()
        self.steps: list[Step] = []

    def run(self, stopped: threading.Event) -> None:
        """Returns when the last fault has ended."""
        threads = []
        for at, fault in moments(self._plan):
            if stopped.wait(max(0.0, at - self._now())):
                break
            step = Step(fault.label, self._now(), self._now())
            self.steps.append(step)
            thread = threading.Thread(target=self._carry_out, args=(fault, step), name=f"chaos {fault.label}")
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()

    def _now(self) -> float:
        return time.monotonic() - self._began_at

    def _carry_out(self, fault: FaultPlan, step: Step) -> None:
        try:
            getattr(self, "_" + fault.what.replace("-", "_"))(fault, step)
        except Exception as error:  # boundary of the thread: the report shows which fault did not work
            step.note = f"did not work: {error}"
        step.ended_s = self._now()

    def _kill_application(self, fault: FaultPlan, step: Step) -> None:
        self._application.kill(lambda: time.sleep(fault.for_s))

    def _pause_application(self, fault: FaultPlan, step: Step) -> None:
        self._application.pause(fault.for_s)

    def _kill_broker(self, fault: FaultPlan, step: Step) -> None:
        with self._brokers:  # one at a time: with two of three dead, a plan would only measure waiting
            brokers, chosen = self._target.brokers, self._choose(fault)
            step.label = f"kill broker {chosen}"
            step.began_s = self._now()
            brokers.kill(chosen)
            time.sleep(fault.for_s)
            brokers.start(chosen)

    def _disk_full(self, fault: FaultPlan, step: Step) -> None:
        with self._brokers:  # a broker with a full disk takes no writes, so it counts as dead here
            brokers, chosen = self._target.brokers, self._choose(fault)
            step.label = f"disk full on broker {chosen}"
            step.began_s = self._now()
            brokers.disk_full(chosen)
            try:
                time.sleep(fault.for_s)
            finally:
                brokers.make_room(chosen)

    def _choose(self, fault: FaultPlan) -> int:
        return fault.brokers[0] if fault.brokers else self._chance.choice(sorted(self._target.brokers.brokers))

    def _cut(self, fault: FaultPlan, step: Step) -> None:
        one, other = fault.brokers
        brokers = self._target.brokers
        brokers.cut(one, other)
        time.sleep(fault.for_s)
        brokers.links.cut.discard(frozenset({one, other}))

    def _fail(self, fault: FaultPlan, step: Step) -> None:
        how = cast("FaultArguments", {"times": None, **fault.how} if fault.for_s else dict(fault.how))
        with self._brokers:
            faults: list[Fault] = self._target.brokers.fail(fault.api, **how)
        time.sleep(fault.for_s)
        if fault.for_s:
            for one in faults:
                one.remove()
        step.note = f"{sum(one.hits for one in faults)} requests"

    def _run(self, fault: FaultPlan, step: Step) -> None:
        self._shell(fault.command)
        time.sleep(fault.for_s)
        if fault.then:
            self._shell(fault.then)

    def _shell(self, command: str) -> None:
        done = subprocess.run(
            command, shell=True, cwd=self._plan.directory, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S
        )
        if done.returncode:
            raise RuntimeError(f"{command!r} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
