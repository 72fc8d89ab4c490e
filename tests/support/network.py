"""A network namespace for each broker, so that a test can drop packets between any two.

with Network(brokers=3) as network:
    network.command(1)                       # prefix of a command that runs as broker 1, at network.address(1)
    network.cut(1, [2, 3])                   # drops all packets between them, without an error to either side
    network.cut(1, [STORE], incoming=False)  # drops packets from 1 to ZooKeeper, but not the other way
    network.mend()

A bridge connects the broker's namespaces with each other and with the namespace of the test, where ZooKeeper (STORE)
and the clients have an address each. nftables inside the broker's namespace drops the packets. Needs root.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final

CLIENTS: Final = -1
STORE: Final = 0
_PREFIX: Final = "hr"
_LOCK: Final = Path(tempfile.gettempdir()) / "headrace-networks.lock"
_numbers = itertools.count()


def why_not() -> str | None:
    """What is missing on this machine for such networks, if anything."""
    for program in ("ip", "nft"):
        if shutil.which(program) is None:
            return f"needs {program}"
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    probe = f"{_PREFIX}{os.getpid()}probe"
    done = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"cannot create network namespaces: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=False)
    return None


class Network:
    def __init__(self, brokers: int = 4) -> None:
        number = next(_numbers)
        self._bridge = f"{_PREFIX}{os.getpid()}b{number}"
        self._net = ""
        self._brokers = range(1, brokers + 1)
        self._cut: set[int] = set()

    def __enter__(self) -> Network:
        _clear_leftovers()
        try:
            # Tests in other processes use such networks too. Each process takes a free one.
            with _LOCK.open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._net = _free_net()
                self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for broker in self._brokers:
            subprocess.run(["ip", "netns", "del", self._name(broker)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)

    def address(self, who: int) -> str:
        return f"{self._net}.{who + 10 if who > 0 else who + 2}"

    def command(self, broker: int) -> list[str]:
        return ["ip", "netns", "exec", self._name(broker)]

    def cut(self, broker: int, others: Iterable[int], *, incoming: bool = True, outgoing: bool = True) -> None:
        """From now on the broker gets no packet from the others (incoming), and sends none to them (outgoing)."""
        self._cut.add(broker)
        for address in map(self.address, others):
            if incoming:
                self._nft(broker, "add", "rule", "inet", "cut", "incoming", "ip", "saddr", address, "drop")
            if outgoing:
                self._nft(broker, "add", "rule", "inet", "cut", "outgoing", "ip", "daddr", address, "drop")

    def mend(self) -> None:
        for broker in self._cut:
            self._nft(broker, "flush", "table", "inet", "cut")
        self._cut.clear()

    def _name(self, broker: int) -> str:
        return f"{self._bridge}n{broker}"

    def _build(self) -> None:
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        for who in (CLIENTS, STORE):
            _run("ip", "address", "add", f"{self.address(who)}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for broker in self._brokers:
            name, near = self._name(broker), f"{self._bridge}v{broker}"
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", near, "master", self._bridge, "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", name, "address", "add", f"{self.address(broker)}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            self._nft(broker, "add", "table", "inet", "cut")
            for chain, hook in (("incoming", "input"), ("outgoing", "output")):
                hooked = f"{{ type filter hook {hook} priority 0; }}"
                self._nft(broker, "add", "chain", "inet", "cut", chain, hooked)

    def _nft(self, broker: int, *words: str) -> None:
        _run(*self.command(broker), "nft", *words)


def _free_net() -> str:
    """198.18.0.0/15 is reserved for network tests: no real host has such an address."""
    taken = subprocess.run(["ip", "-4", "-br", "address"], capture_output=True, text=True, check=True).stdout
    return next(net for net in (f"198.18.{number}" for number in range(256)) if f" {net}." not in taken)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}"


def _clear_leftovers() -> None:
    """Networks of killed test runs: those whose process is gone."""
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout.split()
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=False).stdout.split()
    for what, found in (("netns", names), ("link", links)):
        for name in found:
            owner = re.fullmatch(rf"{_PREFIX}(\d+)b\d+(n\d+)?", name)
            if owner and not Path(f"/proc/{owner[1]}").exists():
                subprocess.run(["ip", what, "del", name], capture_output=True, check=False)
