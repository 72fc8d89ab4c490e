"""Delegation tokens (KIP-48): passwords of limited life that a user makes for a job.

A token has an id, and its HMAC with `delegation.token.secret.key` is the password of a SCRAM login with
`tokenauth=true`. The HMAC is never stored: every broker derives it from the id with the secret that all brokers share.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping

from headrace.kernel.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """Principals are texts `User:name`."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_at_ms: int
    expires_at_ms: int
    max_at_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return min(self.expires_at_ms, self.max_at_ms) < now_ms

    def belongs_to(self, principal: str) -> bool:
        """Whether the principal may use, renew and expire it."""
        return principal == self.owner or principal in self.renewers

    def as_values(self) -> dict[str, str]:
        """Fields for the cluster image."""
        return {
            "owner": self.owner,
            "requester": self.requester,
            "renewers": json.dumps(self.renewers),
            "issued": str(self.issued_at_ms),
            "expires": str(self.expires_at_ms),
            "max": str(self.max_at_ms),
        }

    @classmethod
    def from_values(cls, token_id: str, values: Mapping[str, str]) -> DelegationToken:
        return cls(
            token_id,
            values["owner"],
            values["requester"],
            tuple(json.loads(values["renewers"])),
            int(values["issued"]),
            int(values["expires"]),
            int(values["max"]),
        )


def token_hmac(token_id: str, secret: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(token_id: str, secret: str) -> str:
    """The HMAC as the client's password."""
    return base64.b64encode(token_hmac(token_id, secret)).decode()
