"""The list of system programs is complete, and says what to install."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def listed() -> dict[str, str]:
    """Package by program."""
    rows = [line.split("|") for line in (ROOT / "tests/system-programs.txt").read_text().splitlines() if "|" in line]
    return {row[0].strip().split(",")[0]: row[1].strip() for row in rows if not row[0].startswith("#")}


def test_every_program_that_a_test_needs_is_listed() -> None:
    needed = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for marks in re.findall(r"\bneeds\(([^)]*)\)", file.read_text())
        for name in re.findall(r'"([\w.-]+)"', marks)
    }
    assert needed - {"kafka", "zookeeper"} <= set(listed())


def test_what_is_missing_is_named_with_its_package_and_nothing_is_installed_unasked() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/system_programs.py")],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0
    assert f"kcat: install the Debian package {listed()['kcat']}" in done.stdout
    assert "--install" in done.stdout


def test_make_help_names_every_target_with_a_line_of_help() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    named = set(re.findall(r"^  make (\w+) +\S", done.stdout, re.MULTILINE))
    assert {"setup", "run", "test", "check", "bench", "clean", "chaos", "simulate", "fuzz", "quick", "dist"} <= named
