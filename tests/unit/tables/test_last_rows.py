"""A statement reads only the end of a topic if, and only if, no other row can change its result."""

from __future__ import annotations

import duckdb
import pytest

from headrace.tables.relations.last_rows import last_rows_of


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ('SELECT * FROM orders ORDER BY "offset" DESC LIMIT 5', ("orders", 5, "")),
        ('SELECT value, key FROM orders o ORDER BY o."offset" DESC, partition LIMIT 5 OFFSET 10', ("orders", 15, "")),
        ('SELECT * FROM orders WHERE partition = 2 ORDER BY "offset" DESC LIMIT 5', ("orders", 5, "")),
        ('SELECT * FROM "my.topic" ORDER BY "offset" DESC LIMIT 5', ("my.topic", 5, "")),
        ('SELECT * FROM orders ORDER BY "offset" LIMIT 5', None),
        ('SELECT * FROM orders ORDER BY "offset" DESC', None),
        ("SELECT * FROM orders LIMIT 5", None),
        ("SELECT * FROM orders ORDER BY timestamp DESC LIMIT 5", None),
        ('SELECT * FROM orders ORDER BY key, "offset" DESC LIMIT 5', None),
        ("SELECT * FROM orders WHERE key = 'a' ORDER BY \"offset\" DESC LIMIT 5", None),
        ('SELECT * FROM orders WHERE random() < 0.5 ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT DISTINCT "offset" FROM orders ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT -"offset" AS "offset" FROM orders ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT count(*) OVER () FROM orders ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT "offset" FROM orders GROUP BY ALL ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT (SELECT count(*) FROM orders) FROM orders ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT * FROM orders JOIN orders o USING (key) ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT * FROM orders ORDER BY "offset" DESC LIMIT 10%', None),
        ('SELECT * FROM orders USING SAMPLE 10 ORDER BY "offset" DESC LIMIT 5', None),
        ("SELECT * FROM orders WHERE _partition = 2 ORDER BY _offset DESC LIMIT 5", ("orders", 5, "_")),
        ("SELECT * FROM orders WHERE partition = 2 ORDER BY _offset DESC LIMIT 5", None),
        ('SELECT unnest(headers) FROM orders ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT * FROM orders TABLESAMPLE 10% ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT * REPLACE (-"offset" AS "offset") FROM orders ORDER BY "offset" DESC LIMIT 5', None),
        ('SELECT * FROM orders AS o("offset") ORDER BY "offset" DESC LIMIT 5', None),
        ("CREATE TABLE x (a int)", None),
    ],
)
def test_last_rows(statement: str, expected: tuple[str, int, str] | None) -> None:
    with duckdb.connect() as connection:
        assert last_rows_of(connection, statement) == expected
