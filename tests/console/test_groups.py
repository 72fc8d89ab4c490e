"""Groups: lag, members, reset with a preview, deletion."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.console.conftest import Scene
from tests.console.test_pages import fetch_json, status_of
from tests.support.clock import wait_for
from tests.support.names import unique


def _committed(scene: Scene, group: str, topic: str, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": scene.bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=10)
    consumer.close()
    return int(found.offset)


def test_the_list_has_the_lag_of_each_group(scene: Scene) -> None:
    topic, prefix = scene.topic(), unique("lag")
    scene.numbered(topic, 10)
    for n in range(3):
        scene.commit(f"{prefix}-{n}", topic, 3 * n)
    found = fetch_json(scene.page(f"/groups?q={prefix}"))["groups"]["rows"]
    assert [(row["id"], row["lag"], row["state"]) for row in found] == [
        (f"{prefix}-0", 10, "Empty"), (f"{prefix}-1", 7, "Empty"), (f"{prefix}-2", 4, "Empty"),
    ]  # fmt: skip


def test_partitions_without_a_committed_offset_count_as_lag(scene: Scene) -> None:
    topic, group = scene.topic(2), unique("half")
    scene.numbered(topic, 40)
    ends = {row["index"]: row["end"] for row in fetch_json(scene.page(f"/topics/{topic}"))["partitions"]}
    scene.commit(group, topic, ends[0], 0)
    found = fetch_json(scene.page(f"/group?id={group}"))
    assert found["lag"] == ends[1]
    assert [(row["offset"], row["lag"]) for row in found["positions"]] == [(ends[0], 0), (None, ends[1])]


@pytest.mark.parametrize("name", ["a/b", "../reset", "x?y&z=1", "ünï code", "reset", "<b>"])
def test_names_with_any_character_have_their_page(scene: Scene, name: str) -> None:
    topic, group = scene.topic(), unique(name)
    scene.commit(group, topic, 0)
    assert fetch_json(scene.page(f"/group?id={quote(group)}"))["group"]["id"] == group


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalances_are_listed_with_their_reasons(scene: Scene, protocol: str) -> None:
    topic, group = scene.topic(2), unique("moves")
    settings = {"bootstrap.servers": scene.bootstrap, "group.id": group, "group.protocol": protocol}
    readers = [Consumer({**settings, "client.id": name}) for name in ("ann", "bob")]
    for count, reader in enumerate(readers, 1):
        reader.subscribe([topic])
        wait_for(lambda: all(one.poll(0.1) is None and one.assignment() for one in readers[:count]), "assignments")  # noqa: B023
    readers[1].close()
    wait_for(lambda: readers[0].poll(0.1) is None and len(readers[0].assignment()) == 2, "both partitions")
    rows = fetch_json(scene.page(f"/group?id={group}"))["rebalances"]["rebalances"]
    reasons = [row["reason"] for row in rows]
    assert reasons[0].startswith("left: bob (127.0.0.1)"), reasons
    assert any(one.startswith("joined: bob (127.0.0.1)") for one in reasons[1:]), reasons
    assert reasons[-1].startswith(("joined: ann (127.0.0.1)", "joined first: ann (127.0.0.1)")), rows
    assert rows[0]["members"] == ["ann (127.0.0.1)"]
    assert [row["generation"] for row in rows] == sorted({row["generation"] for row in rows}, reverse=True)
    assert [row["at_ms"] for row in rows] == sorted((row["at_ms"] for row in rows), reverse=True)
    readers[0].close()
    _, text = status_of(scene.page(f"/group?id={group}"))
    assert "Joined: bob (127.0.0.1)" in text and ("Generation" if protocol == "classic" else "Epoch") in text


def test_members_and_their_partitions_are_shown(scene: Scene) -> None:
    topic, group = scene.topic(2), unique("members")
    scene.numbered(topic, 4)
    settings = {"bootstrap.servers": scene.bootstrap, "group.id": group, "client.id": "reader-1"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert consumer.poll(10) is not None
    found = fetch_json(scene.page(f"/group?id={group}"))
    (member,) = found["description"]["members"]
    assert member["client_id"] == "reader-1" and len(member["assigned"]) == 2 and not found["can_reset"]
    status, text = status_of(scene.page(f"/group/reset?id={group}"))
    assert status == 409 and "1 member" in text
    consumer.close()


@pytest.mark.parametrize(
    ("way", "fields", "target"),
    [
        ("earliest", {}, 0),
        ("latest", {}, 10),
        ("offset", {"value": "4"}, 4),
        ("offset", {"value": "99"}, 10),
        ("shift", {"value": "-2"}, 3),
        ("shift", {"value": "+3"}, 8),
        ("time", {"time": "2020-01-01T00:00"}, 0),
        ("time", {"time": "2099-01-01T00:00"}, 10),
    ],
)
def test_a_reset_shows_its_plan_and_then_moves_the_group(
    scene: Scene, way: str, fields: dict[str, str], target: int
) -> None:
    topic, group = scene.topic(), unique("reset")
    scene.numbered(topic, 10)
    scene.commit(group, topic, 5)
    query = "&".join(f"{name}={quote(value)}" for name, value in {"way": way, **fields}.items())
    plan = fetch_json(scene.page(f"/group/reset?id={group}&{query}"))
    assert [to for _, to in plan["rows"]] == [target]
    assert (plan["replayed"], plan["skipped"]) == (max(0, 5 - target), max(0, target - 5))
    assert _committed(scene, group, topic) == 5
    assert scene.post(f"/group/reset?id={group}", way=way, **fields)[0] == 200
    assert _committed(scene, group, topic) == target


def test_single_partitions_can_be_set_by_hand(scene: Scene) -> None:
    topic, group = scene.topic(2), unique("exact")
    scene.numbered(topic, 40)
    scene.commit(group, topic, 1, 0)
    scene.commit(group, topic, 1, 1)
    scene.post(f"/group/reset?id={group}", way="earliest", **{f"to {topic} 1": "7"})
    assert (_committed(scene, group, topic, 0), _committed(scene, group, topic, 1)) == (0, 7)


@pytest.mark.parametrize("fields", [{"way": "offset", "value": "x"}, {"way": "time", "time": "soon"}, {"way": "up"}])
def test_a_wrong_reset_moves_nothing(scene: Scene, fields: dict[str, str]) -> None:
    topic, group = scene.topic(), unique("wrong")
    scene.numbered(topic, 3)
    scene.commit(group, topic, 2)
    assert scene.post(f"/group/reset?id={group}", **fields)[0] in (400, 422)
    assert _committed(scene, group, topic) == 2


def test_a_group_is_deleted_after_its_consequences_were_shown(scene: Scene) -> None:
    topic, group = scene.topic(), unique("gone")
    scene.commit(group, topic, 0)
    assert "1 committed offset" in status_of(scene.page(f"/group/delete?id={group}"))[1]
    status, text = scene.post(f"/group/delete?id={group}")
    assert status == 200 and f"Group {group} is deleted." in text
    assert status_of(scene.page(f"/group?id={group}"))[0] == 404
