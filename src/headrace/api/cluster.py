"""A connection to a cluster: its typed topics, transactions and administration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar, overload

from confluent_kafka.admin import AdminClient

from headrace.api.administration import Acls, Groups, Lag, Topics
from headrace.api.errors import NotPossible
from headrace.api.sender import Sender
from headrace.api.topic import Topic
from headrace.api.transaction import Transactions
from headrace.api.value_codec import codec_for
from headrace.serialization.registry_client import RegistryClient

T = TypeVar("T")
_FLUSH_S: Final = 30.0
# librdkafka waits half of it before its second connection, 50 ms by default. It doubles with each failed attempt, up to
# ten seconds, so a small start does no harm.
_FIRST_BACKOFF_MS: Final = 20


class Cluster:
    """`with` or `close` delivers what is queued. Safe to use from several threads."""

    def __init__(self, settings: Mapping[str, object], registry: RegistryClient | None) -> None:
        self._settings = settings
        self._registry = registry
        self._senders: dict[str, Sender] = {}
        admin = AdminClient(dict(settings))
        self.topics = Topics(admin)
        self.groups = Groups(admin)
        self.acls = Acls(admin)

    @overload
    def topic(self, name: str, type_: type[T], *, format: str = "avro") -> Topic[T]: ...
    @overload
    def topic(self, name: str, type_: str | None = None, *, format: str = "avro") -> Topic[object]: ...

    def topic(self, name: str, type_: type[T] | str | None = None, *, format: str = "avro") -> Topic[T] | Topic[object]:
        """A typed topic. With a registry the schema of the type is registered now, as Avro or with `format="json"` as
        JSON Schema. Raises NoSchema, SchemaRefused."""
        if not name:
            raise NotPossible("a topic needs a name")
        codec = codec_for(name, type_, self._registry, format)
        return Topic(name, type_, codec, self._settings, self._sender)

    def transactions(self, id_: str) -> Transactions:
        """Transactions of one transactional id: see `headrace.api.transaction`."""
        return Transactions(self._settings, id_)

    def lag(self) -> list[Lag]:
        """The lag of every group."""
        return [one for group in self.groups for one in self.groups.lag(group)]

    def flush(self, timeout_s: float = _FLUSH_S) -> None:
        """Waits until everything that was sent is delivered. Raises DeliveryFailed."""
        for sender in list(self._senders.values()):
            sender.flush(timeout_s)

    def close(self) -> None:
        """Delivers what is queued, then ends the producers. Raises DeliveryFailed."""
        try:
            self.flush()
        finally:
            for sender in self._senders.values():
                sender.close()
            self._senders.clear()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sender(self, guarantee: str) -> Sender:
        if guarantee not in self._senders:
            self._senders[guarantee] = Sender(self._settings, guarantee)
        return self._senders[guarantee]


def connect(
    bootstrap: str | None = None,
    *,
    user: str | None = None,
    password: str | None = None,
    ca_file: str | Path | None = None,
    mechanism: str = "SCRAM-SHA-512",
    registry: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> Cluster:
    """Connects on first use.

    `bootstrap`: an address, or the name of a context of `headrace context`, whose TLS and SASL settings are used too;
    by default the current context, or a broker on this machine. `user` and `password` log in with SASL, over TLS if
    there is a `ca_file`. `registry`: the URL of a schema registry. `settings`: further settings of librdkafka, such as
    those in `librdkafka.properties` of `headrace security init`. Raises NotPossible."""
    if (user is None) != (password is None):
        raise NotPossible("a login needs both user and password")
    merged: dict[str, object] = {**_context_settings(bootstrap), "reconnect.backoff.ms": _FIRST_BACKOFF_MS}
    protocol = "SASL_" if user is not None else ""
    if ca_file is not None:
        if not Path(ca_file).is_file():
            raise NotPossible(f"ca_file={str(ca_file)!r}: there is no such file")
        merged |= {"ssl.ca.location": str(ca_file)}
    if user is not None:
        merged |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    if protocol or ca_file is not None:
        merged["security.protocol"] = protocol + ("SSL" if ca_file is not None else "PLAINTEXT")
    client = None
    if registry is not None:
        client = RegistryClient(
            registry, user=user, password=password, ca_file=None if ca_file is None else str(ca_file)
        )
    return Cluster({**merged, **(settings or {})}, client)


def _context_settings(given: str | None) -> dict[str, object]:
    """The address and the client settings of a context, as the commands know them."""
    from headrace.client.contexts import ContextError, address_of, command_config_of, load
    from headrace.client.librdkafka_security import security_settings
    from headrace.config.properties import read_properties
    from headrace.kernel.errors import Fault

    if given is not None and (":" in given or "," in given):
        return {"bootstrap.servers": given}
    try:
        if given is not None and given not in load().addresses:
            raise NotPossible(f"{given!r} is neither HOST:PORT nor a context: headrace context add {given} HOST:PORT")
        file = command_config_of(given)
        secured = {} if file is None else security_settings(read_properties(Path(file).expanduser()))
        return {"bootstrap.servers": address_of(given), **secured}
    except (ContextError, Fault, OSError) as error:
        raise NotPossible(f"the context {given or 'that is current'} cannot be used: {error}") from error
