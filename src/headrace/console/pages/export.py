"""Records of a topic as a file: NDJSON, CSV or Parquet."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path
from typing import Final

from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

from headrace.console.pages.chosen_schema import chosen_schema
from headrace.console.pages.messages import chosen_spans, chosen_starts, decoding_of
from headrace.console.protection import Rejected
from headrace.console.records.export import exported
from headrace.console.records.parquet import write_parquet
from headrace.console.visit import Visit

EXPORT_RECORDS: Final = 100_000
_KINDS: Final = {
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


async def export(visit: Visit) -> Response:
    topic = await visit.cluster.topic(visit.path("topic"))
    form = visit.query.get("format", "ndjson")
    if form not in _KINDS:
        raise Rejected(400, f"format {form!r}: must be {', '.join(_KINDS)}")
    text = visit.query.get("limit", str(EXPORT_RECORDS))
    if not text.isdecimal() or not 0 < int(text) <= 10_000_000:
        raise Rejected(400, f"limit {text!r}: must be a number up to 10 000 000")
    limit = int(text)
    held = await chosen_spans(visit, topic)
    starts = await chosen_starts(visit, topic, visit.query.get("from", "oldest"), held) or {}
    chosen = {number: (max(first, starts.get(number, first)), end) for number, (first, end) in held.items()}
    decoding = decoding_of(visit, topic.name, await chosen_schema(visit))
    headers = {"content-disposition": f'attachment; filename="{topic.name}.{form}"', "cache-control": "no-store"}
    if form == "parquet":
        # The footer of a Parquet file is written last, so the file is made first and sent then.
        descriptor, name = tempfile.mkstemp(prefix="headrace-console-", suffix=".parquet")
        os.close(descriptor)
        path = Path(name)

        def make() -> None:
            try:
                with visit.cluster.blocking() as client:
                    write_parquet(client, decoding, chosen, limit, name)
            except BaseException:  # the file must not stay, whatever happened
                path.unlink()
                raise

        await asyncio.to_thread(make)
        return FileResponse(path, media_type=_KINDS[form], headers=headers, background=BackgroundTask(path.unlink))
    client = visit.cluster.blocking()
    lines = exported(client, decoding, chosen, form, limit)

    async def body() -> AsyncIterator[str]:
        try:
            while part := await asyncio.to_thread(lambda: "".join(islice(lines, 500))):
                yield part
        finally:
            client.close()

    return StreamingResponse(body(), media_type=_KINDS[form], headers=headers)
