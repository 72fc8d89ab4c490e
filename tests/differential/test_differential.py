"""The same raw requests to Apache Kafka 4.3.0 and to Headrace: the same answers, field by field.

The variants are a table (`variants`). Intended differences are in `intended_differences`, with their reasons.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing import broker
from tests.differential.intended_differences import INTENDED
from tests.differential.servers import Server, differences, masked
from tests.differential.session_steps import session_steps_of
from tests.differential.table import Variant, prepare
from tests.differential.variants import VARIANTS
from tests.reference.kafka import KEEPS_OLD_RECORDS, ReferenceKafka

pytestmark = pytest.mark.needs("kafka")

SAME_SETTINGS = {
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    directory = tmp_path_factory.mktemp("differential")
    settings = SAME_SETTINGS | {"broker.id": "1"}
    with (
        ReferenceKafka(directory / "kafka", settings=SAME_SETTINGS | KEEPS_OLD_RECORDS, heap="512m") as kafka,
        broker(settings, data_dir=directory / "headrace") as ours,
    ):
        servers = Server("Kafka", kafka.port), Server("Headrace", ours.port)
        for server in servers:
            prepare(server)
        yield servers


def test_there_are_at_least_three_hundred_variants() -> None:
    assert len(VARIANTS) >= 300
    assert len({variant.id for variant in VARIANTS}) == len(VARIANTS)
    assert INTENDED.keys() <= {variant.id for variant in VARIANTS}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.id)
def test_answers_equal_kafkas(both: tuple[Server, Server], variant: Variant) -> None:
    kafka, ours = (masked(variant.run(server)) for server in both)
    found = differences(kafka, ours)
    meant = INTENDED.get(variant.id)
    if meant is not None:
        assert found, f"{variant.id} no longer differs: remove it from `intended_differences`"
        return
    assert not found, "\n".join(found)


@pytest.mark.parametrize("version", (7, 12, 18))
def test_a_fetch_session_is_answered_as_in_kafka(both: tuple[Server, Server], version: int) -> None:
    kafka, ours = (list(session_steps_of(server, version)) for server in both)
    for (step, theirs), (_, answer) in zip(kafka, ours, strict=True):
        assert differences(theirs, answer) == [], step
