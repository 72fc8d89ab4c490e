"""Ports for servers: below the range of outgoing connections, and one process each."""

from __future__ import annotations

import subprocess
import sys

from headrace.net.free_ports import free_port

PROGRAM = """
import sys
from headrace.net.free_ports import free_port
print(*(free_port(range(20_000, 20_400)) for _ in range(60)), flush=True)
sys.stdin.read()
"""


def test_processes_that_run_at_one_time_get_different_ports() -> None:
    command = [sys.executable, "-c", PROGRAM]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        drawn = [[int(port) for port in process.stdout.readline().split()] for process in processes if process.stdout]
    finally:
        for process in processes:
            process.communicate(timeout=60)
    together = [port for ports in drawn for port in ports]
    assert len(together) == 180
    assert len(set(together)) == 180


def test_a_process_gets_a_port_once_and_none_of_outgoing_connections() -> None:
    ports = [free_port() for _ in range(500)]
    assert len(set(ports)) == 500
    assert max(ports) < 32_768


def test_ports_of_a_process_that_ended_are_free_again() -> None:
    for _ in range(8):
        done = subprocess.run([sys.executable, "-c", PROGRAM], input="", capture_output=True, text=True, check=True)
        assert len(done.stdout.split()) == 60
