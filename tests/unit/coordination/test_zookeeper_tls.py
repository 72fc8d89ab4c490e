"""TLS to a real ZooKeeper: certificates and host names are checked, and the companion ends the session through TLS."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headrace.config import ConfigError, load_broker_config
from headrace.coordination.store import StoreFailed
from headrace.coordination.zookeeper import open_zookeeper
from headrace.coordination.zookeeper_tls import zookeeper_tls
from headrace.net.free_ports import free_port
from tests.support.certificates import Authority
from tests.support.clock import wait_for
from tests.support.zookeeper import ZooKeeperServer

needs_zookeeper = pytest.mark.needs("zookeeper")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure_port(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[int]:
    issued, port = authority.issue("zookeeper", hosts=("localhost",)), free_port()
    extra = (
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        f"secureClientPort={port}\nssl.clientAuth=need\n"
        f"ssl.keyStore.location={issued.pkcs12('secret')}\nssl.keyStore.password=secret\n"
        f"ssl.trustStore.location={authority.certificate}\nssl.trustStore.type=PEM\n"
    )
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), extra=extra):
        yield port


def settings(authority: Authority, port: int, host: str = "localhost", **more: str) -> dict[str, str]:
    broker = authority.issue("broker", hosts=())
    return {
        "zookeeper.connect": f"{host}:{port}",
        "zookeeper.connection.timeout.ms": "8000",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(broker.keystore),
        "zookeeper.ssl.truststore.location": str(authority.certificate),
        "zookeeper.ssl.truststore.type": "PEM",
        **{f"zookeeper.{name.replace('_', '.')}": value for name, value in more.items()},
    }


async def use(properties: Mapping[str, str]) -> bytes:
    store = await open_zookeeper(load_broker_config(properties))
    try:
        await store.create("/a", b"1", ephemeral=True)
        return (await store.get("/a")).data
    finally:
        await store.close()


@needs_zookeeper
def test_a_broker_uses_zookeeper_through_tls(authority: Authority, secure_port: int) -> None:
    assert asyncio.run(use(settings(authority, secure_port))) == b"1"


@needs_zookeeper
@pytest.mark.parametrize("wrong", ["a host name that the certificate lacks", "another authority", "no certificate"])
def test_an_untrusted_server_is_refused(authority: Authority, secure_port: int, tmp_path: Path, wrong: str) -> None:
    properties = settings(authority, secure_port) | {"zookeeper.connection.timeout.ms": "3000"}
    if wrong.startswith("a host"):
        properties["zookeeper.connect"] = f"127.0.0.1:{secure_port}"
    elif wrong.startswith("another"):
        properties["zookeeper.ssl.truststore.location"] = str(Authority.make(tmp_path).certificate)
    else:
        del properties["zookeeper.ssl.keystore.location"]
    with pytest.raises(StoreFailed):
        asyncio.run(use(properties))


@needs_zookeeper
def test_host_names_are_checked_unless_a_setting_turns_it_off(authority: Authority, secure_port: int) -> None:
    properties = settings(authority, secure_port, "127.0.0.1", ssl_endpoint_identification_algorithm="")
    assert asyncio.run(use(properties)) == b"1"


# A process of its own: a live client would take its session back from the companion.
_DYING = """
import asyncio, json, sys
from headrace.config import load_broker_config
from headrace.coordination.zookeeper import open_zookeeper

async def live():
    store = await open_zookeeper(load_broker_config(json.loads(sys.argv[1])))
    store.start_companion()
    await store.create("/dying", b"", ephemeral=True)
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(live())
"""


@needs_zookeeper
def test_the_companion_ends_the_session_of_a_dead_broker_through_tls(authority: Authority, secure_port: int) -> None:
    # The longest session of this server: what is gone earlier did not time out.
    properties = settings(authority, secure_port, session_timeout_ms="60000")

    async def look() -> bool:
        store = await open_zookeeper(load_broker_config(properties))
        found = await store.exists("/dying")
        await store.close()
        return found is not None

    command = [sys.executable, "-c", _DYING, json.dumps(properties)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dying:
        assert dying.stdout is not None and dying.stdout.readline() == "ready\n"
        dying.kill()
    wait_for(lambda: not asyncio.run(look()), "the session to end", within=30)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"zookeeper.ssl.client.enable": "false"}, "has no effect without zookeeper.ssl.client.enable=true"),
        ({"zookeeper.ssl.keystore.location": "/nowhere.pem"}, "zookeeper.ssl.keystore.location='/nowhere.pem'"),
        ({"zookeeper.ssl.ocsp.enable": "true"}, "revocation of certificates is not checked"),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.1"}, "must hold one or more of TLSv1.2, TLSv1.3"),
    ],
)
def test_invalid_settings_stop_the_start(authority: Authority, more: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        zookeeper_tls(load_broker_config(settings(authority, 1) | more))
    assert words in error.value.message
