"""Security and operations: ACLs with an explanation, transactions, quotas, configuration, and login."""

from __future__ import annotations

import urllib.request
from urllib.parse import quote

from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from headrace.testing import broker
from tests.console.conftest import Scene
from tests.console.test_pages import fetch_json, status_of
from tests.support.console import console_on
from tests.support.names import unique

ZOO = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}


def test_acls_are_listed_and_explained() -> None:
    with broker(ZOO) as running, console_on(running.bootstrap) as url:
        scene = Scene(running.bootstrap, url)
        acl = AclBinding(
            ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:ann", "*", AclOperation.READ,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        scene.admin.create_acls([acl])[acl].result(10)
        ask = "/security?principal=User:ann&kind=TOPIC&name=orders&operation="
        found = fetch_json(scene.page(ask + "READ"))
        assert [(row["principal"], row["operation"], row["name"]) for row in found["acls"]] == [
            ("User:ann", "READ", "orders")
        ]
        assert found["answer"]["allowed"] and found["answer"]["enforced"]
        assert not fetch_json(scene.page(ask + "WRITE"))["answer"]["allowed"]
        assert status_of(scene.page(ask + "FLY"))[0] == 400


def test_a_cluster_without_an_authorizer_says_so(scene: Scene) -> None:
    found = fetch_json(scene.page("/security?principal=User:ann&kind=TOPIC&name=orders&operation=READ"))
    assert found["acls"] is None and found["acls_error"]
    assert status_of(scene.page("/security"))[0] == 200


def test_an_open_transaction_is_listed_and_aborted(scene: Scene) -> None:
    topic, name = scene.topic(), unique("sink/1")
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, "x")
    producer.flush(10)
    rows = {row["id"]: row["state"] for row in fetch_json(scene.page("/operations"))["transactions"]}
    assert rows[name] == "Ongoing"
    assert scene.post(f"/end-transaction?id={quote(name)}")[0] == 200
    rows = {row["id"]: row["state"] for row in fetch_json(scene.page("/operations"))["transactions"]}
    assert rows[name] != "Ongoing"


def test_configuration_of_a_broker_is_filtered_and_hides_secrets(scene: Scene) -> None:
    found = fetch_json(scene.page("/brokers/0?q=log.retention"))
    names = [entry["name"] for entry in found["configs"]]
    assert "log.retention.hours" in names and all("log.retention" in name for name in names)
    assert status_of(scene.page("/brokers/77"))[0] == status_of(scene.page("/brokers/x"))[0] == 404
    every = fetch_json(scene.page("/brokers/0?all=1"))["configs"]
    assert all(entry["value"] is None for entry in every if entry["sensitive"])


def test_denied_requests_are_one_click_away() -> None:
    with broker({**ZOO, "audit.topic": "denials"}) as running, console_on(running.bootstrap) as url:
        page = _text(f"{url}/clusters/local/security")
        assert "/clusters/local/topics/denials/messages" in page and "Show denied requests" in page


def test_brokers_without_an_audit_topic_say_how_to_set_one(scene: Scene) -> None:
    assert "Set <code>audit.topic</code>" in _text(scene.page("/security"))


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: str = answer.read().decode()
    return found
