"""What COMPATIBILITY.md says is served is in the table of a running broker."""

from __future__ import annotations

from headrace.handlers.dispatch.compatibility import KAFKA_4_3, TELEMETRY, served
from headrace.testing import broker


def test_a_running_broker_serves_every_handler_that_is_written() -> None:
    with broker({"client.telemetry.enable": "true"}) as running:
        table = running.broker.parts.table
        wired = {handler.api_key: handler.versions for handler in table}
        advertised = {key: (low, high) for key, low, high in table.advertised()}
    assert wired == {key: handler.versions for key, handler in served().items()}
    for key, versions in advertised.items():
        # Kafka's table was taken without a telemetry plug-in.
        assert versions == KAFKA_4_3.get(key, (0, 0) if key in TELEMETRY else None), (
            f"key {key} is advertised otherwise than by Kafka"
        )
