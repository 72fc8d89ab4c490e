"""Delegation tokens: create, renew, expire, each refusal with Kafka's code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.cluster.core.changes import apply
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.core.tokens import token_of, tokens_of
from headrace.controller.core.token_changes import NewToken, TokenRules, created, expired, renewed, without_expired
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.sasl.tokens import token_hmac

HOUR = 3_600_000
RULES = TokenRules("secret", max_lifetime_ms=24 * HOUR, expiry_time_ms=2 * HOUR)
ASKED = NewToken("t1", "User:anna", "User:anna", ["User:bert"], -1)
DIGEST = token_hmac("t1", "secret")


def image_with_token(now_ms: int = 0, asked: NewToken = ASKED) -> ClusterImage:
    _, changes = created(ClusterImage(), RULES, asked, now_ms)
    return apply(ClusterImage(), changes, 1)


def test_a_token_survives_the_image() -> None:
    token, changes = created(ClusterImage(), RULES, ASKED, 1000)
    assert token_of(apply(ClusterImage(), changes, 1), "t1") == token
    assert (token.expires_at_ms, token.max_at_ms) == (1000 + 2 * HOUR, 1000 + 24 * HOUR)
    assert "secret" not in str(changes)


@pytest.mark.parametrize(("asked_ms", "max_ms"), [(-1, 24 * HOUR), (HOUR, HOUR), (48 * HOUR, 24 * HOUR)])
def test_the_lifetime_is_the_shorter_of_request_and_setting(asked_ms: int, max_ms: int) -> None:
    token, _ = created(ClusterImage(), RULES, replace(ASKED, max_lifetime_ms=asked_ms), 0)
    assert token.max_at_ms == max_ms
    assert token.expires_at_ms == min(max_ms, 2 * HOUR)


def test_owner_and_renewer_renew_up_to_the_maximum_lifetime() -> None:
    image = image_with_token()
    assert renewed(image, RULES, DIGEST, "User:anna", -1, HOUR)[0] == 3 * HOUR
    assert renewed(image, RULES, DIGEST, "User:anna", 0, HOUR)[0] == 3 * HOUR
    # Never by more than the default period, and never beyond the maximum lifetime.
    assert renewed(image, RULES, DIGEST, "User:bert", 100 * HOUR, HOUR)[0] == 3 * HOUR
    _, changes = renewed(image, replace(RULES, expiry_time_ms=30 * HOUR), DIGEST, "User:bert", 23 * HOUR, 0)
    nearly_over = apply(image, changes, 99)
    assert renewed(nearly_over, RULES, DIGEST, "User:bert", 100 * HOUR, int(22.5 * HOUR))[0] == 24 * HOUR


def test_a_token_is_expired_now_or_later() -> None:
    image = image_with_token()
    end, changes = expired(image, RULES, DIGEST, "User:anna", -1, HOUR)
    assert end == HOUR
    assert list(tokens_of(apply(image, changes, 2))) == []
    assert expired(image, RULES, DIGEST, "User:anna", HOUR, HOUR)[0] == 2 * HOUR


def test_tokens_that_have_expired_are_removed() -> None:
    image = image_with_token()
    assert without_expired(image, 2 * HOUR) == []
    assert list(tokens_of(apply(image, without_expired(image, 2 * HOUR + 1), 2))) == []


def error_of(change: object) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        change()  # type: ignore[operator]
    return ErrorCode(refused.value.code)


def test_refusals() -> None:
    image = image_with_token()
    off = TokenRules(None, HOUR, HOUR)
    assert error_of(lambda: created(image, off, ASKED, 0)) is ErrorCode.delegation_token_auth_disabled
    other = replace(ASKED, renewers=["Group:x"])
    assert error_of(lambda: created(image, RULES, other, 0)) is ErrorCode.invalid_principal_type
    for change in (renewed, expired):
        assert (
            error_of(lambda c=change: c(image, RULES, b"x", "User:anna", 1, 0)) is ErrorCode.delegation_token_not_found
        )
        late = error_of(lambda c=change: c(image, RULES, DIGEST, "User:anna", 1, 25 * HOUR))
        assert late is ErrorCode.delegation_token_expired
        stranger = error_of(lambda c=change: c(image, RULES, DIGEST, "User:carl", 1, 0))
        assert stranger is ErrorCode.delegation_token_owner_mismatch
