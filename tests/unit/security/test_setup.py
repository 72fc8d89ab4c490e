"""The files that `headrace security init` writes."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from headrace.config import load_broker_config
from headrace.config.listener_security import listener_security
from headrace.config.listeners import resolve_listeners
from headrace.config.properties import read_properties
from headrace.security.setup import SecureSetup, make_setup, open_setup
from headrace.security.tls.authority import CannotIssue

HOSTS = ("localhost", "127.0.0.1")


@pytest.fixture
def setup(tmp_path: Path) -> SecureSetup:
    return make_setup(tmp_path / "security", brokers=2, hosts=HOSTS)


def test_every_file_but_the_authoritys_certificate_is_readable_by_its_owner_only(setup: SecureSetup) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in setup.directory.iterdir()}
    assert modes.pop("ca.crt") == 0o644
    assert set(modes.values()) == {0o600}
    assert modes.keys() == {
        "ca.key",
        "broker-1.pem",
        "broker-2.pem",
        "broker-1.properties",
        "broker-2.properties",
        "admin.pem",
        "zookeeper.pem",
        "admin.password",
        "client.properties",
        "librdkafka.properties",
    }


def test_a_broker_reads_its_settings(setup: SecureSetup) -> None:
    config = load_broker_config(
        {**read_properties(setup.broker_properties(2)), "log.dirs": str(setup.directory / "data")}
    )
    assert [str(one) for one in resolve_listeners(config).advertised] == [
        "CLIENTS://localhost:9093",
        "BROKERS://localhost:19093",
    ]
    assert resolve_listeners(config).brokers_own == "BROKERS"
    clients, brokers = (listener_security(config, name) for name in ("CLIENTS", "BROKERS"))
    assert (clients.protocol, clients.ssl_client_auth) == ("SASL_SSL", "none")
    assert (brokers.protocol, brokers.ssl_client_auth) == ("SSL", "required")


def test_brokers_and_clients_accept_each_others_certificates(setup: SecureSetup) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=setup.authority)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(setup.keystore(1))
    for certificate in ("broker-2.pem", "admin.pem"):
        client = ssl.create_default_context(cafile=setup.authority)
        client.load_cert_chain(setup.directory / certificate)
        for host in HOSTS:
            _shake_hands(client, server, host)
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere"):
        _shake_hands(ssl.create_default_context(cafile=setup.authority), server, "elsewhere.example")


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while sides:
        for side in tuple(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)


def test_the_password_is_in_the_files_of_clients_only(setup: SecureSetup) -> None:
    found = {path.name for path in setup.directory.iterdir() if setup.password in path.read_text()}
    assert found == {"admin.password", "client.properties", "librdkafka.properties"}
    assert len(setup.password) >= 24


def test_an_existing_directory_is_opened_and_more_brokers_get_certificates(setup: SecureSetup) -> None:
    first = setup.keystore(1).read_text()
    opened = open_setup(setup.directory, brokers=3, hosts=HOSTS)
    assert (opened.password, opened.admin) == (setup.password, setup.admin)
    assert opened.keystore(1).read_text() == first
    assert opened.keystore(3).exists()
    assert "User:CN=broker-3" in opened.settings(1)["super.users"]


def test_a_directory_with_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(CannotIssue, match="is not empty: choose another directory"):
        make_setup(tmp_path, brokers=1, hosts=HOSTS)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_key_of_another_authority_is_refused(setup: SecureSetup, tmp_path: Path) -> None:
    other = make_setup(tmp_path / "other", brokers=1, hosts=HOSTS)
    setup.authority_key.write_text(other.authority_key.read_text())
    with pytest.raises(CannotIssue, match="is not the key of the certificate in"):
        open_setup(setup.directory, brokers=3, hosts=HOSTS)


def test_brokers_of_other_machines_listen_on_every_interface(tmp_path: Path) -> None:
    setup = make_setup(tmp_path / "security", brokers=1, hosts=("kafka.example.com", "10.0.0.5"))
    assert setup.addresses(1) == {
        "listeners": "CLIENTS://:9092,BROKERS://:19092",
        "advertised.listeners": "CLIENTS://kafka.example.com:9092,BROKERS://kafka.example.com:19092",
    }
    assert setup.bootstrap == "kafka.example.com:9092"


@pytest.mark.parametrize("name", ["", "a b", 'quo"te', "line\nbreak", "semi;colon", "User:x"])
def test_a_name_that_files_would_have_to_quote_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CannotIssue, match="for the administrator's name"):
        make_setup(tmp_path / "security", brokers=1, hosts=HOSTS, admin=name)
    assert not (tmp_path / "security").exists()
