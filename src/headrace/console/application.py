"""The console as an ASGI application: routes, protection, and pages of errors that keep the navigation.

A page is a coroutine from a `Visit` to a `View`, a `Redirect` or a response of its own (streams, downloads). Faults of
brokers become pages that name the fault; the other pages go on working.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace import __version__
from headrace.client.errors import NoAnswer, Unreachable
from headrace.console.cluster.cluster import Cluster
from headrace.console.cluster.sql import SqlProcesses
from headrace.console.login.oidc import Oidc
from headrace.console.login.pages import LoginPages, login_address
from headrace.console.login.sessions import Sessions
from headrace.console.notices import Notices
from headrace.console.pages.routes import PAGES, SECTIONS
from headrace.console.protection import COOKIE, FIELD, HEADERS, Rejected, new_token
from headrace.console.rendering import View, as_json, environment, html, wants_json
from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.console.trouble import CLUSTER_UNREACHABLE, trouble
from headrace.console.visit import Redirect, Visit, page_address
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.security.principal import ANONYMOUS
from headrace.web.browser_guard import BrowserGuard
from headrace.web.connections import PerCaller, logged_in_client
from headrace.web.delegation import DelegationTokens
from headrace.web.errors import Problem, problem_of
from headrace.web.login import Brokers, Caller, Login
from headrace.web.tls import HttpTls

Page = Callable[[Visit], Awaitable["View | Redirect | Response"]]
_CLIENT_ID: Final = "headrace-console"
_log = logging.getLogger(__name__)
_STATUS: Final = {
    ErrorCode.unknown_topic_or_partition: 404,
    ErrorCode.group_id_not_found: 404,
    ErrorCode.topic_authorization_failed: 403,
    ErrorCode.group_authorization_failed: 403,
    ErrorCode.cluster_authorization_failed: 403,
}


class Entrance:
    """The way into one cluster: each caller gets connections with the caller's own rights."""

    def __init__(self, address: ClusterAddress, timeout_s: float, tls: HttpTls | None, *, read_only: bool) -> None:
        self._address = address
        self._read_only = read_only
        self._timeout_s = timeout_s
        tokens = None
        if address.brokers.own is not None and tls is not None and tls.asks_for_certificates:
            tokens = DelegationTokens(address.brokers, timeout_s=timeout_s)
        self.login = Login(address.brokers, tls=tls, tokens=tokens)
        # A connection without a login does not age, and its cluster keeps its samples.
        age_s = 600.0 if address.brokers.need_login else float("inf")
        self.clusters: PerCaller[Cluster] = PerCaller(self._made, age_s=age_s)

    async def _made(self, caller: Caller) -> Cluster:
        brokers = self._address.brokers
        client = await logged_in_client(brokers, caller, client_id=_CLIENT_ID, timeout_s=self._timeout_s)
        keeps_history = not brokers.need_login and not self._read_only
        return Cluster(self._address, client, caller.principal, keeps_history=keeps_history)


class Console:
    """Owns the clusters of one console process."""

    def __init__(self, settings: ConsoleSettings, tls: HttpTls | None = None) -> None:
        self.settings = settings
        self.notices = Notices()
        self.sessions = Sessions()
        self._sql = SqlProcesses()
        oidc = None if settings.oidc is None else Oidc(settings.oidc)
        self.login_pages = LoginPages(self.sessions, oidc, self.render)
        self._entrances = {
            one.name: Entrance(one, settings.timeout_s, tls, read_only=settings.read_only) for one in settings.clusters
        }

    def entrance(self, name: str) -> Entrance:
        """Raises Rejected if there is no cluster with this name."""
        if name not in self._entrances:
            known = ", ".join(self._entrances)
            raise Rejected(404, f"this console has no cluster {name!r}: it has {known}")
        return self._entrances[name]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        warming = [
            asyncio.create_task(_warmed(entrance))
            for entrance in self._entrances.values()
            if not entrance.login.brokers.need_login
        ]
        try:
            yield
        finally:
            for task in warming:
                task.cancel()
            await asyncio.gather(*warming, return_exceptions=True)
            for entrance in self._entrances.values():
                await entrance.clusters.close()

    def endpoint(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            return await self._answer(request, page)

        return serve

    async def _answer(self, request: Request, page: Page) -> Response:
        name = str(request.path_params.get("cluster", ""))
        try:
            entrance = self.entrance(name)
            caller = await self._caller(request, entrance, name)
            request.state.principal = caller.principal
            async with entrance.clusters.lease(caller) as cluster:
                answer = await page(Visit(request, self.settings, cluster, caller, self.notices, self._sql))
        except Problem as problem:
            if problem.status == 401 and _is_browser(request):
                return RedirectResponse(login_address(request, name), status_code=303)
            answer = self._trouble(request, problem.status, problem.message)
            if problem.headers:
                return self.render(request, answer, name, problem.headers)
        except Rejected as rejected:
            answer = self._trouble(request, rejected.status, rejected.message)
        except Refused as fault:
            if fault.code in (ErrorCode.sasl_authentication_failed, ErrorCode.unsupported_sasl_mechanism):
                if _is_browser(request):
                    self.sessions.end(request)
                    return RedirectResponse(f"{login_address(request, name)}&ended=1", status_code=303)
                # The fault names the broker's address and repeats the user name: neither is for this caller.
                denied = problem_of(fault)
                return self.render(request, self._trouble(request, 401, denied.message), name, denied.headers)
            answer = self._trouble(
                request, _STATUS.get(fault.code, 422), fault.message or fault.code.name.replace("_", " ")
            )
        except (Unreachable, NoAnswer, TimeoutError) as fault:
            answer = self._trouble(
                request,
                CLUSTER_UNREACHABLE,
                f"the cluster does not answer: {getattr(fault, 'message', '') or 'time-out'}",
            )
        except Fault as fault:
            answer = self._trouble(
                request, _STATUS.get(fault.code, 422), fault.message or fault.code.name.replace("_", " ")
            )
        except HTTPException:
            raise
        except Exception:  # boundary of a page: a person gets a page, the log gets the trace
            _log.exception("page %s", request.url.path)
            answer = self._trouble(request, 500, "the console made an error. Its log has the details")
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, Redirect):
            if wants_json(request):
                return JSONResponse({"done": True, "location": answer.location})
            return RedirectResponse(answer.location, status_code=303)
        return self.render(request, answer, name)

    async def _caller(self, request: Request, entrance: Entrance, cluster: str) -> Caller:
        """By the session of the browser, else by the request itself. Raises Problem 401."""
        if entrance.login.brokers.need_login and "authorization" not in request.headers:
            caller = self.sessions.caller(request, cluster)
            if caller is not None:
                request.state.has_session = True
                return caller
        return await entrance.login.caller(request)

    def check_of(self, cluster: str) -> tuple[Brokers, Callable[[Caller], Awaitable[None]]]:
        """The brokers of a cluster, and a check that they accept a caller."""
        entrance = self.entrance(cluster)

        async def check(caller: Caller) -> None:
            async with entrance.clusters.lease(caller):
                pass

        return entrance.login.brokers, check

    async def login(self, request: Request) -> Response:
        """The pages of `login.pages`, by the last part of the address."""
        cluster = str(request.path_params.get("cluster", ""))
        try:
            if request.url.path == "/login/oidc":
                return await self.login_pages.returned(request, self.check_of)
            brokers, check = self.check_of(cluster)
            if request.url.path.endswith("/login/oidc"):
                return await self.login_pages.provider(request, cluster)
            if request.url.path.endswith("/logout"):
                return await self.login_pages.logout(request, cluster)
            return await self.login_pages.password(request, cluster, brokers, check)
        except (Rejected, Problem) as fault:
            return self.render(request, self._trouble(request, fault.status, fault.message), cluster)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.settings.clusters]

    def _trouble(self, request: Request, status: int, message: str) -> View:
        return trouble(request, status, message, self.names)

    def render(self, request: Request, view: View, cluster: str, headers: Mapping[str, str] | None = None) -> Response:
        response = as_json(view) if wants_json(request) else self._page(request, view, cluster)
        response.headers.update(headers or {})
        return response

    def _page(self, request: Request, view: View, cluster: str) -> Response:
        known = self.settings.cluster(cluster) or self.settings.clusters[0]
        token = request.cookies.get(COOKIE) or new_token()
        response = html(view, self._context(request, known.name, token))
        if request.cookies.get(COOKIE) != token:
            response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return response

    def _context(self, request: Request, cluster: str, token: str) -> Mapping[str, object]:
        query = dict(request.query_params)

        def address(**changes: object) -> str:
            """This page with another query."""
            from urllib.parse import urlencode

            pairs = {**query, **changes}
            pairs.pop("notice", None)
            return "?" + urlencode({name: value for name, value in pairs.items() if value not in (None, "")})

        return {
            "cluster": cluster,
            "clusters": self.names,
            "sections": SECTIONS,
            "url": lambda *parts, **query: page_address(cluster, *parts, **query),
            "here": address,
            "query": query,
            "form_field": FIELD,
            "form_token": token,
            "notice": self.notices.take(query.get("notice", "")),
            "read_only": self.settings.read_only,
            "hides_values": self.settings.hides_values,
            "release": __version__,
            "principal": getattr(request.state, "principal", ""),
            "has_session": getattr(request.state, "has_session", False),
        }


async def _warmed(entrance: Entrance) -> None:
    """Reads the facts of a cluster without logins before the first page asks for them."""
    try:
        async with entrance.clusters.lease(Caller(ANONYMOUS, entrance.login.brokers.security)) as cluster:
            await cluster.facts()
            environment().get_template("overview.html")
            # Holds the cluster, so that its history goes on while no page is open.
            await asyncio.Event().wait()
    except (Fault, Problem, OSError, TimeoutError):
        pass  # the first page reports it


def _is_browser(request: Request) -> bool:
    """Whether a person waits for a page that can be opened again after the login."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


class Protected:
    """Adds the headers of `protection` to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    *((name.encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        await self.app(scope, receive, guarded)


def application(console: Console, *, is_on_loopback: bool) -> ASGIApp:
    settings = console.settings

    async def home(_: Request) -> Response:
        return RedirectResponse(page_address(settings.clusters[0].name), status_code=303)

    async def unknown(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = "there is no such page" if status == 404 else "this page does not take this kind of request"
        return console.render(
            request, trouble(request, status, message, console.names), str(request.path_params.get("cluster", ""))
        )

    routes = [
        Route("/", home),
        Route("/login/oidc", console.login),
        Route("/clusters/{cluster}/login", console.login, methods=["GET", "POST"]),
        Route("/clusters/{cluster}/login/oidc", console.login),
        Route("/clusters/{cluster}/logout", console.login, methods=["POST"]),
        # Only static files: a compressed page would tell by its size what an attacker guessed of its token.
        Mount("/static", GZipMiddleware(StaticFiles(packages=[("headrace.console", "static")]), minimum_size=1000)),
        *(
            Route(f"/clusters/{{cluster}}{path}", console.endpoint(page), methods=list(methods))
            for path, page, methods in PAGES
        ),
    ]
    made = Starlette(routes=routes, exception_handlers={404: unknown, 405: unknown})
    return Protected(BrowserGuard(made, is_on_loopback=is_on_loopback))
