"""Record batches (message format v2): the one binary shape that producer, broker, disk and consumer share.

Reading order: `batch` (a view over bytes, read and patched in place), `compression`, `varint`, `builder` (records to
bytes), `reader` (bytes to records), `control` (transaction markers), `validation` (what a leader demands of a batch).
"""
