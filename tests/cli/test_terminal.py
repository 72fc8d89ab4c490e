"""What a person at a terminal gets: boxes, questions, a table that moves."""

from __future__ import annotations

from pathlib import Path

import pexpect

from headrace.testing import RunningBroker
from tests.cli.conftest import PROGRAMS, Run, environment


def at_a_terminal(running: RunningBroker, home: Path, *words: str) -> pexpect.spawn:
    env = environment(home, running.bootstrap)
    program = str(PROGRAMS / "headrace")
    return pexpect.spawn(program, list(words), env=env, encoding="utf-8", timeout=15, dimensions=(40, 140))  # type: ignore[arg-type]


def test_tables_have_boxes(running: RunningBroker, topic: str, tmp_path: Path) -> None:
    screen = at_a_terminal(running, tmp_path, "topics", "ls")
    screen.expect(pexpect.EOF)
    assert "┃" in (screen.before or "")
    assert topic in (screen.before or "")


def test_a_topic_is_deleted_after_a_yes(running: RunningBroker, topic: str, tmp_path: Path, headrace: Run) -> None:
    screen = at_a_terminal(running, tmp_path, "topics", "rm", topic)
    screen.expect("for good\\?")
    screen.sendline("y")
    screen.expect(pexpect.EOF)
    assert topic not in headrace("topics", "ls").out


def test_lag_moves_until_it_is_interrupted(running: RunningBroker, topic: str, tmp_path: Path, headrace: Run) -> None:
    group = f"w-{topic}"
    headrace("produce", topic, "a", "b", "-p", "0")
    headrace("consume", topic, "-g", group, "-n", "1")
    screen = at_a_terminal(running, tmp_path, "groups", "lag", group, "--watch", "--every", "0.2")
    screen.expect("█")
    screen.expect("██")
    screen.sendintr()
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == 0
