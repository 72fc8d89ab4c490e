"""Errors of DuckDB as one sentence with line and column. The session asks DuckDB for errors as JSON, which has the
position in the statement."""

from __future__ import annotations

import json
import re
from typing import Final

from headrace.pipelines.errors import PipelineError, nearest

_BARE_OFFSET: Final = re.compile(r"(?<![\".])\boffset\s*\Z", re.IGNORECASE)
# Functions that people know from Spark, and DuckDB has not.
_SPARK_FUNCTIONS: Final = ("session_window", "get_json_object", "timestamp_seconds", "explode")


class SqlError(PipelineError):
    """A statement that DuckDB rejects."""


def has_position(message: str) -> bool:
    return '"position":' in message


def sentence_of(message: str, statement: str, topics: list[str], first_line: int = 1, skipped: int = 0) -> str:
    """`line 2, column 8: …`. `first_line`: the line of the statement in its file. `skipped`: characters before the
    statement that the user did not write."""
    kind, _, text = message.partition(" Error: ")
    try:
        facts = json.loads(text)
    except ValueError:
        return " ".join((text or kind).split())
    what = " ".join(facts["exception_message"].split())
    if facts.get("type") == "Table" and facts.get("error_subtype") == "MISSING_ENTRY":
        name = str(facts.get("name"))
        what = f"relation {name!r} does not exist: it is not a topic of the cluster{nearest(name, topics)}"
    elif facts.get("error_subtype") == "MISSING_ENTRY" and str(facts.get("name")).lower() in _SPARK_FUNCTIONS:
        what = f"{facts['name']} is a function of Spark: run the statement with --engine spark"
    if "position" not in facts:
        return what
    # DuckDB counts bytes.
    before = statement.encode()[: int(facts["position"])].decode(errors="ignore")[skipped:]
    after = statement[skipped + len(before) :]
    if facts["exception_type"] == "Parser" and (
        _BARE_OFFSET.search(before) or re.match(r"offset\b", after, re.IGNORECASE)
    ):
        what += ': OFFSET is a word of SQL, write the column as "offset" in double quotes'
    if facts["exception_type"] == "Parser" and re.search(r"\bwindow\s*\Z", before, re.IGNORECASE):
        what = "window(…) is a function of Spark: run the statement with --engine spark or --follow"
    line = before.count("\n")
    column = len(before) - (before.rfind("\n") + 1) + 1
    return f"line {first_line + line}, column {column}: {what}"
