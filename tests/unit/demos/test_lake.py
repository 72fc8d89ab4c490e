"""Tables of a pipeline: of a streaming table only the committed files count."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.demos.lake import Lake


def _file(path: Path, *values: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": list(values)}), path)
    return json.dumps({"path": path.as_uri()})


def test_files_of_an_unfinished_batch_do_not_count(tmp_path: Path) -> None:
    table, lake = tmp_path / "tables" / "positions", Lake(str(tmp_path))
    assert lake.size("positions") == 0 and lake.rows("gold") == []
    log = table / "_spark_metadata"
    log.mkdir(parents=True)
    # Spark has opened a file of its first batch.
    (table / "part-0.parquet").touch()
    assert lake.size("positions") == 0
    first = _file(table / "part-0.parquet", 1, 2)
    assert lake.size("positions") == 0
    (log / "0").write_text(f"v1\n{first}\n")
    (log / ".1.tmp").write_text("v1\n")
    _file(table / "part 1.parquet", 9)
    assert lake.size("positions") == 2
    second = _file(table / "part 1.parquet", 3)
    (log / "1.compact").write_text(f"v1\n{first}\n{second}\n")
    assert lake.size("positions") == 3


def test_a_view_is_all_its_files(tmp_path: Path) -> None:
    _file(tmp_path / "tables" / "gold" / "part-0.parquet", 1)
    _file(tmp_path / "tables" / "gold" / "part-1.parquet", 2)
    lake = Lake(str(tmp_path))
    assert lake.rows("gold") == [{"n": 1}, {"n": 2}]
    # Spark replaces the view at this moment.
    (tmp_path / "tables" / "gold" / "part-2.parquet").touch()
    assert lake.rows("gold") == []
