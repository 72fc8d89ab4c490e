"""Pages of errors: a title, what happened, and where a person goes from there.

A page keeps its place in the navigation. A cluster or a registry that does not answer may answer the next time, a page
that does not exist has a list beside it, and a wrong form has the page before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from headrace.console.pages.routes import SECTIONS
from headrace.console.rendering import View
from headrace.console.visit import page_address
from headrace.kernel.dataclass import dataclass

CLUSTER_UNREACHABLE: Final = 503
_REGISTRY_FAILS: Final = 502
_TITLES: Final = {
    401: "Log in",
    403: "Not allowed",
    404: "Not found",
    409: "Not possible now",
    413: "Too large",
    500: "Error of the console",
    _REGISTRY_FAILS: "Error of the schema registry",
    CLUSTER_UNREACHABLE: "Cluster unreachable",
}
# The first part of the address of a page → its section, where both differ.
_SECTIONS: Final = {
    "new-topic": "topics", "group": "groups", "pipeline": "pipelines", "subject": "schemas",
    "register-schema": "schemas", "brokers": "operations", "": "overview",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Way:
    label: str
    href: str


def trouble(request: Request, status: int, message: str, clusters: Sequence[str]) -> View:
    parts = request.url.path.split("/")[1:]
    cluster = parts[1] if len(parts) > 1 and parts[0] == "clusters" else ""
    first = parts[2] if len(parts) > 2 else ""
    section = _SECTIONS.get(first, first)
    ways = _ways(request, status, cluster, section, clusters)
    data = {"message": message, "status": status, "ways": ways}
    return View("trouble.html", _TITLES.get(status, "Not done"), data, status, section)


def _ways(request: Request, status: int, cluster: str, section: str, clusters: Sequence[str]) -> list[Way]:
    if cluster not in clusters:
        return [Way(f"Cluster {name}", page_address(name)) for name in clusters]
    found = []
    if status >= 500 and request.method == "GET":
        query = f"?{request.url.query}" if request.url.query else ""
        found.append(Way("Try again", request.url.path + query))
    elif (before := _page_before(request)) is not None:
        found.append(Way("Back", before))
    if status not in (_REGISTRY_FAILS, CLUSTER_UNREACHABLE):  # the list would fail as well
        known = {name: (part, label) for name, part, label, _ in SECTIONS}
        part, label = known.get(section, ("", "Overview"))
        found.append(Way(label, page_address(cluster, part) if part else page_address(cluster)))
    return found


def _page_before(request: Request) -> str | None:
    """The page of this console that led here."""
    before = urlsplit(request.headers.get("referer", ""))
    is_ours = before.netloc == request.url.netloc and before.path.startswith("/clusters/")
    if not is_ours or (before.path == request.url.path and before.query == request.url.query):
        return None
    return f"{before.path}?{before.query}" if before.query else before.path
