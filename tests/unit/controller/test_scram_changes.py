"""SCRAM credentials after AlterUserScramCredentials, each refusal with Kafka's code."""

from __future__ import annotations

import pytest

from headrace.cluster.core.changes import ConfigSet, apply
from headrace.cluster.core.credentials import credential_of, credentials_of, salt_secret, users_of
from headrace.cluster.core.image import ClusterImage
from headrace.controller.core.scram_changes import ScramDeletion, ScramUpsertion, altered
from headrace.kernel.errors import ErrorCode
from headrace.security.sasl.scram_credentials import ScramMechanism, credential_for, salted_password

SHA_256, SHA_512 = ScramMechanism


def upsertion(user: str = "anna", mechanism: int = 1, iterations: int = 4096, password: str = "p") -> ScramUpsertion:
    salted = salted_password(SHA_256 if mechanism == 1 else SHA_512, password, b"salt", 4096)
    return ScramUpsertion(user, mechanism, iterations, b"salt", salted)


def changed(image: ClusterImage, *asked: ScramDeletion | ScramUpsertion) -> tuple[list[ErrorCode], ClusterImage]:
    deletions = [one for one in asked if isinstance(one, ScramDeletion)]
    upsertions = [one for one in asked if isinstance(one, ScramUpsertion)]
    results, changes = altered(image, deletions, upsertions, "secret")
    return [error for _, error, _ in results], apply(image, changes, image.version + 1)


def test_the_stored_credential_verifies_the_password_and_does_not_contain_it() -> None:
    errors, image = changed(ClusterImage(), upsertion(), upsertion(mechanism=2))
    assert errors == [ErrorCode.none]
    assert credential_of(image, SHA_256, "anna") == credential_for(SHA_256, "p", salt=b"salt")
    assert set(credentials_of(image, "anna")) == {SHA_256, SHA_512}
    assert list(users_of(image)) == ["anna"]
    assert salt_secret(image) == "secret"


def test_the_secret_of_the_cluster_stays() -> None:
    _, image = changed(ClusterImage(), upsertion())
    _, changes = altered(image, [], [upsertion("bert")], "another secret")
    assert salt_secret(apply(image, changes, 2)) == "secret"


def test_a_deletion_keeps_the_other_mechanism_and_other_users() -> None:
    _, image = changed(ClusterImage(), upsertion(), upsertion(mechanism=2), upsertion("bert"))
    errors, image = changed(image, ScramDeletion("anna", 1))
    assert errors == [ErrorCode.none]
    assert set(credentials_of(image, "anna")) == {SHA_512}
    _, image = changed(image, ScramDeletion("anna", 2))
    assert list(users_of(image)) == ["bert"]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ([upsertion(iterations=4095)], ErrorCode.unacceptable_credential),
        ([upsertion(iterations=16385)], ErrorCode.unacceptable_credential),
        ([upsertion("")], ErrorCode.unacceptable_credential),
        ([ScramDeletion("", 1)], ErrorCode.unacceptable_credential),
        ([upsertion(mechanism=0)], ErrorCode.unsupported_sasl_mechanism),
        ([upsertion(mechanism=3)], ErrorCode.unsupported_sasl_mechanism),
        ([ScramDeletion("anna", 9)], ErrorCode.unsupported_sasl_mechanism),
        ([ScramDeletion("anna", 2)], ErrorCode.resource_not_found),
        ([ScramDeletion("nobody", 1)], ErrorCode.resource_not_found),
        ([upsertion(), upsertion()], ErrorCode.duplicate_resource),
        ([ScramDeletion("anna", 1), upsertion()], ErrorCode.duplicate_resource),
    ],
)
def test_a_refused_change_changes_nothing_of_that_user(
    asked: list[ScramDeletion | ScramUpsertion], error: ErrorCode
) -> None:
    _, before = changed(ClusterImage(), upsertion())
    errors, after = changed(before, *asked, upsertion("bert", password="q"))
    assert errors == [error, ErrorCode.none]
    assert credentials_of(after, "anna") == credentials_of(before, "anna")
    assert credential_of(after, SHA_256, "bert") is not None


def test_a_damaged_credential_is_no_credential() -> None:
    image = apply(ClusterImage(), [ConfigSet("user", "anna", {"SCRAM-SHA-256": "salt=x"})], 1)
    assert credential_of(image, SHA_256, "anna") is None


def test_a_request_is_printed_without_its_salted_password() -> None:
    assert "salted" not in repr(upsertion())
