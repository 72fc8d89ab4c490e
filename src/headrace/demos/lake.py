"""The Parquet tables of a demo's pipeline, on the local disk or in HDFS, read without Spark."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from headrace.demos.errors import DemoFailed
from headrace.kernel.json_values import JsonObject

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


class Lake:
    """`storage` is the directory of the pipeline, or its address: `hdfs://namenode:8020/demo`."""

    def __init__(self, storage: str) -> None:
        self._root = f"{storage.rstrip('/')}/tables"
        self._sizes: dict[str, int] = {}

    def has_tables(self) -> bool:
        """Raises DemoFailed if the place cannot be read."""
        from deltalake.exceptions import DeltaError
        from pyarrow import ArrowInvalid

        try:
            _, root = self._place
            return bool(self._names(root))
        except (OSError, DeltaError, ArrowInvalid) as error:
            raise DemoFailed(f"cannot read {self._root}: {_one_line(str(error))}") from None

    def rows(self, view: str) -> list[JsonObject]:
        """The rows of a materialized view, which Spark replaces as a whole."""
        import pyarrow.parquet as pq
        from pyarrow import ArrowInvalid

        system, root = self._place
        try:
            files = [path for path in self._names(f"{root}/{view}") if path.endswith(".parquet")]
            return [row for file in files for row in pq.read_table(file, filesystem=system).to_pylist()]
        except (OSError, ArrowInvalid):
            return []  # a view is replaced at this moment, and a file is gone or empty: the next look finds it

    def size(self, table: str) -> int:
        """The number of rows of a streaming table, of which only the files that Spark has committed count."""
        _, root = self._place
        return sum(map(self._rows_in, self._committed_files(self._names(f"{root}/{table}/_spark_metadata"))))

    def _rows_in(self, file: str) -> int:
        import pyarrow.parquet as pq

        if file not in self._sizes:
            system, _ = self._place
            self._sizes[file] = int(pq.read_metadata(file, filesystem=system).num_rows)
        return self._sizes[file]

    @functools.cached_property
    def _place(self) -> tuple[FileSystem, str]:
        from headrace.tables.formats.table_files import file_system

        return file_system(self._root)

    def _names(self, folder: str) -> list[str]:
        from pyarrow.fs import FileSelector

        system, _ = self._place
        return sorted(each.path for each in system.get_file_info(FileSelector(folder, allow_not_found=True)))

    def _committed_files(self, logs: list[str]) -> list[str]:
        """Spark's file sink writes one log file for each batch, and now and then one for all batches before
        (`compact`)."""
        system, root = self._place
        found: set[str] = set()
        for path in logs:
            if path.rpartition("/")[2].removesuffix(".compact").isdigit():
                with system.open_input_stream(path) as log:
                    lines = log.read().decode().splitlines()
                found.update(urlsplit(json.loads(line)["path"]).path for line in lines[1:])
        # Paths of HDFS begin at its root without a slash.
        return sorted(unquote(path) if root.startswith("/") else unquote(path).lstrip("/") for path in found)


def _one_line(message: str) -> str:
    """The client of HDFS writes its causes below each other, with coloured arrows."""
    plain = re.sub(r"\x1b\[\d+m", "", message)
    return ": ".join(line for part in plain.splitlines() if (line := part.strip(" ↳")))
