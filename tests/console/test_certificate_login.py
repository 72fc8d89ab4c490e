"""A console behind TLS: a client certificate is a login, and cookies travel over TLS only."""

from __future__ import annotations

import ssl
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from headrace.console.server import console_server
from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.web.address import ListenAddress
from headrace.web.listener import bound_socket
from headrace.web.login import Brokers
from headrace.web.tls import HttpTls
from tests.support.certificates import Authority
from tests.support.sasl import PASSWORD, sasl_broker
from tests.support.web import basic, exchange, running_server

MECHANISM = "SCRAM-SHA-512"
RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:service",
    "delegation.token.secret.key": "secret of the cluster",
}


def test_a_certificate_acts_as_its_principal_and_without_one_the_login_page_opens(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    tls = HttpTls(
        {
            **authority.issue("console").properties(),
            "ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/,DEFAULT",
        }
    )
    with sasl_broker(RULES) as running:
        running.set_password("service", "its own", MECHANISM)
        for topic, user in (("erins", "erin"), ("annas", "anna")):
            running.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
            acl = AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.ALL,
                AclPermissionType.ALLOW,
            )  # fmt: skip
            running.admin.create_acls([acl])[acl].result(30)
        own = {"sasl.username": "service", "sasl.password": "its own"}
        brokers = Brokers.from_settings(
            running.bootstrap, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": MECHANISM, **own}
        )
        settings = ConsoleSettings((ClusterAddress("local", brokers),))
        listener = bound_socket(ListenAddress("127.0.0.1", 0))
        with running_server(lambda ready: console_server(listener, settings, ready, tls)) as url:
            context = ssl.create_default_context(cafile=str(authority.certificate))
            issued = authority.issue("erin", hosts=())
            named = ssl.create_default_context(cafile=str(authority.certificate))
            named.load_cert_chain(issued.certificate, issued.private_key)
            page = "/clusters/local/topics"
            status, content, _ = exchange(url, "GET", page, tls=named, Accept="text/html")
            text = content.decode()
            assert status == 200 and "erins" in text and "annas" not in text, "not the rights of the service"
            assert 'title="User:erin"' in text and "Log out" not in text
            status, _, headers = exchange(url, "GET", page, tls=context, Accept="text/html")
            assert status == 303 and headers["location"].startswith("/clusters/local/login?next=")
            status, content, headers = exchange(url, "GET", "/clusters/local/login", tls=context, Accept="text/html")
            assert status == 200 and "secure" in headers["set-cookie"].lower()
            header = {"Authorization": basic("anna", PASSWORD)}
            _, content, _ = exchange(url, "GET", page, tls=named, Accept="text/html", **header)
            assert "annas" in content.decode() and "erins" not in content.decode(), "a header wins"
