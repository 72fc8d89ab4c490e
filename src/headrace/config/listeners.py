"""The addresses that the broker binds and advertises.

A listener is `NAME://host:port`. The name selects the security protocol (`listener.security.protocol.map`) and connects
the address that the broker binds (`listeners`) with the address that it advertises to clients (`advertised.listeners`).
Many first brokers fail here, so every error message says what to write instead.

The broker accepts PLAINTEXT connections from other machines only if the setting names PLAINTEXT.
`listeners=PLAINTEXT://0.0.0.0:9092` in the file names it; `--listen 0.0.0.0:9092` does not (`listener_from_argument`).
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import replace

from headrace.config.broker_config import BrokerConfig
from headrace.config.key import ConfigError
from headrace.kernel.dataclass import dataclass

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LISTENER = re.compile(r"(?P<name>[^:/]+)://(\[(?P<six>[0-9a-fA-F:.%]+)\]|(?P<host>[^\[\]:/]*)):(?P<port>-?\d+)\Z")
_ANYWHERE = ("", "0.0.0.0", "::", "[::]")


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str
    """Empty for every interface."""
    port: int
    protocol: str

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listeners:
    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    """Advertised listeners by name. Port 0 means the port that the system chooses: see `with_ports`."""
    inter_broker: str
    """Name of the listener for connections between brokers."""
    brokers_own: str | None = None
    """The same if `inter.broker.listener.name` is set, which separates it from the listeners of clients."""

    def with_ports(self, ports: dict[str, int]) -> Listeners:
        """The same after binding, with the ports that the system chose instead of 0."""

        def chosen(items: tuple[Listener, ...]) -> tuple[Listener, ...]:
            return tuple(replace(item, port=ports.get(item.name, 0)) if item.port == 0 else item for item in items)

        return replace(self, bound=chosen(self.bound), advertised=chosen(self.advertised))

    def advertised_for(self, name: str) -> Listener:
        return next(item for item in self.advertised if item.name == name)


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listener_from_argument(text: str) -> str:
    """`--listen` as a value for `listeners`: `HOST:PORT`, `PORT` or `NAME://HOST:PORT`.

    Without a name the broker listens on this machine only; name PLAINTEXT for unencrypted connections from elsewhere.
    """
    text = text.strip()
    if "://" in text:
        return text
    given = f"127.0.0.1:{text}" if text.isdigit() else text
    candidate = f"PLAINTEXT://{given}"
    match = _LISTENER.match(candidate)
    if match is None:
        raise ConfigError("--listen", text, "must be HOST:PORT, or PLAINTEXT://HOST:PORT")
    host = match["six"] or match["host"]
    if not is_loopback(host):
        # For all interfaces the broker advertises this machine's host name.
        if host in _ANYWHERE:
            candidate = f"PLAINTEXT://:{match['port']}"
        raise ConfigError(
            "--listen", text, f"opens this broker to other machines without encryption: say so, --listen {candidate}"
        )
    return candidate


def resolve_listeners(config: BrokerConfig) -> Listeners:
    """All listeners of the configuration, checked together. Raises `ConfigError` that names the wrong one."""
    protocols = _protocol_map(config)
    leave_out = {name.upper() for name in config["controller.listener.names"] or ()}
    bound = tuple(item for item in _parse("listeners", config["listeners"], protocols) if item.name not in leave_out)
    if not bound:
        raise ConfigError("listeners", ",".join(config["listeners"]), "must name at least one listener for clients")
    _refuse_twice("listeners", bound, ports_too=True)
    advertised = _advertised(config, bound, protocols, leave_out)
    inter_broker = _inter_broker(config, advertised)
    is_own = bool(config["inter.broker.listener.name"]) and len(bound) > 1
    return Listeners(bound, advertised, inter_broker, inter_broker if is_own else None)


def _protocol_map(config: BrokerConfig) -> dict[str, str]:
    protocols: dict[str, str] = {}
    for pair in config["listener.security.protocol.map"].split(","):
        if not pair.strip():
            continue
        name, _, protocol = (part.strip().upper() for part in pair.partition(":"))
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                "listener.security.protocol.map", pair.strip(), f"must be NAME:{' or NAME:'.join(SECURITY_PROTOCOLS)}"
            )
        if name in protocols:
            raise ConfigError("listener.security.protocol.map", pair.strip(), f"names listener {name} twice")
        protocols[name] = protocol
    return protocols


def _parse(key: str, texts: list[str], protocols: dict[str, str]) -> list[Listener]:
    found = []
    for text in texts:
        match = _LISTENER.match(text.strip())
        if match is None:
            raise ConfigError(key, text, "must be NAME://host:port, for example PLAINTEXT://127.0.0.1:9092")
        name, port = match["name"].upper(), int(match["port"])
        if not 0 <= port <= 65535:
            raise ConfigError(key, text, "the port must be between 0 and 65535")
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(
                key, text, f"no security protocol for {name}: add {name}:PLAINTEXT to listener.security.protocol.map"
            )
        found.append(Listener(name, match["six"] or match["host"], port, protocol))
    return found


def _refuse_twice(key: str, listeners: tuple[Listener, ...], *, ports_too: bool) -> None:
    by_name: dict[str, Listener] = {}
    by_port: dict[int, Listener] = {}
    for item in listeners:
        if item.name in by_name:
            raise ConfigError(key, str(item), f"listener {item.name} stands twice ({by_name[item.name]}): names differ")
        by_name[item.name] = item
        if not ports_too or item.port == 0:
            continue
        other = by_port.setdefault(item.port, item)
        # Two listeners may share a port only on different addresses; the wildcard address overlaps with all others.
        overlap = item.host == other.host or item.host in _ANYWHERE or other.host in _ANYWHERE
        if other is not item and overlap:
            raise ConfigError(key, str(item), f"port {item.port} is taken by {other}: ports differ")


def _advertised(
    config: BrokerConfig, bound: tuple[Listener, ...], protocols: dict[str, str], leave_out: set[str]
) -> tuple[Listener, ...]:
    texts = config["advertised.listeners"]
    if not texts:
        return tuple(_tell_what_is_bound(item) for item in bound)
    told = tuple(item for item in _parse("advertised.listeners", texts, protocols) if item.name not in leave_out)
    _refuse_twice("advertised.listeners", told, ports_too=False)
    names = {item.name for item in bound}
    for item in told:
        if item.name not in names:
            raise ConfigError("advertised.listeners", str(item), f"there is no listener {item.name} in listeners")
        if item.host in _ANYWHERE:
            raise ConfigError(
                "advertised.listeners", str(item), "clients cannot connect to that: give the address they can reach"
            )
    if not told:
        raise ConfigError("advertised.listeners", ",".join(texts), "must name at least one listener for clients")
    return told


def _tell_what_is_bound(item: Listener) -> Listener:
    if item.host == "":
        return replace(item, host=socket.gethostname())
    if item.host in _ANYWHERE:
        raise ConfigError(
            "listeners",
            str(item),
            f"clients cannot connect to {item.host}, which the broker would give them: set advertised.listeners="
            f"{item.name}://<this machine's address>:{item.port}",
        )
    return item


def _inter_broker(config: BrokerConfig, advertised: tuple[Listener, ...]) -> str:
    name = config["inter.broker.listener.name"]
    if name and config.is_set("security.inter.broker.protocol"):
        raise ConfigError(
            "inter.broker.listener.name", name, "and security.inter.broker.protocol say the same thing: set one of them"
        )
    if name:
        name = name.upper()
        if all(item.name != name for item in advertised):
            raise ConfigError("inter.broker.listener.name", name, "is not among the advertised listeners")
        return str(name)
    protocol = config["security.inter.broker.protocol"]
    for item in advertised:
        if item.protocol == protocol:
            return item.name
    if config.is_set("security.inter.broker.protocol"):
        raise ConfigError("security.inter.broker.protocol", protocol, "no advertised listener has this protocol")
    # Kafka refuses this too. A standalone broker has no peers, and in a cluster any common listener works.
    return advertised[0].name
