"""Login: the console acts with the rights of its user, never more."""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.web.login import Brokers
from tests.support.clock import wait_for
from tests.support.console import console_of
from tests.support.sasl import PASSWORD, SaslBroker, sasl_broker

MECHANISM = "SCRAM-SHA-256"
RULES = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS;User:carl",
    "audit.topic": "denials",
}


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[SaslBroker, str]]:
    with sasl_broker(RULES) as running:
        for user in ("anna", "bert", "carl"):
            running.set_password(user, PASSWORD, MECHANISM)
        for topic in ("annas", "others"):
            running.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
        acl = AclBinding(
            ResourceType.TOPIC, "annas", ResourcePatternType.LITERAL, "User:anna", "*", AclOperation.ALL,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        running.admin.create_acls([acl])[acl].result(10)
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": MECHANISM}
        clusters = (ClusterAddress("local", Brokers.from_settings(running.bootstrap, settings)),)
        with console_of(ConsoleSettings(clusters)) as url:
            yield running, url


def _get(url: str, user: str | None, password: str = PASSWORD) -> tuple[int, str, str]:
    """(status, text, WWW-Authenticate)"""
    request = urllib.request.Request(url)
    if user is not None:
        request.add_header("authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status), answer.read().decode(), ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers.get("www-authenticate", "")


@pytest.mark.parametrize(("user", "password"), [(None, ""), ("anna", "wrong"), ("nobody", PASSWORD), ("anna", "")])
def test_no_page_is_shown_without_a_login_that_the_brokers_accept(
    secured: tuple[SaslBroker, str], user: str | None, password: str
) -> None:
    for path in ("", "/topics", "/topics/annas/messages", "/groups", "/security"):
        status, text, challenge = _get(f"{secured[1]}/clusters/local{path}", user, password)
        assert status == 401 and challenge.startswith("Basic") and "others" not in text


def test_a_user_sees_only_what_the_acls_allow(secured: tuple[SaslBroker, str]) -> None:
    _, url = secured
    status, text, _ = _get(f"{url}/clusters/local/topics", "anna")
    assert status == 200 and "annas" in text and "others" not in text
    assert _get(f"{url}/clusters/local/topics/annas", "anna")[0] == 200
    assert _get(f"{url}/clusters/local/topics/others", "anna")[0] in (403, 404)


def test_denied_requests_are_listed_for_those_who_may_read_them(secured: tuple[SaslBroker, str]) -> None:
    running, url = secured
    login = {"sasl.mechanism": MECHANISM, "sasl.username": "bert", "sasl.password": PASSWORD}
    denied = Consumer(
        {"bootstrap.servers": running.bootstrap, "security.protocol": "SASL_PLAINTEXT", "group.id": "berts", **login}
    )
    denied.list_topics("annas", timeout=10)
    denied.close()
    page = f"{url}/clusters/local/security"
    wait_for(lambda: "User:bert" in _get(page, "carl")[1], "the denied request")
    text = _get(page, "carl")[1]
    table = text[text.index('aria-label="Denied requests"') :]
    assert "topic annas" in table and "describe" in table and "Metadata" in table
    assert 'aria-label="Denied requests"' not in _get(page, "anna")[1], "anna may not read the topic"


def test_users_do_not_share_what_the_console_keeps(secured: tuple[SaslBroker, str]) -> None:
    _, url = secured
    assert "annas" in _get(f"{url}/clusters/local/topics", "anna")[1]
    status, text, _ = _get(f"{url}/clusters/local/topics", "bert")
    assert status == 200 and "annas" not in text


def test_without_the_right_to_the_offsets_topic_the_page_of_a_group_shows_the_rest(
    secured: tuple[SaslBroker, str],
) -> None:
    running, url = secured
    acl = AclBinding(
        ResourceType.GROUP, "kitchen", ResourcePatternType.LITERAL, "User:anna", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    running.admin.create_acls([acl])[acl].result(10)
    consumer = Consumer({"bootstrap.servers": running.local, "group.id": "kitchen"})
    consumer.commit(offsets=[TopicPartition("annas", 0, 0)], asynchronous=False)
    status, text, _ = _get(f"{url}/clusters/local/group?id=kitchen", "anna")
    assert status == 200 and "The history of rebalances cannot be read" in text and "annas" in text
    consumer.close()
