"""A scan of a TLS listener, as sslyze makes it: the versions and suites that the broker takes and refuses.

The expectation is Mozilla's "intermediate" configuration without its DHE suites: TLS 1.2 and 1.3, ECDHE with AEAD, no
compression, no renegotiation. The scan uses OpenSSL's own client at security level 0, which offers what the broker must
refuse. With the long effort sslyze itself compares the listener with that configuration.
"""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.in_process import RunningBroker
from headrace.testing.in_process import broker as running_broker
from tests.reference.kafka import CACHE, one_at_a_time
from tests.support.certificates import Authority, make_key
from tests.support.clock import PATIENCE_S
from tests.support.effort import is_long

pytestmark = pytest.mark.needs("openssl")
VERSIONS = {"-tls1": False, "-tls1_1": False, "-tls1_2": True, "-tls1_3": True}
TLS_1_3 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
# Of a listener with an ECDSA certificate, and with an RSA certificate.
TLS_1_2 = {
    "ECDSA": {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    "RSA": {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"},
}


@pytest.fixture(scope="module", params=["ECDSA", "RSA"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(authority: Authority, kind: str) -> Iterator[RunningBroker]:
    issued = authority.issue("broker", key=make_key(rsa_bits=2048)) if kind == "RSA" else authority.issue("broker")
    with running_broker({"listeners": "SSL://127.0.0.1:0", **issued.properties()}) as running:
        yield running


SSLYZE = "6.3.1"


def sslyze() -> Path:
    """The program in an environment of its own, installed once."""
    place = CACHE / f"sslyze-{SSLYZE}"
    program = place / "bin" / "sslyze"
    with one_at_a_time("sslyze"):
        if not program.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
            subprocess.run([place / "bin" / "pip", "install", "-q", f"sslyze=={SSLYZE}"], check=True, timeout=300)
    return program


@pytest.mark.skipif(not is_long(), reason="installs sslyze: HEADRACE_EFFORT=long")
def test_sslyze_finds_mozillas_intermediate_configuration(broker: RunningBroker, authority: Authority) -> None:
    command = [str(sslyze()), "--mozilla_config", "intermediate", "--certinfo_ca_file", str(authority.certificate)]
    done = subprocess.run(
        [*command, f"localhost:{broker.port}"], capture_output=True, text=True, check=False, timeout=300
    )
    assert f"localhost:{broker.port}: OK - Compliant." in done.stdout, done.stdout + done.stderr


def shake(broker: RunningBroker, *options: str, send: str = "") -> tuple[bool, str]:
    """Whether a handshake succeeds, and what OpenSSL says."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", broker.bootstrap, *options],
        input=send,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    text = done.stdout + done.stderr
    return bool(re.search(r"Cipher is (?!\(NONE\))", text)), text


def takes_suite(broker: RunningBroker, suite: str) -> bool:
    """Whether the broker takes a suite of TLS 1.2. Python's client, because a process for each suite takes minutes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"{suite}:@SECLEVEL=0")
    with socket.create_connection((broker.host, broker.port), timeout=PATIENCE_S) as plain:
        try:
            with context.wrap_socket(plain) as encrypted:
                found = encrypted.cipher()
        except OSError:
            return False
    return found is not None and found[0] == suite


@pytest.mark.parametrize(("version", "expected"), VERSIONS.items())
def test_versions(broker: RunningBroker, version: str, expected: bool) -> None:
    accepted, text = shake(broker, version, "-cipher", "ALL:@SECLEVEL=0")
    assert accepted is expected, text


def test_every_suite_of_tls_1_2_that_openssl_knows(broker: RunningBroker, kind: str) -> None:
    listed = subprocess.run(
        ["openssl", "ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:eNULL:@SECLEVEL=0"],
        capture_output=True,
        text=True,
        check=True,
    )
    known = [name for name in listed.stdout.strip().split(":") if not name.startswith("TLS_")]
    weak = [name for name in known if re.search("CBC|SHA$|SHA256$|NULL|RC4|DES|ADH|AECDH|PSK|CAMELLIA|ARIA|CCM", name)]
    assert len(known) > 60 and len(weak) > 40, "the scan offers weak suites"
    assert {name for name in known if takes_suite(broker, name)} == TLS_1_2[kind]


def test_every_suite_of_tls_1_3(broker: RunningBroker) -> None:
    offered = {*TLS_1_3, "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"}
    accepted = {name for name in offered if shake(broker, "-tls1_3", "-ciphersuites", name)[0]}
    assert accepted == TLS_1_3


# Python before 3.15 can name only one curve of a server.
HAS_SEVERAL_CURVES = hasattr(ssl.SSLContext, "set_groups")
CURVES = {
    "P-256": True,
    "X25519": HAS_SEVERAL_CURVES,
    "P-384": HAS_SEVERAL_CURVES,
    "P-521": False,
    "X448": False,
}


@pytest.mark.parametrize(
    ("version", "curve", "expected"),
    [*(("-tls1_3", curve, taken) for curve, taken in CURVES.items()), ("-tls1_2", "P-192", False)],
)
def test_curves(broker: RunningBroker, version: str, curve: str, expected: bool) -> None:
    accepted, text = shake(broker, version, "-curves", curve, "-cipher", "ALL:@SECLEVEL=0")
    assert accepted is expected, text


def test_compression_is_off(broker: RunningBroker) -> None:
    _, text = shake(broker, "-tls1_2", "-comp")
    assert "Compression: NONE" in text


def test_the_client_cannot_renegotiate(broker: RunningBroker) -> None:
    _, text = shake(broker, "-tls1_2", send="R\n")
    assert "RENEGOTIATING" in text
    assert re.search("no renegotiation|handshake failure|wrong version|unexpected", text), text


def test_a_downgrade_is_refused(broker: RunningBroker) -> None:
    accepted, text = shake(broker, "-tls1_2", "-fallback_scsv")
    assert not accepted and "inappropriate fallback" in text, text
