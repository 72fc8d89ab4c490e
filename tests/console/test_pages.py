"""Pages as programs see them: JSON by Accept, and HTML that names every fact."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest
from confluent_kafka import Producer

from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.kernel.json_values import JsonValue
from headrace.net.free_ports import free_port
from headrace.web.login import Brokers
from tests.console.conftest import Scene
from tests.support.console import console_of
from tests.support.names import unique


def fetch_json(url: str) -> JsonValue:
    request = urllib.request.Request(url, headers={"accept": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def status_of(url: str, accept: str = "text/html") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"accept": accept}), timeout=20) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_overview_reports_a_healthy_cluster(scene: Scene) -> None:
    found = fetch_json(scene.page())
    assert [broker["up"] for broker in found["brokers"]] == [True]
    assert found["brokers"][0]["controller"] and not found["findings"] and found["offline"] == 0
    assert found["directories"][0]["free"] > 0


def test_topics_have_counts_sizes_and_retention(scene: Scene) -> None:
    topic = scene.topic(3)
    scene.numbered(topic, 20)
    (row,) = fetch_json(scene.page(f"/topics?q={topic}"))["topics"]["rows"]
    assert (row["partitions"], row["replicas"], row["records"], row["health"]) == (3, 1, 20, "healthy")
    assert row["size"] > 0 and row["retention_ms"] == 604_800_000


def test_internal_topics_are_hidden_until_asked_for(scene: Scene) -> None:
    scene.commit(unique("group"), scene.topic(), 0)
    names = [row["name"] for row in fetch_json(scene.page("/topics"))["topics"]["rows"]]
    every = [row["name"] for row in fetch_json(scene.page("/topics?internal=1"))["topics"]["rows"]]
    assert "__consumer_offsets" not in names and "__consumer_offsets" in every


def test_a_topic_names_its_readers_and_their_lag(scene: Scene) -> None:
    topic, group = scene.topic(), unique("reader/with?odd&name")
    scene.numbered(topic, 10)
    scene.commit(group, topic, 4)
    found = fetch_json(scene.page(f"/topics/{topic}"))
    assert [(reader["group"], reader["lag"]) for reader in found["readers"]] == [(group, 6)]
    assert found["partitions"][0]["end"] == 10 and found["records"] == 10


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_an_unknown_topic_is_not_found(scene: Scene, accept: str) -> None:
    status, text = status_of(scene.page("/topics/absent"), accept)
    assert status == 404 and "absent" in text and "/clusters/local/topics" in text, "the way to the list"


def test_an_unknown_page_and_cluster_are_not_found(scene: Scene) -> None:
    assert status_of(f"{scene.url}/nothing")[0] == 404
    status, text = status_of(f"{scene.url}/clusters/other/topics")
    assert status == 404 and "no cluster" in text and "Cluster local" in text


def test_an_unreachable_cluster_is_named_and_the_other_one_works(scene: Scene) -> None:
    dead = f"127.0.0.1:{free_port()}"
    clusters = (ClusterAddress("dead", Brokers(dead)), ClusterAddress("alive", Brokers(scene.bootstrap)))
    with console_of(ConsoleSettings(clusters, timeout_s=5)) as url:
        status, text = status_of(f"{url}/clusters/dead/topics")
        assert status == 503 and dead in text and "Traceback" not in text
        assert 'href="/clusters/dead/topics?q=a">Try again' in status_of(f"{url}/clusters/dead/topics?q=a")[1]
        assert status_of(f"{url}/clusters/alive/topics")[0] == 200


def test_a_rejected_page_leads_back_to_the_page_of_this_console(scene: Scene) -> None:
    url = scene.page(f"/topics/{scene.topic()}/search?cel=value+%3E")
    for before, is_named in ((scene.page("/topics?q=tea"), True), ("http://evil.example/clusters/local", False)):
        with pytest.raises(urllib.error.HTTPError) as rejected:
            urllib.request.urlopen(urllib.request.Request(url, headers={"referer": before}), timeout=20)
        text = rejected.value.read().decode()
        assert ('href="/clusters/local/topics?q=tea">Back' in text) is is_named
        assert "evil" not in text


def test_pages_of_a_long_list_do_not_repeat_rows(scene: Scene) -> None:
    prefix = unique("many")
    scene.admin.create_topics([_new(f"{prefix}-{n:03}") for n in range(60)])[f"{prefix}-059"].result(20)
    pages = [fetch_json(scene.page(f"/topics?q={prefix}&page={n}"))["topics"] for n in (1, 2)]
    names = [row["name"] for page in pages for row in page["rows"]]
    assert len(names) == len(set(names)) == 60 and pages[0]["pages"] == 2


def _new(name: str) -> object:
    from confluent_kafka.admin import NewTopic

    return NewTopic(name, 1, 1)


def test_a_topic_names_who_writes_it(scene: Scene) -> None:
    topic, name, flow = scene.topic(), unique("writer"), unique("totals")
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, "x")
    producer.commit_transaction(10)
    report = {"pipeline": "shop", "flow": flow, "state": "running", "batch_id": 1, "at_ms": int(time.time() * 1000)}
    target = {"kind": "topic", "name": topic}
    scene.produce("__pipelines", (f"shop.{flow}", json.dumps({**report, "target": target})))
    found = fetch_json(scene.page(f"/topics/{topic}"))
    assert [(one["name"], one["is_transactional"]) for one in found["producers"]] == [(name, True)]
    assert found["flows_that_write"] == [f"shop.{flow}"]
    assert name in status_of(scene.page(f"/topics/{topic}"))[1]


def test_the_overview_says_what_changed_lately(scene: Scene) -> None:
    fetch_json(scene.page())
    topic = scene.topic()
    assert f"topic {topic} created" in [change["text"] for change in fetch_json(scene.page())["changes"]]
    assert "What changed lately" in status_of(scene.page())[1]
