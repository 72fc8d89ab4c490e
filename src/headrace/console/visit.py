"""One request of one user: the cluster it is about, the addresses of pages, and the answers a page can give."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from starlette.requests import Request

from headrace.console.cluster.cluster import Cluster
from headrace.console.cluster.sql import SqlProcesses
from headrace.console.notices import Notices
from headrace.console.protection import Rejected, read_form
from headrace.console.settings import ConsoleSettings
from headrace.kernel.dataclass import dataclass
from headrace.web.login import Caller


@dataclass(frozen=True, slots=True)
class Redirect:
    """The answer to a change: the browser opens this page next."""

    location: str


def page_address(cluster: str, *parts: str, **query: object) -> str:
    """`/clusters/NAME/topics/orders?q=…`. Every part is quoted, so that a name cannot leave its place."""
    path = "/".join(quote(part, safe="") for part in ("clusters", cluster, *parts))
    pairs = [(name, value) for name, value in query.items() if value is not None and value != ""]
    return f"/{path}{'?' + urlencode(pairs) if pairs else ''}"


class Form:
    """The fields of a submitted form."""

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        self.fields = fields

    def text(self, name: str) -> str:
        return self.fields.get(name, [""])[0].strip()

    def raw(self, name: str) -> str:
        """Without trimming: the value of a record."""
        return self.fields.get(name, [""])[0].replace("\r\n", "\n")

    def all(self, name: str) -> list[str]:
        return self.fields.get(name, [])

    def has(self, name: str) -> bool:
        return name in self.fields

    def number(self, name: str, default: int | None = None) -> int:
        """Raises Rejected with the name of the field."""
        text = self.text(name)
        if not text and default is not None:
            return default
        try:
            return int(text)
        except ValueError:
            raise Rejected(422, f"{name.replace('_', ' ')} {text!r}: must be a whole number") from None


class Visit:
    def __init__(
        self,
        request: Request,
        settings: ConsoleSettings,
        cluster: Cluster,
        caller: Caller,
        notices: Notices,
        sql: SqlProcesses,
    ) -> None:
        self.request = request
        self.settings = settings
        self.cluster = cluster
        self.caller = caller
        self.notices = notices
        self.sql = sql
        self.query: Mapping[str, str] = request.query_params

    @property
    def submitted(self) -> bool:
        return self.request.method == "POST"

    def url(self, *parts: str, **query: object) -> str:
        return page_address(self.cluster.name, *parts, **query)

    def path(self, name: str) -> str:
        """A part of the address, as the route names it."""
        return str(self.request.path_params[name])

    async def form(self) -> Form:
        """The fields of a change. Raises Rejected if it is not from this console or changes are off."""
        fields = await read_form(self.request)
        if self.settings.read_only:
            raise Rejected(403, "this console is read-only: it was started with --read-only")
        return Form(fields)

    def done(self, message: str, *parts: str, **query: object) -> Redirect:
        """After a change: opens a page that shows the message."""
        self.cluster.forget()
        return Redirect(self.url(*parts, **query, notice=self.notices.keep(message)))
