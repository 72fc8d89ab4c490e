"""Security and operations: ACLs with an explanation, transactions, quotas, configuration, and login."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from headrace.client.acls import create_acls
from headrace.client.cluster_client import ClusterClient
from headrace.security.acl.model import Acl
from headrace.security.acl.roles import membership, role_pattern
from headrace.testing import broker
from tests.console.conftest import Scene
from tests.console.test_pages import fetch_json, status_of
from tests.support.console import console_on
from tests.support.names import unique

ZOO = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="module")
def authorizing() -> Iterator[Scene]:
    """A broker with an authorizer and an audit topic."""
    with broker({**ZOO, "audit.topic": "denials"}) as running, console_on(running.bootstrap) as url:
        yield Scene(running.bootstrap, url)


def _allow(scene: Scene, kind: ResourceType, name: str, principal: str, operation: AclOperation) -> None:
    acl = AclBinding(kind, name, ResourcePatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW)
    scene.admin.create_acls([acl])[acl].result(10)


def test_acls_are_listed_and_explained(authorizing: Scene) -> None:
    topic = unique("orders")
    _allow(authorizing, ResourceType.TOPIC, topic, "User:ann", AclOperation.READ)
    ask = f"/security?principal=User:ann&kind=TOPIC&name={topic}&operation="
    found = fetch_json(authorizing.page(ask + "READ"))
    assert ("User:ann", "READ", topic) in [(row["principal"], row["operation"], row["name"]) for row in found["acls"]]
    assert found["answer"]["allowed"] and found["answer"]["enforced"]
    assert not fetch_json(authorizing.page(ask + "WRITE"))["answer"]["allowed"]
    assert status_of(authorizing.page(ask + "FLY"))[0] == 400


def test_roles_have_members_and_rights_and_a_member_is_explained_by_them(authorizing: Scene) -> None:
    role, topic = unique("analysts"), unique("sales")
    _allow(authorizing, ResourceType.TOPIC, topic, f"Role:{role}", AclOperation.READ)

    async def join() -> None:
        async with ClusterClient(authorizing.bootstrap, client_id="test", timeout=20) as client:
            await create_acls(client, [Acl(role_pattern(f"Role:{role}"), membership("User:ann"))])

    # Playwright has an event loop in this thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(join())).result(30)
    found = fetch_json(authorizing.page("/security"))
    mine = next(row for row in found["roles"] if row["name"] == role)
    assert mine["members"] == ["User:ann"] and topic in mine["rights"][0] and len(mine["rights"]) == 1
    assert all(row["name"] != f"Role:{role}" for row in found["acls"]), "a membership is no row of the ACLs"
    page = status_of(authorizing.page(f"/security?principal=User:ann&kind=TOPIC&name={topic}&operation=READ"))[1]
    assert ">Allowed<" in page and role in page


def test_hostile_principals_and_roles_are_text(authorizing: Scene) -> None:
    hostile = unique("<script>alert(1)</script>\"'><img src=x onerror=alert(1)>")
    _allow(authorizing, ResourceType.TOPIC, "*", f"User:{hostile}", AclOperation.READ)
    _allow(authorizing, ResourceType.TOPIC, "*", f"Role:{hostile}", AclOperation.READ)
    for path in ("/security", f"/security?principal={quote(f'User:{hostile}')}&kind=TOPIC&name=x&operation=READ"):
        text = status_of(authorizing.page(path))[1]
        assert "&lt;script&gt;alert(1)" in text and "<script>alert" not in text and "<img src=x" not in text


def test_quotas_of_users_stand_beside_them(scene: Scene) -> None:
    name = unique("loader")
    subprocess.run(
        [sys.executable, "-m", "headrace.cli", "quotas", "set", f"client-id/{name}", "producer_byte_rate=1048576",
         "--bootstrap", scene.bootstrap], check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    quotas = fetch_json(scene.page("/security"))["quotas"]
    assert {"entity": f"client-id {name}", "key": "producer_byte_rate", "value": 1048576.0} in quotas


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


def test_denied_requests_are_one_click_away(authorizing: Scene) -> None:
    page = _text(authorizing.page("/security"))
    assert "/clusters/local/topics/denials/messages" in page and "Show denied requests" in page


def test_brokers_without_an_audit_topic_say_how_to_set_one(scene: Scene) -> None:
    assert "Set <code>audit.topic</code>" in _text(scene.page("/security"))


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: str = answer.read().decode()
    return found
