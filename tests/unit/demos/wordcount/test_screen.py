"""The screen of the word count demo fits the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from headrace.demos.wordcount.screen import Snapshot, fitting_rows, hints, picture, program

_WORDS = {f"word{n}": 100 - n for n in range(60)}


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 40), (200, 60)])
def test_live_table_is_never_taller_than_the_screen(width: int, height: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True)
    hint_lines = len(console.render_lines(hints("localhost:9092")))
    rows = fitting_rows(height, hint_lines)
    drawn = picture(Snapshot(_WORDS, 12, 3, 250, 4, "the last line"), "localhost:9092", rows=rows)
    lines = len(console.render_lines(drawn))
    assert lines < height
    if height >= 40:
        assert lines + hint_lines < height


def test_no_lag_is_shown_before_the_first_batch() -> None:
    def shown(lag: int | None, batch_ms: int | None, batches: int) -> str:
        console = Console(file=io.StringIO(), width=200)
        console.print(picture(Snapshot({}, 12, lag, batch_ms, batches, "x"), "localhost:9092", rows=5))
        return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]

    assert "lag –   batches 0   last batch –" in shown(None, None, 0)
    assert "lag 0   batches 1   last batch 250 ms" in shown(0, 250, 1)


def test_hints_name_the_running_broker() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(hints("localhost:9192"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "kafka-console-consumer.sh --bootstrap-server localhost:9192" in text
    assert "LongDeserializer" in text and "wordcount.counts" in text


def test_program_name_can_be_run_in_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = tmp_path / ".venv" / "bin"
    ours.mkdir(parents=True)
    for name in ("python", "headrace"):
        (ours / name).touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.executable", str(ours / "python"))
    monkeypatch.setenv("PATH", "/usr/bin")
    assert program() == ".venv/bin/headrace"
    monkeypatch.setenv("PATH", str(ours))
    assert program() == "headrace"
