"""Record batches (format v2): views, builders, compression, control records, validation."""
