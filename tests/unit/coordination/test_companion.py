"""The companion ends the ZooKeeper session of a killed process at once, and never that of a live process."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.coordination.companion import Companion, end_session
from headrace.coordination.store import NodeExists
from headrace.coordination.zookeeper import ZooKeeperStore
from headrace.net.free_ports import free_port
from tests.support.clock import PATIENCE_S, wait_for
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.needs("zookeeper")

# Longer than any test waits: what is gone earlier did not time out.
SESSION_S = 60.0
MEMBER = f"""
import asyncio, sys
from headrace.coordination.zookeeper import ZooKeeperStore

async def live():
    store = ZooKeeperStore(sys.argv[1], session_timeout={SESSION_S})
    await store.connect({PATIENCE_S})
    await store.make_chroot()
    store.start_companion()
    await store.create("/live", b"", ephemeral=True)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await store.close()

asyncio.run(live())
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def tree(server: ZooKeeperServer) -> str:
    return server.chroot()


@pytest.fixture
def member(tree: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", MEMBER, tree], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def is_there(tree: str) -> bool:
    async def look() -> bool:
        store = ZooKeeperStore(tree, session_timeout=10)
        await store.connect(PATIENCE_S)
        found = await store.exists("/live")
        await store.close()
        return found is not None

    return asyncio.run(look())


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_session_of_a_killed_process_ends_at_once(
    tree: str, member: subprocess.Popen[str], by: signal.Signals
) -> None:
    assert is_there(tree)
    member.send_signal(by)
    member.wait(PATIENCE_S)
    wait_for(lambda: not is_there(tree), "the session to end", within=SESSION_S / 2)


def test_the_session_of_a_frozen_process_stays(tree: str, member: subprocess.Popen[str]) -> None:
    member.send_signal(signal.SIGSTOP)
    assert is_there(tree)
    assert is_there(tree), "looked at by two sessions, one after the other, and still there"
    member.send_signal(signal.SIGCONT)


def test_graceful_close_stops_the_companion_process(tree: str, member: subprocess.Popen[str]) -> None:
    children = Path(f"/proc/{member.pid}/task/{member.pid}/children")
    if not children.exists():
        pytest.skip("children are listed by Linux")
    [companion] = children.read_text().split()
    assert member.stdin is not None
    member.stdin.write("leave\n")
    member.stdin.flush()
    assert member.wait(PATIENCE_S) == 0
    wait_for(lambda: not Path(f"/proc/{companion}").exists(), "the companion to end")
    assert not is_there(tree)


def test_closing_an_expired_session_does_nothing(server: ZooKeeperServer) -> None:
    async def use() -> None:
        store = ZooKeeperStore(server.chroot(), session_timeout=10)
        await store.connect(PATIENCE_S)
        await store.make_chroot()
        await store.create("/kept", b"", ephemeral=True)
        assert end_session(server.connect, 5.0, 4711, b"\0" * 16)
        with pytest.raises(NodeExists):
            await store.create("/kept", b"")
        await store.close()

    asyncio.run(use())


def test_the_companion_stops_when_the_ensemble_does_not_answer() -> None:
    assert not end_session(f"127.0.0.1:{free_port()}", 0.3, 1, b"")


def test_a_companion_that_cannot_start_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    companion = Companion("127.0.0.1:1", 6.0)
    assert "nowhere" in (companion.start() or "")
    companion.session_is(1, b"")
    companion.withdraw()
