"""The users of PLAIN on one listener: options `user_<name>` of the login module, and lines of its `usersFile`.

    … PlainLoginModule required usersFile="/etc/headrace/users.properties" user_admin="secret";

A line of the file is `name=password`. The file is read again when it changes, so users can change while the broker
runs. If the new file is unusable, the broker logs one line and keeps the users that it knows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.config import ConfigError
from headrace.config.secrets import read_secrets
from headrace.security.sasl.mechanism import Accepted, Work
from headrace.security.sasl.plain import PlainServer, users_of

log = logging.getLogger("headrace.broker")

USERS_FILE: Final = "usersFile"


class PlainUsers:
    """The mechanism PLAIN of a listener: it keeps nothing of a login, so all connections share it. Threads may call it
    at once. `setting` is the name of the `sasl.jaas.config` in messages."""

    def __init__(self, options: Mapping[str, str], setting: str) -> None:
        self._fixed = users_of(options)
        self._setting = setting
        self._file = Path(options[USERS_FILE]) if options.get(USERS_FILE) else None
        self._users: Mapping[str, bytes] = self._fixed
        self._stamp: tuple[int, int, int] | None = None
        if self._file is not None:
            self._stamp = _stamp(self._file)
            self._users = self._read(self._file)

    def evaluate(self, token: bytes) -> Accepted | Work:
        """Checks the token of a client, in a thread if the file must be looked at. Raises Denied."""
        if self._file is None:
            return PlainServer(self._users).evaluate(token)
        return Work(lambda: PlainServer(self.current()).evaluate(token))

    def current(self) -> Mapping[str, bytes]:
        """Passwords by user name. Looks at the file first."""
        if self._file is not None:
            stamp = _stamp(self._file)
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._users = self._read(self._file)
                    log.info("%s: %d users read from %s", self._setting, len(self._users), self._file)
                except ConfigError as error:
                    log.error("the users of PLAIN stay as they are: %s", error)
        return self._users

    def _read(self, file: Path) -> Mapping[str, bytes]:
        held = read_secrets(file, self._setting, f'{USERS_FILE}="{file}"')
        return {name: password.encode() for name, password in held.items()} | self._fixed


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
