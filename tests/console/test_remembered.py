"""Records sent again, saved searches, exports, and the lag that a restart keeps."""

from __future__ import annotations

import io
import json
import time
import urllib.parse
import urllib.request

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.client.blocking.client import BlockingClient
from headrace.console.cluster import notebook
from headrace.console.core.lag_history import DAY_S, SLOT_S, history, slot_document, slot_key, slot_of
from headrace.testing import broker
from tests.console.conftest import Scene
from tests.support.clock import wait_for
from tests.support.console import console_on
from tests.support.names import unique


def read(scene: Scene, topic: str) -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]:
    consumer = Consumer({"bootstrap.servers": scene.bootstrap, "group.id": unique("reader")})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = [consumer.poll(30) for _ in range(end)]
    consumer.close()
    return [(one.key(), one.value(), one.headers() or []) for one in found if one is not None]


def test_dead_letters_go_back_unchanged_to_the_topics_they_came_from(scene: Scene) -> None:
    origin, other, letters = scene.topic(), scene.topic(), scene.topic(name=unique("orders") + ".dlq")
    for target, value in ((origin, b"\x00\xff one"), (other, b"two"), (origin, b"three")):
        notes = [("headrace.topic", target.encode()), ("headrace.error", b"not JSON"), ("trace", b"7")]
        scene.produce(letters, ("k", value), headers=notes)
    path = f"/topics/{letters}"
    status, page = scene.post(f"{path}/messages", record="0:0")
    assert status == 405, "the messages page itself changes nothing"
    fields = urllib.parse.urlencode([("record", "0:0"), ("record", "0:1"), ("record", "0:0")])
    status, page = scene.send(f"{path}/messages", f"{path}/redrive", fields)
    assert status == 200 and f"{origin}</strong> and goes back there" in page
    assert read(scene, origin) == [], "the first form only asks"
    status, page = scene.send(f"{path}/messages", f"{path}/redrive", f"{fields}&confirmed=1")
    assert status == 200 and "Sent 2 records to" in page
    assert read(scene, origin) == [(b"k", b"\x00\xff one", [("trace", b"7")])]
    assert read(scene, other) == [(b"k", b"two", [("trace", b"7")])]
    assert len(read(scene, letters)) == 3, "the originals stay"


@pytest.mark.parametrize("fields", ["", "record=1", "record=0:99999&confirmed=1&target=nowhere", "record=x:y"])
def test_a_wrong_choice_sends_nothing(scene: Scene, fields: str) -> None:
    topic = scene.topic()
    scene.numbered(topic, 2)
    assert scene.send(f"/topics/{topic}/messages", f"/topics/{topic}/redrive", fields)[0] in (400, 404, 422)
    assert len(read(scene, topic)) == 2


def test_records_without_an_origin_need_a_topic(scene: Scene) -> None:
    topic, target = scene.topic(), scene.topic()
    scene.numbered(topic, 3)
    here, there = f"/topics/{topic}/messages", f"/topics/{topic}/redrive"
    status, page = scene.send(here, there, "record=0:1&confirmed=1")
    assert status == 422 and "type the topic to send them to" in page
    assert scene.send(here, there, f"record=0:1&confirmed=1&target={target}")[0] == 200
    assert [value for _, value, _ in read(scene, target)] == [b'{"n": 1}']


def test_a_search_is_saved_shown_and_deleted(scene: Scene) -> None:
    topic, name = scene.topic(), "größer & <b>kleiner</b>"
    scene.numbered(topic, 5)
    page = f"/topics/{topic}/messages"
    fields = urllib.parse.urlencode({"name": name, "cel": "value.n > 3", "in": "anywhere"})
    status, text = scene.send(page, f"/topics/{topic}/searches", fields)
    assert status == 200 and "&lt;b&gt;kleiner" in text and "cel=value.n+%3E+3" in text
    fields = urllib.parse.urlencode({"delete": name})
    assert "is deleted" in scene.send(page, f"/topics/{topic}/searches", fields)[1]
    with BlockingClient(scene.bootstrap) as client:
        assert not [key for key in notebook.read(client, "search/") if topic in key]
    assert scene.send(page, f"/topics/{topic}/searches", "name=x")[0] == 422, "a search without a condition"
    assert scene.send(page, f"/topics/{topic}/searches", "q=x")[0] == 422, "a search without a name"


def test_a_parquet_export_has_every_record(scene: Scene) -> None:
    topic = scene.topic(2)
    scene.numbered(topic, 25)
    scene.produce(topic, (None, None), headers=[("a", b"1"), ("a", b"2")])
    with urllib.request.urlopen(scene.page(f"/topics/{topic}/export?format=parquet"), timeout=60) as answer:
        rows = pq.read_table(io.BytesIO(answer.read())).to_pylist()
    assert len(rows) == 26 and {json.loads(row["value"])["n"] for row in rows if row["value"]} == set(range(25))
    tombstone = next(row for row in rows if row["value"] is None)
    assert tombstone["key"] is None and [one["value"] for one in tombstone["headers"]] == ["1", "2"]


def test_slots_repeat_after_a_day_and_old_ones_are_left_out() -> None:
    now_s = 100 * DAY_S + 7.0
    assert slot_key("User:a", slot_of(now_s)) == slot_key("User:a", slot_of(now_s + DAY_S))
    assert slot_key("User:a", slot_of(now_s)) != slot_key("User:a", slot_of(now_s + SLOT_S))
    documents = {
        slot_key("User:a", slot_of(at_s)): slot_document(at_s, {"g": lag})
        for at_s, lag in ((now_s - 2 * DAY_S + SLOT_S, 1), (now_s - 600, 5), (now_s - 1200, 9))
    }
    assert history({**documents, "lag/User:a/x": {"other": 1}}, now_s) == {"g": [(now_s - 1200, 9), (now_s - 600, 5)]}


def test_a_restart_keeps_the_lag_of_groups() -> None:
    with broker() as running:
        scene = Scene(running.bootstrap, "")
        topic = scene.topic()
        scene.numbered(topic, 10)
        scene.commit("billing", topic, 4)
        with BlockingClient(running.bootstrap) as client:
            now_s = time.time()
            for ago_s in (3600, 1800):
                at_s = now_s - ago_s
                notebook.write(
                    client, slot_key("User:ANONYMOUS", slot_of(at_s)), slot_document(at_s, {"billing": ago_s})
                )
        with console_on(running.bootstrap) as url:
            request = urllib.request.Request(f"{url}/clusters/local/group?id=billing")
            request.add_header("accept", "application/json")

            def values() -> list[int]:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    found: list[int] = json.load(answer)["history"]["values"]
                    return found

            wait_for(lambda: values()[:3] == [3600, 1800, 6], "the history of the console before, then the lag of now")
