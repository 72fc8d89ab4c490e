"""SCRAM credentials in the cluster image: each user is a resource of type `user`, as in Kafka's /config/users/<name>.

The resource with the empty name is not a user. It has the secret from which brokers derive salts for unknown users
(`FakeSalts`). It is created with the first credential, and all brokers of the cluster share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.cluster.core.image import ClusterImage
from headrace.security.sasl.scram_credentials import (
    SCRAM_MECHANISMS,
    BadCredential,
    ScramCredential,
    ScramMechanism,
    parse_credential,
)

USER: Final = "user"
SECRET_RESOURCE: Final = (USER, "")
SECRET_KEY: Final = "unknown.users.salt.secret"


def credential_of(image: ClusterImage, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    """None if the user has no credential or its stored text is damaged."""
    text = image.config_of(USER, user).get(mechanism.title) if user else None
    try:
        return None if text is None else parse_credential(text)
    except BadCredential:
        return None


def credentials_of(image: ClusterImage, user: str) -> dict[ScramMechanism, ScramCredential]:
    found = {mechanism: credential_of(image, mechanism, user) for mechanism in ScramMechanism}
    return {mechanism: credential for mechanism, credential in found.items() if credential is not None}


def users_of(image: ClusterImage) -> Iterator[str]:
    """Every user that has a credential."""
    for (kind, name), values in image.configs.items():
        if kind == USER and name and any(mechanism in values for mechanism in SCRAM_MECHANISMS):
            yield name


def salt_secret(image: ClusterImage) -> str | None:
    values: Mapping[str, str] = image.configs.get(SECRET_RESOURCE, {})
    return values.get(SECRET_KEY)
