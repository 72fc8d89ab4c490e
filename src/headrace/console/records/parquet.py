"""Many records as a Parquet file, with the columns of the other exports. JSON values are text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from headrace.client.blocking.client import BlockingClient
from headrace.console.protection import Rejected
from headrace.console.records.decoding import Decoding, ShownRecord
from headrace.console.records.reading import Spans, read

_AT_ONCE: Final = 10_000


def write_parquet(client: BlockingClient, decoding: Decoding, spans: Spans, limit: int, path: str) -> None:
    """Raises Rejected if the library is not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise Rejected(501, "Parquet needs pyarrow: pip install 'headrace[spark]'") from None
    header = pa.struct([("name", pa.string()), ("value", pa.string())])
    schema = pa.schema(
        [
            ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("key", pa.string()), ("value", pa.string()), ("headers", pa.list_(header)),
        ]
    )  # fmt: skip
    records = islice(_shown(client, decoding, spans), limit)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while rows := list(islice(records, _AT_ONCE)):
            writer.write_table(pa.Table.from_pylist([_row(shown) for shown in rows], schema))


def _shown(client: BlockingClient, decoding: Decoding, spans: Spans) -> Iterator[ShownRecord]:
    for partition, (start, end) in spans.items():
        for record in read(client, decoding.topic, partition, start, end):
            yield decoding.record(partition, record)


def _row(shown: ShownRecord) -> dict[str, object]:
    return {
        "partition": shown.partition,
        "offset": shown.offset,
        "timestamp": shown.timestamp_ms if shown.timestamp_ms >= 0 else None,
        "key": None if shown.key.kind == "null" else shown.key.text,
        "value": None if shown.value.kind == "null" else shown.value.text,
        "headers": [{"name": name, "value": value.text} for name, value in shown.headers],
    }
