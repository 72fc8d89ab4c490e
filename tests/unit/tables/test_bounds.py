"""The smallest and largest values of a file, as its table's log has them."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.tables.formats.table_files import Layout, write_file


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.date32(), date(2026, 1, 31)),
        (pa.decimal128(9, 2), Decimal("1.50")),
        (pa.binary(), b"x"),
        (pa.struct([("seconds", pa.int64())]), {"seconds": 1}),
        (pa.list_(pa.int64()), [1]),
        (pa.float64(), float("nan")),
    ],
)
def test_a_field_with_the_name_of_a_position_may_have_any_type(tmp_path: Path, kind: pa.DataType, value: Any) -> None:
    columns = pa.schema([("_offset", pa.int64()), ("timestamp", kind)])
    rows = pa.table([[7], pa.array([value], kind)], schema=columns)
    written = write_file(Layout(str(tmp_path), columns), rows)
    assert json.loads(str(written["stats"]))["maxValues"] == {"_offset": 7}
