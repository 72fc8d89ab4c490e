"""The v3 API against a broker: topics, configs, groups, records in and out."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.testing import RunningBroker, broker
from tests.support.clock import PATIENCE_S
from tests.support.http_api import RunningApi, http_api


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker({"num.partitions": "2"}) as started:
        yield started


@pytest.fixture(scope="module")
def api(running: RunningBroker) -> Iterator[RunningApi]:
    with http_api(running.bootstrap) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(api: RunningApi) -> str:
    status, answer = api.ask("GET", "/v3/clusters")
    assert status == 200 and answer["kind"] == "KafkaClusterList"
    return f"/v3/clusters/{answer['data'][0]['cluster_id']}"


def create(api: RunningApi, cluster: str, name: str, **more: Any) -> str:
    body = {"topic_name": name, "partitions_count": 2, **more}
    status, answer = api.ask("POST", f"{cluster}/topics", body)
    assert status == 201, answer
    return f"{cluster}/topics/{name}"


def records(api: RunningApi, topic: str, query: str = "", **headers: str) -> list[Any]:
    status, content, _ = api.raw("GET", f"{topic}/records{query}", **headers)
    assert status == 200, content
    return [json.loads(line) for line in content.splitlines()]


def produced(api: RunningApi, topic: str, *documents: Any) -> list[Any]:
    body = b"".join(json.dumps(document).encode() for document in documents)
    status, content, _ = api.raw("POST", f"{topic}/records", body)
    assert status == 200, content
    return [json.loads(line) for line in content.splitlines()]


def test_a_topic_lives_and_dies(api: RunningApi, cluster: str) -> None:
    topic = create(api, cluster, "life", configs=[{"name": "retention.ms", "value": "1000"}])
    status, described = api.ask("GET", topic)
    assert (status, described["partitions_count"], described["replication_factor"]) == (200, 2, 1)
    assert described["metadata"]["resource_name"].endswith("/topic=life")
    assert "life" in [one["topic_name"] for one in api.ask("GET", f"{cluster}/topics")[1]["data"]]
    assert api.ask("PATCH", topic, {"partitions_count": 3})[1]["partitions_count"] == 3
    assert len(api.ask("GET", f"{topic}/partitions")[1]["data"]) == 3
    assert api.ask("GET", f"{topic}/partitions/2")[1]["partition_id"] == 2
    assert api.ask("GET", f"{topic}/partitions/2/replicas")[1]["data"][0]["is_leader"] is True
    assert api.ask("GET", f"{topic}/partitions/7")[1]["error_code"] == 40402
    assert api.ask("POST", f"{cluster}/topics", {"topic_name": "life"})[1]["error_code"] == 40002
    assert api.ask("DELETE", topic) == (204, None)
    assert api.ask("GET", topic)[1]["error_code"] == 40403


def test_configs_are_shown_set_and_reset(api: RunningApi, cluster: str) -> None:
    topic = create(api, cluster, "configured")
    name = f"{topic}/configs/retention.ms"
    assert api.ask("GET", name)[1]["source"] == "DEFAULT_CONFIG"
    assert api.ask("PUT", name, {"value": "5000"}) == (204, None)
    changed = api.ask("GET", name)[1]
    assert (changed["value"], changed["source"], changed["is_default"]) == ("5000", "DYNAMIC_TOPIC_CONFIG", False)
    assert api.ask("DELETE", name) == (204, None)
    assert api.ask("GET", name)[1]["is_default"] is True
    several = {"data": [{"name": "retention.ms", "value": "7"}, {"name": "cleanup.policy", "value": "compact"}]}
    assert api.ask("POST", f"{topic}/configs:alter", several) == (204, None)
    listed = {one["name"]: one["value"] for one in api.ask("GET", f"{topic}/configs")[1]["data"]}
    assert (listed["retention.ms"], listed["cleanup.policy"]) == ("7", "compact")
    assert api.ask("PUT", name, {"value": "soon"})[0] == 400
    assert api.ask("GET", f"{topic}/configs/nothing")[0] == 404
    number = api.ask("GET", f"{cluster}/brokers")[1]["data"][0]["broker_id"]
    assert api.ask("GET", f"{cluster}/brokers/{number}/configs")[1]["data"]
    assert api.ask("GET", f"{cluster}/broker-configs")[0] == 200


def test_each_record_of_a_stream_gets_its_own_answer(api: RunningApi, cluster: str, running: RunningBroker) -> None:
    topic = create(api, cluster, "typed")
    answers = produced(
        api,
        topic,
        {"partition_id": 0, "key": {"type": "STRING", "data": "a"}, "value": {"type": "JSON", "data": {"amount": 5}}},
        {"partition_id": 0, "value": {"type": "BINARY", "data": base64.b64encode(b"\x00\xff").decode()}},
        {"partition_id": 0, "value": {"type": "NOTHING", "data": 1}},
        {"partition_id": 9, "value": {"type": "JSON", "data": 1}},
        {"partition_id": 0, "value": {"type": "AVRO", "schema": '"string"', "data": "x"}},
        {"partition_id": 0, "headers": [{"name": "h", "value": "eA=="}], "key": {"data": "aw=="}, "timestamp": 17},
        [],
    )
    assert [one["error_code"] for one in answers] == [200, 200, 400, 40402, 42205, 200, 400]
    assert [one.get("offset") for one in answers if one["error_code"] == 200] == [0, 1, 2]
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("typed", 0, 0)])
    read = consumer.consume(3, PATIENCE_S)
    consumer.close()
    assert [one.value() for one in read] == [b'{"amount":5}', b"\x00\xff", None]
    assert (read[2].key(), read[2].headers(), read[2].timestamp()[1]) == (b"k", [("h", b"x")], 17)


def test_answers_arrive_while_the_body_is_sent(api: RunningApi, cluster: str) -> None:
    topic = create(api, cluster, "open")
    parts = urlsplit(api.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE_S)
    connection.putrequest("POST", f"{topic}/records")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()

    def send(text: str) -> None:
        connection.send(f"{len(text):x}\r\n{text}\r\n".encode())

    send('{"value":{"type":"JSON","data":1}}{"value":{"type":"JS')
    assert connection.sock is not None
    received = b""
    while b'"offset":0' not in received:
        received += connection.sock.recv(4096)
    send('ON","data":2}}')
    while received.count(b'"error_code":200') < 2:
        received += connection.sock.recv(4096)
    send("}")
    while b"not JSON" not in received:
        received += connection.sock.recv(4096)
    connection.close()
    assert len(records(api, topic)) == 2


def test_a_batch_reports_successes_and_failures(api: RunningApi, cluster: str) -> None:
    topic = create(api, cluster, "batched")
    entries = [{"id": str(n), "value": {"type": "JSON", "data": n}, "partition_id": n * 2} for n in range(2)]
    status, answer = api.ask("POST", f"{topic}/records:batch", {"entries": entries})
    assert status == 207
    assert [one["id"] for one in answer["successes"]] == ["0"]
    assert [(one["id"], one["error_code"]) for one in answer["failures"]] == [("1", 40402)]


def test_a_topic_is_read_from_offset_time_and_tail_with_filters(api: RunningApi, cluster: str) -> None:
    # The timestamps are small and old, so retention must not delete the records.
    topic = create(api, cluster, "read", partitions_count=1, configs=[{"name": "retention.ms", "value": "-1"}])
    produced(
        api,
        topic,
        *(
            {"key": {"type": "STRING", "data": f"k{n}"}, "timestamp": 1000 * (n + 1),
             "value": {"type": "JSON", "data": {"n": n, "state": "paid" if n % 2 else "open"}}}
            for n in range(6)
        ),
    )  # fmt: skip

    def numbers(query: str) -> list[int]:
        return [one["value"]["n"] for one in records(api, topic, query)]

    assert numbers("") == [0, 1, 2, 3, 4, 5]
    assert numbers("?from=4") == [4, 5]
    assert numbers("?from=-2") == [4, 5]
    assert numbers("?from=@3500") == [3, 4, 5]
    assert numbers("?limit=2") == [0, 1]
    assert numbers("?from=end") == []
    assert numbers("?match=value.state=paid") == [1, 3, 5]
    assert numbers("?search=K3") == [3]
    assert numbers("?filter=" + quote('value.n > 1 && value.state == "open"')) == [2, 4]
    assert numbers("?filter=" + quote("value.nothing > 1")) == []
    assert records(api, topic, "?limit=1&format=binary")[0]["key"] == base64.b64encode(b"k0").decode()
    for bad in ("filter=value.", "match=state", "from=someday", "partition=x", "format=xml", "limit=0", "follow=maybe"):
        status, answer = api.ask("GET", f"{topic}/records?{bad}")
        assert status == 400 and bad.partition("=")[0] in answer["message"], answer
    assert api.ask("GET", f"{topic}/records?partition=1")[0] == 404


def test_server_sent_events_follow_a_topic_and_resume(api: RunningApi, cluster: str, running: RunningBroker) -> None:
    topic = create(api, cluster, "followed", partitions_count=1)
    parts = urlsplit(api.url)

    def opened(**headers: str) -> Any:
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE_S)
        accept = {"Accept": "text/event-stream", **{name.replace("_", "-"): one for name, one in headers.items()}}
        connection.request("GET", f"{topic}/records", headers=accept)
        return connection.getresponse()

    def event(answer: Any) -> dict[str, str]:
        lines: list[str] = []
        while (line := answer.readline().decode().rstrip("\n")) or not lines:
            if line:
                lines.append(line)
        return dict(one.split(": ", 1) for one in lines)

    answer = opened()
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert event(answer) == {"retry": "2000"}
    producer = Producer({"bootstrap.servers": running.bootstrap})
    producer.produce("followed", b'"first"')
    producer.flush()
    first = event(answer)
    assert json.loads(first["data"])["value"] == "first"
    answer.close()
    producer.produce("followed", b'"second"')
    producer.flush()
    resumed = opened(Last_Event_ID=first["id"])
    event(resumed)
    assert json.loads(event(resumed)["data"])["value"] == "second"
    resumed.close()


def test_groups_and_lag(api: RunningApi, cluster: str, running: RunningBroker) -> None:
    topic = create(api, cluster, "lagging", partitions_count=1)
    produced(api, topic, *({"value": {"type": "JSON", "data": n}} for n in range(5)))
    settings = {"bootstrap.servers": running.bootstrap, "group.id": "laggards", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "client.id": "one"})
    consumer.subscribe(["lagging"])
    assert consumer.consume(1, PATIENCE_S)
    consumer.commit(offsets=[TopicPartition("lagging", 0, 2)], asynchronous=False)
    group = f"{cluster}/consumer-groups/laggards"
    assert "laggards" in [one["consumer_group_id"] for one in api.ask("GET", f"{cluster}/consumer-groups")[1]["data"]]
    assert api.ask("GET", group)[1]["state"] == "STABLE"
    member = api.ask("GET", f"{group}/consumers")[1]["data"][0]
    assert member["client_id"] == "one"
    assert api.ask("GET", f"{group}/consumers/{member['consumer_id']}")[0] == 200
    assert api.ask("GET", f"{group}/lags/lagging/partitions/0")[1]["lag"] == 3
    summary = api.ask("GET", f"{group}/lag-summary")[1]
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_client_id"]) == (3, 3, "one")
    consumer.close()


def test_mistakes_have_documented_answers(api: RunningApi, cluster: str) -> None:
    assert api.ask("GET", "/v3/clusters/other/topics")[0] == 404
    assert api.ask("GET", f"{cluster}/topics/none/records")[1]["error_code"] == 40403
    assert api.ask("POST", f"{cluster}/topics", b"{")[0] == 400
    assert api.ask("POST", f"{cluster}/topics", b"{}", Content_Type="text/plain")[0] == 415
    assert api.ask("POST", f"{cluster}/topics", [])[0] == 422
    assert api.ask("POST", f"{cluster}/topics", {"topic_name": 5})[0] == 422
    assert api.ask("POST", f"{cluster}/topics", {"topic_name": "a/b"})[0] == 400
    assert api.ask("GET", "/nothing")[0] == 404
    assert api.ask("DELETE", "/v3/clusters")[0] == 405
    assert api.ask("GET", "/v3/clusters", Host="evil.example")[0] == 421
    assert api.ask("GET", "/v3/clusters", Origin="http://evil.example")[0] == 403
