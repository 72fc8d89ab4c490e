"""Delegation tokens (KIP-48) for callers that log in with a client certificate.

The private key of a certificate stays with the caller, so the service cannot show that certificate to the brokers. It
asks the brokers for a delegation token whose owner is the caller, and logs in with it: the brokers then see the caller,
with the caller's own ACLs. The service needs a user of its own for that, and this user needs CREATE_TOKENS on the user
resource of each caller. It needs no other right: the brokers, and not the service, limit which callers it can act for.

A token lives for an hour, or shorter if the brokers say so. The service replaces it after half of that.
"""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Final

from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode, Refused
from headrace.web.login import Brokers
from headrace.wire.apis import ApiKey

_LIFETIME_MS: Final = 3_600_000
_MOST_TOKENS: Final = 1000


class DelegationTokens:
    """Tokens by principal. Owned by the event loop."""

    def __init__(self, brokers: Brokers, *, timeout_s: float) -> None:
        assert brokers.own is not None
        self._client = ClusterClient(
            brokers.bootstrap, client_id="headrace-delegation", timeout=timeout_s, security=brokers.own
        )
        self._held: dict[str, tuple[str, str, float]] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def token_of(self, principal: str) -> tuple[str, str]:
        """(id, password) of a token that the principal owns. Raises Refused if the service may not create it."""
        async with self._asking.setdefault(principal, asyncio.Lock()):
            held = self._held.get(principal)
            now = time.monotonic()
            if held is None or now >= held[2]:
                if len(self._held) >= _MOST_TOKENS:
                    self._forget_oldest()
                token_id, password, lives_s = await self._create(principal)
                held = token_id, password, now + lives_s / 2
                self._held[principal] = held
            return held[0], held[1]

    def _forget_oldest(self) -> None:
        oldest = min(self._held, key=lambda principal: self._held[principal][2])
        del self._held[oldest]
        self._asking.pop(oldest, None)

    async def _create(self, principal: str) -> tuple[str, str, float]:
        """(id, password, seconds until it expires). Raises Refused."""
        kind, _, name = principal.partition(":")
        body = {
            "owner_principal_type": kind,
            "owner_principal_name": name,
            "renewers": [],
            "max_lifetime": _LIFETIME_MS,
        }
        answer = await self._client.request(ApiKey.CREATE_DELEGATION_TOKEN, body)
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.none:
            raise Refused(code, f"delegation token for {principal}: {code.name}")
        owner = f"{answer.principal_type}:{answer.principal_name}"
        if owner != principal:
            # Brokers before Kafka 3.3 ignore the owner of a request, and the token is of the service's own user.
            mismatch = ErrorCode.delegation_token_owner_mismatch
            raise Refused(mismatch, f"delegation token for {principal}: the brokers made one of {owner}")
        # By the brokers' clock. `delegation.token.expiry.time.ms` may be shorter than what was asked for.
        lives_s = (answer.expiry_timestamp - answer.issue_timestamp).total_seconds()
        return str(answer.token_id), base64.b64encode(bytes(answer.hmac)).decode(), lives_s

    async def close(self) -> None:
        await self._client.close()
