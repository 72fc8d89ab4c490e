"""Reports that brokers do not answer while a tool runs, because librdkafka retries without a message.

outages = Outages()
client = Consumer({..., "error_cb": outages.heard})
...
outages.look(client)                  when a poll returned nothing
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from headrace.cli.kafka_tools.support.tool import client_id

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import Client, ClientError

# A connection that is reopened sooner is not an outage.
_LASTING_SECONDS: Final = 2.0
_ASK_SECONDS: Final = 1.0


class Outages:
    """Owned by the thread that polls the client, which is where librdkafka calls `heard`."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._told = False

    def heard(self, error: ClientError) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._since is None:
            self._since = time.monotonic()

    def look(self, client: Client) -> None:
        """Reports once that no broker answers, and once that one answers again."""
        if self._since is None or time.monotonic() - self._since < _LASTING_SECONDS:
            return
        if not self.lasts(client):
            if self._told:
                print(f"{client_id()}: a broker answers again", file=sys.stderr)
            self._since, self._told = None, False
        elif not self._told:
            print(f"{client_id()}: no broker answers any more; trying again", file=sys.stderr)
            self._told = True

    def lasts(self, client: Client) -> bool:
        """Whether librdkafka has lost all brokers and still none answers."""
        from confluent_kafka import KafkaException

        if self._since is None:
            return False
        try:
            client.list_topics(timeout=_ASK_SECONDS)
        except KafkaException:
            return True
        return False
