"""How long a login is valid, and when a client may authenticate again on the same connection (KIP-368)."""

from __future__ import annotations

from typing import Final

from headrace.kernel.dataclass import dataclass

# A client that authenticates more often gets ILLEGAL_SASL_STATE.
_MIN_INTERVAL_MS: Final = 1000


def session_lifetime_ms(now_ms: int, credential_ends_at_ms: int | None, max_reauth_ms: int) -> int | None:
    """The shorter of `connections.max.reauth.ms` and the credential's own end; None for a session without an end."""
    limits: list[int] = []
    if credential_ends_at_ms is not None:
        limits.append(credential_ends_at_ms - now_ms)
    if max_reauth_ms > 0:
        limits.append(max_reauth_ms)
    return max(0, min(limits)) if limits else None


@dataclass(slots=True)
class Session:
    """A login that succeeded. Times are of a clock that only goes forward."""

    principal: str
    mechanism: str
    expires_at_ms: int | None = None
    by_token: bool = False
    reauthenticated_at_ms: int | None = None

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_at_ms is not None and now_ms > self.expires_at_ms

    def may_reauthenticate(self, now_ms: int) -> bool:
        """A session without an end is never renewed."""
        if self.expires_at_ms is None:
            return False
        return self.reauthenticated_at_ms is None or now_ms - self.reauthenticated_at_ms >= _MIN_INTERVAL_MS
