"""OAUTHBEARER: messages, tokens and published keys; every token that must not be taken."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headrace.security.sasl.jwks import MAX_BYTES, BadKeys, PublishedKeys, RefreshRules, parse_keys
from headrace.security.sasl.jwt_tokens import TokenRules, check_signed, check_unsecured
from headrace.security.sasl.mechanism import Accepted, Challenge, Denied, Work
from headrace.security.sasl.oauthbearer import BadToken, Bearer, OAuthBearerServer

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
STRANGER = ec.generate_private_key(ec.SECP256R1())
# A day: tokens are made when the tests are collected, and the last test may run an hour later.
A_DAY_S = 86_400
NOW_S = int(time.time())
CLAIMS = {"sub": "anna", "iat": NOW_S, "exp": NOW_S + A_DAY_S, "iss": "https://idp", "aud": "kafka", "scope": "write"}


def published(key: Any, key_id: str | None, algorithm: str) -> dict[str, Any]:
    made = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    entry: dict[str, Any] = made.to_jwk(key.public_key(), as_dict=True)
    return {**entry, "alg": algorithm, "use": "sig", **({} if key_id is None else {"kid": key_id})}


KEY_SET = json.dumps({"keys": [published(RSA, "rsa", "RS256"), published(EC, "ec", "ES256")]}).encode()


def token(key: Any = EC, algorithm: str = "ES256", key_id: str | None = "ec", **changed: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changed}.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers=None if key_id is None else {"kid": key_id})


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


class Source:
    def __init__(self, *texts: bytes | Exception) -> None:
        self.texts = list(texts)
        self.reads = 0

    def __call__(self) -> bytes:
        self.reads += 1
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        if isinstance(text, Exception):
            raise text
        return text


def keys(*texts: bytes | Exception, clock: Clock | None = None) -> PublishedKeys:
    return PublishedKeys(Source(*(texts or (KEY_SET,))), RefreshRules(), clock or Clock())


RULES = TokenRules(audiences=("kafka",), issuer="https://idp")


def check(text: str, rules: TokenRules = RULES) -> Bearer:
    return check_signed(text, rules, keys().find)


@pytest.mark.parametrize(
    "text",
    [token(), token(RSA, "RS256", "rsa"), token(aud=["other", "kafka"]), token(scope=["a", "b"]), token(scope=None)],
)
def test_a_signed_token_gives_its_subject_and_its_end(text: str) -> None:
    assert check(text) == Bearer("anna", (NOW_S + A_DAY_S) * 1000)


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in (header, claims))
    return ".".join(parts) + "."


PUBLIC_PEM = EC.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed_with_public_key() -> str:
    """HS256 whose secret is the published key: a library that takes the algorithm from the token accepts it."""
    import hashlib
    import hmac

    head = unsigned({"alg": "HS256", "kid": "ec"}, CLAIMS).rstrip(".")
    signature = hmac.digest(PUBLIC_PEM, head.encode(), hashlib.sha256)
    return f"{head}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "text",
    [
        unsigned({"alg": "none"}, CLAIMS),
        unsigned({"alg": "None", "kid": "ec"}, CLAIMS),
        signed_with_public_key(),
        token(STRANGER),
        token(key_id="other"),
        token(RSA, "RS512", "rsa"),  # the key is published for RS256
        token(exp=NOW_S - 60),
        token(exp=None),
        token(exp="soon"),
        token(exp=2**60),
        token(iat=NOW_S + A_DAY_S),
        token(iat=None),
        token(nbf=NOW_S + A_DAY_S),
        token(iss="https://other"),
        token(iss=None),
        token(aud="other"),
        token(aud=None),
        token(sub=None),
        token(sub=" "),
        token(sub=7),
        token(scope=7),
        token()[:-4] + "AAAA",
        "a.b.c",
        "",
        "x" * 40_000,
    ],
)
def test_any_other_token_is_refused(text: str) -> None:
    with pytest.raises(BadToken):
        check(text)


@pytest.mark.parametrize("algorithm", ["RS256", "PS256"])
def test_a_token_whose_algorithm_does_not_fit_its_key_is_refused(algorithm: str) -> None:
    """A key set need not name algorithms."""
    entry = {name: value for name, value in published(EC, "ec", "ES256").items() if name != "alg"}
    with pytest.raises(BadToken):
        check_signed(token(RSA, algorithm), RULES, keys(json.dumps({"keys": [entry]}).encode()).find)


def test_the_clock_may_be_off_by_the_skew() -> None:
    ended = token(exp=int(time.time()) - 60)
    assert check(ended, TokenRules(("kafka",), "https://idp", clock_skew_s=3600)).name == "anna"
    with pytest.raises(BadToken):
        check(ended, TokenRules(("kafka",), "https://idp", clock_skew_s=1))


def test_other_claims_may_name_the_subject() -> None:
    rules = TokenRules(subject_claim="client_id", scope_claim="scp")
    assert check(token(client_id="loader", scp=["x"]), rules).name == "loader"


def test_unsecured_tokens_are_taken_only_by_their_own_check() -> None:
    text = unsigned({"alg": "none"}, CLAIMS)
    assert check_unsecured(text, TokenRules(), NOW_S * 1000).name == "anna"
    for wrong in (
        token(),
        unsigned({"alg": "none"}, {**CLAIMS, "exp": NOW_S - 60}),
        unsigned({"alg": "none"}, {}),
        "..",
        "a",
    ):
        with pytest.raises(BadToken):
            check_unsecured(wrong, TokenRules(), NOW_S * 1000)


# Published keys


def test_unknown_key_ids_read_the_keys_at_most_once_a_backoff() -> None:
    clock, source = Clock(), Source(KEY_SET)
    found = PublishedKeys(source, RefreshRules(backoff_ms=100, backoff_max_ms=400), clock)
    for _ in range(1000):
        assert found.find("unknown", "ES256") is None
    assert source.reads == 1
    reads = []
    for _ in range(60):
        clock.now_ms += 50
        found.find("unknown", "ES256")
        reads.append(source.reads)
    assert source.reads <= 1 + 60 * 50 // 100
    assert reads[-1] - reads[-17] <= 3, "the pause has grown to 400 ms"
    assert found.find("ec", "ES256") is not None


def test_a_new_key_is_found_and_known_keys_survive_a_failed_read() -> None:
    clock = Clock()
    first = json.dumps({"keys": [published(RSA, "rsa", "RS256")]}).encode()
    found = PublishedKeys(Source(first, KEY_SET, OSError("away"), OSError("away")), RefreshRules(), clock)
    assert found.find("rsa", "RS256") is not None
    clock.now_ms += 1000
    assert found.find("ec", "ES256") is not None
    clock.now_ms += 3_600_001
    assert found.find("ec", "ES256") is not None
    assert found.problem == "away"


def test_a_token_without_a_key_id_needs_a_key_set_without_a_choice() -> None:
    assert keys().find(None, "ES256") is not None
    two = json.dumps({"keys": [published(EC, "a", "ES256"), published(STRANGER, "b", "ES256")]}).encode()
    assert keys(two).find(None, "ES256") is None


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys": 7}', b"x" * (MAX_BYTES + 1)])
def test_what_is_no_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(BadKeys):
        parse_keys(text)


def test_secret_and_private_keys_in_a_key_set_are_not_used() -> None:
    private = jwt.algorithms.ECAlgorithm.to_jwk(EC, as_dict=True)
    listed = [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}, {**private, "kid": "b"}, {"kty": "EC", "kid": "c"}, 7]
    assert parse_keys(json.dumps({"keys": listed}).encode()) == []


# Messages


def outcome(message: bytes, server: OAuthBearerServer | None = None) -> Challenge | Accepted:
    found = (server or OAuthBearerServer(check)).evaluate(message)
    assert isinstance(found, Work)
    return found.run()


def initial(text: str, authorization_id: str = "") -> bytes:
    return f"n,{f'a={authorization_id}' if authorization_id else ''},\x01host=x\x01auth=Bearer {text}\x01\x01".encode()


def test_a_right_token_logs_in() -> None:
    assert outcome(initial(token())) == Accepted(b"", "anna", (NOW_S + A_DAY_S) * 1000)
    assert isinstance(outcome(initial(token(), "anna")), Accepted)


def test_a_refused_token_is_answered_in_json_and_fails_at_the_confirmation() -> None:
    server = OAuthBearerServer(check)
    answer = outcome(initial("a.b.c"), server)
    assert isinstance(answer, Challenge)
    assert json.loads(answer.token) == {"status": "invalid_token"}
    with pytest.raises(Denied) as denied:
        server.evaluate(b"\x01")
    assert denied.value.shown == '{"status":"invalid_token"}'


def test_the_authorization_id_of_another_user_is_denied() -> None:
    with pytest.raises(Denied, match="different from the token's principal name"):
        outcome(initial(token(), "admin"))


@pytest.mark.parametrize(
    "message",
    [b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Basic abc\x01\x01", b"n,,\x01auth=Bearer \x01\x01", b"\xff",
     b"y,,\x01auth=Bearer abc\x01\x01", b"n,,\x01auth=Bearer a b\x01\x01"],
)  # fmt: skip
def test_another_message_is_denied(message: bytes) -> None:
    with pytest.raises(Denied):
        OAuthBearerServer(check).evaluate(message)
