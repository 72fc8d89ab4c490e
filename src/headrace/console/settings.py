"""What a console serves: its clusters, and what its users may see and change."""

from __future__ import annotations

from headrace.console.core.masking import Mask
from headrace.console.login.oidc import OidcClient
from headrace.kernel.dataclass import dataclass
from headrace.web.login import Brokers


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """A cluster as the address bar names it."""

    name: str
    brokers: Brokers
    registry: str | None = None


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    clusters: tuple[ClusterAddress, ...]
    read_only: bool = False
    """Every change is refused."""
    hides_values: bool = False
    """Keys, values and headers of records are not shown."""
    masks: tuple[Mask, ...] = ()
    timeout_s: float = 10.0
    examines: bool = False
    """The overview shows what `headrace doctor` finds. It costs a process for some seconds now and then."""
    oidc: OidcClient | None = None
    """The OpenID provider of people whose brokers take tokens."""

    def cluster(self, name: str) -> ClusterAddress | None:
        return next((address for address in self.clusters if address.name == name), None)
