"""SCRAM credentials: how a request changes them (KIP-554). A user's changes are applied all or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.cluster.core.changes import Change, ConfigSet
from headrace.cluster.core.credentials import SECRET_KEY, SECRET_RESOURCE, USER, salt_secret
from headrace.cluster.core.image import ClusterImage
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.sasl.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_from_salted,
    format_credential,
)

# Limit of the name, as in Kafka.
_LONGEST_NAME: Final = 32_767


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """The client derives the salted password; the broker never sees the password."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:  # a salted password allows a login
        return f"ScramUpsertion(user={self.user!r}, mechanism={self.mechanism})"


ScramResult = tuple[str, ErrorCode, str | None]


def altered(
    image: ClusterImage,
    deletions: Sequence[ScramDeletion],
    upsertions: Sequence[ScramUpsertion],
    new_secret: str,
) -> tuple[list[ScramResult], list[Change]]:
    """A result for each user, in the order of the request. `new_secret` is used if the cluster has none yet."""
    asked: dict[str, list[ScramDeletion | ScramUpsertion]] = {}
    wanted: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
    for one in wanted:
        asked.setdefault(one.user, []).append(one)
    results: list[ScramResult] = []
    changes: list[Change] = []
    for user, own in asked.items():
        try:
            values = _changed(image, user, own)
        except Refused as refused:
            results.append((user, refused.code, refused.message))
            continue
        results.append((user, ErrorCode.none, None))
        changes.append(ConfigSet(USER, user, values))
    if changes and salt_secret(image) is None:
        changes.append(ConfigSet(*SECRET_RESOURCE, {SECRET_KEY: new_secret}))
    return results, changes


def _changed(image: ClusterImage, user: str, wanted: Sequence[ScramDeletion | ScramUpsertion]) -> dict[str, str]:
    """The user's credentials afterwards. Raises Refused."""
    if not user:
        raise Refused(ErrorCode.unacceptable_credential, "Username must not be empty")
    if len(user) > _LONGEST_NAME or "\0" in user:
        raise Refused(ErrorCode.unacceptable_credential, f"Username is too long or has a NUL: {len(user)} characters")
    values = dict(image.config_of(USER, user))
    seen: set[int] = set()
    for one in wanted:
        mechanism = _mechanism(one.mechanism)
        if mechanism in seen:
            raise Refused(ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request")
        seen.add(mechanism)
        if isinstance(one, ScramUpsertion):
            values[mechanism.title] = _upserted(mechanism, one)
        elif values.pop(mechanism.title, None) is None:
            raise Refused(ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist")
    return values


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        raise Refused(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism") from None


def _upserted(mechanism: ScramMechanism, asked: ScramUpsertion) -> str:
    if asked.iterations < MIN_ITERATIONS:
        raise Refused(ErrorCode.unacceptable_credential, "Too few iterations")
    if asked.iterations > MAX_ITERATIONS:
        raise Refused(ErrorCode.unacceptable_credential, "Too many iterations")
    if not asked.salt or not asked.salted_password:
        raise Refused(ErrorCode.unacceptable_credential, "The salt and the salted password must not be empty")
    return format_credential(credential_from_salted(mechanism, asked.salted_password, asked.salt, asked.iterations))
