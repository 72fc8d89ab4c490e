"""Failures of Spark, Python, databases and file systems as one sentence: the place in the user's code, the innermost
cause, the way out.

A failure arrives as the text of an exception: a Java stack trace around a Python traceback around a database's answer,
eighty lines and more. `failure_reason` finds the cause in it:

1. an error of Headrace, which is a sentence already;
2. the exception of the last Python traceback, under the name of the system that raised it;
3. the innermost Java exception that has a message, without Spark's error class and SQL state.

`_REMEDIES` then adds the way out. A remedy may also replace the cause where the innermost exception says less than an
outer one. The place is the last line of a traceback that is not in Spark, Headrace or another installed package.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from headrace.pipelines.errors import PipelineError

_LONGEST: Final = 700
_TRACEBACK: Final = "Traceback (most recent call last):"
# Text after these marks describes the query, not the failure.
_ENDS: Final = ("\n=== Streaming Query ===", "\nJVM stacktrace:", "\n\tSuppressed:")
_FRAME: Final = re.compile(r'File "([^"]+\.py)", line (\d+)')
_EXCEPTION: Final = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$")
_JAVA: Final = re.compile(
    r"(?:^: |^Caused by: |terminated with exception: |executor [^)]*\): |^)((?:[a-z]\w*\.)+[A-Z][\w$]*)(?:: (.*))?$"
)
_STREAM_FAILED: Final = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_STAGE_FAILED: Final = re.compile(r"^Job aborted due to stage failure: .*?\): (?:[\w.$]+: )?")
_ERROR_CLASS: Final = re.compile(r"^\[[A-Z][A-Z0-9_.]+\] ")
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
_OWNERS: Final = {
    "psycopg": "PostgreSQL",
    "sqlite3": "SQLite",
    "pymysql": "MariaDB",
    "_internal": "Delta",
    "deltalake": "Delta",
}
_INSTALLED: Final = ("/site-packages/", "/dist-packages/", "pyspark.zip", "/lib/python3", "/headrace/", "<frozen")


@dataclass(frozen=True)
class _Remedy:
    pattern: re.Pattern[str]
    way_out: str
    cause: str | None = None


def _remedy(pattern: str, way_out: str, cause: str | None = None) -> _Remedy:
    return _Remedy(re.compile(pattern), way_out, cause)


# The first match counts. {1} is the first group of the pattern.
_REMEDIES: Final = (
    _remedy(
        r"ClassNotFoundException: Class (org\.apache\.hadoop\.fs\.s3a\.\S+) not found",
        "add the jar with --set spark.jars.packages=org.apache.hadoop:hadoop-aws:{hadoop}",
        "Spark has no class for s3a:// paths",
    ),
    _remedy(
        r"ClassNotFoundException: Class (\S*GoogleHadoopFileSystem) not found",
        "add the jar with --set spark.jars.packages=com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
        "Spark has no class for gs:// paths",
    ),
    _remedy(
        r'No FileSystem for scheme "?(\w+)"?',
        "add the jar of this file system with --set spark.jars.packages=…, or use another path",
        "Spark has no class for {1}:// paths",
    ),
    _remedy(
        r"Failed to find the data source: delta\b",
        'use the target "delta" of a connector, which needs no jar, or add '
        "--set spark.jars.packages=io.delta:delta-spark_2.13:4.0.0",
        'Spark has no data source "delta"',
    ),
    _remedy(
        r"KAFKA_DATA_SOURCE_NOT_ENABLED|Failed to find (?:the )?data source: kafka\b",
        "use format(\"headrace\"), or 'headrace pipeline jars' and --backend jvm",
        'Spark has no data source "kafka"',
    ),
    _remedy(
        r"Failed to find the data source: ([\w.]+)",
        "check the spelling, or add its jar with --set spark.jars.packages=…",
        'Spark has no data source "{1}"',
    ),
    _remedy(
        r"Call From \S+ to (\S+) failed on connection exception",
        "check that the NameNode runs there and that the path has its port",
        "HDFS at {1} does not answer (connection refused)",
    ),
    _remedy(r"UnknownHostException: (\S+)", "check the host name in the path", "the host {1} is unknown"),
    _remedy(
        r"Status Code: 403|AccessDeniedException|InvalidAccessKeyId",
        "check spark.hadoop.fs.s3a.access.key and spark.hadoop.fs.s3a.secret.key, and the rights on the bucket",
    ),
    _remedy(r"NoSuchBucket|bucket does not exist", "create the bucket, or check its name and the endpoint"),
    _remedy(
        r'column "(\w+)" of relation "(\w+)" does not exist',
        'add it with ALTER TABLE "{2}" ADD COLUMN "{1}" …, let the connector do it with to.jdbc.evolve: true, '
        "or leave the column out in select",
    ),
    _remedy(
        r"table (\S+) has no column named (\S+)",
        'add it with ALTER TABLE "{1}" ADD COLUMN "{2}" …, let the connector do it with to.jdbc.evolve: true, '
        "or leave the column out in select",
    ),
    _remedy(r'relation "([^"]+)" does not exist|no such table: (\S+)', "create the table before the flow starts"),
    _remedy(
        r'null value in column "([^"]+)" of relation "([^"]+)"',
        'give the column a value in select, or ALTER TABLE "{2}" ALTER COLUMN "{1}" DROP NOT NULL',
    ),
    _remedy(r"NOT NULL constraint failed: (\S+)", "give the column a value in select, or a default in the table"),
    _remedy(
        r"duplicate key value violates unique constraint|UNIQUE constraint failed",
        "name the key columns in to.jdbc.keys, so that the connector updates the existing row",
    ),
    _remedy(
        r"no unique or exclusion constraint matching the ON CONFLICT|ON CONFLICT clause does not match",
        "create a unique index on the columns of to.jdbc.keys",
    ),
    _remedy(r"permission denied for (?:table|relation|schema) (\S+)", "GRANT the right to the user of the url"),
    _remedy(r"value too long for type", "ALTER the column to a longer type, or shorten the value in select"),
    _remedy(r"is of type (.+?) but expression is of type", "cast the column in select"),
    _remedy(r"invalid input syntax for type|out of range for type", "cast or correct the column in select"),
    _remedy(
        r"all replication slots are in use",
        "drop slots of connectors that are gone (SELECT pg_drop_replication_slot(…)), or raise max_replication_slots",
    ),
    _remedy(r"password authentication failed", "check user and password in the url"),
    _remedy(r"(?:role|database) \"\S+\" does not exist", "check user and database in the url"),
    _remedy(r"PostgreSQL cannot be reached", "check host and port in the url, and that the server runs"),
    _remedy(r"database is locked", "end the program that holds a transaction open in this file"),
    _remedy(
        r"SchemaMismatchError|Cannot cast schema|Schema of data does not match table schema",
        "let the connector add columns with to.delta.evolve: true, change select, or write to a new path",
    ),
    _remedy(
        r"Python worker exited unexpectedly|Python worker.*crashed",
        "look for the kernel's out-of-memory killer, and for native libraries in the flow's functions",
        "a Python worker process died",
    ),
    _remedy(
        r"Python worker failed to connect back",
        "the machine is overloaded: try again, or use fewer cores with --master local[2]",
    ),
    _remedy(
        r"OutOfMemoryError: (.+)",
        "give Spark more memory with --set spark.driver.memory=4g",
        "Java is out of memory ({1})",
    ),
    _remedy(
        r"No space left on device",
        "free space, or put storage and spark.local.dir on another disk",
        "the disk is full (No space left on device)",
    ),
    _remedy(r"Permission denied|AccessControlException", "give the user of this process write access to the path"),
    _remedy(
        r"ParentNotDirectoryException|Parent path is not a directory|Mkdirs failed",
        "choose a path whose parents are directories",
    ),
    _remedy(r"No module named '([\w.]+)'", "install it with pip into the Python of the driver and of Spark's workers"),
    _remedy(
        r"UNSUPPORTED_OPERATION\].*output mode: append.*aggregations",
        'add withWatermark to the query, or set headrace.output.mode to "update"',
    ),
    _remedy(
        r"STATE_STORE_\w*SCHEMA_NOT_COMPATIBLE|STATE_STORE_\w*PROVIDER",
        "go back to the old query, give the flow a new name, or reset it with "
        "'headrace pipeline reset DIR --flow NAME --to earliest'",
        "the columns of the flow's state changed since the checkpoint was made",
    ),
    _remedy(
        r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using",
        "stop the other driver: one checkpoint has one query",
        "another driver writes the same checkpoint",
    ),
    _remedy(
        r"message_too_large|record_list_too_large|RecordTooLarge",
        "make the rows smaller, or raise max.message.bytes of the topic",
    ),
    _remedy(
        r"(?:topic|group|transactional_id|cluster)_authorization_failed",
        "create the rights with 'headrace acl for-pipeline DIR --principal User:NAME --apply'",
    ),
    _remedy(
        r"with name `(.+?)` cannot be resolved\. Did you mean one of the following\? \[(.*?)\]",
        "the columns nearest to it are {2}",
        'there is no column "{1}"',
    ),
    _remedy(
        r"The table or view `?(.+?)`? cannot be found",
        "define it with @dp.table or @dp.temporary_view, or check its spelling",
        'there is no table or view "{1}"',
    ),
    _remedy(r"UNRESOLVED_ROUTINE\]", "check the spelling, or register the function before the flow uses it"),
    _remedy(r"AMBIGUOUS_REFERENCE\]", 'rename one of the columns, or name its frame: frame["column"]'),
    _remedy(r"UNSUPPORTED_STREAMING|StreamingQuery.*unsupported", "see the limits of Spark's structured streaming"),
)


def failure_reason(error: object) -> str:
    """One sentence: place in the user's code if there is one, cause, way out."""
    if isinstance(error, PipelineError):
        return str(error)
    text = _before_ends(str(error))
    cause, way_out = _explained(text, _cause(text) or type(error).__name__)
    place = user_place(error)
    return _one_line(f"{place}: {cause}" if place else cause) + (f"; {way_out}" if way_out else "")


def raised_reason(error: Exception) -> str:
    """The sentence of an exception that was caught where it was raised, so there is no text of other systems around it:
    the system that raised it, the cause, the way out."""
    if isinstance(error, PipelineError):
        return str(error)
    who = _OWNERS.get(type(error).__module__.partition(".")[0]) or type(error).__name__
    text = str(error)
    cause, way_out = _explained(text, f"{who}: {text.strip().partition(chr(10))[0]}" if text.strip() else who)
    return _one_line(cause) + (f"; {way_out}" if way_out else "")


def user_place(error: object) -> str | None:
    """`flows.py:12`: the last line of the user's code in the traceback of the error or in its text."""
    frames = [(match[1], int(match[2])) for match in _FRAME.finditer(str(error))]
    if isinstance(error, BaseException):
        own = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
        frames = [*own, *frames]
    for file, line in reversed(frames):
        if "/transformations/" in file or not any(part in file for part in _INSTALLED):
            return f"{PurePath(file).name}:{line}"
    return None


def _before_ends(text: str) -> str:
    return text[: min((at for mark in _ENDS if (at := text.find(mark)) >= 0), default=len(text))]


def _cause(text: str) -> str | None:
    lines = text.splitlines()
    ours = [line.strip() for line in lines if re.match(r"\s*headrace\.[\w.]+: ", line)]
    if ours:
        return ours[-1].split(": ", 1)[1]
    return _of_python(lines) or _of_java(lines) or _of_spark(text)


def _of_python(lines: list[str]) -> str | None:
    """The exception of the last traceback that is not only Java's error in Python's form."""
    found = None
    for at, line in enumerate(lines):
        if not line.rstrip().endswith(_TRACEBACK):
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i] and not lines[i].startswith(" ")), None)
        match = _EXCEPTION.match(lines[end]) if end is not None else None
        if end is None or match is None or match[1].startswith("py4j."):
            continue
        owner, _, name = match[1].partition(".")
        message = _of_spark(match[2] or "") or name
        detail = next((part[8:].strip() for part in lines[end : end + 4] if part.startswith("DETAIL:")), None)
        who = _OWNERS.get(owner) or match[1].rpartition(".")[2]
        found = f"{who}: {message}" + (f" ({detail.rstrip('.')})" if detail else "")
    return found


def _of_java(lines: list[str]) -> str | None:
    found = None
    for line in lines:
        if line.startswith("\t") or not (match := _JAVA.search(line)):
            continue
        if match[2]:
            found = _of_spark(match[2])
    return found


def _of_spark(text: str) -> str:
    """The first paragraph of a Spark message without its error class and SQL state."""
    text = _STREAM_FAILED.sub("", text.strip())
    text = _STAGE_FAILED.sub("", text)
    text = _SQL_STATE.sub("", _ERROR_CLASS.sub("", text))
    return re.split(r"\n(?:==|\s*\n)|\n\tat ", text, maxsplit=1)[0].strip().rstrip(";")


def _explained(text: str, cause: str) -> tuple[str, str | None]:
    for remedy in _REMEDIES:
        match = remedy.pattern.search(cause) or remedy.pattern.search(text)
        if match is None:
            continue
        words = {f"{{{number}}}": group or "" for number, group in enumerate(match.groups(), 1)}
        words["{hadoop}"] = HADOOP_VERSION
        return _filled(remedy.cause or cause, words if remedy.cause else {}), _filled(remedy.way_out, words)
    return cause, None


def _filled(template: str, words: dict[str, str]) -> str:
    for mark, value in words.items():
        template = template.replace(mark, value)
    return template


def _one_line(text: str) -> str:
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# The version of Hadoop in PySpark's jars: hadoop-aws must have the same.
HADOOP_VERSION: Final = "3.5.0"
