"""The HTTP client of a schema registry, for code without an event loop.

Ids, GUIDs and numbered versions never change, so each is requested once. A missing id is remembered for a few seconds:
a topic full of foreign bytes must not become a request for each record. Copies of a client in other processes (Spark's
workers) start with an empty cache.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from headrace.serialization.errors import RegistryError, RegistryUnreachable
from headrace.serialization.schema import AVRO, RegisteredSchema, SchemaReference

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_MISSING_KEPT_S: Final = 10.0
# Answers below 500 that another request may not get: time-out, too many requests.
_NOT_NOW: Final = (408, 429)


class RegistryClient:
    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        trusted: str | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """`user` and `password` log in by Basic, `token` by Bearer; a login in the URL (http://USER:PASSWORD@HOST:PORT)
        wins. `ca_file` has the trusted certificates; `trusted` is PEM text of further ones."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"registry {url!r}: must be http://HOST:PORT")
        if parts.username:
            user, password, token = unquote(parts.username), unquote(parts.password or ""), None
        # Messages show the address, so it must not hold the password.
        self._parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        self.url = urlunsplit(self._parts)
        self._login = _login(user, password, token)
        self._ca_file = ca_file
        self._trusted = trusted
        self._timeout_s = timeout_s
        self._kept: dict[str, RegisteredSchema] = {}
        self._missing: dict[str, tuple[float, RegistryError]] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {
            **{name: value for name, value in self.__dict__.items() if name != "_lock"},
            "_kept": {},
            "_missing": {},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the answer. Raises RegistryError with the code and message of the registry."""
        assert self._parts.hostname is not None
        connection = self._connection(self._parts.hostname, self._parts.port)
        try:
            data = None if body is None else json.dumps(body).encode()
            headers = {"Content-Type": _CONTENT_TYPE, **self._login}
            connection.request(method, self._parts.path.rstrip("/") + path, data, headers)
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as fault:
            why = getattr(fault, "strerror", None) or fault
            raise RegistryUnreachable(f"no schema registry answers at {self.url}: {why}") from fault
        finally:
            connection.close()
        try:
            document = json.loads(content) if content else None
        except ValueError as fault:
            raise RegistryUnreachable(f"{self.url} is not a schema registry: its answer is not JSON") from fault
        if status >= 300:
            found = document if isinstance(document, dict) else {}
            raise RegistryError(int(found.get("error_code", status)), str(found.get("message", f"HTTP {status}")))
        return document

    def _connection(self, host: str, port: int | None) -> http.client.HTTPConnection:
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        context = ssl.create_default_context(cafile=self._ca_file)
        if self._trusted is not None:
            context.load_verify_locations(cadata=self._trusted)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=context)

    def schema_by_id(self, id_: int) -> RegisteredSchema:
        path = f"/schemas/ids/{id_}"
        return self._once(path, lambda: RegisteredSchema.from_json(self.call("GET", path), id=id_))

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        """The answer of the registry has no id: it is looked up, the first if contexts have several."""
        path = f"/schemas/guids/{in_path(guid)}"

        def request() -> RegisteredSchema:
            answer = self.call("GET", path)
            id_ = answer.get("id") or self.call("GET", f"{path}/ids")[0]["id"]
            return RegisteredSchema.from_json(answer, id=id_, guid=guid)

        return self._once(path, request)

    def latest(self, subject: str) -> RegisteredSchema:
        """Asks the registry each time: another version can be the latest by now."""
        return self._version(subject, "latest")

    def version(self, subject: str, number: int) -> RegisteredSchema:
        key = f"/subjects/{subject}/versions/{number}"
        return self._once(key, lambda: self._version(subject, str(number)))

    def referenced(self, reference: SchemaReference) -> RegisteredSchema:
        """Also a soft-deleted version: records name their schema by its id, which such a version still has."""
        number = f"{reference.version}?deleted=true"
        key = f"/subjects/{reference.subject}/versions/{number}"
        return self._once(key, lambda: self._version(reference.subject, number))

    def _version(self, subject: str, version: str) -> RegisteredSchema:
        answer = self.call("GET", f"/subjects/{in_path(subject)}/versions/{version}")
        return RegisteredSchema.from_json(answer, subject=subject)

    def register(
        self,
        subject: str,
        schema: str,
        *,
        kind: str = AVRO,
        references: Sequence[SchemaReference] = (),
        metadata: Mapping[str, Any] | None = None,
        rule_set: Mapping[str, Any] | None = None,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """The version with this schema: the next one of the subject, or the one that has it already."""
        body = _body(schema, kind, references, metadata, rule_set)
        path = f"/subjects/{in_path(subject)}/versions" + ("?normalize=true" if normalize else "")
        answer = self.call("POST", path, body)
        # Registries before Confluent's 8.0 answer with the id alone.
        return RegisteredSchema.from_json(answer, **{"subject": subject, **body})

    def lookup(
        self,
        subject: str,
        schema: str,
        *,
        kind: str = AVRO,
        references: Sequence[SchemaReference] = (),
        normalize: bool = False,
    ) -> RegisteredSchema:
        """The version of the subject with this schema. Raises 40401 or 40403 if there is none."""
        body = _body(schema, kind, references, None, None)
        path = f"/subjects/{in_path(subject)}" + ("?normalize=true" if normalize else "")
        return RegisteredSchema.from_json(self.call("POST", path, body), subject=subject)

    def descriptor(self, schema: RegisteredSchema) -> bytes:
        """The FileDescriptorProto of a Protobuf schema. The registry parses the text of .proto files."""
        if schema.subject is not None and schema.version is not None:
            path = f"/subjects/{in_path(schema.subject)}/versions/{schema.version}?deleted=true&format=serialized"
        else:
            path = f"/schemas/ids/{schema.id}?format=serialized"
        found = self._once(path, lambda: RegisteredSchema.from_json(self.call("GET", path), id=schema.id))
        return base64.b64decode(found.text)

    def _once(self, key: str, request: Callable[[], RegisteredSchema]) -> RegisteredSchema:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                return kept
            until, error = self._missing.get(key, (0.0, None))
            if error is not None and time.monotonic() < until:
                raise error
            try:
                kept = self._kept[key] = request()
            except RegistryError as fault:
                if fault.status == 404:
                    self._missing[key] = (time.monotonic() + _MISSING_KEPT_S, fault)
                if not 400 <= fault.status < 500 or fault.status in _NOT_NOW:
                    # It says nothing about the schema, so a record that names it is not bad.
                    raise RegistryUnreachable(f"the schema registry at {self.url} answers: {fault}") from fault
                raise
            return kept


def in_path(text: str) -> str:
    """A subject as a path segment."""
    return quote(text, safe="")


def _login(user: str | None, password: str | None, token: str | None) -> dict[str, str]:
    if token is not None:
        return {"Authorization": f"Bearer {token}"}
    if user is None:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()}


def _body(
    schema: str,
    kind: str,
    references: Sequence[SchemaReference],
    metadata: Mapping[str, Any] | None,
    rule_set: Mapping[str, Any] | None,
) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema, "schemaType": kind}
    if references:
        body["references"] = [each.as_json() for each in references]
    if metadata is not None:
        body["metadata"] = metadata
    if rule_set is not None:
        body["ruleSet"] = rule_set
    return body
