"""Keys and certificates from every source that the settings allow, and the errors for bad ones."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.config import ConfigError
from headrace.config.listener_security import StoreSettings
from headrace.security.tls.material import load_key_material, load_trusted, pem_of
from tests.support.certificates import Authority, Issued, make_key

STORE = StoreSettings("ssl.keystore", "PEM", None, None)
TRUST = StoreSettings("ssl.truststore", "PEM", None, None)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Issued:
    return authority.issue("broker")


def test_a_pem_file_holds_key_and_chain(broker: Issued) -> None:
    material = load_key_material(replace(STORE, location=str(broker.keystore)))
    assert material.chain == (broker.x509, broker.authority.x509)


def test_the_certificate_of_the_key_comes_first_whatever_the_order_in_the_file(broker: Issued, tmp_path: Path) -> None:
    file = tmp_path / "store.pem"
    file.write_text(broker.authority.pem + broker.private_key.read_text() + broker.certificate.read_text())
    assert load_key_material(replace(STORE, location=str(file))).certificate == broker.x509


def test_pem_text_stands_in_the_settings_themselves(broker: Issued) -> None:
    settings = replace(STORE, key=broker.private_key.read_text(), certificates=broker.certificate.read_text())
    assert load_key_material(settings).certificate == broker.x509
    # A properties file joins lines: Kafka's documentation shows text with \\n, and blanks do no harm.
    in_a_file = replace(STORE, key=f" {settings.key} ", certificates=f" {settings.certificates} ")
    assert load_key_material(in_a_file).certificate == broker.x509


def test_a_password_opens_an_encrypted_key(broker: Issued) -> None:
    settings = replace(STORE, location=str(broker.encrypted_keystore("hunter2")))
    assert load_key_material(replace(settings, key_password="hunter2")).certificate == broker.x509
    with pytest.raises(ConfigError, match=r"ssl\.key\.password: does not open the private key"):
        load_key_material(replace(settings, key_password="wrong"))
    with pytest.raises(ConfigError, match=r"ssl\.key\.password: must be set"):
        load_key_material(settings)


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_a_pkcs12_store_opens_with_its_password_also_under_javas_name(broker: Issued, kind: str) -> None:
    settings = replace(STORE, type=kind, location=str(broker.pkcs12("hunter2")), password="hunter2")
    assert load_key_material(settings).chain == (broker.x509, broker.authority.x509)
    for password in ("wrong", None):
        with pytest.raises(ConfigError, match=r"ssl\.keystore\.password: does not open") as error:
            load_key_material(replace(settings, password=password))
        assert "wrong" not in error.value.message


def test_a_jks_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    file = tmp_path / "store.jks"
    file.write_bytes(bytes.fromhex("feedfeed00000002") + bytes(40))
    with pytest.raises(ConfigError, match=f"keytool -importkeystore -srckeystore {file}"):
        load_key_material(replace(STORE, type="JKS", location=str(file)))
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.type=PKCS12"):
        load_trusted(replace(TRUST, type="JKS", location=str(file)))


def test_a_key_that_does_not_belong_to_the_certificate_is_refused(broker: Issued, authority: Authority) -> None:
    other = authority.issue("other", key=make_key())
    settings = replace(STORE, key=other.private_key.read_text(), certificates=broker.certificate.read_text())
    with pytest.raises(ConfigError, match="the private key does not belong to the certificate"):
        load_key_material(settings)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not PEM"),
        (b"\x30\x82", "is not PEM"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "one private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "the private key cannot be read"),
    ],
)
def test_an_invalid_store_is_named_in_the_error(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "store.pem"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as error:
        load_key_material(replace(STORE, location=str(file)))
    assert error.value.key == "ssl.keystore.location" and error.value.value == str(file)


def test_a_missing_file_is_named_in_the_error() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location='/nowhere': the file cannot be read: No such file"):
        load_key_material(replace(STORE, location="/nowhere"))


def test_the_type_and_the_file_must_agree(broker: Issued) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.type='JKS': must be PEM"):
        load_key_material(replace(STORE, type="JKS", location=str(broker.keystore)))
    with pytest.raises(ConfigError, match="a PKCS12 store needs the type PKCS12"):
        load_key_material(replace(STORE, location=str(broker.pkcs12("x"))))
    with pytest.raises(ConfigError, match="must be PEM where the certificates are text"):
        load_trusted(replace(TRUST, type="JKS", certificates=broker.authority.pem))


def test_text_needs_both_the_key_and_the_certificates(broker: Issued) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.certificate\.chain: must be set"):
        load_key_material(replace(STORE, key=broker.private_key.read_text()))
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.key: must be set"):
        load_key_material(replace(STORE, certificates=broker.certificate.read_text()))


def test_trusted_certificates_from_a_file_from_text_and_from_a_store(broker: Issued) -> None:
    authority = broker.authority
    assert load_trusted(replace(TRUST, location=str(authority.certificate))) == (authority.x509,)
    assert load_trusted(replace(TRUST, certificates=authority.pem * 2)) == (authority.x509,) * 2
    store = replace(TRUST, type="PKCS12", location=str(broker.pkcs12("x")), password="x")
    assert load_trusted(store) == (authority.x509,)
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.certificates: holds no certificate"):
        load_trusted(replace(TRUST, certificates="x"))
    assert pem_of([authority.x509]) == authority.pem


def test_openssl_takes_the_key_from_memory_and_nothing_is_left(broker: Issued) -> None:
    material = load_key_material(replace(STORE, location=str(broker.keystore)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with material.as_file() as path:
        context.load_cert_chain(path)
    assert not Path(path).exists()
