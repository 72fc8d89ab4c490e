"""The login page, its form, the way to the OpenID provider and back, and logout."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headrace.client.errors import NoAnswer, Unreachable
from headrace.console.login.attempts import Attempts
from headrace.console.login.oidc import Oidc
from headrace.console.login.sessions import LONGEST_S, Sessions, keep_cookie
from headrace.console.protection import COOKIE as FORM_COOKIE
from headrace.console.protection import Rejected, new_token, read_form
from headrace.console.rendering import View
from headrace.console.visit import page_address
from headrace.kernel.errors import ErrorCode, Refused
from headrace.web.login import Brokers, Caller

STATE_COOKIE: Final = "headrace_oidc"
_LONGEST_FIELD: Final = 1024
_NEXT: Final = re.compile(r"/clusters/[^/\\?#]+[^\\]*")
Check = Callable[[Caller], Awaitable[None]]
Render = Callable[[Request, View, str], Response]


def login_address(request: Request, cluster: str) -> str:
    """The login page that leads back to the page of this request."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return page_address(cluster, "login", next=here)


def safe_next(text: str, cluster: str) -> str:
    """A page of this console; the overview instead of any other address."""
    return text if _NEXT.fullmatch(text) and "//" not in text.partition("?")[0] else page_address(cluster)


class LoginPages:
    """One for the whole console."""

    def __init__(self, sessions: Sessions, oidc: Oidc | None, render: Render) -> None:
        self.sessions = sessions
        self.oidc = oidc
        self._render = render
        self._attempts = Attempts()

    async def password(self, request: Request, cluster: str, brokers: Brokers, check: Check) -> Response:
        """GET: the page. POST: the form; `check` raises what the brokers say to the login."""
        if not brokers.need_login:
            return RedirectResponse(page_address(cluster), status_code=303)
        next_page = safe_next(request.query_params.get("next", ""), cluster)
        if request.method == "GET":
            return self._page(request, cluster, brokers, next_page)
        fields = await read_form(request)
        name, password = (fields.get(field, [""])[0] for field in ("user", "password"))
        next_page = safe_next(fields.get("next", [""])[0], cluster)
        address = request.client.host if request.client is not None else ""
        began_s = time.monotonic()
        wait_s = self._attempts.wait_s(address, name, began_s)
        if wait_s > 0:
            message = f"too many logins have failed: try again in {round(wait_s / 60) or 1} min"
            return self._page(request, cluster, brokers, next_page, message, 429, name)
        if not name or len(name) > _LONGEST_FIELD or len(password) > _LONGEST_FIELD or not brokers.takes_passwords:
            return self._page(request, cluster, brokers, next_page, "type a user name and a password", 422, name)
        caller = brokers.with_password(name, password)
        self._attempts.began(address, name, began_s)
        fault, status = await self._fault(check, caller)
        if status != 401:
            self._attempts.taken_back(address, name, began_s)
        if fault:
            return self._page(request, cluster, brokers, next_page, fault, status, name)
        self._attempts.succeeded(name)
        return self._entered(request, cluster, caller, next_page)

    async def _fault(self, check: Check, caller: Caller) -> tuple[str, int]:
        """What is wrong with the login, and the status; empty if the brokers accept it."""
        try:
            await check(caller)
        except Refused as refused:
            if refused.code is ErrorCode.sasl_authentication_failed:
                # The same sentence for an unknown name and a wrong password: it must not tell which names exist.
                return "the brokers do not accept this user name and password", 401
            return refused.message or refused.code.name, 422
        except (Unreachable, NoAnswer, TimeoutError) as fault:
            return f"the cluster does not answer: {getattr(fault, 'message', '') or 'time-out'}", 503
        return "", 200

    def _entered(
        self, request: Request, cluster: str, caller: Caller, next_page: str, lasts_s: float = LONGEST_S
    ) -> Response:
        response = RedirectResponse(next_page, status_code=303)
        keep_cookie(response, request, self.sessions.begin(request, cluster, caller, lasts_s))
        # A form of the time before the login must not act for the user.
        is_secure = request.url.scheme == "https"
        response.set_cookie(FORM_COOKIE, new_token(), httponly=True, samesite="strict", secure=is_secure)
        return response

    def _page(
        self,
        request: Request,
        cluster: str,
        brokers: Brokers,
        next_page: str,
        error: str = "",
        status: int = 200,
        name: str = "",
    ) -> Response:
        data: Mapping[str, object] = {
            "next": next_page, "error": error, "name": name, "takes_passwords": brokers.takes_passwords,
            "ended": request.query_params.get("ended") == "1" and not error,
            "provider": None if self.oidc is None else page_address(cluster, "login", "oidc", next=next_page),
            "provider_name": "" if self.oidc is None else self.oidc.client.issuer.split("://", 1)[1],
        }  # fmt: skip
        return self._render(request, View("login.html", "Log in", data, status), cluster)

    async def provider(self, request: Request, cluster: str) -> Response:
        """Sends the browser to the OpenID provider."""
        if self.oidc is None:
            raise Rejected(404, "this console has no OpenID provider: it was started without --oidc-config")
        back = str(request.url.replace(path="/login/oidc", query="", fragment=""))
        next_page = safe_next(request.query_params.get("next", ""), cluster)
        address, state = await self.oidc.begin(cluster, next_page, back)
        response = RedirectResponse(address, status_code=303)
        is_secure = request.url.scheme == "https"
        response.set_cookie(STATE_COOKIE, state, max_age=600, httponly=True, samesite="lax", secure=is_secure)
        return response

    async def returned(self, request: Request, clusters: Callable[[str], tuple[Brokers, Check]]) -> Response:
        """The browser comes back from the provider."""
        if self.oidc is None:
            raise Rejected(404, "this console has no OpenID provider")
        query = request.query_params
        if query.get("error"):
            raise Rejected(403, f"the OpenID provider refused the login: {query.get('error', '')[:200]}")
        state = query.get("state", "")
        code = query.get("code", "")
        pending, token, lasts_s = await self.oidc.finish(state, request.cookies.get(STATE_COOKIE, ""), code)
        brokers, check = clusters(pending.cluster)
        caller = brokers.with_bearer(token)
        fault, status = await self._fault(check, caller)
        if fault:
            text = "the brokers do not accept the token of the OpenID provider" if status == 401 else fault
            return self._page(request, pending.cluster, brokers, pending.next, text, status)
        response = self._entered(request, pending.cluster, caller, pending.next, lasts_s)
        response.delete_cookie(STATE_COOKIE)
        return response

    async def logout(self, request: Request, cluster: str) -> Response:
        await read_form(request)
        self.sessions.end(request)
        return RedirectResponse(page_address(cluster, "login"), status_code=303)
