"""Delegation tokens in the cluster image: each is a resource of type `delegation-token`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.cluster.core.image import ClusterImage
from headrace.security.sasl.tokens import DelegationToken

TOKEN: Final = "delegation-token"


def token_of(image: ClusterImage, token_id: str) -> DelegationToken | None:
    values = image.configs.get((TOKEN, token_id)) if token_id else None
    return None if values is None else DelegationToken.from_values(token_id, values)


def tokens_of(image: ClusterImage) -> Iterator[DelegationToken]:
    for (kind, name), values in image.configs.items():
        if kind == TOKEN:
            yield DelegationToken.from_values(name, values)
