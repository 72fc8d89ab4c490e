"""SELECT without Spark. A list of columns needs nothing. DuckDB computes the expressions that give the same result in
both engines: comparisons, AND, OR, NOT, IS NULL, IN, BETWEEN, CASE, COALESCE, +, -, *, ||, LIKE, some functions of
texts, and casts between numbers. Everything else is refused with its name, because a connector must give the same rows
with and without --lite.

Left out on purpose: division (by zero it is an error in Spark), concat (ignores null in DuckDB), casts of texts to
whole numbers ('1.5' is 2 in DuckDB), length (int in Spark, bigint in DuckDB), dates and times (formats differ),
aggregates and joins (they need state).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.lite.rows import DELETED, KEY, LiteRow, not_in_lite, visible
from headrace.pipelines.plugins.columns import Column, Value

if TYPE_CHECKING:
    import duckdb

_NAME: Final = r"`?[A-Za-z_]\w*`?"
_COLUMNS: Final = re.compile(
    rf"\s*SELECT\s+(?P<list>{_NAME}(?:\s+AS\s+{_NAME})?(?:\s*,\s*{_NAME}(?:\s+AS\s+{_NAME})?)*)\s+FROM\s+source\s*;?\s*",
    re.IGNORECASE,
)
_CLASSES: Final = ("COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "OPERATOR", "CASE", "BETWEEN", "TYPE")
_FUNCTIONS: Final = ("upper", "lower", "trim", "ltrim", "rtrim", "replace", "abs", "+", "-", "*", "||", "~~")
_CASTS: Final = {
    "INTEGER": ("int",),
    "BIGINT": ("int", "bigint"),
    "DOUBLE": ("int", "bigint", "double", "string"),
    "VARCHAR": ("string", "int", "bigint", "boolean"),
}
_DUCKDB: Final = {
    "string": "VARCHAR",
    "binary": "BLOB",
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
}
_KINDS: Final = {"VARCHAR": "string", "BOOLEAN": "boolean", "INTEGER": "int", "BIGINT": "bigint", "DOUBLE": "double"}
_UNUSED: Final = ("modifiers", "group_expressions", "group_sets", "having", "sample", "qualify")
_ROWS_AT_ONCE: Final = 2_000
# Keeps rows and their hidden columns together through DuckDB.
_ROW: Final = "_headrace_row"


@dataclass(frozen=True)
class Selection:
    columns: tuple[Column, ...]
    change: Callable[[Iterator[LiteRow]], Iterator[LiteRow]]


def selection(select: str | None, columns: tuple[Column, ...], place: str) -> Selection:
    """The rows after the SELECT of a connector. Tombstones pass only without one, or if it keeps `_deleted`."""
    if select is None:
        return Selection(columns, lambda rows: rows)
    if match := _COLUMNS.fullmatch(select):
        return _plain(match["list"], columns, place)
    return _computed(select, columns, place)


def _plain(listed: str, columns: tuple[Column, ...], place: str) -> Selection:
    kinds = {column.name.lower(): column for column in columns}
    chosen: list[tuple[str, Column]] = []
    keeps_deletes = False
    for part in listed.split(","):
        name, alias = _named(part)
        if name == DELETED:
            keeps_deletes = True
            continue
        if name.lower() not in kinds:
            raise OptionError(
                f"{place}: column {name!r} does not exist; there are {', '.join(c.name for c in columns)}"
            )
        found = kinds[name.lower()]
        chosen.append((found.name, Column(alias or name, found.kind)))

    def change(rows: Iterator[LiteRow]) -> Iterator[LiteRow]:
        for row in rows:
            if row.get(DELETED) and not keeps_deletes:
                continue
            hidden = {name: value for name, value in row.items() if name.startswith("_")} if keeps_deletes else {}
            yield {**{column.name: row[name] for name, column in chosen}, **hidden}

    return Selection(tuple(column for _, column in chosen), change)


def _named(part: str) -> tuple[str, str]:
    words = re.split(r"\s+AS\s+", part.strip(), maxsplit=1, flags=re.IGNORECASE)
    return words[0].strip("` "), words[1].strip("` ") if len(words) > 1 else ""


def _computed(select: str, columns: tuple[Column, ...], place: str) -> Selection:
    engine = _engine(place)
    text = select.strip().rstrip(";").replace("`", '"')
    _check(engine, text, columns, place)
    fields = ", ".join(f'CAST(NULL AS {_DUCKDB[column.kind]}) AS "{column.name}"' for column in columns)
    # DuckDB names the types of the result; the rows come later, through the same statement.
    prepared = _with_row(text)
    engine.execute(f"CREATE OR REPLACE TEMP VIEW source AS SELECT {fields}, 0 AS {_ROW} LIMIT 0")
    described = engine.execute(prepared).description or []
    found = []
    for name, kind, *_ in described[:-1]:
        if str(kind) not in _KINDS:
            raise not_in_lite(f"{place}: select", f"column {name!r} becomes {kind}")
        found.append(Column(name, _KINDS[str(kind)]))
    result = tuple(found)
    return Selection(result, lambda rows: _rows(engine, prepared, columns, result, rows))


def _with_row(text: str) -> str:
    """The SELECT with the number of the row as its last column."""
    at = _from_place(text)
    return f"{text[:at]}, {_ROW} {text[at:]}"


def _from_place(text: str) -> int:
    match = re.search(r"\bFROM\s+source\b", text, re.IGNORECASE)
    assert match is not None, "checked by _check"
    return match.start()


def _engine(place: str) -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise PipelineError(
            f"{place}: select needs DuckDB without Spark: pip install 'headrace[sql]', or run it without --lite"
        ) from error
    return duckdb.connect(config={"threads": 1})


def _check(engine: duckdb.DuckDBPyConnection, text: str, columns: Sequence[Column], place: str) -> None:
    answer = engine.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
    assert answer is not None
    parsed = json.loads(answer[0])
    where = f"{place}: select"
    if parsed["error"] or len(parsed["statements"]) != 1:
        raise not_in_lite(where, f"DuckDB cannot read it ({parsed.get('error_message', 'several statements')})")
    node = parsed["statements"][0]["node"]
    table = node.get("from_table") or {}
    is_simple = node.get("type") == "SELECT_NODE" and table.get("table_name", "").lower() == "source"
    if not is_simple or any(node.get(part) for part in _UNUSED) or node["cte_map"]["map"]:
        raise not_in_lite(where, "it is more than SELECT … FROM source WHERE …")
    if len(re.findall(r"\bFROM\s+source\b", text, re.IGNORECASE)) != 1:
        raise not_in_lite(where, "it names the source more than once")
    kinds = {column.name.lower(): column.kind for column in columns}
    if any(part["class"] != "COLUMN_REF" and not part["alias"] for part in node["select_list"]):
        # The two engines name such columns differently, and * has other columns in Spark.
        raise not_in_lite(where, "it has * or an expression without a name (AS …)")
    for part in (node["select_list"], node["where_clause"]):
        _check_part(part, kinds, where)


def _check_part(part: Value, kinds: Mapping[str, str], where: str) -> None:
    if isinstance(part, list):
        for one in part:
            _check_part(one, kinds, where)
        return
    if not isinstance(part, dict):
        return
    match part.get("class"):
        case "FUNCTION":
            if part["function_name"] not in _FUNCTIONS:
                raise not_in_lite(where, f"it calls {part['function_name']}")
            if part["function_name"] == "~~" and "\\\\" in json.dumps(part):
                raise not_in_lite(where, "its LIKE has a backslash")
        case "CAST":
            _check_cast(part, kinds, where)
        case "COLUMN_REF":
            name = part["column_names"][-1]
            if name.lower() not in kinds:
                raise OptionError(f"{where}: column {name!r} does not exist; there are {', '.join(kinds)}")
            if kinds[name.lower()] in ("binary", "timestamp"):
                raise not_in_lite(where, f"column {name!r} is {kinds[name.lower()]}")
        case None:
            pass
        case kind if kind not in _CLASSES:
            raise not_in_lite(where, f"it has {str(kind).lower()} expressions")
    for inner in part.values():
        _check_part(inner, kinds, where)


def _check_cast(part: Mapping[str, Value], kinds: Mapping[str, str], where: str) -> None:
    # The place of the type depends on DuckDB's version.
    named = (part.get("type_expr") or {}).get("type_name") or (part.get("cast_type") or {}).get("id")
    target = "VARCHAR" if str(named).upper() in ("STRING", "TEXT") else str(named).upper()
    child = part["child"]
    kind = kinds.get(child["column_names"][-1].lower()) if child.get("class") == "COLUMN_REF" else None
    if part.get("try_cast") or kind not in _CASTS.get(target, ()):
        raise not_in_lite(where, f"it casts {kind or 'an expression'} to {target.lower()}")


def _rows(
    engine: duckdb.DuckDBPyConnection,
    prepared: str,
    columns: tuple[Column, ...],
    result: tuple[Column, ...],
    rows: Iterator[LiteRow],
) -> Iterator[LiteRow]:
    import duckdb

    fields = {column.name: _DUCKDB[column.kind] for column in columns if column.kind not in ("binary", "timestamp")}
    structure = json.dumps([{**fields, _ROW: "BIGINT"}])
    unpacked = ", ".join(f'r."{name}"' for name in (*fields, _ROW))
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        good = [row for row in part if not row.get(DELETED)]
        given = [{**{name: visible(row).get(name) for name in fields}, _ROW: at} for at, row in enumerate(good)]
        source = f"SELECT {unpacked} FROM (SELECT unnest(from_json(?::JSON, '{structure}')) AS r)"
        query = prepared[: _from_place(prepared)] + re.sub(
            r"\bFROM\s+source\b", f"FROM ({source}) AS source", prepared[_from_place(prepared) :], count=1, flags=re.I
        )
        try:
            found = engine.execute(f"{query} ORDER BY {_ROW}", [json.dumps(given)]).fetchall()
        except duckdb.Error as error:
            raise PipelineError(f"select: {' '.join(str(error).split())}") from error
        for *values, at in found:
            row = dict(zip((column.name for column in result), values, strict=True))
            yield {**row, KEY: good[at].get(KEY)}
