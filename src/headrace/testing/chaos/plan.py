"""A fault plan: the application, its topics, and what goes wrong when.

application: python copy.py          # gets HEADRACE_BOOTSTRAP, HEADRACE_INPUT and HEADRACE_OUTPUT
input: orders
output: copies
group: copy
brokers: 3                           # in this process; or  bootstrap: staging:9092
duration: 20s
faults:
  - {at: 2s, kill: application}
  - {every: 5s, kill: broker, for: 2s}
  - {at: 4s, cut: [1, 3], for: 3s}
  - {at: 6s, fail: Produce, error: NOT_LEADER_OR_FOLLOWER, times: 5}
  - {at: 8s, disk_full: broker 1, for: 3s}
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.testing.chaos.tokens import PLACEHOLDER
from headrace.testing.faults import FaultError, fault

GUARANTEES: Final = ("exactly-once", "at-least-once", "at-most-once")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m)?")
_REQUEST_OPTIONS: Final = (
    "error", "times", "delay", "throttle", "drop_answer", "silent", "close", "corrupt", "client_id", "topic",
    "partition", "probability", "seed",
)  # fmt: skip
_KINDS: Final = ("kill", "pause", "cut", "disk_full", "fail", "run")
_FAULT_KEYS: Final = {"at", "every", "for", *_KINDS, "then", *_REQUEST_OPTIONS}
_DEFAULT_PAUSE_S: Final = 2.0


class PlanError(ValueError):
    """The plan cannot be run. The message names the key and its value."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One line of `faults`. `what`: kill-application, pause-application, kill-broker, cut, disk-full, fail or run."""

    what: str
    at_s: float
    every_s: float | None = None
    for_s: float = 0.0
    brokers: tuple[int, ...] = ()
    api: str = ""
    how: Mapping[str, object] = field(default_factory=dict)
    command: str = ""
    then: str = ""

    @property
    def label(self) -> str:
        names = {
            "kill-application": "kill application",
            "pause-application": "pause application",
            "kill-broker": f"kill broker {self.brokers[0]}" if self.brokers else "kill a broker",
            "disk-full": f"disk full on broker {self.brokers[0]}" if self.brokers else "disk full on a broker",
            "cut": f"cut {' and '.join(map(str, self.brokers))}",
            "fail": f"fail {self.api}",
            "run": self.command,
        }
        return names[self.what]


@dataclass(frozen=True, slots=True)
class Plan:
    application: tuple[str, ...]
    input: str
    output: str | None = None
    group: str | None = None
    brokers: int = 3
    bootstrap: str | None = None
    partitions: int = 3
    keys: int = 20
    rate: float = 200.0
    duration_s: float = 20.0
    settle_s: float = 30.0
    value: str = f'{{"id": "{PLACEHOLDER}"}}'
    guarantee: str = "exactly-once"
    ordered: bool = True
    seed: int = 0
    faults: tuple[FaultPlan, ...] = ()
    directory: Path = field(default_factory=Path)


def load_plan(file: Path | str) -> Plan:
    """Reads a YAML file. The application runs in its directory. Raises PlanError."""
    import yaml

    path = Path(file)
    try:
        found = yaml.safe_load(path.read_text())
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} is no YAML: {error}") from error
    if not isinstance(found, Mapping):
        raise PlanError(f"{path}: a plan has keys such as application, input and faults")
    try:
        return plan_of(found, path.parent)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def plan_of(found: Mapping[str, object], directory: Path = Path()) -> Plan:
    """Raises PlanError."""
    known = {
        "application", "input", "output", "group", "brokers", "bootstrap", "partitions", "keys", "rate", "duration",
        "settle", "value", "guarantee", "ordered", "seed", "faults",
    }  # fmt: skip
    unknown = sorted(set(map(str, found)) - known)
    if unknown:
        raise PlanError(f"unknown key {unknown[0]!r}: a plan has {', '.join(sorted(known))}")
    lines = found.get("faults") or []
    if not isinstance(lines, list):
        raise PlanError(f"faults={lines!r}: must be a list")
    bootstrap = _text(found, "bootstrap")
    brokers = int(_number(found, "brokers", 3, 1, 9))
    plan = Plan(
        application=_command(found.get("application")),
        input=_needed(found, "input"),
        output=_text(found, "output"),
        group=_text(found, "group"),
        brokers=brokers,
        bootstrap=bootstrap,
        partitions=int(_number(found, "partitions", 3, 1, 1000)),
        keys=int(_number(found, "keys", 20, 1, 10_000)),
        rate=_number(found, "rate", 200, 0.1, 100_000),
        duration_s=seconds(found.get("duration", 20), "duration"),
        settle_s=seconds(found.get("settle", 30), "settle"),
        value=_text(found, "value") or f'{{"id": "{PLACEHOLDER}"}}',
        guarantee=_text(found, "guarantee") or GUARANTEES[0],
        ordered=bool(found.get("ordered", True)),
        seed=int(_number(found, "seed", 0, 0, 2**63)),
        faults=tuple(_fault(line, f"faults[{at}]", None if bootstrap else brokers) for at, line in enumerate(lines, 1)),
        directory=directory,
    )
    if plan.output is None and plan.group is None:
        raise PlanError("a plan needs output= (the topic that the application writes) or group= (its consumer group)")
    if plan.output == plan.input:
        raise PlanError(f"output={plan.output!r}: must be another topic than the input")
    if PLACEHOLDER not in plan.value:
        raise PlanError(f"value={plan.value!r}: must contain {PLACEHOLDER}, which identifies the record")
    if plan.guarantee not in GUARANTEES:
        raise PlanError(f"guarantee={plan.guarantee!r}: choose one of {', '.join(GUARANTEES)}")
    return plan


def seconds(value: object, name: str) -> float:
    """Seconds of 3, "3s", "500ms" or "2m". Raises PlanError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise PlanError(f"{name}={value!r}: write a time such as 500ms, 3s or 2m")
    return float(found[1]) * _UNITS[found[2] or "s"]


def _fault(line: object, name: str, brokers: int | None) -> FaultPlan:
    """`brokers`: their number, or None for a cluster that is already there."""
    if not isinstance(line, Mapping):
        raise PlanError(f"{name}={line!r}: must be a mapping such as {{at: 2s, kill: application}}")
    unknown = sorted(set(map(str, line)) - _FAULT_KEYS)
    if unknown:
        raise PlanError(f"{name}: unknown key {unknown[0]!r}")
    kinds = [kind for kind in _KINDS if kind in line]
    if len(kinds) != 1:
        raise PlanError(f"{name}: needs exactly one of {', '.join(_KINDS)}")
    if ("at" in line) == ("every" in line):
        raise PlanError(f"{name}: needs either at or every")
    every_s = seconds(line["every"], f"{name}.every") if "every" in line else None
    if every_s is not None and every_s < 0.1:
        raise PlanError(f"{name}.every={line['every']!r}: must be at least 100ms")
    at_s = seconds(line["at"], f"{name}.at") if every_s is None else every_s
    for_s = seconds(line.get("for", 0), f"{name}.for")
    kind, target = kinds[0], line[kinds[0]]
    if target == "application" and kind in ("kill", "pause"):
        return FaultPlan(f"{kind}-application", at_s, every_s, for_s or (_DEFAULT_PAUSE_S if kind == "pause" else 0.0))
    if kind == "run":
        return FaultPlan("run", at_s, every_s, for_s, command=str(target), then=str(line.get("then") or ""))
    if kind == "pause":
        raise PlanError(f"{name}.pause={target!r}: only the application can be paused")
    if brokers is None:
        raise PlanError(f"{name}.{kind}: the brokers of a cluster that is already there are reached with run and then")
    if kind == "kill":
        chosen = _chosen(target, f"{name}.kill", "application, broker or broker 2", brokers)
        return FaultPlan("kill-broker", at_s, every_s, for_s or _DEFAULT_PAUSE_S, chosen)
    if kind == "disk_full":
        chosen = _chosen(target, f"{name}.disk_full", "broker or broker 2", brokers)
        return FaultPlan("disk-full", at_s, every_s, for_s or _DEFAULT_PAUSE_S, chosen)
    if kind == "cut":
        return FaultPlan("cut", at_s, every_s, for_s or _DEFAULT_PAUSE_S, _link(target, name, brokers))
    how = {option: line[option] for option in _REQUEST_OPTIONS if option in line}
    try:
        fault(str(target), **how)
    except (FaultError, TypeError) as error:
        raise PlanError(f"{name}: {error}") from None
    return FaultPlan("fail", at_s, every_s, for_s, api=str(target), how=how)


def _chosen(target: object, name: str, allowed: str, brokers: int) -> tuple[int, ...]:
    """The broker that the line names; empty if the seed chooses it."""
    found = re.fullmatch(r"broker(?:\s+(\d+))?", str(target))
    if found is None:
        raise PlanError(f"{name}={target!r}: write {allowed}")
    if found[1] is None:
        return ()
    return (_broker(int(found[1]), name, brokers),)


def _link(target: object, name: str, brokers: int) -> tuple[int, ...]:
    if not isinstance(target, list) or len(target) != 2 or target[0] == target[1]:
        raise PlanError(f"{name}.cut={target!r}: write two brokers such as [1, 3]")
    return tuple(_broker(one, f"{name}.cut", brokers) for one in target)


def _broker(number: object, name: str, brokers: int) -> int:
    if not isinstance(number, int) or not 1 <= number <= brokers:
        raise PlanError(f"{name}={number!r}: the cluster has the brokers 1 to {brokers}")
    return number


def _command(value: object) -> tuple[str, ...]:
    words = (
        shlex.split(value)
        if isinstance(value, str)
        else [str(one) for one in value]
        if isinstance(value, list | tuple)
        else []
    )
    if not words:
        raise PlanError("application: name the command that starts your program")
    return tuple(words)


def _needed(found: Mapping[str, object], name: str) -> str:
    value = _text(found, name)
    if not value:
        raise PlanError(f"{name}: is missing")
    return value


def _text(found: Mapping[str, object], name: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise PlanError(f"{name}={value!r}: must be text")
    return value


def _number(found: Mapping[str, object], name: str, default: float, lowest: float, highest: float) -> float:
    value = found.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
        raise PlanError(f"{name}={value!r}: must be a number from {lowest:g} to {highest:g}")
    return value
