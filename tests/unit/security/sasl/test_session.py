from __future__ import annotations

import pytest

from headrace.security.sasl.session import Session, session_lifetime_ms


@pytest.mark.parametrize(
    ("credential_ends_at_ms", "max_reauth_ms", "lifetime_ms"),
    [(None, 0, None), (None, 500, 500), (1300, 0, 300), (1300, 500, 300), (1900, 500, 500), (900, 0, 0), (900, 500, 0)],
)
def test_the_shorter_of_both_limits_counts(
    credential_ends_at_ms: int | None, max_reauth_ms: int, lifetime_ms: int | None
) -> None:
    assert session_lifetime_ms(1000, credential_ends_at_ms, max_reauth_ms) == lifetime_ms


def test_a_session_ends_and_is_renewed_at_most_once_a_second() -> None:
    session = Session("User:anna", "PLAIN", expires_at_ms=5000)
    assert not session.is_expired(5000)
    assert session.is_expired(5001)
    assert session.may_reauthenticate(0)
    session.reauthenticated_at_ms = 100
    assert not session.may_reauthenticate(1099)
    assert session.may_reauthenticate(1100)


def test_a_session_without_an_end_is_not_renewed() -> None:
    session = Session("User:anna", "PLAIN")
    assert not session.is_expired(10**15)
    assert not session.may_reauthenticate(10**15)
