"""Versions and suites of a listener, and which new certificates it accepts while it runs."""

from __future__ import annotations

import datetime
import shutil
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.config import ConfigError, ListenerSecurity, listener_security, load_broker_config
from headrace.security.tls.expiry import seconds_left, validity_warning
from headrace.security.tls.server_context import ListenerTls
from tests.support.certificates import Authority, Issued


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "certificates")


def security_of(issued: Issued, **more: str) -> ListenerSecurity:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    properties = {"listeners": "SSL://127.0.0.1:9093", **issued.properties(), **settings}
    return listener_security(load_broker_config(properties), "SSL")


def context_of(issued: Issued, **more: str) -> ssl.SSLContext:
    return ListenerTls(security_of(issued, **more))._context


def test_only_ecdhe_and_aead_without_compression_renegotiation_and_tickets(authority: Authority) -> None:
    context = context_of(authority.issue("broker"))
    names = {one["name"] for one in context.get_ciphers()}
    assert names == {
        *(f"ECDHE-{kind}-AES{bits}" for kind in ("RSA", "ECDSA") for bits in ("128-GCM-SHA256", "256-GCM-SHA384")),
        *(f"ECDHE-{kind}-CHACHA20-POLY1305" for kind in ("RSA", "ECDSA")),
        *("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"),
    }
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2 and context.maximum_version is ssl.TLSVersion.TLSv1_3
    for option in (ssl.OP_NO_COMPRESSION, ssl.OP_NO_RENEGOTIATION, ssl.OP_NO_TICKET):
        assert context.options & option
    assert context.options & 8, "the kernel may encrypt where it can"
    assert context.num_tickets == 0


def test_versions_and_suites_can_be_narrowed(authority: Authority) -> None:
    broker = authority.issue("broker")
    assert context_of(broker, ssl_enabled_protocols="TLSv1.3").minimum_version is ssl.TLSVersion.TLSv1_3
    assert context_of(broker, ssl_protocol="TLSv1.2").maximum_version is ssl.TLSVersion.TLSv1_2
    narrow = context_of(broker, ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
    assert narrow.maximum_version is ssl.TLSVersion.TLSv1_2, "no suite of TLS 1.3 is named"
    assert "ECDHE-ECDSA-AES256-GCM-SHA384" in {one["name"] for one in narrow.get_ciphers()}
    assert "ECDHE-RSA-AES128-GCM-SHA256" not in {one["name"] for one in narrow.get_ciphers()}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl_cipher_suites": "TLS_RSA_WITH_AES_128_CBC_SHA"}, "is not offered; these are: TLS_AES_128_GCM_SHA256"),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, r"TLS 1\.3 has all of its suites or none"),
        ({"ssl_enabled_protocols": "TLSv1.3", "ssl_protocol": "TLSv1.2"}, "leaves no version"),
        ({"ssl_client_auth": "required", "ssl_truststore_location": ""}, r"ssl\.truststore\.location: must be set"),
        ({"ssl_principal_mapping_rules": "RULE:("}, r"ssl\.principal\.mapping\.rules"),
    ],
)
def test_invalid_settings_stop_the_start(authority: Authority, settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ListenerTls(security_of(authority.issue("broker"), **settings))


def test_a_renewed_certificate_is_taken_and_another_identity_is_not(authority: Authority) -> None:
    broker = authority.issue("broker", subject="CN=broker", hosts=("localhost", "127.0.0.1"))
    security = security_of(broker)
    tls = ListenerTls(security)
    first, context = tls.certificate, tls._context
    authority.issue("broker", subject="CN=broker", hosts=("localhost", "127.0.0.1", "::1"))
    tls.renew(security)
    second = tls.certificate
    assert second != first and tls._context is not context
    authority.issue("broker", subject="CN=other")
    with pytest.raises(ConfigError, match=r"is for CN=other, the one in use for CN=broker; the old one stays"):
        tls.renew(security)
    authority.issue("broker", subject="CN=broker", hosts=("localhost",))
    with pytest.raises(ConfigError, match=r"lacks 127\.0\.0\.1, ::1; the old one stays"):
        tls.renew(security)
    (authority.directory / "broker.pem").write_text("half a file")
    with pytest.raises(ConfigError, match="is not PEM"):
        tls.renew(security)
    assert tls.certificate == second
    authority.issue("broker", subject="CN=other", hosts=())
    tls.renew(replace(security, ssl_allow_dn_changes=True, ssl_allow_san_changes=True))
    assert tls.certificate not in (first, second)


def test_a_new_key_that_does_not_match_keeps_the_old_pair(authority: Authority) -> None:
    broker = authority.issue("broker")
    security = security_of(broker)
    tls = ListenerTls(security)
    kept = tls.certificate
    other = authority.issue("other")
    shutil.copy(other.private_key, broker.keystore)
    with broker.keystore.open("a") as file:
        file.write(broker.certificate.read_text())
    with pytest.raises(ConfigError, match="the private key does not belong to the certificate"):
        tls.renew(security)
    assert tls.certificate == kept


def test_warnings_about_the_validity_of_a_certificate(authority: Authority) -> None:
    now = datetime.datetime.now(datetime.UTC)

    def said(days: float, begins_in_days: float = -400) -> str | None:
        return validity_warning(authority.issue("x", days=days, begins_in_days=begins_in_days).x509, now)

    assert said(31.5) is None
    assert "certificate CN=x expires in 29 days, on " in (said(29.5) or "")
    assert "expires in one day" in (said(1.5) or "")
    assert "expires within a day" in (said(0.5) or "")
    assert "expired on" in (said(-1) or "")
    assert "is not valid before" in (said(100, begins_in_days=2) or "")
    assert -86_401 < seconds_left(authority.issue("x", days=-1, begins_in_days=-3).x509, now) < -86_390
