"""zookeeper-shell: reads nodes of a ZooKeeper: `zookeeper-shell.sh host:port ls /brokers/ids` (ls, get, stat)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Protocol

USAGE = "USAGE: zookeeper-shell.sh zookeeper_host:port[/path] [ls|get|stat PATH]"


class Stat(Protocol):
    """The metadata of a node."""

    czxid: int
    mzxid: int
    pzxid: int
    cversion: int
    version: int
    aversion: int
    ephemeralOwner: int  # noqa: N815 (ZooKeeper's name)
    dataLength: int  # noqa: N815
    numChildren: int  # noqa: N815


class Reader(Protocol):
    """The part of kazoo's client that this tool uses."""

    def get_children(self, path: str) -> list[str]: ...
    def get(self, path: str) -> tuple[bytes | None, Stat]: ...
    def exists(self, path: str) -> Stat | None: ...


def _list(client: Reader, path: str) -> str:
    return "[" + ", ".join(sorted(client.get_children(path))) + "]"


def _get(client: Reader, path: str) -> str:
    data, _ = client.get(path)
    return "null" if data is None else data.decode(errors="replace")


def _stat(client: Reader, path: str) -> str:
    found = client.exists(path)
    if found is None:
        return f"Node does not exist: {path}"
    fields = {
        "cZxid": hex(found.czxid),
        "mZxid": hex(found.mzxid),
        "pZxid": hex(found.pzxid),
        "cversion": found.cversion,
        "dataVersion": found.version,
        "aclVersion": found.aversion,
        "ephemeralOwner": hex(found.ephemeralOwner),
        "dataLength": found.dataLength,
        "numChildren": found.numChildren,
    }
    return "\n".join(f"{name} = {value}" for name, value in fields.items())


COMMANDS: dict[str, Callable[[Reader, str], str]] = {"ls": _list, "get": _get, "stat": _stat}


def answer(client: Reader, words: list[str]) -> tuple[str, int]:
    """Output and exit code of a command."""
    from kazoo.exceptions import KazooException, NoNodeError

    if not words or words[0] not in COMMANDS:
        return f"{words[0] if words else ''!r} is not understood: use ls, get or stat with a path", 1
    path = words[1] if len(words) > 1 else "/"
    try:
        return COMMANDS[words[0]](client, path), 0
    except NoNodeError:
        return f"Node does not exist: {path}", 1
    except (KazooException, ValueError) as error:
        return f"{words[0]} {path}: {error}", 1


def main(argv: list[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        print(USAGE, file=sys.stderr)
        return 1
    from kazoo.client import KazooClient
    from kazoo.handlers.threading import KazooTimeoutError

    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    client = KazooClient(hosts=words[0], timeout=6.0, read_only=True)
    try:
        client.start(timeout=10)
    except KazooTimeoutError:
        print(f"no ZooKeeper answered at {words[0]} within 10 s: is it running?", file=sys.stderr)
        return 1
    try:
        if len(words) > 1:
            text, code = answer(client, words[1:])
            print(text, file=sys.stdout if code == 0 else sys.stderr)
            return code
        for line in sys.stdin:
            if line.strip() in ("quit", "exit"):
                break
            if line.strip():
                print(answer(client, line.split())[0])
        return 0
    finally:
        client.stop()
        client.close()


if __name__ == "__main__":
    sys.exit(main())
