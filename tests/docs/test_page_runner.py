"""The page runner finds wrong output, a wrong exit code and a block that is not run."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import cast

import pexpect
import pytest

from tests.docs import page as pages
from tests.docs.page import LeftRunning, PageRun, is_shown
from tests.support.clock import wait_for

ECHO = "```sh\necho one; echo two\n```\n```text\n{}\n```\n"


def run(text: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> PageRun:
    monkeypatch.setattr(pages, "ROOT", directory)
    page = directory / "page.md"
    page.write_text(text)
    with PageRun(page, directory, {}) as reading:
        reading.read()
    return reading


@pytest.mark.parametrize("shown", ["one\ntwo", "...\ntwo", "o...\ntwo", "one\n..."])
def test_expected_output_passes(shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(ECHO.format(shown), tmp_path, monkeypatch)


@pytest.mark.parametrize("shown", ["one", "one\nthree", "two\none", "one\ntwo\nthree"])
def test_unexpected_output_fails(shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        run(ECHO.format(shown), tmp_path, monkeypatch)


def test_output_without_a_block_below_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="it printed"):
        run("```sh\necho one\n```\n", tmp_path, monkeypatch)


def test_failing_command_fails_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="exit code 3"):
        run("```sh\nfalse || exit 3\n```\n", tmp_path, monkeypatch)


def test_files_variables_and_the_directory_persist_between_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(
        '```python title="count.py"\nprint(1 + 1)\n```\n'
        "```sh\nmkdir inner; cd inner; export WORD=kept\n```\n"
        "```sh\npython ../count.py; echo $WORD\n```\n```text\n2\nkept\n```\n",
        tmp_path,
        monkeypatch,
    )


def test_background_block_runs_until_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: (pathlib.Path('ended').write_text('x'), sys.exit(0)))\n"
        "print('serves', flush=True)\nsignal.pause()\n"
    )
    (tmp_path / "server.py").write_text(program)
    text = (
        '```sh title="Leave this running"\npython server.py\n```\n```text\nserves\n```\n```sh\ntest ! -e ended\n```\n'
    )
    run(text, tmp_path, monkeypatch)
    assert (tmp_path / "ended").exists()


def test_closed_terminal_ends_its_reader_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def read_nonblocking(self, _size: int, *, timeout: float | None) -> str:
            raise OSError(errno.EBADF, "the terminal is closed")

    errors: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    running = LeftRunning(cast("pexpect.spawn[str]", Closed()))
    wait_for(lambda: running.has_ended, "the reader ends")
    assert errors == []


def test_page_ports_are_replaced_by_free_ones_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "```sh\nprintf 'localhost:9092\\n' | tee where\n```\n```text\nlocalhost:9092\n```\n"
    reading = run(text, tmp_path, monkeypatch)
    assert (tmp_path / "where").read_text() == f"localhost:{reading.ports['9092']}\n"
    assert reading.ports["9092"] != "9092"


def test_write_mode_replaces_different_output_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_DOCS", "write")
    text = "# A\n\n" + ECHO.format("three") + "\nB\n\n```sh\necho 4\n```\n\nC\n\n" + ECHO.format("...")
    reading = run(text, tmp_path, monkeypatch)
    reading.write()
    wanted = (
        "# A\n\n" + ECHO.format("one\ntwo") + "\nB\n\n```sh\necho 4\n```\n```text\n4\n```\n\nC\n\n" + ECHO.format("...")
    )
    assert (tmp_path / "page.md").read_text() == wanted


def test_times_and_widths_are_not_compared() -> None:
    assert is_shown("┃ a  ┃\n2026-01-01T00:00:00.000Z x", "┃ a         ┃\n2027-11-11T11:11:11.111Z x")
    assert not is_shown("2026-01-01T00:00:00.000Z x", "2027-11-11T11:11:11.111Z y")
