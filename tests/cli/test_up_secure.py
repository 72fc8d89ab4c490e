"""`headrace up --secure`: a cluster with TLS, logins and ACLs, and the clients in its explanation."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.config.properties import read_properties
from tests.cli.conftest import PROGRAMS, Run, environment
from tests.reference.kafka import run_tool
from tests.support.clock import PATIENCE_S, wait_for

pytestmark = pytest.mark.needs("zookeeper")


@dataclass(frozen=True)
class Addresses:
    bootstrap: str
    registry: str
    http_api: str


@contextmanager
def secured(tmp_path: Path) -> Iterator[Addresses]:
    words = ["up", "--brokers", "3", "--secure", "--port", "0", "--zookeeper-port", "0", "--data", str(tmp_path)]
    process = subprocess.Popen(
        [str(PROGRAMS / "headrace"), *words], stdout=subprocess.PIPE, text=True, env=environment(tmp_path, None)
    )
    assert process.stdout is not None
    try:
        said = "".join(process.stdout.readline() for _ in range(4))
        found = (re.search(rf"{what} (\S+)", said) for what in ("3 brokers serve", "registry is on", "HTTP API is on"))
        addresses = [match[1] for match in found if match]
        assert len(addresses) == 3, said
        yield Addresses(*addresses)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        process.stdout.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def addresses(data: Path) -> Iterator[Addresses]:
    with secured(data) as found:
        yield found


@pytest.fixture(scope="module")
def bootstrap(addresses: Addresses) -> str:
    return addresses.bootstrap


def login(data: Path, bootstrap: str, **changes: str) -> dict[str, str]:
    """The settings in librdkafka.properties, for confluent-kafka."""
    given = read_properties(data / "security" / "librdkafka.properties")
    return {**given, "bootstrap.servers": bootstrap, **{name.replace("_", "."): text for name, text in changes.items()}}


def ask(data: Path, url: str, password: str | None = None) -> tuple[int, object]:
    """(status, JSON) of an HTTP service, whose certificate must be of the cluster's authority; (0, None) without
    answer. The administrator asks, with the password of the cluster's files unless another is given."""
    password = password or (data / "security" / "admin.password").read_text().strip()
    token = base64.b64encode(f"admin:{password}".encode()).decode()
    trust = ssl.create_default_context(cafile=data / "security" / "ca.crt")
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=trust) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)
    except OSError:
        return 0, None


def create(admin: AdminClient, topic: str, partitions: int = 1) -> None:
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(PATIENCE_S)


def set_password(admin: AdminClient, user: str, password: bytes) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(user, info, password)
    admin.alter_user_scram_credentials([change])[user].result(PATIENCE_S)


def produce(settings: Mapping[str, str], topic: str, count: int) -> set[int | None]:
    """The error codes of the records; None for the written ones."""
    outcomes: list[int | None] = []
    producer = Producer({**settings, "acks": "all", "message.timeout.ms": 20_000})
    for number in range(count):
        producer.produce(topic, str(number), on_delivery=lambda error, _: outcomes.append(error and error.code()))
    assert producer.flush(PATIENCE_S) == 0
    assert len(outcomes) == count
    return set(outcomes)


def read(settings: Mapping[str, str], topic: str, group: str, count: int) -> list[bytes | None]:
    consumer = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    try:
        while len(found) < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{len(found)} of {count} records"
            if (error := message.error()) is not None:
                raise KafkaException(error)
            found.append(message.value())
    finally:
        consumer.close()
    return found


def test_files_with_secrets_are_readable_by_their_owner_only(bootstrap: str, data: Path) -> None:
    def names_a_secret(path: Path) -> bool:
        # Not a regular expression that ignores case: it takes minutes on the empty index files.
        content = path.read_bytes().lower()
        return b"private key" in content or b"password" in content

    files = [path for path in data.rglob("*") if path.is_file() and names_a_secret(path)]
    assert len(files) >= 10
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in files} == {0}


def test_the_administrator_writes_and_reads(bootstrap: str, data: Path) -> None:
    settings = login(data, bootstrap)
    create(admin := AdminClient(settings), "orders", 3)

    def partitions() -> set[int]:
        return set(admin.list_topics("orders", PATIENCE_S).topics["orders"].partitions)

    wait_for(lambda: partitions() == {0, 1, 2}, "the topic on every broker")
    assert produce(settings, "orders", 100) == {None}
    assert len(read(settings, "orders", "kitchen", 100)) == 100


@pytest.mark.needs("kafka")
def test_kafka_tools_accept_client_properties(bootstrap: str, data: Path) -> None:
    file = data / "security" / "client.properties"
    address = ["--bootstrap-server", bootstrap, "--command-config", str(file)]
    run_tool("org.apache.kafka.tools.TopicCommand", *address, "--create", "--topic", "by-java")
    assert "by-java" in run_tool("org.apache.kafka.tools.TopicCommand", *address, "--list").stdout.split()


def test_a_new_user_may_do_nothing_before_an_acl_allows_it(bootstrap: str, data: Path) -> None:
    admin = AdminClient(login(data, bootstrap))
    create(admin, "letters")
    set_password(admin, "ann", b"sesame")
    ann = login(data, bootstrap, sasl_username="ann", sasl_password="sesame")
    wait_for(lambda: can_log_in(ann), "the new user on every broker")
    assert produce(ann, "letters", 1) == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    rule = AclBinding(
        ResourceType.TOPIC,
        "letters",
        ResourcePatternType.LITERAL,
        "User:ann",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([rule])[rule].result(PATIENCE_S)
    wait_for(lambda: produce(ann, "letters", 1) == {None}, "the rule on every broker")
    with pytest.raises(KafkaException, match=r"(GROUP|TOPIC)_AUTHORIZATION_FAILED"):
        read(ann, "letters", "readers", 1)


def test_http_services_need_the_login_and_act_as_their_caller(
    addresses: Addresses, data: Path, headrace: Run, tmp_path: Path
) -> None:
    for url in (f"{addresses.registry}/subjects", f"{addresses.http_api}/topics"):
        wait_for(lambda url=url: ask(data, url)[0] == 200, url)
        assert ask(data, url, "wrong")[0] == 401
    schema = tmp_path / "order.avsc"
    schema.write_text('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
    where = ("-b", addresses.bootstrap, "--command-config", str(data / "security" / "client.properties"))
    registry = ("--registry", addresses.registry)
    create(AdminClient(login(data, addresses.bootstrap)), "typed")
    sent = headrace("produce", "typed", '{"id": 7}', "--schema", str(schema), *registry, *where)
    assert sent.code == 0, sent.err
    assert headrace("consume", "typed", "-n", "1", *registry, *where).out == '{"id":7}\n'
    assert ask(data, f"{addresses.registry}/subjects") == (200, ["typed-value"])
    assert headrace("schemas", "ls", "-o", "json", *registry, *where[2:]).json[0]["subject"] == "typed-value"
    read_back = ask(data, f"{addresses.http_api}/topics/typed/partitions/0/records?offset=0")
    assert read_back[0] == 200, read_back


@pytest.mark.parametrize(
    "command", [("produce", "hidden", "x"), ("consume", "hidden"), ("topics", "describe", "hidden")]
)
def test_commands_report_a_missing_permission(
    command: tuple[str, ...], bootstrap: str, data: Path, headrace: Run, tmp_path: Path
) -> None:
    admin = AdminClient(login(data, bootstrap))
    set_password(admin, "bob", b"sesame")
    wait_for(lambda: can_log_in(login(data, bootstrap, sasl_username="bob", sasl_password="sesame")), "the new user")
    ours = (data / "security" / "client.properties").read_text()
    file = tmp_path / "bob.properties"
    file.write_text(re.sub(r'username="admin" password="[^"]*"', 'username="bob" password="sesame"', ours))
    ran = headrace(*command, "-b", bootstrap, "--command-config", str(file))
    assert (ran.code, ran.out) == (1, "")
    assert "topic 'hidden': this user has no right on it, or it does not exist" in ran.err


def can_log_in(settings: Mapping[str, str]) -> bool:
    for address in settings["bootstrap.servers"].split(","):
        try:
            AdminClient({**settings, "bootstrap.servers": address}).list_topics(timeout=5)
        except KafkaException:
            return False
    return True


@pytest.mark.parametrize(
    "changes",
    [
        {"sasl_password": "wrong"},
        {"sasl_username": "nobody"},
        {"security_protocol": "SSL"},
        {"security_protocol": "PLAINTEXT"},
        {"security_protocol": "SASL_PLAINTEXT"},
    ],
    ids=str,
)
def test_a_client_without_the_right_login_is_refused(changes: dict[str, str], bootstrap: str, data: Path) -> None:
    with pytest.raises(KafkaException):
        AdminClient(login(data, bootstrap, **changes)).list_topics(timeout=2)


def test_the_brokers_listener_refuses_clients_without_a_certificate(bootstrap: str, data: Path) -> None:
    listeners = read_properties(data / "broker-1.properties")["listeners"]
    found = re.search(r"BROKERS://([^:]+):(\d+)", listeners)
    assert found
    context = ssl.create_default_context(cafile=data / "security" / "ca.crt")
    with (
        socket.create_connection((found[1], int(found[2])), PATIENCE_S) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
        context.wrap_socket(plain, server_hostname=found[1]) as connection,
    ):
        connection.sendall(b"\0\0\0\x10\0\x12\0\0\0\0\0\1\0\6client")
        if not connection.recv(1):
            raise ConnectionError("closed")


def test_a_second_start_keeps_data_users_and_a_changed_password(tmp_path: Path) -> None:
    with secured(tmp_path) as first:
        settings = login(tmp_path, first.bootstrap)
        admin = AdminClient(settings)
        create(admin, "kept")
        assert produce(settings, "kept", 10) == {None}
        set_password(admin, "admin", b"changed")
    with secured(tmp_path) as second:
        changed = login(tmp_path, second.bootstrap, sasl_password="changed")
        assert len(read(changed, "kept", "readers", 10)) == 10
        assert not can_log_in(login(tmp_path, second.bootstrap))
        wait_for(lambda: ask(tmp_path, f"{second.registry}/subjects", "changed") == (200, []), "the registry")
