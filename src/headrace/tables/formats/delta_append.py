"""Commits that only add files to a local Delta table. `deltalake` lists the whole log of the table for each commit, so
its time grows with the log. A writer that knows the newest version needs no list: it writes the next entry itself.

An entry gets its name by a hard link, which fails if the name exists: of two writers one succeeds, as the protocol of
Delta asks and as `deltalake` does it (`new_files`). Tables with features that an entry must respect are left to
`deltalake`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from headrace.tables.formats.new_files import publish, sync_files
from headrace.tables.formats.table_log import CommitTaken, DataFile

if TYPE_CHECKING:
    from deltalake.table import ProtocolVersions

# Versions of the writer's protocol before table features. Both ask nothing of a commit that only adds files.
_PLAIN_WRITER: Final = 2
_FEATURES: Final = 7
# Features that concern columns and rows, which the data files already hold.
_HARMLESS: Final = {"appendOnly", "invariants", "timestampNtz"}
_INTERVAL: Final = "delta.checkpointInterval"
_DEFAULT_INTERVAL: Final = 100
# Delta writes paths as URIs. These characters stand for themselves there.
_SAFE_IN_PATHS: Final = "/:@!$&'()+,;=~"


def may_append(protocol: ProtocolVersions, settings: Mapping[str, str]) -> bool:
    """Whether a commit to a table of this protocol needs nothing but its files and offsets."""
    if any(name.startswith("delta.constraints.") for name in settings):
        return False
    if protocol.min_writer_version <= _PLAIN_WRITER:
        return True
    return protocol.min_writer_version == _FEATURES and set(protocol.writer_features or ()) <= _HARMLESS


def entry_of(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def append_entry(
    log: Path,
    version: int,
    files: Sequence[DataFile],
    transactions: Mapping[str, int],
    named: Mapping[str, str],
    partition_columns: Sequence[str],
    now_ms: int,
) -> None:
    """Writes the entry of `version`. Raises CommitTaken if there is one already, and OSError."""
    about = {
        "timestamp": time.time_ns() // 1_000_000,
        "operation": "WRITE",
        "operationParameters": {"partitionBy": json.dumps(list(partition_columns)), "mode": "Append"},
        "engineInfo": "headrace",
        **named,
    }
    actions: list[dict[str, object]] = [{"commitInfo": about}]
    actions += [{"add": _added(file, now_ms)} for file in files]
    actions += [{"txn": {"appId": name, "version": end}} for name, end in transactions.items()]
    # After a power failure, the table must not name a file whose rows were still in memory.
    sync_files(log.parent, [file.path for file in files])
    try:
        publish(entry_of(log, version), "".join(f"{json.dumps(action)}\n" for action in actions))
    except FileExistsError as error:
        raise CommitTaken from error


def _added(file: DataFile, now_ms: int) -> dict[str, object]:
    return {
        "path": quote(file.path, safe=_SAFE_IN_PATHS),
        "partitionValues": dict(file.partition_values),
        "size": file.size_bytes,
        "modificationTime": now_ms,
        "dataChange": True,
        "stats": file.stats,
    }


def is_checkpoint_due(version: int, settings: Mapping[str, str]) -> bool:
    try:
        interval = int(settings.get(_INTERVAL, _DEFAULT_INTERVAL))
    except ValueError:
        interval = _DEFAULT_INTERVAL
    return version % max(1, interval) == 0
