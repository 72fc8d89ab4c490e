from __future__ import annotations

import pytest

from headrace.security.sasl.mechanism import Denied
from headrace.security.sasl.plain import PlainServer, client_token, users_of

USERS = users_of({"username": "admin", "password": "p", "user_admin": "p", "user_anna": "sesame, open!", "user_": "x"})


def test_the_options_that_begin_with_user_are_the_users() -> None:
    assert USERS == {"admin": b"p", "anna": b"sesame, open!", "": b"x"}


def test_a_right_password_gives_the_name() -> None:
    assert PlainServer(USERS).evaluate(client_token("anna", "sesame, open!")).name == "anna"
    assert PlainServer(USERS).evaluate(b"anna\0anna\0sesame, open!").name == "anna"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"anna",
        b"anna\0sesame, open!",
        b"\0anna\0sesame, open!\0",
        b"\0\0\0\0\0",
        b"\0anna\0sesame, open!\0x",
        b"\xff\0a\0b",
    ],
)
def test_a_token_has_exactly_three_fields_of_text(token: bytes) -> None:
    with pytest.raises(Denied) as denied:
        PlainServer(USERS).evaluate(token)
    shown = denied.value.shown
    assert shown is None or shown == f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(4, token.count(0) + 1)}"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0anna\0", "Authentication failed: password not specified"),
        (b"\0anna\0sesame", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0sesame", "Authentication failed: Invalid username or password"),
        (b"\0Anna\0sesame, open!", "Authentication failed: Invalid username or password"),
    ],
)
def test_the_words_never_say_whether_the_user_exists(token: bytes, words: str) -> None:
    with pytest.raises(Denied) as denied:
        PlainServer(USERS).evaluate(token)
    assert denied.value.shown == words


def test_cve_2017_12610_the_authorization_id_of_another_user_is_denied() -> None:
    with pytest.raises(Denied, match="authorization id that is different from username"):
        PlainServer(USERS).evaluate(b"admin\0anna\0sesame, open!")


def test_cve_2021_38153_passwords_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return False

    monkeypatch.setattr("headrace.security.sasl.plain.hmac.compare_digest", compare)
    for user in ("anna", "nobody"):
        with pytest.raises(Denied):
            PlainServer(USERS).evaluate(client_token(user, "sesame, open!"))
    assert [left for left, _ in compared] == [b"sesame, open!", b"sesame, open!"]
