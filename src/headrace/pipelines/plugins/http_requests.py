"""HTTP requests of connectors: retries after faults of the network and of the server, and sentences for the rest."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException, HTTPMessage, IncompleteRead
from typing import IO, Final
from urllib.parse import urlsplit

from headrace.pipelines.connectors.settings import End, texts_of
from headrace.pipelines.errors import OptionError, PipelineError

_TRY_AGAIN: Final = (408, 425, 429, 500, 502, 503, 504)
_LONGEST_PAUSE_S: Final = 30.0
_MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class HttpEndpoint:
    url: str
    place: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    attempts: int = 5

    @classmethod
    def of(cls, end: End) -> HttpEndpoint:
        """From the settings url, headers, timeout (seconds) and attempts."""
        url = end.text("url")
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise OptionError(f"{end.place}: url {url!r}: must begin with http:// or https://")
        headers = texts_of(end.settings.get("headers"), f"{end.place}.headers")
        return cls(url, end.place, headers, number(end, "timeout", 10.0), int(number(end, "attempts", 5)))

    @property
    def shown(self) -> str:
        """The address without what may be secret in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"

    def send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, url: str | None = None
    ) -> Answer:
        """Sends until the server takes it. Raises PipelineError after the last attempt or when it refuses."""
        pause_s, problem = 0.2, ""
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            request = urllib.request.Request(
                url or self.url, data=body, method=method, headers={**self.headers, **headers}
            )
            try:
                with _opener().open(request, timeout=self.timeout_s) as answer:
                    body_read = answer.read(_MOST_BYTES)
                    # A read with a size does not tell when the connection ends too early. Rows of a request with a body
                    # have arrived, whatever becomes of the answer.
                    if body is None and answer.length and len(body_read) < _MOST_BYTES:
                        raise IncompleteRead(body_read, answer.length)
                    return Answer(answer.status, dict(answer.headers.items()), body_read)
            except urllib.error.HTTPError as error:
                if error.code == 304:
                    return Answer(304, dict(error.headers.items()), b"")
                words = error.read(300).decode(errors="replace")
                problem = f"answered {error.code} {error.reason}: {' '.join(words.split())}".rstrip(": ")
                if error.code not in _TRY_AGAIN:
                    raise PipelineError(f"{self.place}: {method} {self.shown} {problem}") from error
                pause_s = max(pause_s, _seconds(error.headers.get("Retry-After")))
            except (OSError, HTTPException) as error:
                problem = f"cannot be reached: {getattr(error, 'reason', error)}"
        raise PipelineError(f"{self.place}: {method} {self.shown} {problem} ({self.attempts} attempts)")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """urllib repeats a redirected POST as a GET without the body, so its rows would be lost behind an answer of 200.
    A redirect is a refusal instead."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        return None if req.data is not None else super().redirect_request(req, fp, code, msg, headers, newurl)


@cache
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Redirects)


def _seconds(text: str | None) -> float:
    return min(float(text), _LONGEST_PAUSE_S) if text and text.isdigit() else 0.0


def number(end: End, name: str, default: float) -> float:
    text = end.text(name, str(default))
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if found <= 0:
        raise OptionError(f"{end.place}: {name}={text!r}: must be a number above 0")
    return found
