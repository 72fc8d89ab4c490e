"""Rows in Redis: one transaction (MULTI) has the rows of a batch and the number of the batch.

    to:
      redis: {url: redis://localhost:6379/0, key: id, prefix: "orders:", as: hash}

`as`: `hash` (the columns as fields), `json` (the row as text), `list` (appended to the list of the key) or `stream`
(XADD). A tombstone deletes the key. The hash `headrace:ledger` has the last batch of each flow. Redis must keep it: a
server that evicts keys must not evict this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.plugins.api import Batch, Ledger, Row, Sink
from headrace.pipelines.plugins.extras import library
from headrace.pipelines.plugins.plain_json import to_text

if TYPE_CHECKING:
    from redis.client import Pipeline

LEDGER: Final = "headrace:ledger"
_ATTEMPTS: Final = 20
_FORMS: Final = ("hash", "json", "list", "stream")


class RedisSink(Sink):
    takes_deletes = True

    def __init__(self, settings: End) -> None:
        super().__init__(settings.only("url", "key", "prefix", "as", "stream"))
        redis = library("redis", settings.place)
        self._form = settings.text("as", "hash")
        if self._form not in _FORMS:
            raise OptionError(f"{settings.place}: as {self._form!r} must be one of {', '.join(_FORMS)}")
        self._key, self._prefix = settings.text("key"), settings.text("prefix", "")
        try:
            self._client = redis.Redis.from_url(settings.text("url"), socket_timeout=30, socket_connect_timeout=10)
        except ValueError as error:
            raise OptionError(f"{settings.place}: url: {error}") from error
        self._errors, self._overtaken = redis.RedisError, redis.WatchError

    def write(self, batch: Batch, ledger: Ledger) -> None:
        if self._key not in batch.columns:
            names = ", ".join(name for name in batch.columns if not name.startswith("_"))
            raise OptionError(f"{self.settings.place}: key {self._key!r} is not a column; there are {names}")
        # All flows share the hash, so the batch of another one ends an attempt, too.
        for last in (*[False] * (_ATTEMPTS - 1), True):
            try:
                self._write_once(batch, ledger)
                return
            except self._errors as error:
                if last or not isinstance(error, self._overtaken):
                    raise PipelineError(f"{self.settings.place}: {' '.join(str(error).split())}") from error

    def _write_once(self, batch: Batch, ledger: Ledger) -> None:
        with self._client.pipeline(transaction=True) as transaction:
            # EXEC fails if another process wrote the ledger since this line.
            transaction.watch(LEDGER)
            done = transaction.hget(LEDGER, ledger.name)
            if done is not None and int(done) >= ledger.batch:
                return
            transaction.multi()
            for row in batch:
                self._add(transaction, row)
            transaction.hset(LEDGER, ledger.name, ledger.batch)
            transaction.execute()

    def _add(self, transaction: Pipeline, row: Row) -> None:
        if row.get("_deleted"):
            transaction.delete(f"{self._prefix}{row.get('_key')}")
            return
        columns = {name: value for name, value in row.items() if not name.startswith("_") and value is not None}
        if self._key not in columns:
            raise PipelineError(f"{self.settings.place}: column {self._key!r} of a row is null: it is the key in Redis")
        key = f"{self._prefix}{columns[self._key]}"
        match self._form:
            case "hash":
                # The row replaces what was there: a column that is null now must not keep its old value.
                transaction.delete(key)
                transaction.hset(key, mapping={name: _value(value) for name, value in columns.items()})
            case "json":
                transaction.set(key, to_text(columns))
            case "list":
                transaction.rpush(key, to_text(columns))
            case "stream":
                transaction.xadd(key, {name: _value(value) for name, value in columns.items()})

    def close(self) -> None:
        self._client.close()


def _value(value: object) -> bytes | str | int | float:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, str, int, float)):
        return value
    text = to_text({"v": value})[len('{"v":') : -1]
    return text.strip('"')
