"""The registry's reasons against a schema, as sentences for a person.

A registry answers with texts in Confluent's form: `{errorType:'…', description:'…', path:'…', fix:'…'}`. Only the
registry of Headrace adds the fix. A text in another form is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_REASON: Final = re.compile(
    r"\{errorType:'[A-Z_]+', description:'(?P<reason>.*?)'(?:, path:'(?P<path>[^']*)')?"
    r"(?:, additionalInfo:'.*?')?(?:, fix:'(?P<fix>.*)')?\}",
    re.DOTALL,
)
_AGAINST: Final = re.compile(r"\{oldSchemaVersion: (\d+)\}")
# The person has these: the schema, and the level, which the last sentence names.
_KNOWN: Final = re.compile(r"\{(oldSchema|compatibility|validateFields): .*\}", re.DOTALL)


def sentences(messages: Iterable[str]) -> Iterator[str]:
    """One sentence per reason, and the version that the schema was compared with."""
    for message in messages:
        if reason := _REASON.fullmatch(message):
            place = f" (at {reason['path']})" if reason["path"] and reason["path"] not in reason["reason"] else ""
            way_out = f". Way out: {reason['fix']}" if reason["fix"] else ""
            yield f"{reason['reason'][:1].upper()}{reason['reason'][1:]}{place}{way_out}."
        elif against := _AGAINST.fullmatch(message):
            yield f"Compared with version {against[1]}."
        elif not _KNOWN.fullmatch(message):
            yield message
