"""What changed in the cluster lately, from the differences of two readings of its facts.

A console sees changes while it samples or while pages are open. It keeps the last ones in memory.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from headrace.console.cluster.facts import ClusterFacts, Topic
from headrace.kernel.dataclass import dataclass
from headrace.kernel.plurals import counted

KEPT: Final = 40
# More topics or groups than this in one reading are one line.
_MOST: Final = 8
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    at_ms: int
    text: str
    path: Path = ()
    """The page about it."""
    group: str = ""


class RecentChanges:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._last: ClusterFacts | None = None
        self._changes: deque[Change] = deque(maxlen=KEPT)

    def see(self, facts: ClusterFacts) -> None:
        # A broker that did not answer leaves out its groups and sizes: a later reading tells what is really gone.
        if facts.silent:
            return
        if self._last is not None and self._last.at_s < facts.at_s:
            self._changes.extend(changes(self._last, facts))
        self._last = facts

    def newest_first(self) -> list[Change]:
        return list(reversed(self._changes))


def changes(before: ClusterFacts, after: ClusterFacts) -> list[Change]:
    at_ms = int(after.at_s * 1000)
    return [*_brokers(before, after, at_ms), *_topics(before, after, at_ms), *_groups(before, after, at_ms)]


def _brokers(before: ClusterFacts, after: ClusterFacts, at_ms: int) -> list[Change]:
    was = {broker.id: broker for broker in before.brokers}
    now = {broker.id: broker for broker in after.brokers}
    found = [Change(at_ms, f"broker {id_} is down") for id_, one in was.items() if one.up and not _is_up(now.get(id_))]
    found += [
        Change(at_ms, f"broker {id_} is up", ("brokers", str(id_)))
        for id_, one in now.items()
        if one.up and not _is_up(was.get(id_))
    ]
    old, new = (next((b.id for b in facts.brokers if b.controller), None) for facts in (before, after))
    if new is not None and old != new:
        found.append(Change(at_ms, f"broker {new} is the controller now", ("brokers", str(new))))
    return found


def _is_up(broker: object) -> bool:
    return bool(getattr(broker, "up", False))


def _topics(before: ClusterFacts, after: ClusterFacts, at_ms: int) -> list[Change]:
    found: list[Change] = []
    for verb, names in (
        ("created", [name for name in after.topics if name not in before.topics]),
        ("deleted", [name for name in before.topics if name not in after.topics]),
    ):
        if len(names) > _MOST:
            found.append(Change(at_ms, f"{counted(len(names), 'topic')} {verb}", ("topics",)))
        else:
            found += [
                Change(at_ms, f"topic {name} {verb}", ("topics", name) if verb == "created" else ()) for name in names
            ]
    for name, topic in after.topics.items():
        was = before.topics.get(name)
        if was is not None and was is not topic:
            found += [Change(at_ms, text, ("topics", name)) for text in _topic(was, topic)]
    return found


def _topic(was: Topic, now: Topic) -> list[str]:
    if was.id != now.id:
        return [f"topic {now.name} was deleted and created again"]
    found = []
    if len(was.partitions) != len(now.partitions):
        found.append(f"topic {now.name} has {counted(len(now.partitions), 'partition')} now")
    if was.health != now.health:
        found.append(f"topic {now.name} is {now.health} now")
    return found


def _groups(before: ClusterFacts, after: ClusterFacts, at_ms: int) -> list[Change]:
    texts: list[tuple[str, str]] = []
    for name, group in after.groups.items():
        was = before.groups.get(name)
        if was is None:
            texts.append((name, f"group {name} is new"))
        elif was.state != group.state:
            texts.append((name, f"group {name} is {group.state} now, it was {was.state}"))
    texts += [("", f"group {name} is gone") for name in before.groups if name not in after.groups]
    if len(texts) > _MOST:
        return [Change(at_ms, f"{counted(len(texts), 'group')} changed", ("groups",))]
    return [Change(at_ms, text, ("group",) if name else (), name) for name, text in texts]
