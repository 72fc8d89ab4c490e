"""Output in a terminal: boxes, confirmations, live tables, progress bars."""

from __future__ import annotations

import re
from pathlib import Path

import pexpect

from headrace.testing import RunningBroker
from tests.cli.conftest import PROGRAMS, Run, environment


def at_a_terminal(
    running: RunningBroker, home: Path, *words: str, cwd: Path | None = None, columns: int = 140
) -> pexpect.spawn:
    env = environment(home, running.bootstrap)
    program = str(PROGRAMS / "headrace")
    return pexpect.spawn(program, list(words), env=env, encoding="utf-8", timeout=60, dimensions=(40, columns), cwd=cwd)


def test_tables_have_boxes(running: RunningBroker, topic: str, tmp_path: Path) -> None:
    # Wide enough for the longest topic name, because other tests also create topics here.
    screen = at_a_terminal(running, tmp_path, "topics", "ls", columns=400)
    screen.expect(pexpect.EOF)
    assert "┃" in (screen.before or "")
    assert topic in (screen.before or "")


def test_row_that_does_not_fit_the_terminal_is_a_paragraph(running: RunningBroker, topic: str, tmp_path: Path) -> None:
    screen = at_a_terminal(running, tmp_path, "topics", "ls", columns=40)
    screen.expect(pexpect.EOF)
    assert re.search(rf"topic +{topic}\r\n", screen.before or "")
    assert re.search(r"under replicated +0\r\n", screen.before or "")
    assert "┃" not in (screen.before or "")


def test_doctor_colours_by_severity(running: RunningBroker, topic: str, tmp_path: Path, headrace: Run) -> None:
    headrace("configs", "set", f"topic/{topic}", "min.insync.replicas=2")
    screen = at_a_terminal(running, tmp_path, "doctor", "--watch-lag", "0")
    screen.expect(pexpect.EOF)
    colours = {"ok": "32", "WARN": "33", "FAIL": "31"}
    shown = re.findall(r"\x1b\[(\d+)m\x1b\[\d+m(ok|WARN|FAIL)", screen.before or "")
    assert {mark for _, mark in shown} >= {"ok", "FAIL"}
    assert all(colours[mark] == colour for colour, mark in shown), shown


def test_topic_is_deleted_after_confirmation(running: RunningBroker, topic: str, tmp_path: Path, headrace: Run) -> None:
    screen = at_a_terminal(running, tmp_path, "topics", "rm", topic)
    screen.expect("for good\\?")
    screen.sendline("y")
    screen.expect(pexpect.EOF)
    assert topic not in headrace("topics", "ls").out


def test_ctrl_c_cancels_a_confirmation(running: RunningBroker, topic: str, tmp_path: Path, headrace: Run) -> None:
    screen = at_a_terminal(running, tmp_path, "topics", "rm", topic)
    screen.expect("for good\\?")
    screen.sendintr()
    screen.expect(pexpect.EOF)
    screen.close()
    assert (screen.exitstatus, "Traceback" in (screen.before or "")) == (1, False)
    assert topic in headrace("topics", "ls").out


def test_lag_watch_redraws_until_it_is_interrupted(
    running: RunningBroker, topic: str, tmp_path: Path, headrace: Run
) -> None:
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


def test_long_work_shows_a_progress_bar(running: RunningBroker, topic: str, tmp_path: Path, headrace: Run) -> None:
    """Import, export and bench draw a bar in a terminal and erase it at the end. Elsewhere there is none."""
    rows = 3000
    (tmp_path / "rows.ndjson").write_text("".join(f'{{"value": "row {n}", "partition": 0}}\n' for n in range(rows)))
    slowly = ("--rate", "2500")
    # A slow producer makes the export slow.
    whole = ("consume", topic, "--follow", "--from", "beginning", "-n", str(rows), "--to", "copy.csv")
    exported = at_a_terminal(running, tmp_path, *whole, cwd=tmp_path)
    sent = at_a_terminal(running, tmp_path, "produce", topic, "--file", "rows.ndjson", *slowly, cwd=tmp_path)
    sent.expect(r"sending \[#+ +\] \d+% [\d,]+ records, [\d,]+/s, \d+ s left")
    sent.expect(pexpect.EOF)
    assert "\r\x1b[K" in (sent.before or "")
    assert f"sent {rows} records" in (sent.before or "")
    exported.expect(r"exporting \[#+ +\] \d+% [\d,]+ records, [\d,]+/s, \d+ s left")
    exported.expect(pexpect.EOF)
    assert "\r\x1b[K" in (exported.before or "")
    assert len((tmp_path / "copy.csv").read_text().splitlines()) == rows + 1
    # Runs for seconds, so that a bar appears; then it is interrupted.
    bench = at_a_terminal(running, tmp_path, "bench", "latency", "-n", "60000")
    bench.expect(r"sending \[#+ +\] \d+%")
    bench.sendintr()
    bench.expect(pexpect.EOF)
    quiet = headrace("produce", topic, "--file", "rows.ndjson")
    assert quiet.err.count("\n") == 1, "nothing but the result"
    assert "%" not in quiet.err


def test_typed_records_show_no_progress_bar(running: RunningBroker, topic: str, tmp_path: Path) -> None:
    screen = at_a_terminal(running, tmp_path, "produce", topic)
    screen.sendline("one")
    screen.sendline("two")
    screen.sendeof()
    screen.expect("sent 2 records")
    assert "sending" not in (screen.before or "")
    screen.expect(pexpect.EOF)
