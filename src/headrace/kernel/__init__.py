"""What everything stands on: identifiers, the error table, small codecs."""
