"""A broker and a console that a command has started end with it, also if it is killed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clock import wait_for

_STARTS = {
    "a broker": "with child_broker(data / 'b') as broker: wait(broker)",
    "a demo's broker": "with running_brokers(data / 'b', port=0) as brokers: wait(brokers.bootstrap)",
    "a demo's console": (
        "with running_brokers(data / 'b', port=0) as brokers, web_console(brokers.bootstrap, data / 'log') as url: "
        "wait(brokers.bootstrap, url.split('/')[2])"
    ),
}
_PROGRAM = """\
import sys, time
from pathlib import Path
from headrace.cli.support.child_broker import child_broker
from headrace.demos.processes import running_brokers, web_console

def wait(*addresses):
    print(*addresses, flush=True)
    time.sleep(300)

data = Path(sys.argv[1])
"""


def accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize("what", _STARTS)
def test_what_a_killed_command_has_started_ends(what: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", _PROGRAM + _STARTS[what], str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        addresses = command.stdout.readline().split()
        assert addresses
        assert all(map(accepts, addresses))
        command.send_signal(signal.SIGKILL)
        wait_for(lambda: not any(map(accepts, addresses)), f"the end of {what}", within=60)
