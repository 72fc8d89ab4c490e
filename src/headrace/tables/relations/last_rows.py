"""Recognises queries for the last rows of a topic, and reads only its end.

`SELECT … FROM orders ORDER BY "offset" DESC LIMIT 1000` needs the last 1,000 rows of every partition. DuckDB would scan
the whole topic, because it cannot know that offsets grow. A WHERE on other columns than the partition needs the scan:
the rows that match may be anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

from headrace.client.blocking.client import BlockingClient
from headrace.pipelines.source.offsets import OffsetRange
from headrace.tables.relations.topic_scan import read_range

Node = dict[str, Any]
# The column in a relation with Kafka's columns, and in a typed one, and the prefix of its name.
_OFFSETS: Final = {"offset": "", "_offset": "_"}
# Functions that make any number of rows of one, also none.
_ROW_MAKERS: Final = {"unnest", "unlist", "generate_subscripts"}


def last_rows_of(connection: duckdb.DuckDBPyConnection, statement: str) -> tuple[str, int, str] | None:
    """(relation, number of rows, prefix of the offset's column) if the statement needs only the last rows of one
    relation. In a relation whose offset has another prefix, the column is a field of its schema."""
    serialized = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
    parsed = json.loads(serialized[0][0])
    if parsed.get("error") or len(parsed["statements"]) != 1:
        return None
    query = parsed["statements"][0]["node"]
    names = [node["qualified_name"]["path"] for node in _nodes(query) if node.get("type") == "BASE_TABLE"]
    if len(names) != 1 or query["type"] != "SELECT_NODE" or query["from_table"]["type"] != "BASE_TABLE":
        return None
    found = _limit(query["modifiers"])
    if found is None or _needs_other_rows(query, prefix=found[1]):
        return None
    return ".".join(names[0]), *found


def _limit(modifiers: list[Node]) -> tuple[int, str] | None:
    """(n, prefix) of ORDER BY "offset" DESC LIMIT n; rows that OFFSET skips count as well."""
    if [m["type"] for m in modifiers] != ["ORDER_MODIFIER", "LIMIT_MODIFIER"]:
        return None
    order, limit = modifiers
    first = order["orders"][0]
    column = first["expression"].get("column_names", [""])[-1].lower()
    if first["type"] != "DESCENDING" or column not in _OFFSETS:
        return None
    counts = [_whole_number(limit["limit"]), 0 if limit["offset"] is None else _whole_number(limit["offset"])]
    if limit["limit_type"] != "ROW_COUNT" or None in counts:
        return None
    return sum(count or 0 for count in counts), _OFFSETS[column]


def _whole_number(node: Node | None) -> int | None:
    text = str((node or {}).get("literal", {}).get("text", ""))
    return int(text) if text.isdigit() else None


def _needs_other_rows(query: Node, *, prefix: str) -> bool:
    grouped = query["aggregate_handling"] != "STANDARD_HANDLING" or query["group_expressions"] or query["having"]
    grouped = grouped or query["sample"] or query["qualify"] or query["from_table"]["sample"]
    chosen = list(_nodes(query["select_list"]))
    windows = any(node.get("class") == "WINDOW" for node in chosen)
    row_makers = any(str(node.get("function_name", "")).lower() in _ROW_MAKERS for node in chosen)
    renamed = any(str(item.get("alias", "")).lower() in _OFFSETS for item in query["select_list"])
    renamed = renamed or any(node.get("replace_list") or node.get("rename_list") for node in chosen)
    renamed = renamed or bool(query["from_table"]["column_name_alias"])
    conditions = [n["column_names"][-1].lower() for n in _nodes(query["where_clause"]) if "column_names" in n]
    constant = query["where_clause"] is not None and not conditions
    others = set(conditions) - {f"{prefix}partition"}
    return bool(grouped or windows or row_makers or renamed or constant or others)


def _nodes(tree: object) -> Iterator[Node]:
    if isinstance(tree, dict):
        yield tree
        for child in tree.values():
            yield from _nodes(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from _nodes(child)


def read_last(
    client: BlockingClient, ranges: Sequence[OffsetRange], count: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """At least the last `count` rows of every range. Compaction, transaction markers and aborted transactions leave
    gaps between offsets, so the reader goes back further until it has enough rows."""
    for whole in ranges:
        window = max(count, 1)
        while True:
            piece = OffsetRange(whole.topic, whole.partition, max(whole.start, whole.end - window), whole.end)
            batches = list(read_range(client, piece, columns))
            if piece.start == whole.start or sum(batch.num_rows for batch in batches) >= count:
                yield from batches
                break
            window *= 4
