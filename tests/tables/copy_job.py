"""Copies a topic into its table until it is killed: what the tasks and the driver of a batch do, without Spark.

python copy_job.py BOOTSTRAP DEFINITION_FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa

from headrace.client.security import ClientSecurity
from headrace.pipelines.options import Cluster
from headrace.tables.formats.table_files import OFFSET, PARTITION, ends_of, file_writer, new_rows
from headrace.tables.formats.table_log import DataFile
from headrace.tables.lake_table import UPSERT, LakeTable, read_definition
from headrace.tables.latest_rows import latest_rows
from headrace.tables.relations.topic_ranges import whole_topic
from headrace.tables.relations.topic_relation import KAFKA_COLUMNS, kafka_schema
from headrace.tables.relations.topic_scan import client_of, read_range
from headrace.tables.table_logs import layout_of, log_of

SCHEMA = kafka_schema(binary=True)


def copy(cluster: Cluster, table: LakeTable) -> None:
    """Brings the table up to the present."""
    log = log_of(table)
    before = log.offsets()
    with client_of(cluster) as client:
        batches = [b for r in whole_topic(client, log.topic) for b in read_range(client, r, KAFKA_COLUMNS)]
    if not batches:
        return
    rows = pa.Table.from_batches(batches)
    rows = rows.append_column(PARTITION, rows["partition"]).append_column(OFFSET, rows["offset"])
    write_rows(table, rows, before)


def write_rows(table: LakeTable, rows: pa.Table, before: dict[int, int], columns: pa.Schema = SCHEMA) -> None:
    """One batch of Spark: tasks write files, the driver commits."""
    log = log_of(table)
    if table.mode == UPSERT:
        fresh = pa.Table.from_batches([new_rows(part, before) for part in rows.to_batches()], rows.schema)
        if fresh.num_rows:
            log.upsert(latest_rows(fresh, SCHEMA, None)[0], ends_of(fresh), before)
        return
    files, ends = list[DataFile](), dict[int, int]()
    for batch in rows.to_batches():
        for written in file_writer(layout_of(table, columns), before)(iter([batch])):
            for row in written.to_pylist():
                files.append(DataFile(row["path"], row["size"], row["rows"], json.loads(row["keys"]), row["stats"]))
                for index, end in json.loads(row["ends"]).items():
                    ends[int(index)] = max(ends.get(int(index), 0), end)
    if files:
        log.append(files, ends, before, 1)


if __name__ == "__main__":
    bootstrap, file = sys.argv[1:]
    while True:
        copy(Cluster(bootstrap, ClientSecurity(), "copy-job"), read_definition(Path(file)))
