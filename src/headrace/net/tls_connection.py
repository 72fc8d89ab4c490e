"""A connection through TLS: the same frames and answers, over OpenSSL on the same socket.

`Connection` reads and writes a socket by itself, so no transport has to be replaced: a non-blocking `ssl.SSLSocket`
replaces the socket. The differences are here:

- The handshake comes first, step by step, when `Handshakes` gives it a turn. OpenSSL's part of the connection is made
  with the first step: a client that sends nothing costs a socket only.
- OpenSSL says WANT_READ or WANT_WRITE where the system says EAGAIN. After the handshake, a read wants to write, or a
  write to read, only for messages of TLS itself; then the connection waits for the other
  direction.
- OpenSSL may hold bytes that are decrypted and not read (`pending`): the socket does not report them as
  readable, so they are read before the connection waits.
- A slice of a file is read and encrypted (`EncryptedSendQueue`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, Protocol, cast

from headrace.net.buffers import BufferPool
from headrace.net.connection import Connection, Serve
from headrace.net.encrypted_queue import EncryptedSendQueue, kernel_encrypts
from headrace.net.handshakes import Handshakes
from headrace.net.traffic import Traffic

log = logging.getLogger("headrace.net")

# Bytes read from one client in one turn: sixteen TLS records.
_TURN_BYTES: Final = 256 * 1024
# Only Linux has the option.
_QUICK_ACKNOWLEDGEMENT: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)


class Encryption(Protocol):
    """TLS of a listener."""

    def wrap(self, sock: socket.socket) -> ssl.SSLSocket:
        """Wraps the socket for the server's side, before the handshake."""

    def principal_of(self, sock: ssl.SSLSocket) -> str:
        """The principal of the client's certificate. An exception closes the connection."""


class TlsConnection(Connection):
    __slots__ = (
        "_again",
        "_encryption",
        "_established",
        "_handshakes",
        "_is_over",
        "_is_wrapped",
        "_read_wants_write",
    )

    _queue: EncryptedSendQueue
    _sock: ssl.SSLSocket

    def __init__(
        self,
        sock: socket.socket,
        peer: tuple[str, int],
        *,
        encryption: Encryption,
        handshakes: Handshakes,
        listener: str,
        loop: asyncio.AbstractEventLoop,
        pool: BufferPool,
        traffic: Traffic,
        serve: Serve,
        max_frame_bytes: int,
        on_closed: Callable[[Connection], None],
        max_login_bytes: int | None = None,
    ) -> None:
        super().__init__(
            sock,
            peer,
            listener=listener,
            loop=loop,
            pool=pool,
            traffic=traffic,
            serve=serve,
            max_frame_bytes=max_frame_bytes,
            on_closed=on_closed,
            max_login_bytes=max_login_bytes,
        )
        self._queue = EncryptedSendQueue()
        self._encryption = encryption
        self._handshakes = handshakes
        self._is_wrapped = False
        self._established = False
        self._again = False
        # Whether the client has sent everything.
        self._is_over = False
        self._read_wants_write = False

    @property
    def is_proven(self) -> bool:
        return self._established and self.authenticated

    # The handshake

    def _readable(self) -> None:
        if self._established:
            self._read()
            return
        # Not watched by the loop until its turn comes: otherwise it would be called again and again.
        self._loop.remove_reader(self._sock)
        self._reading = False
        self._handshakes.ready(self)

    def handshake(self) -> None:
        try:
            if not self._is_wrapped:
                self._is_wrapped = True
                self._sock = self._encryption.wrap(self._sock)
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            self._reading = True
            self._loop.add_reader(self._sock, self._readable)
            return
        except ssl.SSLWantWriteError:
            self._writing = True
            self._loop.add_writer(self._sock, self._writable)
            return
        except OSError as error:
            log.info("%s: closed, no TLS: %s", self, _reason(error))
            self._traffic.failed_handshakes += 1
            # What the client sent is read to its end: the kernel would reset the connection otherwise, and the alert,
            # which says what is wrong, would be lost with it.
            with contextlib.suppress(OSError):
                socket.socket.recv(self._sock, _TURN_BYTES)
            self.close()
            return
        self._begin_to_serve()

    def _begin_to_serve(self) -> None:
        if self.authenticated:
            try:
                self.principal = self._encryption.principal_of(self._sock)
            except Exception as problem:  # a certificate may contain anything
                log.warning("%s: closed, its certificate gives no principal: %s", self, problem)
                self._traffic.failed_handshakes += 1
                self.close()
                return
        self._established = True
        self._queue.kernel_tls = kernel_encrypts(self._sock)
        self._acknowledge_at_once()
        self.last_active = self._loop.time()
        self._reading = True
        self._loop.add_reader(self._sock, self._readable)
        # The first request may have come with the end of the handshake.
        self._read_soon()

    def _acknowledge_at_once(self) -> None:
        """The broker sends no TLS message after the client's last one. A client with Nagle's algorithm would hold its
        first request back until the kernel's delayed acknowledgement of that message, 40 ms later."""
        if _QUICK_ACKNOWLEDGEMENT is not None:
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.IPPROTO_TCP, _QUICK_ACKNOWLEDGEMENT, 1)

    def _writable(self) -> None:
        if not self._established:
            self._loop.remove_writer(self._sock)
            self._writing = False
            self._handshakes.ready(self)
            return
        if self._read_wants_write:
            self._read_wants_write = False
            self._read_soon()
        super()._writable()

    def _flush(self, alone: bytearray | None = None) -> None:
        super()._flush(alone)
        if self._closed:
            return
        is_wanted = self._read_wants_write or (self._queue.size_bytes > 0 and not self._queue.wants_read)
        if is_wanted and not self._writing:
            self._loop.add_writer(self._sock, self._writable)
        elif self._writing and not is_wanted:
            self._loop.remove_writer(self._sock)
        self._writing = is_wanted

    # Reading

    def _read(self) -> None:
        if not self._may_serve():
            self._stop_reading()
            return
        if self._queue.wants_read:
            self._flush()
        received, is_over = self._receive()
        if self._closed:
            return
        if received:
            self.last_active = self._loop.time()
            self._traffic.bytes_in += received
            self._serve_frames()
        if is_over:
            self._is_over = True
            if not self._serves_soon():
                self.close()
        elif not self._closed and self._sock.pending():
            self._read_soon()

    def _receive(self) -> tuple[int, bool]:
        """Reads until there are no bytes, the buffer is full or the turn is over. Returns the count and whether that
        was all."""
        incoming, received = self._incoming, 0
        while received < _TURN_BYTES:
            room = incoming.room()
            if not room:
                break
            try:
                count = self._sock.recv_into(room)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLWantWriteError:
                self._wait_for_room()
                break
            except OSError:
                self.close()
                return received, True
            if count == 0:
                return received, True
            received += count
            incoming.end += count
        if not received and incoming.start == incoming.end:
            # An incomplete TLS record holds no buffer of the pool.
            incoming.give_back()
        return received, False

    def _wait_for_room(self) -> None:
        """OpenSSL must send a TLS message before it can read on, and the socket is full."""
        self._read_wants_write = True
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._sock)
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock, self._writable)

    def _read_soon(self) -> None:
        if not self._again:
            self._again = True
            self._loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        self._again = False
        if not self._closed and self._established and not self._read_wants_write:
            if not self._reading:
                self._reading = True
                self._loop.add_reader(self._sock, self._readable)
            self._read()

    def _resume(self) -> None:
        super()._resume()
        if self._closed:
            return
        if self._is_over and not self._serves_soon():
            # The client waits for this close: the socket does not say again that it has sent everything.
            self.close()
        elif self._reading and self._sock.pending():
            self._read_soon()

    def _peek(self) -> bytes:
        # The raw bytes: SSLSocket cannot peek.
        return socket.socket.recv(self._sock, 1, socket.MSG_PEEK)

    # Ending

    def close(self) -> None:
        if not self._closed and self._established and not self._queue.is_in_the_middle_of_a_record:
            try:
                # Sends close_notify without waiting for the answer.
                self._sock.unwrap()
            except (OSError, ValueError):
                pass
        super().close()


def _reason(error: OSError) -> str:
    """OpenSSL's message about a failed handshake."""
    reason = cast("str | None", getattr(error, "reason", None))
    if reason in ("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTPS_PROXY_REQUEST"):
        return "the client does not speak it (security.protocol=SSL or SASL_SSL is needed)"
    return (reason or str(error)).replace("_", " ").lower()
