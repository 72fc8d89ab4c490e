"""`--command-config`: commands and Kafka's tools on a cluster that requires TLS and client certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.in_process import RunningBroker
from headrace.testing.in_process import broker as running_broker
from tests.cli.conftest import Run
from tests.support.certificates import Authority, Issued


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[RunningBroker]:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        **authority.issue("broker").properties(),
    }
    with running_broker(settings) as started:
        yield started


def as_pem(erin: Issued) -> dict[str, str]:
    return erin.properties()


def as_pkcs12(erin: Issued) -> dict[str, str]:
    return erin.properties() | {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(erin.pkcs12("secret")),
        "ssl.keystore.password": "secret",
    }


def as_librdkafka(erin: Issued) -> dict[str, str]:
    return {
        "ssl.ca.location": str(erin.authority.certificate),
        "ssl.certificate.location": str(erin.certificate),
        "ssl.key.location": str(erin.private_key),
    }


@pytest.fixture(params=[as_pem, as_pkcs12, as_librdkafka], ids=lambda one: one.__name__)
def file(request: pytest.FixtureRequest, authority: Authority, secured: RunningBroker, tmp_path: Path) -> Path:
    settings = {"security.protocol": "SSL", **request.param(authority.issue("erin", hosts=()))}
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def test_headrace_commands_use_the_client_certificate(headrace: Run, secured: RunningBroker, file: Path) -> None:
    where = ("-b", secured.bootstrap, "--command-config", str(file))
    topic = file.parent.name.replace("[", "-").replace("]", "")
    assert headrace("topics", "create", topic, *where).code == 0
    assert headrace("produce", topic, "one", "two", *where).code == 0
    read = headrace("consume", topic, "--from", "earliest", "-n", "2", *where)
    assert "one" in read.out and "two" in read.out
    assert topic in headrace("topics", "ls", *where).out
    assert headrace("groups", "ls", *where).code == 0
    assert "through TLS" in headrace("doctor", *where, "--watch-lag", "0").out


def test_kafka_tools_use_the_client_certificate(headrace: Run, secured: RunningBroker, file: Path) -> None:
    where = ("--bootstrap-server", secured.bootstrap, "--command-config", str(file))
    topic = "tools-" + file.parent.name
    made = headrace("kafka", "topics", *where, "--create", "--topic", topic)
    assert made.code == 0, made.err
    assert topic in headrace("kafka", "topics", *where, "--list").out
    sent = headrace("kafka", "console-producer", *where, "--topic", topic, stdin="one\n")
    assert sent.code == 0, sent.err
    read = headrace("kafka", "console-consumer", *where, "--topic", topic, "--from-beginning", "--max-messages", "1")
    assert read.out.strip() == "one"


@pytest.mark.parametrize(
    "words",
    [
        ("cluster", "cluster-id", "--config"),
        ("leader-election", "--election-type", "preferred", "--all-topic-partitions", "--admin.config"),
    ],
    ids=lambda words: words[0],
)
def test_kafka_tools_read_the_file_of_the_older_spelling(
    headrace: Run, secured: RunningBroker, file: Path, words: tuple[str, ...]
) -> None:
    tool, *rest = words
    ran = headrace("kafka", tool, "--bootstrap-server", secured.bootstrap, *rest, str(file))
    assert ran.code == 0, ran.err


def test_commands_log_in_with_an_oauthbearer_token(headrace: Run, tmp_path: Path) -> None:
    package = "org.apache.kafka.common.security.oauthbearer"
    checks = f"{package}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": checks,
    }
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={package}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="ann";\n'
    )
    with running_broker(settings) as started:
        where = ("-b", started.bootstrap, "--command-config", str(file))
        for command in (("topics", "create", "letters"), ("produce", "letters", "one")):
            ran = headrace(*command, *where)
            assert ran.code == 0, ran.err
        assert "one" in headrace("consume", "letters", "--from", "earliest", "-n", "1", *where).out


def test_context_stores_the_command_config_file(
    headrace: Run, secured: RunningBroker, file: Path, tmp_path: Path
) -> None:
    env = {"HEADRACE_CONFIG": str(tmp_path / "config.yaml"), "HEADRACE_BOOTSTRAP": ""}
    assert headrace("context", "add", "safe", secured.bootstrap, "--command-config", str(file), env=env).code == 0
    assert headrace("topics", "ls", env=env).code == 0
    assert headrace("topics", "ls", "-b", "safe", env=env).code == 0


def test_error_without_command_config_names_the_missing_setting(headrace: Run, secured: RunningBroker) -> None:
    ran = headrace("topics", "ls", "-b", secured.bootstrap)
    assert ran.code == 1
    assert "speaks TLS: set security.protocol=SSL for this client" in ran.err


def test_missing_command_config_file_is_named(headrace: Run, secured: RunningBroker) -> None:
    ran = headrace("topics", "ls", "-b", secured.bootstrap, "--command-config", "nowhere.properties")
    assert ran.code == 1
    assert "cannot read nowhere.properties: No such file" in ran.err


def test_doctor_warns_about_a_certificate_that_expires_soon(
    headrace: Run, authority: Authority, tmp_path: Path
) -> None:
    issued = authority.issue("short", days=5)
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\nssl.ca.location={authority.certificate}\n")
    with running_broker({"listeners": "SSL://127.0.0.1:0", **issued.properties()}) as started:
        ran = headrace("doctor", "-b", started.bootstrap, "--command-config", str(file), "--watch-lag", "0")
    assert "certificate CN=short expires in 4 days" in ran.out
