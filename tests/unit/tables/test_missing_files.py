"""A commit does not name a file that was removed after its task wrote it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.pipelines.errors import PipelineError
from headrace.tables.formats.table_files import Layout, refuse_missing_files, write_file


@pytest.mark.parametrize("staging", ["", "data"])
def test_a_file_that_was_removed_is_not_committed(tmp_path: Path, staging: str) -> None:
    layout = Layout(str(tmp_path), pa.schema([("offset", pa.int64())]), staging=staging)
    names = [str(write_file(layout, pa.table({"offset": [n]}))["path"]) for n in range(2)]
    refuse_missing_files(layout, names)
    (tmp_path / staging / names[1]).unlink()
    with pytest.raises(PipelineError, match="was removed before it could be committed"):
        refuse_missing_files(layout, names)
