"""Answers are sent whole and in order, independent of the pieces that the socket takes."""

from __future__ import annotations

import os
import random
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.net.send_queue import SendQueue


@dataclass
class Slice:
    file: object
    position: int
    length: int


@pytest.mark.parametrize("seed", range(5))
def test_small_large_and_file_pieces_arrive_in_order_through_a_narrow_socket(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    ours, theirs = socket.socketpair()
    queue = SendQueue()
    content = bytes(range(256)) * 200
    (tmp_path / "records").write_bytes(content)
    expected, received = bytearray(), bytearray()
    with ours, theirs, (tmp_path / "records").open("rb") as file:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        ours.setblocking(False)
        theirs.setblocking(False)
        for _ in range(300):
            size = chance.choice([1, 60, 1024, 1025, 20_000])
            piece = chance.randbytes(size)
            if not queue.size_bytes and chance.random() < 0.5:
                queue.send_alone(ours, bytearray(piece))
                expected += piece
            elif chance.random() < 0.8:
                queue.push(bytearray(piece) if chance.random() < 0.5 else piece)
                expected += piece
            else:
                queue.push_all([piece, Slice(file, 100, size)])  # type: ignore[list-item]
                expected += piece + content[100 : 100 + size]
            if chance.random() < 0.3:
                # Sometimes the client does not read for a while, and the next answer meets a full socket.
                queue.flush(ours)
                if chance.random() < 0.8:
                    _take(theirs, received)
                    assert queue.size_bytes == len(expected) - len(received)
        while queue.size_bytes:
            queue.flush(ours)
            _take(theirs, received)
    assert received == expected


def _take(sock: socket.socket, into: bytearray) -> None:
    while True:
        try:
            into += sock.recv(1 << 16)
        except BlockingIOError:
            return


def test_a_queued_answer_is_a_copy() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        queue = SendQueue()
        answer = bytearray(b"first")
        queue.push(answer)
        answer[:] = b"other"
        queue.push(answer)
        assert queue.flush(ours) == 10
        assert os.read(theirs.fileno(), 100) == b"firstother"
        assert queue.size_bytes == 0
