"""Splits a body into JSON documents while it arrives: `{…}{…}`, with or without line breaks between them.

The decoder takes whole documents from the buffer. A document that does not parse may be unfinished: it waits for more
of the body, up to a limit. At the end of the body, and at a mistake that more text cannot mend, the stream fails.
"""

from __future__ import annotations

import codecs
import json
from typing import Final

from headrace.kernel.json_values import JsonValue
from headrace.web.errors import Problem, bad_request

LARGEST_DOCUMENT: Final = 4 << 20
# Cut words and escapes are reported at their first character. The longest is `\\u` with two times four digits.
_CUT: Final = 16
_STARTS: Final = '{["-0123456789tfn'


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


class JsonStream:
    def __init__(self) -> None:
        self._text = ""
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._decoder = json.JSONDecoder(parse_constant=_no_constant)

    def fed(self, data: bytes, *, is_last: bool = False) -> tuple[list[JsonValue], Problem | None]:
        """The documents that are complete now. With a problem, the stream ends after them."""
        try:
            self._text += self._utf8.decode(data, is_last)
        except UnicodeDecodeError:
            return [], bad_request("the body is not UTF-8")
        found: list[JsonValue] = []
        text, at = self._text, 0
        problem = None
        while True:
            while at < len(text) and text[at] in " \t\r\n":
                at += 1
            if at == len(text):
                break
            try:
                document, at = self._decoder.raw_decode(text, at)
            except json.JSONDecodeError as error:
                if is_last or text[at] not in _STARTS or not _may_continue(error, text):
                    problem = bad_request(
                        f"the body is not JSON: {error.msg} at character {error.pos - at} of a record"
                    )
                elif len(text) - at > LARGEST_DOCUMENT:
                    problem = Problem(413, 413, f"a record is larger than {LARGEST_DOCUMENT} characters")
                break
            except (ValueError, RecursionError) as error:
                problem = bad_request(f"the body is not JSON: {error}")
                break
            found.append(document)
        self._text = text[at:]
        return found, problem


def _may_continue(error: json.JSONDecodeError, text: str) -> bool:
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - _CUT
