"""A secured `server.properties` that was written for Apache Kafka starts here unchanged, with Kafka's own two commands.

With the long effort the same file also starts Apache Kafka, which shows that it is a file of Kafka. Its KRaft lines
stay in it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.net.free_ports import free_port
from tests.reference.kafka import java_command
from tests.support.certificates import Authority, Issued
from tests.support.clock import PATIENCE_S, wait_for
from tests.support.effort import is_long

pytestmark = pytest.mark.needs("openssl")

ROOT = Path(__file__).resolve().parents[2]
CLUSTER_ID = "HeadraceProperties0000"
CREDENTIAL = "SCRAM-SHA-512=[name=ann,password=sesame]"
FILE = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:{controller}
controller.listener.names=CONTROLLER

listeners=CLIENTS://127.0.0.1:{clients},MACHINES://127.0.0.1:{machines},BROKERS://127.0.0.1:{brokers},\\
    CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENTS://localhost:{clients},MACHINES://localhost:{machines},BROKERS://localhost:{brokers}
listener.security.protocol.map=CLIENTS:SASL_SSL,MACHINES:SSL,BROKERS:SASL_SSL,CONTROLLER:SSL
inter.broker.listener.name=BROKERS
sasl.mechanism.inter.broker.protocol=PLAIN

ssl.client.auth=none
ssl.enabled.protocols=TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm=https
listener.name.clients.ssl.keystore.type=PEM
listener.name.clients.ssl.keystore.location={encrypted}
listener.name.clients.ssl.key.password=changeit
listener.name.clients.ssl.truststore.type=PEM
listener.name.clients.ssl.truststore.location={ca}
listener.name.brokers.ssl.keystore.type=PEM
listener.name.brokers.ssl.keystore.location={encrypted}
listener.name.brokers.ssl.key.password=changeit
listener.name.brokers.ssl.truststore.type=PEM
listener.name.brokers.ssl.truststore.location={ca}
listener.name.controller.ssl.keystore.type=PEM
listener.name.controller.ssl.keystore.location={encrypted}
listener.name.controller.ssl.key.password=changeit
listener.name.controller.ssl.truststore.type=PEM
listener.name.controller.ssl.truststore.location={ca}
listener.name.machines.ssl.keystore.type=PEM
listener.name.machines.ssl.keystore.key={key}
listener.name.machines.ssl.keystore.certificate.chain={chain}
listener.name.machines.ssl.truststore.type=PEM
listener.name.machines.ssl.truststore.certificates={ca_text}
listener.name.machines.ssl.client.auth=required
listener.name.machines.ssl.principal.mapping.rules=RULE:^CN=([^,]+),O=Machines$/$1/L,DEFAULT
listener.name.controller.ssl.client.auth=required

listener.name.clients.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.clients.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    user_bob="builder";
listener.name.brokers.sasl.enabled.mechanisms=PLAIN
listener.name.brokers.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="broker" password="between" user_broker="between";

authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:broker;User:ann;User:CN=node-1
allow.everyone.if.no.acl.found=false
connections.max.reauth.ms=3600000

log.dirs={data}
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class Installed:
    """The file, the certificates that it names, and the clients that it is for."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.authority = Authority.make(directory / "certificates")
        node = self.authority.issue("node-1")
        self.ports = {name: free_port() for name in ("clients", "machines", "brokers", "controller")}
        self.file = directory / "server.properties"
        names = {
            "encrypted": _encrypted(node, "changeit"),
            "ca": self.authority.certificate,
            "ca_text": _one_line(self.authority.pem),
            "key": _one_line(node.private_key.read_text()),
            "chain": _one_line(node.certificate.read_text()),
            "data": directory / "data",
        }
        self.file.write_text(FILE.format(**names, **self.ports))
        self.file.chmod(0o600)

    def scram(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str | int]:
        return {
            "bootstrap.servers": f"localhost:{self.ports['clients']}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority.certificate),
            "log_level": 0,
        }

    def certificate(self, shown: Issued) -> dict[str, str | int]:
        return {
            "bootstrap.servers": f"localhost:{self.ports['machines']}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.certificate),
            "ssl.certificate.location": str(shown.certificate),
            "ssl.key.location": str(shown.private_key),
            "log_level": 0,
        }

    @contextmanager
    def started(self, format_storage: list[str], start: list[str]) -> Iterator[None]:
        environment = {**os.environ, "HEADRACE_PYTHON": sys.executable}
        options = ["-t", CLUSTER_ID, "-c", str(self.file), "--add-scram", CREDENTIAL]
        formatted = subprocess.run(
            [*format_storage, *options], capture_output=True, text=True, check=False, env=environment
        )
        assert formatted.returncode == 0, formatted.stdout + formatted.stderr
        output = self.file.with_name("output")
        with output.open("wb") as out:
            process = subprocess.Popen([*start, str(self.file)], stdout=out, stderr=out, env=environment)
        try:
            wait_for(
                lambda: process.poll() is not None or self._listens(), lambda: f"a listener:\n{output.read_text()}"
            )
            assert process.poll() is None, output.read_text()
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.ports["clients"]), timeout=1):
            return True
        return False


def _encrypted(node: Issued, password: str) -> Path:
    """Java reads only keys with this older encryption."""
    file = node.directory / "encrypted.pem"
    command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", str(node.private_key)]
    done = subprocess.run([*command, "-passout", f"pass:{password}"], capture_output=True, text=True, check=True)
    file.write_text(done.stdout + node.certificate.read_text())
    file.chmod(0o600)
    return file


def _one_line(pem: str) -> str:
    return pem.strip().replace("\n", "\\n")


def _kafka() -> tuple[list[str], list[str]]:
    storage = java_command("kafka.tools.StorageTool", "format", "--standalone")
    return storage, java_command("kafka.Kafka", heap="512m")


def _headrace() -> tuple[list[str], list[str]]:
    return [str(ROOT / "bin/kafka-storage.sh"), "format", "--standalone"], [str(ROOT / "bin/kafka-server-start.sh")]


_LONG = pytest.mark.skipif(not is_long(), reason="shows that Kafka takes the file: HEADRACE_EFFORT=long")


def written(settings: dict[str, str | int], topic: str) -> str:
    outcome: list[str] = []
    producer = Producer(settings | {"message.timeout.ms": 5000, "topic.metadata.refresh.interval.ms": -1})
    producer.produce(
        topic, b"x", on_delivery=lambda error, _: outcome.append("written" if error is None else error.name())
    )
    producer.flush(PATIENCE_S)
    return outcome[0]


def is_refused(settings: dict[str, str | int]) -> bool:
    errors: list[str] = []
    client = AdminClient(settings | {"error_cb": lambda error: errors.append(error.name())})
    wait_for(lambda: client.poll(0.1) >= 0 and bool(errors), "an error of the login")
    return errors[0] == "_AUTHENTICATION"


@pytest.mark.parametrize("server", [pytest.param(_kafka, marks=[_LONG, pytest.mark.needs("kafka")]), _headrace])
def test_a_secured_file_of_kafka_starts_unchanged(
    server: Callable[[], tuple[list[str], list[str]]], tmp_path: Path
) -> None:
    installed = Installed(tmp_path / "installed")
    machine = installed.authority.issue("machine", subject="CN=Press-7,O=Machines")
    with installed.started(*server()):
        admin = AdminClient(installed.scram("ann", "sesame"))
        wait_for(lambda: bool(admin.list_topics(timeout=PATIENCE_S).brokers), "a broker")
        created = admin.create_topics([NewTopic("orders", 3, 1)])["orders"]
        created.result(PATIENCE_S)
        assert admin.list_topics(timeout=PATIENCE_S).cluster_id == CLUSTER_ID
        assert written(installed.scram("ann", "sesame"), "orders") == "written"
        assert written(installed.scram("bob", "builder", "PLAIN"), "orders") == "TOPIC_AUTHORIZATION_FAILED"
        assert written(installed.certificate(machine), "orders") == "TOPIC_AUTHORIZATION_FAILED"
        _allow(admin, "User:press-7")
        wait_for(lambda: written(installed.certificate(machine), "orders") == "written", "the ACL of the machine")
        assert is_refused(installed.scram("ann", "guess"))
        assert is_refused(installed.scram("bob", "builder"))


def _allow(admin: AdminClient, principal: str) -> None:
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

    pattern = (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL)
    binding = AclBinding(*pattern, principal, "*", AclOperation.WRITE, AclPermissionType.ALLOW)
    for future in admin.create_acls([binding]).values():
        future.result(PATIENCE_S)
