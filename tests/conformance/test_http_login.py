"""A service of `headrace.web` acts as its caller: the brokers see the name that the request proves."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headrace.client.acls import create_acls
from headrace.client.cluster_client import ClusterClient
from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from headrace.web.address import ListenAddress
from headrace.web.connections import LoginRequired, PerCaller, logged_in_client
from headrace.web.delegation import DelegationTokens
from headrace.web.errors import HANDLERS
from headrace.web.listener import WebServer, bound_socket
from headrace.web.login import Brokers, Login
from headrace.web.tls import HttpTls
from headrace.wire.apis import ApiKey
from tests.support.certificates import Authority
from tests.support.sasl import PASSWORD, SaslBroker, sasl_broker
from tests.support.web import ask, basic, exchange, running_server

KEY = ec.generate_private_key(ec.SECP256R1())
MAPPING = "RULE:^CN=([a-z]+)$/$1/,DEFAULT"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    entry = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [{**entry, "kid": "one", "alg": "ES256"}]}))
    settings = {
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.issuer": "idp",
        "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        "delegation.token.secret.key": "secret of the cluster",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with sasl_broker(settings) as started:
        started.set_password("service", "its own", "SCRAM-SHA-512")
        yield started


def whoami_server(
    brokers: Brokers, ready: Callable[[str], None], *, tls: HttpTls | None = None, **limits: Any
) -> WebServer:
    """`GET /` answers with the principal that the service takes the caller for."""

    async def make(caller: Any) -> ClusterClient:
        return await logged_in_client(brokers, caller, client_id="whoami", timeout_s=10)

    clients = PerCaller(make, **limits)

    async def whoami(request: Request) -> JSONResponse:
        async with clients.lease(request.state.caller) as client:
            answer = await client.request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None})
            return JSONResponse({"caller": request.state.caller.principal, "error": answer.error_code.name})

    tokens = DelegationTokens(brokers, timeout_s=10) if brokers.own else None
    app = Starlette(routes=[Route("/", whoami)], exception_handlers=HANDLERS)
    guarded = LoginRequired(app, login=Login(brokers, tls=tls, tokens=tokens), clients=clients)

    @asynccontextmanager
    async def life() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await clients.close()
            if tokens:
                await tokens.close()

    return WebServer(bound_socket(ListenAddress("127.0.0.1", 0)), guarded, ready=ready, tls=tls, life=life())


def brokers_of(served: SaslBroker, mechanism: str = "SCRAM-SHA-512", **more: str) -> Brokers:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **more}
    return Brokers.from_settings(served.bootstrap, settings)


def principals(served: SaslBroker) -> set[str]:
    return {connection.principal for connection in served.running.broker.connections.connections}


def bearer(**changed: Any) -> str:
    now = int(time.time())
    claims = {"sub": "olga", "iat": now, "exp": now + 60, "iss": "idp", "aud": "kafka", "scope": "x", **changed}
    return "Bearer " + jwt.encode(claims, KEY, "ES256", headers={"kid": "one"})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_basic_logs_in_as_the_user_of_the_request(served: SaslBroker, mechanism: str) -> None:
    with running_server(lambda ready: whoami_server(brokers_of(served, mechanism), ready)) as url:
        status, answer = ask(url, "GET", "/", Authorization=basic("anna", PASSWORD))
        assert (status, answer["caller"]) == (200, "User:anna")
        assert answer["error"] == "cluster_authorization_failed", "anna has no rights, and the service adds none"
        assert "User:anna" in principals(served)
        for wrong in (basic("anna", "wrong"), basic("nobody", PASSWORD)):
            status, answer = ask(url, "GET", "/", Authorization=wrong)
            assert (status, answer["error_code"]) == (401, 40101)
            assert answer["message"] == "the brokers refused the user name, password or token"


def test_requests_without_usable_credentials_get_401_and_the_way_to_log_in(served: SaslBroker) -> None:
    with running_server(lambda ready: whoami_server(brokers_of(served), ready)) as url:
        assert ask(url, "GET", "/")[0] == 401
        for header in ("Digest x", "Basic %", "Bearer x"):
            status, content, headers = exchange(url, "GET", "/", Authorization=header)
            assert status == 401, content
            assert headers["www-authenticate"].startswith("Basic realm=")
        assert ask(url, "GET", "/", Authorization="Basic " + "A" * 20_000)[0] == 431


def test_bearer_logs_in_with_the_token_of_the_request(served: SaslBroker) -> None:
    with running_server(lambda ready: whoami_server(brokers_of(served, "OAUTHBEARER"), ready)) as url:
        assert ask(url, "GET", "/", Authorization=bearer())[1]["caller"] == "User:olga"
        assert "User:olga" in principals(served)
        assert ask(url, "GET", "/", Authorization=bearer(aud="other"))[0] == 401
        assert ask(url, "GET", "/", Authorization=bearer(exp=1))[0] == 401
        refused = ask(url, "GET", "/", Authorization=basic("anna", PASSWORD))
        assert refused[0] == 401 and "Bearer" in refused[1]["message"]


def certificate_of(authority: Authority, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    issued = authority.issue(name, hosts=())
    context.load_cert_chain(issued.certificate, issued.private_key)
    return context


def allow_tokens(served: SaslBroker, user: str) -> None:
    pattern = ResourcePattern(ResourceType.USER, f"User:{user}", PatternType.LITERAL)
    acl = Acl(pattern, Entry("User:service", "*", Operation.CREATE_TOKENS, Permission.ALLOW))

    async def run() -> None:
        async with ClusterClient(served.local) as client:
            await create_acls(client, [acl])

    asyncio.run(run())


def test_a_client_certificate_acts_as_its_principal_by_a_delegation_token(
    served: SaslBroker, authority: Authority
) -> None:
    tls = HttpTls(
        {
            **authority.issue("http").properties(),
            "ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": MAPPING,
        }
    )
    own = {"sasl.username": "service", "sasl.password": "its own"}
    with running_server(lambda ready: whoami_server(brokers_of(served, **own), ready, tls=tls)) as url:
        assert url.startswith("https://")
        status, answer = ask(url, "GET", "/", tls=certificate_of(authority, "erin"))
        assert (status, answer["error_code"]) == (403, 40301), "the service has no CREATE_TOKENS on erin yet"
        allow_tokens(served, "erin")
        assert ask(url, "GET", "/", tls=certificate_of(authority, "erin")) == (
            200,
            {"caller": "User:erin", "error": "cluster_authorization_failed"},
        )
        assert "User:erin" in principals(served)
        nameless = ssl.create_default_context(cafile=str(authority.certificate))
        assert ask(url, "GET", "/", tls=nameless)[0] == 401
        named = ask(url, "GET", "/", tls=certificate_of(authority, "erin"), Authorization=basic("anna", PASSWORD))
        assert named[1]["caller"] == "User:anna", "a header wins over the certificate"


def test_a_certificate_without_a_user_of_the_service_gets_401(served: SaslBroker, authority: Authority) -> None:
    tls = HttpTls({**authority.issue("http").properties(), "ssl.client.auth": "requested"})
    with running_server(lambda ready: whoami_server(brokers_of(served), ready, tls=tls)) as url:
        status, answer = ask(url, "GET", "/", tls=certificate_of(authority, "erin"))
        assert status == 401 and "delegation tokens" in answer["message"]


def test_a_renewed_certificate_is_served_without_a_restart(served: SaslBroker, authority: Authority) -> None:
    tls = HttpTls({**authority.issue("renewed").properties()})
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with running_server(lambda ready: whoami_server(brokers_of(served), ready, tls=tls)) as url:

        def serial() -> str:
            parts = urlsplit(url)
            with (
                socket.create_connection((parts.hostname, parts.port)) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
            ):
                certificate = encrypted.getpeercert()
                assert certificate is not None
                return str(certificate["serialNumber"])

        first = serial()
        issued = authority.issue("renewed")
        tls._look_at = 0.0  # the files are looked at every two seconds
        assert serial() == f"{issued.x509.serial_number:X}".zfill(len(serial())) != first


def test_a_changed_password_ends_the_connections_of_the_old_one(served: SaslBroker) -> None:
    served.set_password("carla", "old", "SCRAM-SHA-512")
    with running_server(lambda ready: whoami_server(brokers_of(served), ready, age_s=0.0)) as url:
        assert ask(url, "GET", "/", Authorization=basic("carla", "old"))[0] == 200
        served.set_password("carla", "new", "SCRAM-SHA-512")
        assert ask(url, "GET", "/", Authorization=basic("carla", "old"))[0] == 401
        assert ask(url, "GET", "/", Authorization=basic("carla", "new"))[0] == 200


def test_a_wrong_password_leaves_no_entry_and_too_many_callers_are_refused(served: SaslBroker) -> None:
    with running_server(lambda ready: whoami_server(brokers_of(served), ready, most=1)) as url:
        assert ask(url, "GET", "/", Authorization=basic("anna", "wrong"))[0] == 401
        assert ask(url, "GET", "/", Authorization=basic("anna", PASSWORD))[0] == 200
        served.set_password("carla", "new", "SCRAM-SHA-512")
        assert ask(url, "GET", "/", Authorization=basic("carla", "new"))[0] == 200, "the idle entry of anna makes room"
