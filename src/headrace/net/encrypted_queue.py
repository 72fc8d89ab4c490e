"""Answers to send through TLS: read, encrypted and sent piece by piece.

OpenSSL requires the same bytes again after a socket was full, so the current piece is kept until it is sent. Slices of
files are read into memory for encryption. Only if the kernel encrypts (`kernel_tls`) are they sent by sendfile.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import Final

from headrace.net.replies import Bytes
from headrace.net.send_queue import BYTES, SendQueue, file_shrank

# Bytes read and encrypted at once: sixteen TLS records.
_PIECE_BYTES: Final = 256 * 1024
# Bytes that one connection may send in one turn.
_TURN_BYTES: Final = 256 * 1024
_MOST_GATHERED: Final = 64
_SOL_TLS: Final = 282
_TLS_TX: Final = 1
_TLS_INFO_BYTES: Final = 40


def kernel_encrypts(sock: socket.socket) -> bool:
    """Whether the kernel encrypts the socket (kTLS): then sendfile works as without TLS."""
    try:
        sock.getsockopt(_SOL_TLS, _TLS_TX, _TLS_INFO_BYTES)
    except OSError:
        return False
    return True


class EncryptedSendQueue(SendQueue):
    __slots__ = ("_piece", "kernel_tls", "wants_read")

    def __init__(self) -> None:
        super().__init__()
        self.kernel_tls = False
        self.wants_read = False
        """Whether OpenSSL waits for bytes of the client before it can go on sending."""
        self._piece: Bytes | None = None

    @property
    def is_in_the_middle_of_a_record(self) -> bool:
        return self._piece is not None

    def clear(self) -> None:
        super().clear()
        self._piece = None

    def send_alone(self, sock: socket.socket, part: bytearray) -> int:
        self.push(part)
        return self.flush(sock)

    def flush(self, sock: socket.socket) -> int:
        total = 0
        self.wants_read = False
        while self._parts and total < _TURN_BYTES:
            try:
                sent = self._send_piece(sock)
            except (ssl.SSLWantWriteError, BlockingIOError, InterruptedError):
                break
            except ssl.SSLWantReadError:
                self.wants_read = True
                break
            total += sent
            if sent == self.size_bytes:
                self.clear()
            else:
                self._drop(sent)
        return total

    def _send_piece(self, sock: socket.socket) -> int:
        first = self._parts[0]
        if self.kernel_tls and self._piece is None and not isinstance(first, BYTES):
            return self._send_slice(sock, first)
        if self._piece is None:
            self._piece = self._next_piece()
        sent = sock.send(self._piece)
        left = memoryview(self._piece)[sent:]
        self._piece = left if left else None
        return sent

    def _next_piece(self) -> Bytes:
        """The next bytes to send. Later small answers go into a new piece."""
        self._small = None
        gathered: list[Bytes] = []
        size, done = 0, self._sent_of_first
        for part in self._parts:
            room = _PIECE_BYTES - size
            if isinstance(part, BYTES):
                taken: Bytes = memoryview(part)[done : done + room]
            elif self.kernel_tls:
                break
            else:
                count = min(part.length - done, room)
                taken = os.pread(part.file.fileno(), count, part.position + done)
                if len(taken) != count:
                    raise file_shrank(part)
            gathered.append(taken)
            size += len(taken)
            done = 0
            if size >= _PIECE_BYTES or len(gathered) == _MOST_GATHERED:
                break
        return gathered[0] if len(gathered) == 1 else b"".join(gathered)
