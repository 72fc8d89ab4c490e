"""The explanation of a port in use: by a server, or by an outgoing connection."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from headrace.net.port_holder import Connection, client_ports, explain_taken, process_with, read_connections

TCP = """\
  46: 0100007F:4A94 00000000:0000 0A 00000000:00000000 02:000AFC7E 00000000     0        0 2245398 2 x 20 0 0 10 -1
  62: 0100007F:A872 0200000A:4A94 01 00000000:00000000 00:00000000 00000000     0        0 2244519 2 x 20 0 0 10 -1
  63: 0100007F:A873 0100007F:4A94 06 00000000:00000000 03:000011D2 00000000     0        0 0 3 x
"""
TCP6 = """\
   0: 00000000000000000000000001000000:A872 00000000000000000000000001000000:4A94 01 0:0 0:0 0 0 0 77 2 x
   1: 0000000000000000FFFF00000100007F:A872 0000000000000000FFFF00000100007F:4A94 01 0:0 0:0 0 0 0 78 2 x
"""


def test_the_table_of_the_system_is_read() -> None:
    assert list(read_connections(TCP.splitlines())) == [
        Connection(19092, "0.0.0.0:0", listens=True, inode=2245398),
        Connection(43122, "10.0.0.2:19092", listens=False, inode=2244519),
        Connection(43123, "127.0.0.1:19092", listens=False, inode=0),
    ]
    assert [found.remote for found in read_connections(TCP6.splitlines())] == ["[::1]:19092", "127.0.0.1:19092"]


needs_the_table = pytest.mark.skipif(client_ports() is None, reason="needs the right to read Linux's /proc/net")


@needs_the_table
def test_a_server_is_named_with_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        explained = explain_taken(server.getsockname()[1])
    assert explained.startswith(f"another process listens there (process {os.getpid()}, ")
    assert explained.endswith("): stop it, or choose another port")


@needs_the_table
def test_an_outgoing_connection_is_named_with_its_process_and_where_it_goes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        explained = explain_taken(client.getsockname()[1])
        first, last = client_ports() or (0, 0)
        assert first <= client.getsockname()[1] <= last
        assert explained.startswith(f"an outgoing connection of process {os.getpid()}, ")
        assert f"to 127.0.0.1:{server.getsockname()[1]} has that port" in explained
        assert explained.endswith(f"(the system gives ports {first} to {last} to clients): choose another port")


def test_a_file_that_closes_while_we_look_does_not_hide_the_process(tmp_path: Path) -> None:
    files = tmp_path / "123" / "fd"
    files.mkdir(parents=True)
    (tmp_path / "123" / "comm").write_text("java\n")
    for number in range(50):
        (files / str(number)).touch()  # no link to read, as for a file that was closed after it was listed
    (files / "50").symlink_to("socket:[77]")
    assert process_with(77, tmp_path) == "process 123, java"
