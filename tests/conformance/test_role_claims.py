"""Claims of an OAUTHBEARER token make its user a member of roles."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import jwt
import pytest
from confluent_kafka import KafkaError, Producer
from cryptography.hazmat.primitives.asymmetric import ec

from headrace.client.acls import create_acls
from headrace.client.cluster_client import ClusterClient
from headrace.security.acl import roles
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from headrace.testing import broker
from tests.support.clock import PATIENCE_S
from tests.support.sasl import LISTENERS, SaslBroker

KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    entry = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [{**entry, "kid": "one"}]}))
    prefix = "listener.name.clients.oauthbearer.sasl.oauthbearer."
    settings = {
        **LISTENERS,
        "listener.name.clients.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}jwks.endpoint.url": f"file://{keys}",
        f"{prefix}role.claim.names": "groups,scope",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "connection.failed.authentication.delay.ms": "1",
    }
    with broker(settings) as running:
        started = SaslBroker(running)
        give_rights(started)
        yield started


def give_rights(served: SaslBroker) -> None:
    import asyncio

    writers = "Role:writers"
    deny = Entry("Claim:groups=suspended", "*", Operation.ALL, Permission.DENY)
    acls = [
        *(
            Acl(ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL), roles_entry(writers, operation))
            for operation in (Operation.WRITE, Operation.CREATE)
        ),
        Acl(roles.role_pattern(writers), roles.membership("Claim:groups=shop")),
        Acl(roles.role_pattern(writers), roles.membership("Claim:scope=orders:write")),
        Acl(roles.role_pattern(writers), deny),
    ]

    async def create() -> None:
        async with ClusterClient(served.local) as client:
            await create_acls(client, acls)

    asyncio.run(create())


def roles_entry(principal: str, operation: Operation) -> Entry:
    return Entry(principal, "*", operation, Permission.ALLOW)


def outcome(served: SaslBroker, **claims: object) -> int | None:
    """The error code of a record; None if it was written."""
    now = int(time.time())
    text = jwt.encode({"sub": "anna", "iat": now, "exp": now + 60, **claims}, KEY, "ES256", headers={"kid": "one"})
    found: list[KafkaError | None] = []
    client = Producer(
        {
            "bootstrap.servers": served.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (text, time.time() + 60),
            "log_level": 0,
        }
    )
    client.produce("orders", b"x", on_delivery=lambda error, _: found.append(error))
    assert client.flush(PATIENCE_S) == 0
    (error,) = found
    return None if error is None else error.code()


DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"groups": ["shop", "other"]}, None),
        ({"groups": "shop"}, None),
        ({"scope": "openid orders:write"}, None),
        ({}, DENIED),
        ({"groups": ["sho", "shop2", "Shop"]}, DENIED),
        # Another claim of that value, and a value that looks like another claim.
        ({"roles": ["shop"]}, DENIED),
        ({"scope": "groups=shop"}, DENIED),
        ({"sub": "Claim:groups=shop"}, DENIED),
        ({"groups": ["shop", "suspended"]}, DENIED),
    ],
    ids=str,
)
def test_claims_of_the_token_decide_about_roles(
    served: SaslBroker, claims: dict[str, object], expected: int | None
) -> None:
    assert outcome(served, **claims) == expected
