"""The first page: is the cluster well, how much flows, who lags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from headrace.console.cluster.cluster import is_large
from headrace.console.cluster.doctor import Diagnosis
from headrace.console.cluster.facts import OFFLINE, ClusterFacts, LogDirectory
from headrace.console.protection import Rejected, read_form
from headrace.console.rendering import View
from headrace.console.visit import Redirect, Visit
from headrace.kernel.dataclass import dataclass
from headrace.kernel.plurals import counted

_SHOWN = 5
_CHANGES = 10
# How long the button waits for the checks before the page shows that they run.
_PATIENCE_S = 6.0
_FULL_PERCENT = 85


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that needs a person, and the page that helps."""

    level: str  # bad, warn
    text: str
    advice: str
    path: tuple[str, ...] = ()
    label: str = ""
    check: str = ""
    """The check of the doctor that finds the same."""
    query: Mapping[str, str] = field(default_factory=dict)
    details: tuple[str, ...] = ()


async def overview(visit: Visit) -> View:
    facts = await visit.cluster.facts()
    samples = visit.cluster.samples
    busiest = sorted(
        (
            (topic.name, rate)
            for topic in facts.topics.values()
            if not topic.internal and (rate := samples.rate_of(topic.name))
        ),
        key=lambda pair: -pair[1],
    )
    lagging = sorted(
        ((group, lag) for group in facts.groups if (lag := samples.last_lag(group))), key=lambda pair: -pair[1]
    )
    times, rates = samples.total.rates()
    doctor = visit.cluster.doctor
    if visit.settings.examines and not is_large(facts):
        doctor.examine()
    return View(
        "overview.html",
        "Overview",
        {
            "cluster_id": facts.cluster_id,
            "brokers": facts.brokers,
            "directories": facts.directories,
            "topics": sum(not topic.internal for topic in facts.topics.values()),
            "internal_topics": sum(topic.internal for topic in facts.topics.values()),
            "partitions": facts.partitions,
            "under_replicated": facts.under_replicated,
            "offline": facts.offline,
            "groups": len(facts.groups),
            "records_per_s": samples.total.rate(),
            "lag": samples.total_lag.points[-1][1] if samples.total_lag.points else None,
            "throughput": {"times": times, "values": rates},
            "busiest": busiest[:_SHOWN],
            "lagging": lagging[:_SHOWN],
            "findings": (found := findings(facts)) + diagnoses(doctor.findings, found),
            "changes": visit.cluster.recent_changes.newest_first()[:_CHANGES],
            "examines": visit.settings.examines,
            "examined_ms": None if doctor.at_s is None else int(doctor.at_s * 1000),
            "is_examining": doctor.is_examining,
            "examination_error": doctor.error,
        },
        section="overview",
    )


async def examine(visit: Visit) -> Redirect:
    """POST only. Not a change of the cluster: a read-only console offers it, too."""
    await read_form(visit.request)
    if not visit.settings.examines:
        raise Rejected(404, "this console was started without the checks of headrace doctor")
    visit.cluster.doctor.examine(now=True)
    await visit.cluster.doctor.ended(_PATIENCE_S)
    return Redirect(visit.url())


# Kind of what a diagnosis is about → parts of the address, name of the query, label of the button.
_PLACES: Final[dict[str, tuple[tuple[str, ...], str, str]]] = {
    "group": (("group",), "id", "Show the group"),
    "transaction": (("end-transaction",), "id", "Abort the transaction"),
}


def diagnoses(found: Sequence[Diagnosis], known: Sequence[Finding]) -> list[Finding]:
    """Findings of the doctor with their buttons. What this page has found just now is left out of the older ones."""
    covered = {finding.check for finding in known}
    made = []
    for one in sorted(found, key=lambda one: not one.is_broken):
        if one.check in covered:
            continue
        kind, name = one.about or ("", "")
        path: tuple[str, ...] = ("operations",)
        label, query = "Show brokers", {}
        if kind in _PLACES:
            path, parameter, label = _PLACES[kind]
            query = {parameter: name}
        elif kind == "topic":
            path, label = ("topics", name), "Show the topic"
        elif kind == "broker":
            path, label = ("brokers", name), f"Configuration of broker {name}"
        elif kind == "disk":
            path, label, query = ("topics",), "Largest topics", {"sort": "size", "order": "desc", "internal": "1"}
        advice = one.remedy[:1].upper() + one.remedy[1:]
        text = f"{one.check}: {one.found}"
        made.append(
            Finding("bad" if one.is_broken else "warn", text, advice, path, label, one.check, query, one.details)
        )
    return made


def findings(facts: ClusterFacts) -> list[Finding]:
    """The worst first."""
    found = []
    if facts.offline:
        topic = next(topic.name for topic in facts.topics.values() if topic.health == OFFLINE)
        found.append(
            Finding(
                "bad", f"{counted(facts.offline, 'partition')} without a leader",
                "Nothing can read or write them. Start the brokers that hold their replicas.",
                ("topics", topic), f"Show {topic}", "replicas",
            )
        )  # fmt: skip
    down = [broker for broker in facts.brokers if not broker.up]
    if down:
        names = ", ".join(f"{broker.id} ({broker.address})" for broker in down)
        found.append(
            Finding(
                "bad", f"broker {names} is down",
                "Its partitions run on the other replicas. Start it again, or move them.",
                ("brokers", str(down[0].id), "drain"), f"Move partitions of broker {down[0].id}",
            )
        )  # fmt: skip
    found += [
        Finding(
            "bad", f"log directory {one.path} of broker {one.broker}: {one.error}", "Replace the disk.",
            ("operations",), "Show log directories", "disks",
        )
        for one in facts.directories
        if one.error
    ]  # fmt: skip
    if facts.under_replicated:
        topic = next(topic.name for topic in facts.topics.values() if topic.under_replicated)
        found.append(
            Finding(
                "warn", f"{counted(facts.under_replicated, 'partition')} with fewer in-sync replicas than replicas",
                "If one more broker fails, writes with acks=all may stop. Followers catch up by themselves when their "
                "broker runs.", ("topics", topic), f"Show {topic}", "replicas",
            )
        )  # fmt: skip
    found += _full_disks(facts.directories)
    found += [Finding("warn", text, "Its figures are missing on these pages.") for text in facts.silent]
    return found


def _full_disks(directories: Sequence[LogDirectory]) -> list[Finding]:
    found = []
    for one in directories:
        if one.total and one.free is not None and one.free < one.total * (100 - _FULL_PERCENT) / 100:
            used = 100 - 100 * one.free // one.total
            found.append(
                Finding(
                    "warn", f"the disk of {one.path} on broker {one.broker} is {used} % full",
                    "Shorten retention.ms or retention.bytes of the largest topics, or add space.",
                    ("topics",), "Largest topics", "disks", {"sort": "size", "order": "desc", "internal": "1"},
                )
            )  # fmt: skip
    return found
