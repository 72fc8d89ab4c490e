"""SCRAM: RFC 7677's example, both sides against each other, and every message that must not be taken."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.security.sasl.mechanism import Accepted, Challenge, Denied, Work
from headrace.security.sasl.scram import ScramClient, ScramServer, TokenCredential, escape_name, unescape_name
from headrace.security.sasl.scram_credentials import (
    BadCredential,
    FakeSalts,
    ScramCredential,
    ScramMechanism,
    credential_for,
    format_credential,
    parse_credential,
)

SHA_256, SHA_512 = ScramMechanism
FAKES = FakeSalts(b"secret of the cluster")
CREDENTIALS = {mechanism: credential_for(mechanism, "pencil", salt=b"salt" * 4) for mechanism in ScramMechanism}
NAMES = ("user", "a,b=c", "zoë")


def find_user(mechanism: ScramMechanism, name: str) -> ScramCredential:
    return CREDENTIALS[mechanism] if name in NAMES else FAKES.credential(mechanism, name)


def find_token(mechanism: ScramMechanism, token_id: str) -> TokenCredential:
    if token_id != "token-1":
        return TokenCredential("", 0, FAKES.credential(mechanism, token_id))
    return TokenCredential("owner", 99_000, CREDENTIALS[mechanism])


def server(mechanism: ScramMechanism = SHA_256, nonce: str = "server-nonce") -> ScramServer:
    return ScramServer(mechanism, find_user, find_token, lambda: nonce)


def challenge(outcome: object) -> bytes:
    assert isinstance(outcome, Challenge)
    return outcome.token


def log_in(
    mechanism: ScramMechanism, name: str, password: str, *, by_token: bool = False, at: ScramServer | None = None
) -> Accepted:
    client, broker = ScramClient(mechanism, name, password, by_token=by_token), at or server(mechanism)
    outcome = broker.evaluate(client.first())
    if isinstance(outcome, Work):
        outcome = outcome.run()
    accepted = broker.evaluate(client.final(challenge(outcome)))
    assert isinstance(accepted, Accepted)
    client.finish(accepted.token)
    return accepted


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_for(SHA_256, "pencil", salt=salt, iterations=4096)
    broker = ScramServer(SHA_256, lambda *_: credential, find_token, lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    client = ScramClient(SHA_256, "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    server_first = challenge(broker.evaluate(client.first()))
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert server_first == b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = client.final(server_first)
    assert final == b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    accepted = broker.evaluate(final)
    assert isinstance(accepted, Accepted)
    assert accepted.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    client.finish(accepted.token)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", NAMES)
def test_a_right_password_gives_the_name(mechanism: ScramMechanism, name: str) -> None:

    assert log_in(mechanism, name, "pencil").name == name


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_an_unknown_user_fails_at_the_same_message_as_a_wrong_password(mechanism: ScramMechanism) -> None:
    reasons = []
    for name, password in (("user", "pen"), ("nobody", "pencil")):
        with pytest.raises(Denied) as denied:
            log_in(mechanism, name, password)
        assert denied.value.shown is None
        reasons.append(denied.value.reason)
    assert reasons[0] == reasons[1]


def test_an_unknown_user_always_gets_the_same_salt_and_others_get_other_salts() -> None:
    salts = {}
    for name in ("nobody", "somebody"):
        answers = [challenge(server().evaluate(ScramClient(SHA_256, name, "x", nonce="n").first())) for _ in range(3)]
        assert len(set(answers)) == 1
        salts[name] = answers[0]
    assert salts["nobody"] != salts["somebody"]
    assert len(FAKES.credential(SHA_256, "nobody").salt) == len(credential_for(SHA_256, "x").salt)
    assert (
        FakeSalts(b"of another cluster").credential(SHA_256, "nobody").salt != FAKES.credential(SHA_256, "nobody").salt
    )


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_delegation_token_gives_its_owner_and_its_end(mechanism: ScramMechanism) -> None:
    accepted = log_in(mechanism, "token-1", "pencil", by_token=True)
    assert (accepted.name, accepted.expires_at_ms, accepted.by_token) == ("owner", 99_000, True)
    with pytest.raises(Denied):
        log_in(mechanism, "token-2", "pencil", by_token=True)
    with pytest.raises(Denied):  # a token id is no user name
        log_in(mechanism, "token-1", "pencil")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=,r=abc",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,r=abc,n=user",
        b"y,,n=user,r=abc",  # channel binding is not offered
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=ext,n=user,r=abc",  # an extension that must be understood
        b"n,,n=us=er,r=abc",  # "=" is written as =3D
        b"n,,n=user,r=abc,tokenauth",
        b"n,,n=user,r=a bc",
        b"n,,n=us\0er,r=abc",
        b"n,,n=\xff,r=abc",
    ],
)
def test_a_first_message_in_another_form_is_denied(first: bytes) -> None:
    with pytest.raises(Denied) as denied:
        server().evaluate(first)
    assert denied.value.shown is None


def test_cve_2017_12610_the_authorization_id_of_another_user_is_denied() -> None:
    with pytest.raises(Denied, match="authorization id that is different from username"):
        server().evaluate(b"n,a=admin,n=user,r=abc")
    assert isinstance(server().evaluate(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=abc"), Challenge)


def altered_final(change: tuple[bytes, bytes], first: bytes | None = None) -> bytes:
    client = ScramClient(SHA_256, "user", "pencil", nonce="client-nonce")
    broker = server()
    final = client.final(challenge(broker.evaluate(first or client.first())))
    assert change[0] in final
    outcome = broker.evaluate(final.replace(*change))
    return outcome.token if isinstance(outcome, Accepted) else b""


@pytest.mark.parametrize(
    "change",
    [
        (b"r=client-nonceserver-nonce", b"r=client-nonceserver-noncf"),
        (b"r=client-nonceserver-nonce", b"r=client-nonce"),
        (b"r=client-nonceserver-nonce", b"r=client-nonceserver-nonce1"),
    ],
)
def test_cve_2024_56128_a_final_message_with_another_nonce_is_denied(change: tuple[bytes, bytes]) -> None:
    with pytest.raises(Denied, match="another nonce"):
        altered_final(change)


def test_cve_2024_56128_a_replayed_login_is_denied() -> None:
    client = ScramClient(SHA_256, "user", "pencil", nonce="client-nonce")
    broker = server(nonce="first-time")
    final = client.final(challenge(broker.evaluate(client.first())))
    assert isinstance(broker.evaluate(final), Accepted)
    again = server(nonce="second-time")
    again.evaluate(client.first())
    with pytest.raises(Denied, match="another nonce"):
        again.evaluate(final)


@pytest.mark.parametrize(
    "change", [(b"c=biws", b"c=eSws"), (b"c=biws", b"c="), (b"c=biws", b"c=b"), (b",p=", b",q="), (b",p=", b",p=AAAA")]
)
def test_another_header_or_proof_is_denied(change: tuple[bytes, bytes]) -> None:
    with pytest.raises(Denied):
        altered_final(change)


def test_a_third_message_begins_a_new_exchange_and_does_not_repeat_the_last() -> None:
    client, broker = ScramClient(SHA_256, "user", "pencil"), server()
    final = client.final(challenge(broker.evaluate(client.first())))
    broker.evaluate(final)
    with pytest.raises(Denied):
        broker.evaluate(final)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff",
        b"r=other,s=AAAA,i=4096",
        b"r=mine,s=AAAA,i=4096",  # nothing of the server's own
        b"r=mine2,s=AAAA,i=0",
        b"r=mine2,s=AAAA,i=999999999999999999999999",
        b"r=mine2,s=!,i=4096",
        b"e=other-error",
    ],
)
def test_a_client_denies_an_answer_that_cannot_be_right(answer: bytes) -> None:
    with pytest.raises(Denied):
        ScramClient(SHA_256, "user", "pencil", nonce="mine").final(answer)


def test_a_client_denies_a_server_that_does_not_know_the_password() -> None:
    client, broker = ScramClient(SHA_256, "user", "pencil"), server()
    client.final(challenge(broker.evaluate(client.first())))
    for wrong in (b"", b"v=", b"v=AAAA", b"e=invalid-proof"):
        with pytest.raises(Denied):
            client.finish(wrong)
    with pytest.raises(Denied):
        ScramClient(SHA_256, "user", "pencil").finish(b"")


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_names_survive_their_escaping(name: str) -> None:
    assert unescape_name(escape_name(name)) == name


@given(st.binary(max_size=120))
def test_any_bytes_are_denied_or_challenged(token: bytes) -> None:
    broker = server()
    for _ in range(2):
        try:
            assert isinstance(broker.evaluate(token), Challenge | Work)
        except Denied:
            pass


# Credentials


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_credential_survives_its_text(mechanism: ScramMechanism) -> None:
    credential = credential_for(mechanism, "pencil")
    assert parse_credential(format_credential(credential)) == credential
    assert len(credential.stored_key) == mechanism.hash_bytes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=AAAA",
        "salt=AAAA,stored_key=AAAA,server_key=AAAA,iterations=x",
        "salt=*,stored_key=AAAA,server_key=AAAA,iterations=1",
    ],
)
def test_a_text_that_is_no_credential_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(BadCredential) as bad:
        parse_credential(text)
    assert "AAAA" not in str(bad.value)


def test_a_credential_is_printed_without_its_keys() -> None:
    assert repr(credential_for(SHA_256, "pencil")) == "ScramCredential(iterations=4096)"


@pytest.mark.parametrize("repeated", ["client-nonce", "client-nonce" * 2, "server-nonce", "x"])
def test_a_client_nonce_before_both_nonces_is_taken_as_librdkafka_before_2_6_1_sends_it(repeated: str) -> None:
    client = ScramClient(SHA_256, "user", "pencil", nonce="client-nonce")
    broker = server()
    server_first = challenge(broker.evaluate(client.first()))
    without_proof = f"c=biws,r={repeated}client-nonceserver-nonce"
    signed = f"n=user,r=client-nonce,{server_first.decode()},{without_proof}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt" * 4, CREDENTIALS[SHA_256].iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    final = f"{without_proof},p={proof}".encode()
    if repeated == "client-nonce":
        assert isinstance(broker.evaluate(final), Accepted)
    else:
        with pytest.raises(Denied, match="another nonce"):
            broker.evaluate(final)
