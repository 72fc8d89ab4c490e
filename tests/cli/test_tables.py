"""`headrace tables …` without Spark: create, list, show, pause, resume, compact and drop."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run


def test_life_of_a_table(headrace: Run, topic: str, tmp_path: Path) -> None:
    headrace("produce", topic, "--partition", "0", "a", "b")
    made = headrace("tables", "create", topic, "-o", "json")
    assert made.code == 0, made
    assert made.json["definition"] == f"tables/transformations/{topic}.py"
    (row,) = headrace("tables", "ls", "-o", "json").json
    assert (row["table"], row["state"], row["rows"], row["behind"]) == (topic, "ready", 0, 2)
    shown = headrace("tables", "show", topic, "-o", "json").json
    assert shown["offsets"] == {"0": 0, "1": 0, "2": 0}
    assert list(shown["columns"]) == ["key", "value", "headers", "topic", "partition", "offset", "timestamp"]
    assert headrace("tables", "pause", topic).out == f"paused {topic}\n"
    assert headrace("tables", "pause", topic, "-o", "json").json == {"table": topic, "done": False}
    assert headrace("tables", "run", "--once").err == (
        f"headrace: {tmp_path}/tables has no table to run: create one with 'headrace tables create TOPIC'\n"
    )
    assert headrace("tables", "resume", topic, "-o", "json").json == {"table": topic, "done": True}
    assert headrace("tables", "compact", topic, "-o", "json").json["files_joined"] == 0
    assert headrace("tables", "create", topic).err == f"headrace: topic '{topic}' has a table in tables already\n"
    assert headrace("tables", "drop", topic, "--dry-run", "-o", "json").json["done"] is False
    assert headrace("tables", "drop", topic, "--yes").code == 0
    assert (tmp_path / "lake" / topic / "_delta_log").is_dir()
    assert headrace("tables", "ls", "-o", "json").json == []
    # The kept rows belong to the topic, so a new definition attaches to them.
    assert headrace("tables", "create", topic).code == 0
    assert headrace("tables", "drop", topic, "--purge", "--yes").code == 0
    assert not (tmp_path / "lake" / topic).exists()


def test_wrong_tables_are_refused_in_a_sentence(headrace: Run, topic: str, tmp_path: Path) -> None:
    missing = headrace("tables", "create", topic[:-1])
    assert (missing.code, missing.err) == (
        1,
        f"headrace: topic '{topic[:-1]}' does not exist (did you mean \"{topic}\"?)\n",
    )
    assert "choose delta, iceberg, parquet" in headrace("tables", "create", topic, "--format", "csv").err
    assert headrace("tables", "create", topic, "--backfill", "sometime").code == 2
    assert "mode 'upsert' is unknown" in headrace("tables", "create", topic, "--mode", "upsert").err
    assert "must be day(timestamp) or partition" in headrace("tables", "create", topic, "--partition-by", "x").err
    assert headrace("tables", "show", topic).err.startswith(f"headrace: topic '{topic}' has no table in tables")
    headrace("tables", "create", topic, "--backfill", "1 hour ago")
    other = ("tables", "create", topic, "-d", "others", "--path", f"lake/{topic}")
    (tmp_path / "lake" / topic / "_delta_log" / "00000000000000000000.json").write_text("{")
    damaged = headrace(*other)
    assert damaged.code == 1 and damaged.err.startswith(f"headrace: {tmp_path}/lake/{topic}: "), damaged
