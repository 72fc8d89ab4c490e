"""`headrace sql`: statements from an option, a file and standard input, in every output format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pexpect
import pyarrow.parquet as pq

from headrace.testing import RunningBroker
from tests.cli.conftest import Run
from tests.cli.test_terminal import at_a_terminal

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


def test_statements_and_a_pipeline_in_one_file(headrace: Run, topic: str, tmp_path: Path) -> None:
    headrace("produce", topic, "one")
    (tmp_path / "both.sql").write_text(
        f'SELECT count(*) AS n FROM "{topic}"; -- one; row\n'
        f"-- kept\nCREATE PIPELINE kept AS SELECT key, value FROM \"{topic}\" WHERE value <> ';';\n\nSELECT nix;\n"
    )
    ran = headrace("sql", "-f", "both.sql", "-o", "json")
    assert ran.json == [{"n": 1}]
    assert ran.err.startswith("saved in kept; run it with: headrace pipeline run kept\nheadrace: line 5, column 8: ")
    saved = (tmp_path / "kept" / "transformations" / "kept.py").read_text()
    assert f"\nSELECT key, value FROM \"{topic}\" WHERE value <> ';'\n" in saved


def test_prompt_completes_keeps_its_history_and_saves_a_pipeline(
    running: RunningBroker, headrace: Run, topic: str, tmp_path: Path
) -> None:
    headrace("produce", topic, "one", "two")
    screen = at_a_terminal(running, tmp_path, "sql", "-o", "csv", cwd=tmp_path)
    screen.expect("help")
    screen.expect("headrace> ")
    screen.send("\\d\n")
    screen.expect(topic)
    screen.expect("headrace> ")
    # The tab key completes the name of the topic and the column; a statement goes over several lines.
    screen.send(f'SELECT count(*) AS n FROM "{topic[:-1]}\t\n')
    screen.expect(r"\.\.\.> ")
    screen.send("WHERE parti\t >= 0;\n")
    screen.expect("n\r\n2\r\n")
    screen.expect("headrace> ")
    screen.send("SELECT nix;\n")
    screen.expect("line 1, column 8: ")
    screen.expect("headrace> ")
    screen.send(f'CREATE PIPELINE kept AS SELECT key, value FROM "{topic}";\n')
    screen.expect("saved in kept")
    screen.expect("headrace> ")
    screen.send("SELECT 1 +\n")
    screen.expect(r"\.\.\.> ")
    screen.sendintr()
    screen.expect("headrace> ")
    screen.sendeof()
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == 0
    assert (tmp_path / "kept" / "spark-pipeline.yml").exists()
    history = (tmp_path / ".local" / "state" / "headrace" / "sql_history").read_text()
    assert "WHERE partition  >= 0;" in history or "WHERE partition >= 0;" in history
