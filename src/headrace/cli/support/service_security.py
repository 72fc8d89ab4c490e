"""What the HTTP services of `headrace up --secure` need, in `security/` of the cluster's data directory:

    services.pem            key and certificate of the services
    https.properties        `--tls-config` of every service
    services.properties     `--command-config` of the HTTP API and the console: TLS without a login, because they act as
                            their callers
    registry.properties     `--command-config` of the schema registry: its own user, who may only use `_schemas`

The first start writes them, later starts reuse them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.client.acls import create_acls, list_acls
from headrace.client.cluster_client import ClusterClient
from headrace.client.scram_users import ScramUser, scram_user
from headrace.client.security import ClientSecurity
from headrace.config import read_properties
from headrace.kernel.errors import Fault
from headrace.security.acl.least_rights import acls, of_registry
from headrace.security.principal import user_principal
from headrace.security.sasl.scram_credentials import SCRAM_MECHANISMS
from headrace.security.setup import MECHANISM, SecureSetup
from headrace.security.tls.authority import CertificateAuthority, write_private

_REGISTRY_USER: Final = "registry"
_ITERATIONS: Final = 4096


class ServiceSecurity:
    """Raises CannotIssue if the authority of the cluster cannot be read."""

    def __init__(self, setup: SecureSetup) -> None:
        self._setup = setup
        directory = setup.directory
        self.tls: Path = directory / "https.properties"
        self.callers: Path = directory / "services.properties"
        self.registry: Path = directory / "registry.properties"
        keystore = directory / "services.pem"
        if not keystore.exists():
            authority = CertificateAuthority.load(setup.authority_key, setup.authority)
            write_private(keystore, authority.issue("services", hosts=setup.hosts).keystore)
        if not self.registry.exists():
            own = {"sasl.username": _REGISTRY_USER, "sasl.password": secrets.token_urlsafe(18)}
            _write(self.registry, {**self._reaching_brokers(), **own})
        _write(self.callers, self._reaching_brokers())
        _write(self.tls, {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)})

    def _reaching_brokers(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._setup.authority),
            "sasl.mechanism": MECHANISM,
        }

    def users(self) -> list[ScramUser]:
        password = read_properties(self.registry)["sasl.password"]
        return [scram_user(_REGISTRY_USER, mechanism, password, _ITERATIONS) for mechanism in SCRAM_MECHANISMS]

    def grant_rights(self, bootstrap: str) -> str | None:
        """Creates the missing ACLs of the registry's user. Returns why it was not possible, for example because the
        administrator has another password by now."""
        wanted = acls(of_registry(), user_principal(_REGISTRY_USER))
        administrator = ClientSecurity.from_settings(self._setup.client_settings())

        async def grant() -> None:
            async with ClusterClient(bootstrap, client_id="headrace-up", security=administrator) as client:
                known = set(await list_acls(client))
                missing = [acl for acl in wanted if acl not in known]
                if missing:
                    await create_acls(client, missing)

        try:
            asyncio.run(grant())
        except Fault as fault:
            return fault.message
        return None

    def options_of(self, service: str) -> list[str]:
        own = self.registry if service == "registry" else self.callers
        return ["--command-config", str(own), "--tls-config", str(self.tls)]


def _write(file: Path, settings: Mapping[str, str]) -> None:
    file.unlink(missing_ok=True)
    write_private(file, "".join(f"{name}={value}\n" for name, value in settings.items()))
