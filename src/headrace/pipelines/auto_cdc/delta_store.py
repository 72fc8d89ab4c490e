"""A Delta table as the target of changes, and the table of its changes beside it (`<path>__changes`).

Each table is changed by one merge, which is one commit of its log. The target's commit has the number of the batch, so
a repeated batch that was written is skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.pipelines.auto_cdc.applying import END, KIND, SEQUENCE, START, CdcTarget, Known, Plan
from headrace.pipelines.auto_cdc.history import TRUNCATE, Change, Key, Order, Row, Version
from headrace.pipelines.errors import FlowStopped

if TYPE_CHECKING:
    from deltalake import DeltaTable

_GONE: Final = "__gone"
_CHANGES: Final = "__changes"


@dataclass
class DeltaStore:
    path: str
    target: CdcTarget
    # Of the batch: the columns of the target and `__sequence`.
    schema: pa.Schema
    application: str
    batch: int
    evolves: bool = False

    def is_written(self) -> bool:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self.path):
            return False
        done = DeltaTable(self.path).transaction_version(self.application)
        return done is not None and done >= self.batch

    def known(self, keys: Collection[Key] | None) -> Known:
        found: dict[Key, list[Change]] = {}
        truncates: list[Order] = []
        for row in self._stored(self._changes_path, keys, with_nulls=True):
            key = tuple(row[name] for name in self.target.keys)
            if row[KIND] == TRUNCATE:
                truncates.append(row[SEQUENCE])
            else:
                values = {name: row.get(name) for name in self.target.columns}
                found.setdefault(key, []).append(Change(key, row[SEQUENCE], str(row[KIND]), values))
        wanted = None if keys is None else set(keys)
        return Known({k: v for k, v in found.items() if wanted is None or k in wanted}, truncates)

    @property
    def _changes_path(self) -> str:
        return f"{self.path.rstrip('/')}{_CHANGES}"

    def write(self, plan: Plan) -> None:
        self._write_changes(plan)
        if self.target.keeps_history:
            self._write_history(plan.versions)
        else:
            self._write_current(plan.versions)

    def _write_changes(self, plan: Plan) -> None:
        kept = (*self.target.keys, *(() if plan.replaces_changes else self.target.others))
        rows = [
            {
                **{name: change.row.get(name) for name in kept},
                **self._keyed(change),
                SEQUENCE: change.sequence,
                KIND: change.kind,
            }
            for change in plan.changes
        ]
        fields = [*(self.schema.field(name) for name in kept), self.schema.field(SEQUENCE), pa.field(KIND, pa.string())]
        same = [
            f"(t.`{name}` = s.`{name}` OR (t.`{name}` IS NULL AND s.`{name}` IS NULL))" for name in self.target.keys
        ]
        if plan.replaces_changes:
            # A truncate has no key. It stays beside the others.
            same.append(f"(s.`{KIND}` <> '{TRUNCATE}' OR t.`{SEQUENCE}` = s.`{SEQUENCE}`)")
        else:
            same.append(f"t.`{SEQUENCE}` = s.`{SEQUENCE}`")
        self._merge(self._changes_path, pa.Table.from_pylist(rows, pa.schema(fields)), same, _GONE_NEVER)

    def _keyed(self, change: Change) -> dict[str, object]:
        return {} if change.kind == TRUNCATE else dict(zip(self.target.keys, change.key, strict=True))

    def _write_current(self, found: Mapping[Key, list[Version]]) -> None:
        rows = [
            {**dict(zip(self.target.keys, key, strict=True)), **(some[0].row if some else {}), _GONE: not some}
            for key, some in found.items()
        ]
        fields = [*(self.schema.field(name) for name in self.target.columns), pa.field(_GONE, pa.bool_())]
        same = [f"t.`{name}` = s.`{name}`" for name in self.target.keys]
        self._merge(self.path, pa.Table.from_pylist(rows, pa.schema(fields)), same, f"s.`{_GONE}`", is_target=True)

    def _write_history(self, found: Mapping[Key, list[Version]]) -> None:
        """Replaces the versions of the keys: equal ones are updated, the others are deleted and inserted."""
        names = self.target.columns
        kind = self.schema.field(SEQUENCE).type
        fields = [*(self.schema.field(name) for name in names), pa.field(START, kind), pa.field(END, kind)]
        rows = [
            {**version.row, START: version.start, END: version.end, _GONE: False}
            for some in found.values()
            for version in some
        ]
        kept = {(tuple(row[name] for name in self.target.keys), row[START]) for row in rows}
        for row in self._stored(self.path, list(found), with_nulls=False):
            key = tuple(row[name] for name in self.target.keys)
            if key in found and (key, row[START]) not in kept:
                rows.append({**row, _GONE: True})
        schema = pa.schema([*fields, pa.field(_GONE, pa.bool_())])
        same = [*(f"t.`{name}` = s.`{name}`" for name in self.target.keys), f"t.`{START}` = s.`{START}`"]
        self._merge(self.path, pa.Table.from_pylist(rows, schema), same, f"s.`{_GONE}`", is_target=True)

    def _merge(self, path: str, rows: pa.Table, same: Iterable[str], gone: str, *, is_target: bool = False) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction

        columns = [name for name in rows.column_names if name != _GONE]
        if not DeltaTable.is_deltatable(path):
            DeltaTable.create(path, pa.schema([rows.schema.field(name) for name in columns]))
        table = DeltaTable(path)
        self._check_columns(table, columns, path)
        properties = CommitProperties(app_transactions=[Transaction(self.application, self.batch)])
        values = {f"`{name}`": f"s.`{name}`" for name in columns}
        merging = table.merge(
            rows,
            " AND ".join(same),
            source_alias="s",
            target_alias="t",
            merge_schema=self.evolves,
            commit_properties=properties if is_target else None,
        )
        if gone != _GONE_NEVER:
            merging = merging.when_matched_delete(gone)
        merging = merging.when_matched_update(values)
        merging.when_not_matched_insert(values, None if gone == _GONE_NEVER else f"NOT {gone}").execute()

    def _check_columns(self, table: DeltaTable, columns: Iterable[str], path: str) -> None:
        known = {field.name for field in table.schema().fields}
        new = [name for name in columns if name not in known]
        if new and not self.evolves:
            raise FlowStopped(
                f"the Delta table {path} has no column {', '.join(map(repr, new))}: let the flow add it with "
                "evolve: true, or leave it out"
            )

    def _stored(self, path: str, keys: Collection[Key] | None, *, with_nulls: bool) -> list[Row]:
        """Rows whose first key column is one of these, and rows without a key. The other key columns are compared by
        the caller."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(path):
            return []
        data = DeltaTable(path).to_pyarrow_dataset()
        if keys is None:
            return list(data.to_table().to_pylist())
        name = self.target.keys[0]
        wanted = pa.array(sorted({key[0] for key in keys}, key=str), data.schema.field(name).type)
        condition = pc.field(name).isin(wanted)
        if with_nulls:
            condition = condition | ds.field(name).is_null()
        return list(data.to_table(filter=condition).to_pylist())


_GONE_NEVER: Final = "false"
