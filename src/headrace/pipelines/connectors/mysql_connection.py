"""MariaDB and MySQL through pymysql, with the part of the DB-API that connectors use. They are sources only.

`mysql://user:password@host:3306/database?ssl_ca=/etc/ssl/ca.pem`, or `mariadb://…`
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.pipelines.errors import OptionError, PipelineError

if TYPE_CHECKING:
    from headrace.pipelines.connectors.databases import Cursor

SCHEMES: Final = ("mysql://", "mariadb://")
_PORT: Final = 3306
# Times in UTC, as the binary log has them. Quotes as in the other databases.
_SESSION: Final = "SET time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')"


def is_mysql(url: str) -> bool:
    return url.startswith(SCHEMES)


def connection_settings(url: str) -> dict[str, object]:
    """Arguments of pymysql and of the reader of the binary log."""
    parts = urlsplit(url)
    database = unquote(parts.path.strip("/"))
    if not parts.hostname or not database:
        raise OptionError(f"url {_without_password(url)!r}: must be mysql://user:password@host/database")
    return {
        "host": parts.hostname,
        "port": parts.port or _PORT,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": database,
        "charset": "utf8mb4",
        "connect_timeout": 10,
        **_encryption(parts.hostname, dict(parse_qsl(parts.query))),
    }


def _encryption(host: str, options: Mapping[str, str]) -> dict[str, object]:
    """TLS with a checked certificate if the url names trusted ones; else TLS if the server offers it. On the same
    machine there is nothing to encrypt, and a TLS context takes 60 ms for each connection."""
    if unknown := next((name for name in options if name != "ssl_ca"), None):
        raise OptionError(f"url: option {unknown!r} is unknown: there is ssl_ca, a file with trusted certificates")
    if "ssl_ca" in options:
        return {"ssl": {"ca": options["ssl_ca"], "check_hostname": True}}
    return {"ssl_disabled": True} if host in ("127.0.0.1", "localhost", "::1") else {}


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":***@") if parts.password else url


class MySqlConnection:
    def __init__(self, url: str) -> None:
        try:
            import pymysql
        except ModuleNotFoundError as missing:
            raise PipelineError(
                "MariaDB and MySQL need pymysql and mysql-replication: install them with pip"
            ) from missing
        try:
            self._connection = pymysql.connect(**connection_settings(url), init_command=_SESSION)
        except pymysql.Error as error:
            # The url contains the password, so the message has only the server's text.
            raise PipelineError(f"MariaDB cannot be reached: {error.args[-1]}") from error

    def execute(self, statement: str, values: Sequence[object] = ()) -> Cursor:
        cursor = self._connection.cursor()
        cursor.execute(statement, values or None)
        return cast("Cursor", cursor)

    def cursor(self) -> Cursor:
        return cast("Cursor", self._connection.cursor())

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


def spark_type(kind: str, full: str, precision: int | None, scale: int | None) -> str:
    """The Spark type of a column that information_schema describes."""
    is_unsigned = "unsigned" in full
    match kind:
        case "tinyint" | "smallint" | "mediumint" | "year":
            return "int"
        case "int":
            return "bigint" if is_unsigned else "int"
        case "bigint":
            return "decimal(20, 0)" if is_unsigned else "bigint"
        case "float" | "double":
            return "double"
        case "decimal":
            return f"decimal({precision}, {scale or 0})"
        case "date":
            return "date"
        case "datetime" | "timestamp":
            return "timestamp"
        case "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob":
            return "binary"
    return "string"


def json_row(row: Mapping[str, object]) -> dict[str, object]:
    """A row as JSON can represent it, equal for rows of a query and rows of the binary log."""
    return {name: _json_value(value) for name, value in row.items()}


def _json_value(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return f"\\x{value.hex()}"
        case decimal.Decimal():
            # A float would lose digits.
            return format(value, "f")
        case datetime.datetime():
            return value.isoformat(sep=" ")
        case datetime.date():
            return value.isoformat()
        case datetime.timedelta():
            return _time(value)
        case set() | frozenset():
            return ",".join(sorted(map(str, value)))
    return str(value)


def _time(value: datetime.timedelta) -> str:
    """As MariaDB prints a TIME, which may be negative and longer than a day."""
    micros = round(value.total_seconds() * 1_000_000)
    seconds, fraction = divmod(abs(micros), 1_000_000)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}" if fraction else text
