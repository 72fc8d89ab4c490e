"""The OAUTHBEARER tokens of a client: read from a file, asked for at a token endpoint, or made without a signature.

A token is used again for most of its lifetime. A file is read for each login, because another program renews it.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

from headrace.client.identity_provider import ask_provider, is_protected
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.sasl.token_source import TOKEN_URL, TokenSource, expiry_s, unsecured_token

_MAX_BYTES: Final = 1 << 20
# A new token replaces one after this part of its lifetime, as in Kafka (sasl.login.refresh.window.factor).
_USED_PART_OF_LIFETIME: Final = 0.8


class BearerTokens:
    """Picklable, because Spark carries it to the executors. Threads share one object."""

    def __init__(self, source: TokenSource) -> None:
        if source.url and not source.is_file and not is_protected(source.url):
            raise Refused(ErrorCode.invalid_config, f"{TOKEN_URL}={source.url}: must be a file, or begin with https://")
        self.source = source
        self._lock = threading.Lock()
        self._kept: tuple[str, float] | None = None  # the token, and the time to replace it

    def __reduce__(self) -> tuple[type[BearerTokens], tuple[TokenSource]]:
        return BearerTokens, (self.source,)

    def current(self) -> str:
        """The token for a login now. Blocking. Raises Refused."""
        source = self.source
        if source.unsecured_subject:
            return unsecured_token(source.unsecured_subject, int(time.time()))
        if source.is_file:
            return self._from_file()
        with self._lock:
            if self._kept is None or time.time() >= self._kept[1]:
                self._kept = self._from_endpoint()
            return self._kept[0]

    def _from_file(self) -> str:
        path = Path(unquote(urlsplit(self.source.url).path))
        try:
            token = path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise self._failed(f"the file cannot be read: {why}") from None
        if not token:
            raise self._failed("the file is empty")
        return token

    def _from_endpoint(self) -> tuple[str, float]:
        source, now_s = self.source, time.time()
        form = {"grant_type": "client_credentials"} | ({"scope": source.scope} if source.scope else {})
        login = base64.b64encode(f"{source.client_id}:{source.client_secret}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
        try:
            answer = ask_provider(source.url, _MAX_BYTES, form=urlencode(form).encode(), headers=headers)
            found = json.loads(answer)
            token = found["access_token"]
        except OSError as error:
            raise self._failed(f"no token: {error}") from None
        except (ValueError, KeyError, TypeError):
            raise self._failed("the answer has no access_token") from None
        if not isinstance(token, str) or not token:
            raise self._failed("the answer has no access_token")
        ends_s = expiry_s(token)
        if ends_s is None:
            lasts_s = found.get("expires_in", 0)
            ends_s = now_s + lasts_s if isinstance(lasts_s, int | float) else now_s
        return token, now_s + (ends_s - now_s) * _USED_PART_OF_LIFETIME

    def _failed(self, why: str) -> Refused:
        return Refused(ErrorCode.sasl_authentication_failed, f"{TOKEN_URL}={self.source.url}: {why}")
