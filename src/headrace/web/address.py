"""The address of an HTTP service (`--listen`), and which addresses need TLS and login.

A service listens on this machine unless the user names another address. Beyond this machine it must use TLS, and it
must know its callers. A user who wants to open it without them says so: `http://HOST:PORT`, or `--insecure-listener`.
"""

from __future__ import annotations

from headrace.config import is_loopback
from headrace.kernel.dataclass import dataclass

INSECURE_OPTION = "--insecure-listener"


class BadAddress(ValueError):
    """The address cannot be used. The message names the option and the way out."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    host: str
    port: int
    scheme: str | None = None
    """`http` or `https` if the user named it."""

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """`HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. Raises BadAddress."""
        scheme, named, rest = text.rpartition("://")
        if named and scheme not in ("http", "https"):
            raise BadAddress(f"--listen {text}: must be HOST:PORT, http://HOST:PORT or https://HOST:PORT")
        host, _, port = rest.rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            raise BadAddress(f"--listen {text}: must be HOST:PORT with a port from 0 to 65535")
        return cls(host.strip("[]") or "127.0.0.1", int(port), scheme if named else None)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def check(self, service: str, *, has_tls: bool, has_login: bool, is_insecure_allowed: bool = False) -> None:
        """Raises BadAddress if the service would be open to other machines without TLS and login."""
        if self.scheme == "https" and not has_tls:
            raise BadAddress(
                f"--listen https://{self}: needs a certificate: name a file with ssl.* keys by --tls-config"
            )
        if self.scheme == "http" and has_tls:
            raise BadAddress(f"--listen http://{self}: --tls-config gives a certificate: use https://{self}")
        if is_loopback(self.host) or is_insecure_allowed or self.scheme == "http":
            return
        missing = [what for what, is_there in (("encryption", has_tls), ("login", has_login)) if not is_there]
        if missing:
            way = INSECURE_OPTION if has_tls else f"--listen http://{self}"
            raise BadAddress(
                f"--listen {self}: opens {service} to other machines without {' and '.join(missing)}. "
                f"If you want that, use {way}"
            )
