"""Lines of files without Spark are those that Spark reads."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.lite.file_rows import FileRows
from headrace.pipelines.spark.running_batch import RunningBatch

_TEXT = "a\r\nä\n"


def lines(folder: Path) -> list[object]:
    source = FileRows(End("file", {"path": str(folder)}, "from.file"), folder, folder.parent / "checkpoint")
    start = source.initial()
    (read,) = source.slots(start, source.latest(start, None), RunningBatch("query", 0))
    return [row["value"] for row in read()]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("plain.txt", _TEXT.encode()),
        ("marked.txt", _TEXT.encode("utf-8-sig")),
        ("packed.txt.gz", gzip.compress(_TEXT.encode())),
        ("packed.txt.bz2", bz2.compress(_TEXT.encode())),
    ],
    ids=["plain", "marked", "gzip", "bzip2"],
)
def test_lines_of_a_file(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(data)
    assert lines(tmp_path / "in") == ["a", "ä"]


def test_file_that_only_spark_reads_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "packed.zst").write_bytes(b"x")
    with pytest.raises(PipelineError, match=r"packed.zst.*compressed"):
        lines(tmp_path / "in")
    # The batch has not begun: Spark can read the file.
    assert not (tmp_path / "checkpoint").exists()
