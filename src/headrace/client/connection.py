"""One connection to one broker: requests pipelined, answers matched in order, versions negotiated once.

    connection = await Connection.open("127.0.0.1", 9092, client_id="replica-2")
    answer = await connection.request(METADATA, {"topics": None})           # a kio entity of the version chosen
    frame = await connection.request_frame(FETCH, 17, body)                  # the raw answer, for readers of their own

A broker answers in request order, so a queue of futures is enough to match answers. A lost connection fails every
waiting request with `Unreachable`; a request past its deadline closes the connection, because later answers could not
be matched. Owned by the loop it was opened on.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Final, TypedDict, cast

from headrace import __version__
from headrace.client.errors import NoAnswer, Unreachable, Unsupported
from headrace.client.login import encryption, log_in
from headrace.client.server_kind import connect_trouble
from headrace.wire import codec
from headrace.wire.apis import ApiKey, api_name
from headrace.wire.entities import Body, Entity

if TYPE_CHECKING:
    from headrace.client.security import ClientSecurity

_LENGTH: Final = struct.Struct(">i")
# By default the client uses the highest version that kio supports; these APIs have a lower limit.
_VERSION_CEILINGS: Final = {
    # v4+ of AddPartitionsToTxn is for brokers only and needs cluster rights: callers pass the version.
    24: 3,
}
_MAX_ANSWER_BYTES: Final = 1 << 30


class _Frames(asyncio.Protocol):
    """Cuts the byte stream into answers and hands each to the oldest waiting future."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[memoryview]] = deque()
        self.transport: asyncio.Transport | None = None
        self.lost: Exception | None = None
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= 4:
            (length,) = _LENGTH.unpack_from(self._buffer, at)
            if not 0 <= length <= _MAX_ANSWER_BYTES:
                self._fail(Unreachable(f"an answer that claims {length} bytes: not a Kafka broker?"))
                return
            if len(self._buffer) - at - 4 < length:
                break
            frame = memoryview(bytes(memoryview(self._buffer)[at + 4 : at + 4 + length]))
            at += 4 + length
            if not self.waiting:
                self._fail(Unreachable("an answer without a request"))
                return
            future = self.waiting.popleft()
            if not future.done():
                future.set_result(frame)
        if at:
            del self._buffer[:at]

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(Unreachable(f"connection lost ({error})" if error else "connection closed by the broker"))

    def _fail(self, fault: Exception) -> None:
        self.lost = self.lost or fault
        while self.waiting:
            future = self.waiting.popleft()
            if not future.done():
                future.set_exception(self.lost)
        if self.transport is not None:
            self.transport.abort()


class RequestOptions(TypedDict, total=False):
    """Keyword arguments of `Connection.request`."""

    version: int | None
    at_most: int | None
    timeout: float | None


class Connection:
    def __init__(self, host: str, port: int, client_id: str | None, frames: _Frames, timeout: float) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.timeout = timeout
        self.versions: dict[int, tuple[int, int]] = {}
        self.api_versions: Entity = None
        self._frames = frames
        self._correlation_id = 0
        self._renew_at: float | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str | None = "headrace",
        timeout: float = 10.0,
        negotiate: bool = True,
        unconfirmed_s: float | None = None,
        security: ClientSecurity | None = None,
    ) -> Connection:
        """Connects and negotiates versions. Raises Unreachable with the address.

        `unconfirmed_s`: the connection is lost if the peer's kernel confirms nothing for this long. So a network fault
        is distinguished from a slow broker. Raises Refused when the login fails.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                _, frames = await loop.create_connection(_Frames, host, port, **encryption(host, security))
        except (OSError, TimeoutError) as error:
            raise Unreachable(connect_trouble(host, port, error, timeout)) from error
        connection = cls(host, port, client_id, frames, timeout)
        if unconfirmed_s is not None:
            connection._lost_when_unconfirmed_for(unconfirmed_s)
        try:
            if negotiate:
                await connection._negotiate()
            if security is not None and security.uses_sasl:
                connection._renew_at = await log_in(connection._ask_to_log_in, security, connection.address)
        except BaseException:  # also after a cancelled login: the socket must not stay open
            await connection.close()
            raise
        return connection

    async def _ask_to_log_in(self, api_key: ApiKey, version: int, body: Body) -> Entity:
        return await self.request(api_key, body, version=version)

    def _lost_when_unconfirmed_for(self, seconds: float) -> None:
        option = getattr(socket, "TCP_USER_TIMEOUT", None)  # on Linux only
        assert self._frames.transport is not None
        endpoint = self._frames.transport.get_extra_info("socket")
        if option is not None and endpoint is not None:
            endpoint.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))

    async def _negotiate(self) -> None:
        body = {"client_software_name": "headrace", "client_software_version": __version__}
        answer = None
        for version in (4, 3, 0):
            frame = await self.request_frame(ApiKey.API_VERSIONS, version, body)
            # A broker that does not support the version answers with v0 and error 35.
            if int.from_bytes(frame[4:6], "big", signed=True) == 35:
                continue
            _, answer = codec.read_response(ApiKey.API_VERSIONS, version, frame)
            break
        if answer is None:
            raise Unsupported(f"{self.address}: no version of ApiVersions that we speak")
        self.api_versions = answer
        self.versions = {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in answer.api_keys}

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def closed(self) -> bool:
        """Whether a request needs a new connection: this one is lost, or its session ends soon and no request waits."""
        if self._renew_at is not None and not self._frames.waiting:
            return self._frames.lost is not None or asyncio.get_running_loop().time() >= self._renew_at
        return self._frames.lost is not None

    def version_for(self, api_key: int, at_most: int | None = None) -> int:
        """The highest version that both sides support. Raises Unsupported."""
        if api_key not in self.versions:
            raise Unsupported(f"{self.address} does not serve {api_name(api_key)}")
        lowest, highest = self.versions[api_key]
        ours = codec.known_versions(api_key)
        ceiling = at_most if at_most is not None else _VERSION_CEILINGS.get(api_key, ours[-1])
        version = min(highest, ours[-1], ceiling)
        if version < max(lowest, ours[0]):
            raise Unsupported(
                f"{self.address} serves {api_name(api_key)} {lowest}–{highest}, we speak {ours[0]}–{ceiling}"
            )
        return version

    async def request(
        self,
        api_key: int,
        body: Body,
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout: float | None = None,
    ) -> Entity:
        chosen = self.version_for(api_key, at_most) if version is None else version
        frame = await self.request_frame(api_key, chosen, body, timeout=timeout)
        _, answer = codec.read_response(api_key, chosen, frame)
        return answer

    async def request_frame(
        self, api_key: int, version: int, body: Body, *, timeout: float | None = None
    ) -> memoryview:
        """Sends one request and returns the raw answer (correlation id first, no length prefix)."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = codec.encode_request(api_key, version, self._correlation_id, self.client_id, body)
        return await self.send_frame(frame, timeout=timeout, what=api_name(api_key))

    async def send_frame(
        self, frame: bytes | bytearray, *, timeout: float | None = None, what: str = "request"
    ) -> memoryview:
        """Sends an encoded frame (length prefix included) and returns the raw answer."""
        if self._frames.lost is not None:
            raise Unreachable(f"{self.address}: {self._frames.lost}")
        assert self._frames.transport is not None
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._frames.waiting.append(future)
        self._frames.transport.write(frame)
        limit = self.timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(limit):
                return await future
        except TimeoutError as error:
            await self.close()
            raise NoAnswer(f"{self.address} gave no answer to {what} within {limit:g} s") from error
        except Unreachable as fault:
            raise Unreachable(f"{self.address}: {fault}") from fault

    async def close(self) -> None:
        self._frames._fail(Unreachable("closed by us"))
