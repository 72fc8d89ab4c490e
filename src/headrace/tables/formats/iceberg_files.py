"""Files of Iceberg tables in HDFS. Arrow reads HDFS only with Hadoop's native library, which few machines have, so the
files go through the file system of ours, as those of other tables do."""

from __future__ import annotations

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from headrace.tables.formats.table_files import file_system


class HadoopFileIO(PyArrowFileIO):
    def _initialize_hdfs_fs(self, scheme: str, netloc: str | None) -> FileSystem:
        return file_system(f"{scheme}://{netloc}/")[0]
