"""Record batches (message format v2): the one binary shape that producer, broker, disk and consumer share.

In reading order:

`batch`         a view over bytes, read and patched in place
`compression`   the codecs of a batch's record section, which `native_codecs` carries out; `varint` the integers inside
`builder`       records to bytes; `reader` bytes to records; `raw` records as positions inside a batch
`record_columns` fields of many records at once, with numpy
`unreadable`    a batch whose records cannot be read
`control`       transaction markers
`visible`       which batches a consumer gets to see
`validation`    what a leader demands of a batch
"""
