"""Saved searches of a topic, shared by all users of the cluster."""

from __future__ import annotations

import asyncio
import time
from typing import Final
from urllib.parse import quote

from headrace.console.cluster import notebook
from headrace.console.protection import Rejected
from headrace.console.visit import Redirect, Visit
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import Fault

_FIELDS: Final = ("q", "in", "cel", "partition")
_LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class SavedSearch:
    name: str
    address: str
    by: str


def _prefix(topic: str) -> str:
    return f"search/{quote(topic, safe='')}/"


async def saved_searches(visit: Visit, topic: str) -> list[SavedSearch]:
    """Empty if the user may not read the topic in which the console remembers them."""

    def read() -> list[SavedSearch]:
        with visit.cluster.blocking() as client:
            found = notebook.read(client, _prefix(topic))
        return [
            SavedSearch(
                key.removeprefix(_prefix(topic)),
                visit.url("topics", topic, "search", **{name: str(one.get(name, "")) for name in _FIELDS}),
                str(one.get("by", "")),
            )
            for key, one in sorted(found.items())
        ]

    try:
        return await asyncio.to_thread(read)
    except Fault:
        return []


async def save_search(visit: Visit) -> Redirect:
    """POST: saves the search of the form, or deletes one (`delete=NAME`)."""
    form = await visit.form()
    topic = (await visit.cluster.topic(visit.path("topic"))).name
    delete = form.text("delete")
    name = delete or form.text("name")
    if not name or len(name) > _LONGEST_NAME or any(character < " " for character in name):
        raise Rejected(422, f"name {name!r}: must have 1 to {_LONGEST_NAME} printable characters")
    document = None
    if not delete:
        document = {field: form.text(field) for field in _FIELDS if form.text(field)}
        if not document.get("q") and not document.get("cel"):
            raise Rejected(422, "a search needs a text or a CEL expression")
        document |= {"by": visit.caller.principal, "at_ms": int(time.time() * 1000)}  # type: ignore[dict-item]

    def write() -> None:
        with visit.cluster.blocking() as client:
            notebook.write(client, _prefix(topic) + name, document)

    await asyncio.to_thread(write)
    return visit.done(f"The search {name} is {'deleted' if delete else 'saved'}.", "topics", topic, "messages")
