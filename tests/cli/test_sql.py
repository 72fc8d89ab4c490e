"""`headrace sql`: statements from an option, a file and standard input, in every output format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.cli.conftest import Run

COUNT = (
    "SELECT partition, count(*) AS records, avg((value->>'amount')::DOUBLE) AS mean FROM \"{}\" GROUP BY ALL ORDER BY 1"
)


def test_output_formats(headrace: Run, topic: str, tmp_path: Path) -> None:
    for number in range(4):
        headrace("produce", topic, "--partition", str(number % 2), json.dumps({"amount": number}))
    expected = [{"partition": 0, "records": 2, "mean": 1.0}, {"partition": 1, "records": 2, "mean": 2.0}]
    statement = COUNT.format(topic)
    assert headrace("sql", "-c", statement, "-o", "json").json == expected
    rows = list(csv.DictReader(io.StringIO(headrace("sql", "-c", statement, "-o", "csv").out)))
    assert rows == [{name: str(value) for name, value in row.items()} for row in expected]
    assert headrace("sql", "-c", statement).out.split()[:3] == ["PARTITION", "RECORDS", "MEAN"]
    (tmp_path / "count.sql").write_text(f"CREATE VIEW v AS {statement};\nSELECT * FROM v;\n")
    assert headrace("sql", "-f", "count.sql", "-o", "json").json == expected
    assert headrace("sql", "-o", "json", stdin=statement).json == expected
    assert headrace("sql", "-c", f'SELECT * FROM "{topic}" WHERE partition = 2', "-o", "json").json == []
    headrace("sql", "-c", f"COPY ({statement}) TO '{tmp_path}/rows.parquet'")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == expected


def test_wrong_statement_has_line_and_column(headrace: Run, topic: str) -> None:
    ran = headrace("sql", "-c", f'SELECT *\nFROM "{topic}"\nWHERE nix = 1')
    assert ran.code == 1
    assert ran.err.startswith('headrace: line 3, column 7: Referenced column "nix" not found')
    assert headrace("sql", "-c", "SELECT 1", "-f", "x.sql").code == 2
    assert headrace("sql", "-c", "SELECT 1", "-o", "xml").code == 2
    assert headrace("sql", "-f", "nowhere.sql").err == "headrace: nowhere.sql: No such file or directory\n"
