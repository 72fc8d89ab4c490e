"""Pieces of answers through TLS: in order, the same bytes again after a full socket, sendfile only in the kernel."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

import pytest

from headrace.net.encrypted_queue import EncryptedSendQueue, kernel_encrypts
from headrace.net.send_queue import FileShrank


@dataclass
class Slice:
    file: IO[bytes]
    position: int
    length: int


class Socket:
    """Takes whole pieces, or says that it is full or wants to read, as OpenSSL does."""

    def __init__(self, answers: list[type[Exception] | None] | None = None) -> None:
        self.answers = answers or []
        self.tried: list[bytes] = []
        self.taken = bytearray()

    def send(self, data: bytes) -> int:
        self.tried.append(bytes(data))
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.taken += data
        return len(data)

    def as_socket(self) -> socket.socket:
        return cast("socket.socket", self)


@pytest.fixture
def file() -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as opened:
        opened.write(os.urandom(1_000_000))
        opened.flush()
        yield opened


def content(file: IO[bytes], position: int, length: int) -> bytes:
    return os.pread(file.fileno(), length, position)


def drain(queue: EncryptedSendQueue, sock: Socket) -> None:
    while queue.size_bytes:
        queue.flush(sock.as_socket())


def test_bytes_and_slices_are_sent_in_order_in_bounded_pieces(file: IO[bytes]) -> None:
    queue, sock = EncryptedSendQueue(), Socket()
    queue.push(b"first")
    queue.push_all([b"head", Slice(file, 10, 900_000), b"tail" * 1000, Slice(file, 5, 20_000)])
    queue.push(b"last")
    expected = b"first" + b"head" + content(file, 10, 900_000) + b"tail" * 1000 + content(file, 5, 20_000) + b"last"
    assert queue.size_bytes == len(expected)
    assert queue.flush(sock.as_socket()) == 256 * 1024, "one turn"
    drain(queue, sock)
    assert bytes(sock.taken) == expected
    assert max(len(one) for one in sock.tried) <= 256 * 1024


@pytest.mark.parametrize("wanted", [ssl.SSLWantWriteError, ssl.SSLWantReadError])
def test_a_full_socket_gets_the_same_bytes_again_even_if_more_was_queued(file: IO[bytes], wanted: Any) -> None:
    queue, sock = EncryptedSendQueue(), Socket([wanted, wanted])
    queue.push(b"small")
    assert queue.flush(sock.as_socket()) == 0
    assert queue.wants_read == (wanted is ssl.SSLWantReadError)
    assert queue.is_in_the_middle_of_a_record
    queue.push(b"more")
    queue.push_all([Slice(file, 0, 50_000)])
    assert queue.flush(sock.as_socket()) == 0
    drain(queue, sock)
    assert sock.tried[:3] == [b"small"] * 3
    assert bytes(sock.taken) == b"smallmore" + content(file, 0, 50_000)
    assert not queue.is_in_the_middle_of_a_record and not queue.wants_read


def test_a_file_that_shrank_ends_the_connection(file: IO[bytes]) -> None:
    queue = EncryptedSendQueue()
    queue.push_all([Slice(file, 990_000, 20_000)])
    with pytest.raises(FileShrank):
        queue.flush(Socket().as_socket())


def test_with_kernel_tls_slices_are_sent_by_sendfile(file: IO[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []

    class WithDescriptor(Socket):
        def fileno(self) -> int:
            return 77

    def sendfile(out: int, _: int, position: int, count: int) -> int:
        assert out == 77
        sent.append((position, count))
        return count

    monkeypatch.setattr(os, "sendfile", sendfile)
    queue, sock = EncryptedSendQueue(), WithDescriptor()
    queue.kernel_tls = True
    queue.push_all([b"head", Slice(file, 10, 500_000), b"tail"])
    drain(queue, sock)
    assert sent == [(10, 500_000)] and bytes(sock.taken) == b"headtail"


def test_kernel_tls_is_used_only_if_the_socket_reports_it() -> None:
    class Kernel:
        def getsockopt(self, level: int, option: int, size: int) -> bytes:
            assert (level, option) == (282, 1)
            return bytes(size)

    assert kernel_encrypts(cast("socket.socket", Kernel()))
    with socket.socket() as plain:
        assert not kernel_encrypts(plain)
