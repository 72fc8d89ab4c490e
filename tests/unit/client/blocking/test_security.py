"""Error messages for unusable security settings."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path

import pytest

from headrace.client.security import ClientSecurity
from headrace.config import ConfigError
from headrace.kernel.errors import Refused
from tests.support.certificates import Authority

_SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
_LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="a\\"b";'


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol='TLS': must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "security.protocol=SASL_SSL needs sasl.mechanism: one of PLAIN, SCRAM"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism='GSSAPI': must be one of"),
        (_SCRAM, "SASL needs sasl.username and sasl.password, or a sasl.jaas.config with both"),
    ],
)
def test_unusable_settings_give_a_one_sentence_error(settings: dict[str, str], words: str) -> None:
    with pytest.raises(Refused) as refusal:
        ClientSecurity.from_settings(settings)
    assert words in refusal.value.message


def test_a_jaas_line_is_read() -> None:
    found = ClientSecurity.from_settings({**_SCRAM, "sasl.jaas.config": _LOGIN})
    assert (found.mechanism, found.username, found.password) == ("SCRAM-SHA-512", "ann", 'a"b')


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing, garbage = str(tmp_path / "absent.pem"), tmp_path / "garbage.pem"
    garbage.write_text("not a certificate")
    for setting, file, words in (
        ("ssl.ca.location", missing, "No such file"),
        ("ssl.ca.location", str(garbage), "cannot be read"),
        ("ssl.certificate.location", str(garbage), "cannot be read"),
    ):
        with pytest.raises(Refused, match=file) as refusal:
            ClientSecurity.from_settings({"security.protocol": "SSL", setting: file}).tls_context()
        assert words in refusal.value.message


@pytest.mark.needs("openssl", "java")
def test_the_commands_for_java_s_stores_work_as_they_are_given(tmp_path: Path) -> None:
    """A store made by keytool, converted by the sentence's own commands, opens."""
    store, password = tmp_path / "key.jks", "changeit"
    made = ["keytool", "-genkeypair", "-keystore", str(store), "-storetype", "JKS", "-alias", "k", "-keyalg", "EC"]
    subprocess.run([*made, "-storepass", password, "-dname", "CN=x"], check=True, capture_output=True)
    settings = {"security.protocol": "SSL", "ssl.keystore.location": str(store)}
    with pytest.raises(ConfigError) as refusal:
        ClientSecurity.from_settings(settings).tls_context()
    command, _, setting = refusal.value.message.split("Convert it: ")[1].partition(", and set ")
    # What a person types when asked.
    command += f" -srcstorepass {password} -deststorepass {password}"
    subprocess.run(command.split(), check=True, capture_output=True)
    assert setting == "ssl.keystore.type=PKCS12"
    converted = {
        "ssl.keystore.location": f"{store}.p12",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": password,
    }
    ClientSecurity.from_settings({**settings, **converted}).tls_context()


def test_stores_of_every_form_open_and_secrets_are_not_printed(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    erin = authority.issue("erin")
    key, chain = erin.private_key.read_text(), erin.certificate.read_text()
    for settings in (
        {"ssl.ca.location": str(authority.certificate)},
        {"ssl.ca.pem": authority.pem, "ssl.key.pem": key, "ssl.certificate.pem": chain},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.pem},
        erin.properties(),
        {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain},
        {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(erin.pkcs12("hunter2")),
            "ssl.keystore.password": "hunter2",
        },
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(erin.encrypted_keystore("hunter2")),
            "ssl.key.password": "hunter2",
        },
    ):
        security = ClientSecurity.from_settings({"security.protocol": "SSL", **settings})
        security.tls_context()
        assert "hunter2" not in repr(security) and "PRIVATE" not in repr(security)
        assert pickle.loads(pickle.dumps(security)) == security
