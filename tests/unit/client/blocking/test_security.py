"""What a user reads whose security settings cannot be used."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.client.security import ClientSecurity
from headrace.kernel.errors import Refused

_SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
_LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="a\\"b";'


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol='TLS': must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "security.protocol=SASL_SSL needs sasl.mechanism: one of PLAIN, SCRAM"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism='GSSAPI': must be one of"),
        (_SCRAM, "SASL needs sasl.username and sasl.password, or a sasl.jaas.config with both"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "trust.jks"},
            "is a JKS store, and only PEM can be read here: convert it (keytool -importkeystore -srckeystore trust.jks "
            "-destkeystore trust.jks.p12 -deststoretype PKCS12 && openssl pkcs12 -in trust.jks.p12 -nokeys -out "
            "trust.jks.p12.pem)",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "key.p12", "ssl.keystore.type": "PKCS12"},
            "is a PKCS12 store, and only PEM can be read here: convert it (openssl pkcs12 -in key.p12 -nodes -out "
            "key.p12.pem), then give the .pem file and ssl.keystore.type=PEM",
        ),
    ],
)
def test_what_cannot_be_used_is_one_sentence(settings: dict[str, str], words: str) -> None:
    with pytest.raises(Refused) as refusal:
        ClientSecurity.from_settings(settings)
    assert words in refusal.value.message


def test_java_s_login_line_is_read() -> None:
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
    with pytest.raises(Refused) as refusal:
        ClientSecurity.from_settings(settings)
    to_pkcs12, to_pem = refusal.value.message.split("(")[1].split(")")[0].split(" && ")
    # What a person types when asked.
    to_pkcs12 += f" -srcstorepass {password} -deststorepass {password}"
    for command in (to_pkcs12, to_pem + f" -passin pass:{password}"):
        subprocess.run(command.split(), check=True, capture_output=True)
    pem = to_pem.split()[-1]
    ClientSecurity.from_settings({**settings, "ssl.keystore.location": pem, "ssl.keystore.type": "PEM"}).tls_context()
