"""One read of a source: its rows go to the journal before anything else sees them."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.pipelines.plugins.api import Source
from headrace.pipelines.plugins.columns import Column, rows_to_json
from headrace.pipelines.plugins.journal import Journal


def read_chunk(source: Source, columns: Sequence[Column], journal: Journal) -> int:
    """Reads the next rows into the journal. Returns the number of the journal's last entry."""
    offset = journal.offset()
    chunk = source.read(offset)
    if not chunk.rows:
        # An offset alone needs no entry: the next read gets the same rows as this one.
        return journal.last()
    number = journal.append(rows_to_json(columns, chunk.rows), chunk.offset)
    source.commit(chunk.offset)
    return number
