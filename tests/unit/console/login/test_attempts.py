"""The limit of failed logins holds for logins at the same time, too."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.responses import Response

from headrace.console.login.attempts import MOST_PER_NAME, WINDOW_S, Attempts
from headrace.console.login.pages import LoginPages
from headrace.console.login.sessions import Sessions
from headrace.console.protection import COOKIE, FIELD
from headrace.console.rendering import View
from headrace.kernel.errors import ErrorCode, Refused
from headrace.web.login import Brokers, Caller

BROKERS = Brokers.from_settings(
    "b:9092", {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
)  # fmt: skip


def form(user: str, password: str) -> Request:
    body = urlencode({"user": user, "password": password, FIELD: "token"}).encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", b"application/x-www-form-urlencoded"), (b"cookie", f"{COOKIE}=token".encode())]
    scope = {
        "type": "http", "method": "POST", "path": "/login", "query_string": b"", "headers": headers, "scheme": "http",
        "client": ("10.0.0.1", 1), "server": ("c", 80),
    }  # fmt: skip
    return Request(scope, receive)


class Login:
    def __init__(self) -> None:
        self.asked = 0
        self.fault: Exception | None = Refused(ErrorCode.sasl_authentication_failed, "no")
        self.pages = LoginPages(Sessions(), None, self._rendered)

    def _rendered(self, _: Request, view: View, __: str) -> Response:
        return Response(status_code=view.status)

    async def _check(self, _: Caller) -> None:
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.fault is not None:
            raise self.fault

    async def submitted(self, times: int) -> list[int]:
        found = await asyncio.gather(
            *(self.pages.password(form("anna", "x"), "local", BROKERS, self._check) for _ in range(times))
        )
        return sorted(one.status_code for one in found)


def test_logins_at_the_same_time_do_not_pass_the_limit() -> None:
    async def run() -> None:
        login = Login()
        assert await login.submitted(30) == [401] * MOST_PER_NAME + [429] * (30 - MOST_PER_NAME)
        assert login.asked == MOST_PER_NAME
        assert await login.submitted(1) == [429]

    asyncio.run(run())


@pytest.mark.parametrize("fault", [None, TimeoutError()])
def test_logins_that_did_not_fail_do_not_count(fault: Exception | None) -> None:
    async def run() -> None:
        login = Login()
        login.fault = fault
        for _ in range(8 * MOST_PER_NAME):
            assert await login.submitted(1) == [303 if fault is None else 503]

    asyncio.run(run())


def test_a_try_that_is_taken_back_leaves_the_failures_before_it() -> None:
    attempts = Attempts()
    for second in range(MOST_PER_NAME - 1):
        attempts.began("a", "anna", second)
    attempts.began("a", "anna", 9)
    assert attempts.wait_s("b", "anna", 9) == WINDOW_S - 9
    attempts.taken_back("a", "anna", 9)
    assert attempts.wait_s("b", "anna", 9) == 0
    attempts.began("a", "anna", 10)
    assert attempts.wait_s("b", "anna", 10) == WINDOW_S - 10
