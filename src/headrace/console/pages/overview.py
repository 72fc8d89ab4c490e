"""The first page: is the cluster well, how much flows, who lags."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.console.cluster.facts import OFFLINE, ClusterFacts, LogDirectory
from headrace.console.cluster.samples import Samples
from headrace.console.rendering import View
from headrace.console.visit import Visit
from headrace.kernel.dataclass import dataclass
from headrace.kernel.plurals import counted

_SHOWN = 5
_FULL_PERCENT = 85


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that needs a person, and the page that helps."""

    level: str  # bad, warn
    text: str
    advice: str
    path: tuple[str, ...] = ()
    label: str = ""


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
            "findings": findings(facts, samples),
        },
        section="overview",
    )


def findings(facts: ClusterFacts, samples: Samples) -> list[Finding]:
    """The worst first."""
    found = []
    if facts.offline:
        topic = next(topic.name for topic in facts.topics.values() if topic.health == OFFLINE)
        found.append(
            Finding(
                "bad", f"{counted(facts.offline, 'partition')} without a leader",
                "Nothing can read or write them. Start the brokers that hold their replicas.",
                ("topics", topic), f"Show {topic}",
            )
        )  # fmt: skip
    down = [broker for broker in facts.brokers if not broker.up]
    if down:
        names = ", ".join(f"{broker.id} ({broker.address})" for broker in down)
        found.append(
            Finding("bad", f"broker {names} is down", "Its partitions run on the other replicas. Start it again.")
        )
    found += [
        Finding("bad", f"log directory {one.path} of broker {one.broker}: {one.error}", "Replace the disk.")
        for one in facts.directories
        if one.error
    ]
    if facts.under_replicated:
        topic = next(topic.name for topic in facts.topics.values() if topic.under_replicated)
        found.append(
            Finding(
                "warn", f"{counted(facts.under_replicated, 'partition')} with fewer in-sync replicas than replicas",
                "If one more broker fails, writes with acks=all may stop. Followers catch up by themselves when their "
                "broker runs.", ("topics", topic), f"Show {topic}",
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
                    ("topics",), "Show topics",
                )
            )  # fmt: skip
    return found
