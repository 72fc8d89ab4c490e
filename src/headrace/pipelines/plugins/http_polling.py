"""An HTTP address that is polled for new rows.

    from:
      http: {url: "https://api.example.com/orders", cursor: id, every: 5, schema: "id bigint, total double"}

With `cursor`, the answer is a list of objects (or has one under `rows`). The largest value of the field `cursor` is the
offset; the next request carries it in the query parameter `parameter` (default: after). Rows that are not above the
offset are skipped, so it does not matter whether the server includes it. Without `cursor`, every changed answer is one
row `value`; the server's ETag says whether it changed.
"""

from __future__ import annotations

import json
import time
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.plugins.api import Chunk, Offset, Row, Source
from headrace.pipelines.plugins.columns import Value, parse_columns
from headrace.pipelines.plugins.http_requests import HttpEndpoint, number

_LONGEST_WAIT_S: Final = 0.5


class PollingSource(Source):
    def __init__(self, settings: End) -> None:
        known = ("url", "headers", "timeout", "attempts", "cursor", "parameter", "rows", "every", "schema")
        super().__init__(settings.only(*known))
        self._endpoint = HttpEndpoint.of(settings)
        self._every_s = number(settings, "every", 5.0)
        self._cursor = settings.text("cursor") if "cursor" in settings.settings else None
        self._columns = parse_columns(self.columns())
        self._next_at = 0.0

    def columns(self) -> str:
        return self.settings.text("schema", "value string")

    def read(self, offset: Offset | None) -> Chunk:
        wait_s = self._next_at - time.monotonic()
        if wait_s > 0:
            time.sleep(min(wait_s, _LONGEST_WAIT_S))
            return Chunk([], offset)
        chunk = self._changed(offset) if self._cursor is None else self._page(offset, self._cursor)
        # A page with rows may not be the last one, so the next one is asked for at once.
        self._next_at = 0.0 if chunk.rows and self._cursor else time.monotonic() + self._every_s
        return chunk

    def _changed(self, offset: Offset | None) -> Chunk:
        etag = (offset or {}).get("etag")
        answer = self._endpoint.send("GET", {"If-None-Match": etag} if etag else {})
        body = answer.body.decode()
        if answer.status == 304 or body == (offset or {}).get("body"):
            return Chunk([], offset)
        found = answer.headers.get("ETag") or answer.headers.get("etag")
        # Without an ETag the text itself says whether it changed.
        return Chunk([self._row(body, body)], {"etag": found} if found else {"body": body})

    def _page(self, offset: Offset | None, cursor: str) -> Chunk:
        after = (offset or {}).get("after")
        answer = self._endpoint.send("GET", {"Accept": "application/json"}, url=self._url(after))
        found = self._listed(answer.body)
        if wrong := next((row for row in found if not isinstance(row, dict) or row.get(cursor) is None), None):
            raise PipelineError(f"{self.settings.place}: a row has no field {cursor!r}: {json.dumps(wrong)[:100]}")
        try:
            new = [row for row in found if after is None or row[cursor] > after]
            last = max((row[cursor] for row in new), default=after)
        except TypeError as error:
            raise PipelineError(f"{self.settings.place}: values of {cursor!r} cannot be ordered: {error}") from error
        return Chunk([self._row(row, json.dumps(row)) for row in new], {"after": last})

    def _url(self, after: object) -> str:
        if after is None:
            return self._endpoint.url
        parts = urlsplit(self._endpoint.url)
        asked = urlencode({self.settings.text("parameter", "after"): after})
        return urlunsplit(parts._replace(query=f"{parts.query}&{asked}" if parts.query else asked))

    def _listed(self, body: bytes) -> list[Value]:
        try:
            found = json.loads(body)
        except ValueError as error:
            raise PipelineError(f"{self.settings.place}: {self._endpoint.shown}: not JSON: {error}") from error
        for step in self.settings.text("rows", "").split("."):
            if step:
                found = found.get(step) if isinstance(found, dict) else None
        if not isinstance(found, list):
            path = self.settings.text("rows", "") or "the answer"
            raise PipelineError(f'{self.settings.place}: {path} is not a list: set "rows" to the path of the list')
        return found

    def _row(self, row: object, text: str) -> Row:
        if "schema" not in self.settings.settings or not isinstance(row, dict):
            return {"value": text}
        return {column.name: row.get(column.name) for column in self._columns}
