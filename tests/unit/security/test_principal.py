"""Names that clients choose are printed on one line, without control characters, and not at any length."""

from __future__ import annotations

import pytest

from headrace.security.principal import ANONYMOUS, printable, read_principal, user_principal, written_principal


def test_a_user_is_a_principal_of_type_user() -> None:
    assert user_principal("erin") == "User:erin"
    assert user_principal("ANONYMOUS") == ANONYMOUS


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("User:erin", "User:erin"),
        ("User:Zoë 漢字", "User:Zoë 漢字"),
        ("User:a\nDenied", "User:a\\nDenied"),
        ('User:"x"', 'User:\\"x\\"'),
        ("User:\x1b[31mred", "User:\\u001b[31mred"),
        ("User:a\\nb", "User:a\\\\nb"),
        ("User:\u202eevil", "User:\\u202eevil"),
        ("User:\u2028line", "User:\\u2028line"),
        ("User:\U000e0001tag", "User:\\U000e0001tag"),
        ("User:\ud800", "User:\\ud800"),
        ("", ""),
    ],
)
def test_control_characters_and_quotes_are_escaped(given: str, shown: str) -> None:
    assert printable(given) == shown


def test_a_long_name_is_cut() -> None:
    shown = printable("x" * 10_000)
    assert len(shown) < 300
    assert shown.endswith("(10000 characters)")


def test_a_forwarded_principal_and_its_claims_are_read_back() -> None:
    for name in ("anna", '["User:admin"]', "an\0na", 'a", "Claim:groups=admin', "ü"):
        principal = user_principal(name)
        for claims in ((), ("Claim:groups=shop",), ("Claim:a=[", 'Claim:b="')):
            assert read_principal(written_principal(principal, claims)) == (principal, claims)


@pytest.mark.parametrize("data", [b"\xff", b"[", b"[]", b"[1]", b'[["User:a"]]'])
def test_an_invalid_forwarded_principal_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_principal(data)
