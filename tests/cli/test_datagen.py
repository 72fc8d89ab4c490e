"""`headrace datagen`: plans become records on a real broker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from headrace.client.cluster_client import ClusterClient
from headrace.datagen.generator import Generator
from headrace.datagen.plan import read
from headrace.datagen.sending import Sender, create_topics
from headrace.testing import RunningBroker
from headrace.wire.apis import ApiKey
from tests.cli.conftest import Run
from tests.support.registry import registry


def test_a_plan_creates_its_topics_and_sends_its_records(headrace: Run, tmp_path: Path) -> None:
    plan = tmp_path / "shop.yml"
    plan.write_text(
        "topics:\n  shop-orders:\n    partitions: 3\n    configs: {cleanup.policy: compact}\n    key: order\n"
        "    value: {order: {sequence: 'order-{}'}, count: {integer: [1, 5]}}\n"
    )
    ran = headrace("datagen", "run", str(plan), "--count", "200", "--fast", "-o", "json")
    assert ran.code == 0, ran
    assert (ran.json["records"], ran.json["topics"]) == (200, {"shop-orders": 200})
    described = headrace("topics", "describe", "shop-orders", "-o", "json")
    assert len(described.json) == 3
    assert "compact" in headrace("configs", "get", "topic/shop-orders").out
    read = headrace("consume", "shop-orders", "-n", "200", "-o", "json")
    values = sorted(json.loads(line)["key"] for line in read.out.splitlines())
    assert values == sorted(f"order-{number}" for number in range(1, 201))


def test_a_lost_answer_doubles_no_record(headrace: Run, running: RunningBroker, tmp_path: Path) -> None:
    plan = tmp_path / "once.yml"
    plan.write_text("topics: {once: {key: n, value: {n: {sequence: '{}'}}}}\n")
    lost = running.fail("Produce", drop_answer=True, topic="once")
    assert headrace("datagen", "run", str(plan), "--count", "5", "--fast").code == 0
    assert lost.hits == 1
    assert sorted(headrace("consume", "once", "-F", "%k ").out.split()) == ["1", "2", "3", "4", "5"]


def test_dry_run_prints_what_produce_reads(headrace: Run) -> None:
    first, again = (headrace("datagen", "run", "sensors", "--dry-run", "--count", "3", "--seed", "4") for _ in range(2))
    documents = [json.loads(line) for line in first.out.splitlines()]
    assert [each["topic"] for each in documents] == ["temperatures"] * 3
    assert [each["key"] for each in documents] == [json.loads(line)["key"] for line in again.out.splitlines()]
    assert headrace("topics", "describe", "temperatures").code == 1


def test_mistakes_are_named(headrace: Run, tmp_path: Path) -> None:
    assert "Did you mean 'orders'?" in headrace("datagen", "run", "order").err
    assert "there is no file gone.yml" in headrace("datagen", "run", "gone.yml").err
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("topics: {t: {value: {a: {integr: 1}}}}")
    ran = headrace("datagen", "run", str(wrong))
    assert ran.code == 1 and f"{wrong}: topics.t.value.a: no kind of field 'integr'. Did you mean 'integer'?" in ran.err
    assert headrace("datagen", "run", "orders", "--for", "soon").code == 2


def test_a_record_that_the_broker_refuses_is_named(headrace: Run, tmp_path: Path) -> None:
    plan = tmp_path / "large.yml"
    plan.write_text(
        "topics:\n  small-records:\n    configs: {max.message.bytes: 100}\n    value: {text: {words: [200, 300]}}\n"
    )
    ran = headrace("datagen", "run", str(plan), "--count", "3", "--fast")
    assert ran.code == 1 and "topic 'small-records': Broker: Message size too large" in ran.err


def test_a_registered_schema_encodes_the_values(headrace: Run, running: RunningBroker, tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    (tmp_path / "user.avsc").write_text(json.dumps({"type": "record", "name": "User", "fields": fields}))
    plan = tmp_path / "users.yml"
    plan.write_text("topics: {users: {format: avro, schema: user.avsc, key: id}}")
    refused = headrace("datagen", "run", str(plan), "--count", "5")
    assert refused.code == 1 and "needs a schema registry: --registry URL" in refused.err
    with registry(running.bootstrap) as started:
        ran = headrace("datagen", "run", str(plan), "--count", "5", "--fast", "--registry", started.url, "-o", "json")
        assert ran.code == 0 and ran.json["records"] == 5, ran


def test_the_fields_come_from_a_subject_of_the_registry(headrace: Run, running: RunningBroker, tmp_path: Path) -> None:
    plan = tmp_path / "visits.yml"
    plan.write_text("topics: {visits: {subject: visit, key: page, value: {page: {choice: [home, cart]}}}}")
    refused = headrace("datagen", "run", str(plan), "--count", "5")
    assert refused.code == 1 and "subject 'visit' is in a schema registry: --registry URL" in refused.err
    fields = [{"name": "page", "type": "string"}, {"name": "ms", "type": "int"}]
    with registry(running.bootstrap) as started:
        missing = headrace("datagen", "run", str(plan), "--count", "5", "--registry", started.url)
        assert missing.code == 1 and "'visit'" in missing.err, missing
        started.ask(
            "POST",
            "/subjects/visit/versions",
            {"schema": json.dumps({"type": "record", "name": "Visit", "fields": fields})},
        )
        ran = headrace("datagen", "run", str(plan), "--count", "5", "--fast", "--registry", started.url, "-o", "json")
        assert ran.code == 0 and ran.json["records"] == 5, ran
        read = headrace("consume", "visits", "-n", "5", "-o", "json", "--registry", started.url)
        rows = [json.loads(line)["value"] for line in read.out.splitlines()]
        assert len(rows) == 5 and all(row.keys() == {"page", "ms"} and row["page"] in ("home", "cart") for row in rows)


def test_topics_may_have_producers_of_their_own(running: RunningBroker) -> None:
    value = {"n": {"integer": [1, 9]}}
    names = {"own-a": "a", "own-b": "b", "own-c": "b", "own-d": None, "own-e": None}
    plan = read({"topics": {name: {"value": value, "producer": each} for name, each in names.items()}}, "producers")
    settings = {"bootstrap.servers": running.bootstrap, "enable.idempotence": True}
    create_topics(plan, settings)
    Sender(settings, paced=False).run(Generator(plan, start_ms=1_700_000_000_000), count=200)
    ids = asyncio.run(_producer_ids(running.bootstrap, list(names)))
    assert all(len(each) == 1 for each in ids.values()), ids
    assert ids["own-b"] == ids["own-c"] and ids["own-d"] == ids["own-e"]
    assert len(set.union(*ids.values())) == 3


async def _producer_ids(bootstrap: str, topics: list[str]) -> dict[str, set[int]]:
    body = {"topics": [{"name": topic, "partition_indexes": [0]} for topic in topics]}
    async with ClusterClient(bootstrap) as client:
        (node,) = client.metadata.nodes
        answer = await client.request(ApiKey.DESCRIBE_PRODUCERS, body, node=node)
    return {
        str(each.name): {int(producer.producer_id) for producer in each.partitions[0].active_producers}
        for each in answer.topics
    }
