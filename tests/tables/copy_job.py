"""Copies a topic into its table until it is killed: what the tasks and the driver of a batch do, without Spark.

python copy_job.py BOOTSTRAP TOPIC TOPIC_ID PATH
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from headrace.client.security import ClientSecurity
from headrace.pipelines.options import Cluster
from headrace.tables.delta_log import DataFile, DeltaLog
from headrace.tables.table_files import file_writer
from headrace.tables.topic_ranges import whole_topic
from headrace.tables.topic_relation import KAFKA_COLUMNS, kafka_schema
from headrace.tables.topic_scan import client_of, read_range

SCHEMA = kafka_schema(binary=True)


def copy(cluster: Cluster, log: DeltaLog) -> None:
    """Brings the table up to the present."""
    before, files, ends = log.offsets(), list[DataFile](), dict[int, int]()
    with client_of(cluster) as client:
        batches = [b for r in whole_topic(client, log.topic) for b in read_range(client, r, KAFKA_COLUMNS)]
    if not batches:
        return
    rows = pa.Table.from_batches(batches)
    rows = rows.append_column("_partition", rows["partition"]).append_column("_offset", rows["offset"])
    for batch in rows.to_batches():
        for written in file_writer(log.path, None, before, SCHEMA)(iter([batch])):
            for row in written.to_pylist():
                files.append(DataFile(row["path"], row["size"], row["rows"], {}, row["stats"]))
                for index, end in json.loads(row["ends"]).items():
                    ends[int(index)] = max(ends.get(int(index), 0), end)
    if files:
        log.append(files, ends, before, 1)


if __name__ == "__main__":
    bootstrap, topic, topic_id, path = sys.argv[1:]
    while True:
        copy(Cluster(bootstrap, ClientSecurity(), "copy-job"), DeltaLog(path, topic, topic_id))
