"""Changes between two readings of a cluster's facts, as the overview lists them."""

from __future__ import annotations

import dataclasses

from headrace.console.cluster.facts import Broker, ClusterFacts, ListedGroup, Partition, Topic
from headrace.console.cluster.recent_changes import RecentChanges, changes


def topic(name: str, partitions: int = 1, isr: tuple[int, ...] = (0,), id_: str = "x") -> Topic:
    parts = tuple(Partition(n, 0, 1, (0,), isr) for n in range(partitions))
    return Topic(name, id_, False, parts, 0, 0 if isr else partitions, 0)


def facts(at_s: float, *topics: Topic, brokers: tuple[Broker, ...] = (), groups: dict[str, str] | None = None
          ) -> ClusterFacts:  # fmt: skip
    listed = {name: ListedGroup(name, "classic", state, "consumer", 0) for name, state in (groups or {}).items()}
    return ClusterFacts("c", brokers, {one.name: one for one in topics}, (), listed, (), (), at_s)


def broker(id_: int, *, up: bool = True, controller: bool = False) -> Broker:
    return Broker(id_, f"h:{id_}", None, controller, up, 0, 0, 0)


def texts(before: ClusterFacts, after: ClusterFacts) -> list[str]:
    return [change.text for change in changes(before, after)]


def test_topics_that_come_go_grow_and_fall_ill() -> None:
    before = facts(1, topic("gone"), topic("grows"), topic("ill"), topic("again"))
    after = facts(2, topic("new"), topic("grows", 3), topic("ill", isr=()), topic("again", id_="y"))
    assert texts(before, after) == [
        "topic new created", "topic gone deleted", "topic grows has 3 partitions now",
        "topic ill is under-replicated now", "topic again was deleted and created again",
    ]  # fmt: skip


def test_brokers_that_stop_and_a_controller_that_moves() -> None:
    before = facts(1, brokers=(broker(1, controller=True), broker(2)))
    after = facts(2, brokers=(broker(1, up=False), broker(2, controller=True), broker(3)))
    assert texts(before, after) == ["broker 1 is down", "broker 3 is up", "broker 2 is the controller now"]


def test_groups_and_their_states() -> None:
    before, after = facts(1, groups={"a": "Stable", "b": "Empty"}), facts(2, groups={"a": "Empty", "c": "Stable"})
    assert texts(before, after) == ["group a is Empty now, it was Stable", "group c is new", "group b is gone"]


def test_many_at_once_are_one_line() -> None:
    after = facts(2, *(topic(f"t{n}") for n in range(50)), groups={f"g{n}": "Stable" for n in range(50)})
    assert texts(facts(1), after) == ["50 topics created", "50 groups changed"]


def test_the_newest_is_first_and_a_silent_broker_is_no_change() -> None:
    seen = RecentChanges()
    for at_s, names in ((1, ()), (2, ("a",)), (3, ("a", "b"))):
        seen.see(facts(at_s, *(topic(name) for name in names)))
    seen.see(dataclasses.replace(facts(4), silent=("broker 1: no answer",)))
    assert [change.text for change in seen.newest_first()] == ["topic b created", "topic a created"]
