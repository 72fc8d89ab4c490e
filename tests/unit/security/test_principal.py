"""Names that clients choose are printed on one line, without control characters, and not at any length."""

from __future__ import annotations

import pytest

from headrace.security.principal import ANONYMOUS, printable, user_principal


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
