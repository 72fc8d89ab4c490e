"""Rows as HTTP requests.

    to:
      http: {url: "https://hooks.example.com/orders", headers: {Authorization: $TOKEN}, rows_per_request: 1}

Each request has the header `Idempotency-Key`, which is the same when the request is repeated. The ledger has the number
of rows that the server took. After a crash the requests continue there, so at most the last request is repeated, and a
server that knows its key ignores it.
"""

from __future__ import annotations

import itertools

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError
from headrace.pipelines.plugins.api import Batch, Ledger, Sink
from headrace.pipelines.plugins.http_requests import HttpEndpoint, number
from headrace.pipelines.plugins.plain_json import to_text


class Webhook(Sink):
    def __init__(self, settings: End) -> None:
        known = ("url", "method", "headers", "timeout", "attempts", "rows_per_request")
        super().__init__(settings.only(*known))
        self._endpoint = HttpEndpoint.of(settings)
        self._method = settings.text("method", "POST").upper()
        if self._method not in ("POST", "PUT", "PATCH"):
            raise OptionError(f"{settings.place}: method {self._method!r} must be POST, PUT or PATCH")
        self._at_once = int(number(settings, "rows_per_request", 1))

    def write(self, batch: Batch, ledger: Ledger) -> None:
        done = ledger.rows_done
        rows = itertools.islice(iter(batch), done, None)
        while part := list(itertools.islice(rows, self._at_once)):
            texts = [to_text(row) for row in part]
            body = texts[0] if self._at_once == 1 else f"[{','.join(texts)}]"
            headers = {"Content-Type": "application/json", "Idempotency-Key": f"{ledger.key}-{done}"}
            self._endpoint.send(self._method, headers, body.encode())
            done += len(part)
            ledger.mark(done)
