"""The pipeline directory of the tables of a cluster."""

from __future__ import annotations

from pathlib import Path

from headrace.tables.definitions import Definitions
from headrace.tables.lake_table import LakeTable


def test_a_new_table_does_not_go_on_with_the_checkpoint_of_a_dropped_one(tmp_path: Path) -> None:
    definitions = Definitions(tmp_path)
    for topic in ("orders", "clicks"):
        definitions.add(LakeTable(topic, "id", f"/lake/{topic}"), "localhost:9092")
        (tmp_path / "storage" / "checkpoints" / topic / "offsets").mkdir(parents=True)
    definitions.of("orders").file.unlink()
    definitions.add(LakeTable("orders", "id", "/lake/new"), "localhost:9092")
    assert [place.name for place in (tmp_path / "storage" / "checkpoints").iterdir()] == ["clicks"]
