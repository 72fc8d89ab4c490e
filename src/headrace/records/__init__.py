"""Record batches (message format v2): the one binary shape that producer, broker, disk and consumer share.

Reading order: `batch` (a view over bytes, read and patched in place), `compression`, `varint`, `builder` (records to
bytes), `reader` (bytes to records), `control` (transaction markers), `visible` (which batches a consumer gets to see),
`validation` (what a leader demands of a batch).
"""
