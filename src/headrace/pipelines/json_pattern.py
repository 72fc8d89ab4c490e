"""A regular expression for JSON values that fit a schema beyond doubt: its fields in its order, with plain values.

Most records of a topic are like that. Matching the expression takes a fraction of the time of a parser, so the checks
of `decode` and the flow of dead letters look only at the other values. Those may be good as well: fields in another
order, escapes, exponents and long numbers are left to the parser. The reverse must hold: whatever matches, Spark's
parser reads without a complaint.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

_SPACE: Final = r"[ \t\r\n]*+"
# Without leading zeros, which JSON forbids, and short enough for every value of the type's length to fit.
_WHOLE: Final = r"-?(?:0|[1-9][0-9]{0,%d})"
# A text without escapes. U+FFFD stands for bytes that are not UTF-8. The length is below every limit of the parser.
_TEXT: Final = r'"[^"\\\x00-\x1f\ufffd]{0,10000}+"'
_VALUES: Final[dict[type[DataType], str]] = {
    StringType: _TEXT,
    LongType: _WHOLE % 17,
    IntegerType: _WHOLE % 8,
    DoubleType: _WHOLE % 14 + r"(?:\.[0-9]{1,15})?",
    BooleanType: "true|false",
}
_NAME: Final = re.compile(r"[A-Za-z0-9_]+", re.ASCII)


def json_pattern(schema: StructType) -> str | None:
    """None if the schema has a name or a type that only the parser knows."""
    parts = []
    for field in schema.fields:
        value = _VALUES.get(type(field.dataType))
        if value is None or not _NAME.fullmatch(field.name):
            return None
        parts.append(f'"{field.name}"{_SPACE}:{_SPACE}(?:{value}|null)')
    if not parts or len({field.name.lower() for field in schema.fields}) != len(parts):
        return None
    fields = f"{_SPACE},{_SPACE}".join(parts)
    # \A and \z: the whole value. $ would allow a newline after it, and rlike searches anywhere.
    return rf"\A{_SPACE}\{{{_SPACE}{fields}{_SPACE}\}}{_SPACE}\z"
