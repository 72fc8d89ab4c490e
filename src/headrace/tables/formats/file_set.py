"""Data files with their smallest and largest values as an Arrow dataset: a scan skips files by these values without
opening them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.tables.formats.table_files import file_system

Bounds = Mapping[str, tuple[object, object]]


@dataclass(frozen=True)
class FileFacts:
    uri: str
    # Only of columns without nulls: Arrow takes every row of the file for one inside the bounds.
    bounds: Bounds


def dataset_of(files: Iterable[FileFacts], schema: pa.Schema) -> ds.Dataset:
    """Files that lack a column have null in it. A column that is narrower in a file is widened."""
    form, fragments, system = ds.ParquetFileFormat(), [], None
    for file in files:
        system, path = file_system(file.uri) if system is None else (system, file_system_path(file.uri))
        fragments.append(form.make_fragment(path, system, partition_expression=_inside(file.bounds, schema)))
    return ds.FileSystemDataset(fragments, schema, form, system)


def file_system_path(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri
    return rest.partition("/")[2] if scheme in ("hdfs", "viewfs") else rest


def _inside(bounds: Bounds, schema: pa.Schema) -> pc.Expression:
    expression = pc.scalar(True)
    for name, (low, high) in bounds.items():
        if name in schema.names and low is not None and high is not None:
            kind = schema.field(name).type
            # Arrow takes the value of a column that the file lacks from an equation: the value of a folder.
            if low == high:
                expression &= pc.field(name) == pa.scalar(low, kind)
            else:
                expression &= (pc.field(name) >= pa.scalar(low, kind)) & (pc.field(name) <= pa.scalar(high, kind))
    return expression
