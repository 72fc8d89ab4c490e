"""The schema registry over HTTPS: Basic, Bearer and client certificates, and writes that one instance forwards."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import jwt
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from cryptography.hazmat.primitives.asymmetric import ec

from headrace.client.acls import create_acls
from headrace.client.cluster_client import ClusterClient
from headrace.client.security import ClientSecurity
from headrace.registry.app.serving import RegistryServer, identity_of
from headrace.registry.store.store import StoreSettings
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from headrace.web.address import ListenAddress
from headrace.web.listener import bound_socket
from headrace.web.login import Brokers
from headrace.web.tls import HttpTls
from tests.support.certificates import Authority
from tests.support.clock import wait_for
from tests.support.sasl import PASSWORD, SaslBroker, sasl_broker
from tests.support.web import ask, basic, running_server

KEY = ec.generate_private_key(ec.SECP256R1())
MECHANISM = "SCRAM-SHA-256"
TOPIC, GROUP, ID, USER = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
)
# `registry` is the service's own user. It is no super user.
ACLS = [
    ("registry", Operation.ALL, TOPIC, "_schemas", PatternType.LITERAL),
    ("registry", Operation.ALL, GROUP, "schema-registry", PatternType.PREFIXED),
    ("registry", Operation.ALL, ID, "schema-registry", PatternType.PREFIXED),
    ("registry", Operation.CREATE_TOKENS, USER, "User:erin", PatternType.LITERAL),
    *((user, Operation.WRITE, TOPIC, "orders", PatternType.PREFIXED) for user in ("anna", "olga", "erin")),
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    entry = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [{**entry, "kid": "one", "alg": "ES256"}]}))
    settings = {
        "listener.name.clients.sasl.enabled.mechanisms": f"{MECHANISM},OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.issuer": "idp",
        "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        "delegation.token.secret.key": "secret of the cluster",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with sasl_broker(settings) as started:
        started.set_password("registry", PASSWORD, MECHANISM)
        asyncio.run(allow(started))
        yield started


async def allow(brokers: SaslBroker) -> None:
    acls = [
        Acl(ResourcePattern(kind, name, pattern), Entry(f"User:{user}", "*", operation, Permission.ALLOW))
        for user, operation, kind, name, pattern in ACLS
    ]
    async with ClusterClient(brokers.local) as client:
        await create_acls(client, acls)


@dataclass
class Instances:
    """Two instances of one group: the follower forwards writes to the leader."""

    leader: str
    follower: str
    tls: ssl.SSLContext
    """Of a caller that logs in with a header."""


@pytest.fixture(scope="module", params=["requested", "required"])
def instances(request: pytest.FixtureRequest, brokers: SaslBroker, authority: Authority) -> Iterator[Instances]:
    client_auth: str = request.param
    own = brokers.settings(MECHANISM, "registry")
    servers: list[RegistryServer] = []

    def instance(ready: Any) -> RegistryServer:
        listener = bound_socket(ListenAddress("127.0.0.1", 0))
        settings = StoreSettings(
            brokers.bootstrap,
            identity_of(listener, "https"),
            group=f"schema-registry-{client_auth}",
            security=ClientSecurity.from_settings(own),
        )
        tls = HttpTls(
            {
                **authority.issue("registry").properties(),
                "ssl.client.auth": client_auth,
                "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/,DEFAULT",
            }
        )
        reached = Brokers.from_settings(brokers.bootstrap, own)
        servers.append(RegistryServer(listener, settings, ready, brokers=reached, tls=tls))
        return servers[-1]

    with ExitStack() as stack:
        urls = [stack.enter_context(running_server(instance)) for _ in range(2)]
        assert all(url.startswith("https://") for url in urls)
        urls.sort()
        wait_for(
            lambda: all(each.store.leader is not None and each.store.leader.url == urls[0] for each in servers),
            "the instance with the smallest URL leads",
        )
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        yield Instances(
            urls[0], urls[1], trusting if client_auth == "requested" else certificate_of(authority, "other")
        )


def certificate_of(authority: Authority, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    issued = authority.issue(name, hosts=())
    context.load_cert_chain(issued.certificate, issued.private_key)
    return context


def token(**changed: Any) -> str:
    now = int(time.time())
    claims = {"sub": "olga", "iat": now, "exp": now + 60, "iss": "idp", "aud": "kafka", "scope": "x", **changed}
    return jwt.encode(claims, KEY, "ES256", headers={"kid": "one"})


def test_a_forwarded_write_keeps_the_login_of_its_caller(instances: Instances) -> None:
    headers = {"basic": basic("anna", PASSWORD), "bearer": f"Bearer {token()}"}
    for name, header in headers.items():
        path = f"/subjects/orders-{name}-value/versions"
        for url in (instances.follower, instances.leader):
            body = {"schema": '"int"'}
            status, answer = ask(url, "POST", path, body, tls=instances.tls, Authorization=header)
            assert status == 200, answer
            assert ask(url, "GET", path, tls=instances.tls, Authorization=header) == (200, [1])
            refused = ask(url, "POST", "/subjects/bills-value/versions", body, tls=instances.tls, Authorization=header)
            assert refused[0] == 403, "the caller has no right on this topic, and the instances add none"


def test_wrong_tokens_and_passwords_get_401(instances: Instances) -> None:
    wrong = [f"Bearer {token(aud='other')}", f"Bearer {token(exp=1)}", "Bearer x", basic("anna", "wrong")]
    for url in (instances.leader, instances.follower):
        for header in wrong:
            status, answer = ask(url, "GET", "/subjects", tls=instances.tls, Authorization=header)
            assert (status, answer["error_code"]) == (401, 40101)


def test_a_client_certificate_acts_as_its_principal(instances: Instances, authority: Authority) -> None:
    erin, path, body = certificate_of(authority, "erin"), "/subjects/orders-erin-value/versions", {"schema": '"long"'}
    assert ask(instances.leader, "POST", path, body, tls=erin)[0] == 200
    assert ask(instances.leader, "POST", "/subjects/bills-value/versions", body, tls=erin)[0] == 403
    assert ask(instances.follower, "GET", path, tls=erin)[0] == 200
    # The instance that does not lead forwards a delegation token of the caller, and no rights of its own.
    assert ask(instances.follower, "POST", path, {"schema": '"float"'}, tls=erin)[0] == 200
    assert ask(instances.follower, "GET", path, tls=erin) == (200, [1, 2])
    assert ask(instances.follower, "POST", "/subjects/bills-value/versions", body, tls=erin)[0] == 403
    for forged in ("Delegation", "Delegation !", "Delegation " + base64.b64encode(b"an-id:a-password").decode()):
        status, answer = ask(instances.leader, "GET", "/subjects", tls=instances.tls, Authorization=forged)
        assert (status, answer["error_code"]) == (401, 40101)
    stranger = certificate_of(authority, "stranger")
    assert ask(instances.leader, "GET", "/subjects", tls=stranger)[0] == 403


def test_confluents_client_uses_tls_certificates_and_tokens(instances: Instances, authority: Authority) -> None:
    issued = authority.issue("erin", hosts=())
    files = {"ssl.ca.location": str(authority.certificate)}
    files |= {"ssl.certificate.location": str(issued.certificate), "ssl.key.location": str(issued.private_key)}
    schema = Schema('"bytes"', "AVRO")
    with SchemaRegistryClient({"url": instances.leader, **files}) as by_certificate:
        made = by_certificate.register_schema("orders-confluent-value", schema)
    bearer = {
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": token(),
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }
    with SchemaRegistryClient({"url": instances.follower, **files, **bearer}) as by_token:
        assert by_token.register_schema("orders-confluent-value", schema) == made
    password = {"basic.auth.user.info": f"anna:{PASSWORD}"}
    with SchemaRegistryClient({"url": instances.follower, **files, **password}) as by_password:
        assert by_password.get_versions("orders-confluent-value") == [1]
