"""The client's side of a SASL login on an event loop: the handshake, the tokens, and how long the session lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.sasl.mechanism import Denied
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis
from headrace.wire.entities import Body, Entity

if TYPE_CHECKING:
    from headrace.client.security import ClientSecurity

# Sends a request of this API and version. Returns kio's entity of the answer.
Ask = Callable[[ApiKey, int, Body], Awaitable[Entity]]
# The client opens a new connection after this part of a session with an end (KIP-368).
_USED_PART_OF_SESSION: Final = 0.85


async def log_in(ask: Ask, security: ClientSecurity, address: str) -> float | None:
    """The time of the event loop at which a new connection should replace this one; None for a session without an end.

    Raises Refused. Deriving the keys of a password takes milliseconds, so it happens in a thread.
    """
    shake = await ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": security.mechanism})
    if shake.error_code is not ErrorCode.none:
        offered = ", ".join(shake.mechanisms) or "no SASL mechanism"
        raise Refused(shake.error_code, f"{address} offers {offered}, not {security.mechanism}")
    tokens = security.tokens()
    lifetime_ms = 0
    theirs: bytes | None = None
    try:
        while (ours := await asyncio.to_thread(_next_token, tokens, theirs)) is not None:
            answer = await ask(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": ours})
            if answer.error_code is not ErrorCode.none:
                raise Refused(answer.error_code, f"{address} refused {security.username!r}: {answer.error_message}")
            theirs, lifetime_ms = bytes(answer.auth_bytes), millis(answer.session_lifetime)
    except Denied as denied:
        raise Refused(ErrorCode.sasl_authentication_failed, f"{address}: {denied.reason}") from denied
    if not lifetime_ms:
        return None
    return asyncio.get_running_loop().time() + lifetime_ms / 1000 * _USED_PART_OF_SESSION


def _next_token(tokens: Generator[bytes, bytes, None], theirs: bytes | None) -> bytes | None:
    """The next token of the client, or None at the end: a StopIteration cannot leave a thread."""
    try:
        return next(tokens) if theirs is None else tokens.send(theirs)
    except StopIteration:
        return None


def encryption(host: str, security: ClientSecurity | None) -> dict[str, Any]:
    """Arguments of `create_connection` for TLS."""
    if security is None or not security.encrypted:
        return {}
    return {"ssl": security.tls_context(), "server_hostname": host}
