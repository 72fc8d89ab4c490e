"""The table of earlier releases of Kafka equals what their brokers answer to ApiVersions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from headrace.testing.emulation.kafka_releases import RELEASES
from tests.reference.kafka import ReferenceKafka
from tests.support.clock import wait_for
from tests.support.effort import is_long
from tests.support.group_requests import Client

PATCHES: Final = {
    "3.3": "3.3.2",
    "3.4": "3.4.1",
    "3.5": "3.5.2",
    "3.6": "3.6.2",
    "3.7": "3.7.2",
    "3.8": "3.8.1",
    "3.9": "3.9.1",
    "4.0": "4.0.1",
    "4.1": "4.1.1",
    "4.2": "4.2.0",
}
API_VERSIONS: Final = 18
# Brokers without a receiver of client metrics do not offer these two.
TELEMETRY: Final = {71, 72}


def answer(client: Client, version: int) -> Any:
    return client.ask(API_VERSIONS, version, {"client_software_name": "test", "client_software_version": "1"})


@pytest.mark.needs("kafka")
@pytest.mark.skipif(not is_long(), reason="brokers of ten releases from Maven: HEADRACE_EFFORT=long")
@pytest.mark.parametrize("release", PATCHES)
def test_brokers_of_the_release_answer_the_same(release: str, tmp_path: Path) -> None:
    with ReferenceKafka(tmp_path, version=PATCHES[release], heap="400m") as kafka:
        client = Client(kafka.bootstrap)
        wait_for(lambda: answer(client, 3).finalized_features_epoch >= 0, "the features of the cluster")
        offered = {int(one.api_key): int(one.max_version) for one in answer(client, 3).api_keys}
        newest = answer(client, min(4, offered[API_VERSIONS]))
        client.close()
    expected = RELEASES[release]
    assert {key: version for key, version in offered.items() if key not in TELEMETRY} == {
        key: version for key, version in expected.highest.items() if key not in TELEMETRY
    }
    supported = {one.name: (int(one.min_version), int(one.max_version)) for one in newest.supported_features}
    assert supported == {name: (one.lowest, one.highest) for name, one in expected.features.items()}
    finalized = {one.name: int(one.max_version_level) for one in newest.finalized_features if one.max_version_level}
    assert finalized == {name: one.finalized for name, one in expected.features.items() if one.finalized}
