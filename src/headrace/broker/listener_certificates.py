"""The certificates of the TLS listeners: loaded at the start, renewed when their files or settings change.

If a new pair is unusable or has another subject, the broker logs one line and keeps the old one (`ListenerTls.renew`).
Open connections are not affected. The broker checks the files every few seconds, so a renewal by another program
(certbot, cert-manager) needs no restart and no command.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.broker.live_config import LiveConfig
from headrace.config import BrokerConfig, ConfigError, ListenerSecurity, listener_security
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.net.listener import Listeners

if TYPE_CHECKING:
    from headrace.security.tls.server_context import ListenerTls

log = logging.getLogger("headrace.broker")

_LOOK_EVERY_S: Final = 2.0
_WARN_EVERY: Final = datetime.timedelta(days=1)
# State of a file at the last check: modification time, size and inode. None if it does not exist.
_Stamp = tuple[int, int, int] | None


class ListenerCertificates:
    """Certificates by listener. Owned by the event loop."""

    def __init__(self, connections: Listeners, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._connections = connections
        self._of: dict[str, ListenerTls] = {}
        self._seen: dict[str, list[_Stamp]] = {}
        self._warned: datetime.datetime | None = None
        self._task: asyncio.Task[None] | None = None

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock.wall_ms() / 1000, datetime.UTC)

    def protect(self, name: str, security: ListenerSecurity) -> None:
        """Loads the certificate of a listener. `ConfigError` when it cannot be used; one that has expired is served."""
        from headrace.security.tls.server_context import ListenerTls  # imported here: brokers without TLS start faster

        self._seen[name] = _stamps(security)
        self._of[name] = tls = ListenerTls(security)
        self._connections.encrypt(name, tls)

    def follow(self, live: LiveConfig) -> None:
        """Applies the current and later dynamic settings."""
        if self._of:
            self._settings_changed(live())
            live.subscribe(self._settings_changed)

    def check(self, config: Callable[[], BrokerConfig], changes: Mapping[str, str]) -> None:
        """`ConfigError` when a change of this broker's settings names certificates that would be refused."""
        if not any(name.startswith("listener.name.") for name in changes):
            return
        now = config()
        changed = now.with_dynamic({**now.dynamic_of_listeners, **changes})
        for name, tls in self._of.items():
            security = listener_security(changed, name)
            if security != tls.security:
                tls.check(security)

    def seconds_left(self) -> list[tuple[tuple[str, ...], float]]:
        """How long the certificate of each listener is valid."""
        if not self._of:
            return []
        from headrace.security.tls.expiry import seconds_left

        now = self._now()
        return [((name,), seconds_left(tls.certificate, now)) for name, tls in self._of.items()]

    def start(self) -> None:
        if self._of:
            self._warn()
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self._warn()
            for name, tls in self._of.items():
                stamps = await asyncio.to_thread(_stamps, tls.security)
                if stamps != self._seen[name]:
                    self._seen[name] = stamps
                    await asyncio.to_thread(self._renew, name, tls.security)

    def _settings_changed(self, config: BrokerConfig) -> None:
        for name, tls in self._of.items():
            try:
                security = listener_security(config, name)
            except ConfigError as error:
                log.error("listener %s keeps its certificate: %s", name, error)
                continue
            if security != tls.security:
                self._seen[name] = _stamps(security)
                self._renew(name, security)

    def _renew(self, name: str, security: ListenerSecurity) -> None:
        try:
            self._of[name].renew(security)
        except ConfigError as error:
            log.error("listener %s keeps its certificate: %s", name, error)
        else:
            ends = self._of[name].certificate.not_valid_after_utc
            log.info("listener %s has a new certificate, valid until %s UTC", name, f"{ends:%Y-%m-%d %H:%M}")
            self._warned = None

    def _warn(self) -> None:
        """Logs once a day the certificates that are invalid or expire soon."""
        from headrace.security.tls.expiry import validity_warning

        now = self._now()
        if self._warned is not None and now - self._warned < _WARN_EVERY:
            return
        self._warned = now
        for name, tls in self._of.items():
            warning = validity_warning(tls.certificate, now)
            if warning is not None:
                log.warning("listener %s: %s", name, warning)


def _stamps(security: ListenerSecurity) -> list[_Stamp]:
    return [
        _stamp(store.location)
        for store in (security.ssl_keystore, security.ssl_truststore)
        if store.location is not None
    ]


def _stamp(location: str) -> _Stamp:
    try:
        found = Path(location).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
