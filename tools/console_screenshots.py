"""Makes the pictures of the web console in docs/console: a broker with sample data, a console, and Chromium.

`make screenshots` runs it. `--all DIR` writes every page in light, dark and at phone width to DIR instead, for a look
at all of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, sync_playwright

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the tests' own console

from headrace.console.settings import ClusterAddress, ConsoleSettings  # noqa: E402
from headrace.net.free_ports import free_port  # noqa: E402
from headrace.testing import broker  # noqa: E402
from headrace.web.login import Brokers  # noqa: E402
from tests.support.console import console_of  # noqa: E402
from tests.support.registry import RunningRegistry  # noqa: E402

CHROMIUM: Final = "/usr/bin/chromium"
FLOWS: Final = (
    ("totals", "orders", "running"), ("refunds", "payments", "failed"), ("archive", "clicks", "stopped"),
)  # fmt: skip
TARGETS: Final = {
    "totals": {"kind": "topic", "name": "customers"}, "refunds": {"kind": "jdbc", "name": "public.refunds"},
    "archive": {"kind": "table", "name": "lake.clicks"},
}  # fmt: skip
TOPICS: Final = {"orders": 6, "payments": 3, "customers": 1, "clicks": 12, "inventory.updates": 4, "orders.dlq": 1}
COUNTED: Final = 'SELECT+"partition"%2C+count(*)+AS+records+FROM+orders+GROUP+BY+ALL+ORDER+BY+ALL'
# The handful that the documentation shows: file → (page, theme, width).
SHOWN: Final = {
    "overview": ("", "light", 1280),
    "messages": ("/topics/orders/messages", "light", 1280),
    "groups": ("/group?id=billing", "dark", 1280),
    "pipelines": ("/pipelines", "light", 1280),
    "flow": ("/flow", "dark", 1280),
    "sql": (f"/sql?q={COUNTED}", "light", 1280),
    "pipeline": ("/pipeline?name=shop.totals", "dark", 1280),
    "phone": ("/topics/orders/messages", "light", 390),
}
PAGES: Final = (
    "", "/topics", "/new-topic", "/topics/orders", "/topics/orders/configure", "/topics/orders/delete",
    "/topics/orders/messages", "/topics/orders/messages/0/3", "/topics/orders/search?q=Ada", "/topics/orders/produce",
    "/topics/orders.dlq/messages", "/topics/orders/tail", "/topics/customers/messages", "/topics/orders/grow",
    "/groups", "/group?id=billing", "/group/reset?id=reports&way=earliest", "/pipelines", "/pipeline?name=shop.totals",
    "/flow", "/sql", f"/sql?q={COUNTED}", "/schemas", "/subject?name=orders-value", "/register-schema", "/security",
    "/operations", "/topics/absent", "/pipeline/stop?name=shop.totals",
    "/pipeline/replay?name=shop.totals&way=earliest",
    "/pipeline/reset?name=shop.archive&way=offset&value=20", "/brokers/0", "/brokers/0/drain", "/group?id=reports",
    "/security?principal=User:ann&operation=READ&kind=TOPIC&name=orders", "/demos",
    # Errors: what does not exist, wrong queries, and clusters and registries that do not answer.
    "/nowhere", "/group?id=absent", "/topics/orders/messages/0/999999", "/topics/orders/messages/9/0",
    "/topics/orders/search?cel=value.n+%3E", "/sql?q=SELEC+1", "/group/reset?id=reports&way=offset&value=abc",
    "/subject?name=absent", "/../no-such-cluster/topics", "/../unreachable/topics", "/../no-registry/schemas",
)  # fmt: skip


def fill(bootstrap: str, registry: RunningRegistry) -> None:
    """Topics with records, two groups, flows of Spark, and a schema with two versions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
        future.result(20)
    producer = Producer({"bootstrap.servers": bootstrap})
    names = ("Ada", "Grace", "Edsger", "Barbara", "Tony")
    for n in range(800):
        order = {"id": n, "customer": names[n % 5], "total": round(n * 1.37 % 250, 2), "items": n % 4 + 1}
        producer.produce("orders", json.dumps(order), f"order-{n}", headers=[("trace", f"{n * 7919:08x}".encode())])
        producer.produce("payments", json.dumps({"order": n, "method": "card"}), f"order-{n}")
    producer.produce("orders.dlq", "{broken", "order-9", headers=[("headrace.error", b"not JSON")])
    _report_flows(producer)
    producer.flush(20)
    for group, topics in (("billing", ["orders", "payments"]), ("reports", ["orders"])):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe(topics)
        seen = 0
        while seen < 500:
            message = consumer.poll(5)
            assert message is not None
            seen += 1
        consumer.commit(asynchronous=False)
        consumer.close()
    fields = [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}]
    for added in ([], [{"name": "note", "type": "string", "default": ""}]):
        schema = {"type": "record", "name": "Order", "fields": [*fields, *added]}
        registry.ask("POST", "/subjects/orders-value/versions", {"schema": json.dumps(schema)})


def _report_flows(producer: Producer) -> None:
    """The last minutes of two flows. Reports of the same batches repeat, so the charts stay the same."""
    now_ms = int(time.time() * 1000)
    for n in range(40):
        for flow, topic, state in FLOWS:
            report = {
                "pipeline": "shop", "flow": flow, "state": state, "batch_id": n, "at_ms": now_ms - (40 - n) * 5000,
                "input_rows_per_second": 40 + n % 7 * 6, "processed_rows_per_second": 55 + n % 5 * 9,
                "lag": 120 - n * 2,
                "batch_ms": 180 + n % 9 * 25, "state_rows": 400 + n * 11, "state_bytes": 90_000 + n * 900,
                "lag_seconds": 1.5, "read_rows": 2400 + n * 60, "written_rows": 2390 + n * 60, "dead_letters": n // 20,
                "late_rows": n // 9, "restarts": 3 if state == "failed" else 0, "host": "worker-1", "pid": 4242,
                "last_error": "AnalysisException: no column `amount`" if state == "failed" else None,
                "end_offsets": {topic: {"0": 30 + n}}, "target": TARGETS[flow], "trigger_ms": 500, "run": "run-1",
                "heartbeat_ms": 60_000, "origins": [],
                "durations_ms": {"addBatch": 120 + n % 9 * 20, "walCommit": 30, "queryPlanning": 22, "latestOffset": 9},
                "plan": "== Physical Plan ==\nWriteToDataSourceV2 headrace\n+- *(4) HashAggregate(keys=[customer], "
                "functions=[sum(total)])\n   +- StateStoreSave [customer]\n      +- MicroBatchScan headrace [orders]",
            }  # fmt: skip
            producer.produce("__pipelines", json.dumps(report), f"shop.{flow}")


def _renew_flows(producer: Producer) -> None:
    """The same minutes again, as if they were the last ones."""
    for flow, _, _ in FLOWS:
        producer.produce("__pipelines", None, f"shop.{flow}")
    _report_flows(producer)


def take(browser: Browser, url: str, theme: str, width: int, file: Path, *, is_whole: bool = False) -> None:
    page = browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme="dark" if theme == "dark" else "light"
    )
    page.goto(url)
    page.wait_for_timeout(300)  # charts draw after the page has loaded
    page.screenshot(path=file, full_page=is_whole)
    page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", help="with --all: pages whose address has this text; ^ is the overview")
    parser.add_argument("--seconds", type=int, default=22, help="of load before the pictures")
    arguments = parser.parse_args()
    seconds = arguments.seconds
    with broker() as running, sync_playwright() as playwright:
        registry = RunningRegistry(running.bootstrap)
        clusters = [ClusterAddress("local", Brokers(running.bootstrap), registry.url)]
        if arguments.all is not None:
            nothing = f"127.0.0.1:{free_port()}"
            clusters.append(ClusterAddress("unreachable", Brokers(nothing)))
            clusters.append(ClusterAddress("no-registry", Brokers(running.bootstrap), f"http://{nothing}"))
        with console_of(ConsoleSettings(tuple(clusters), examines=True)) as url:
            fill(running.bootstrap, registry)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            base = f"{url}/clusters/local"
            warm = browser.new_page()
            warm.goto(base)
            load = Producer({"bootstrap.servers": running.bootstrap, "enable.idempotence": True})
            shop = Producer({"bootstrap.servers": running.bootstrap, "transactional.id": "checkout-1"})
            shop.init_transactions(20)
            for second in range(seconds):  # some samples of throughput and lag
                for n in range(80 + second % 5 * 30):
                    load.produce("clicks", f'{{"page": {n}}}', str(n))
                load.flush(5)
                shop.begin_transaction()
                for n in range(20):
                    order = {"id": 800 + second * 20 + n, "customer": "Ada", "total": 12.5, "items": 1}
                    shop.produce("orders", json.dumps(order), f"order-{n}")
                shop.commit_transaction(20)
                if second % 5 == 0:
                    warm.request.get(f"{base}/flow")  # rates of producers are differences of two readings
                warm.wait_for_timeout(1000)
            warm.close()
            _renew_flows(load)
            load.flush(5)
            if arguments.all is not None:
                arguments.all.mkdir(parents=True, exist_ok=True)
                wanted = arguments.only.split(",")
                for number, path in enumerate(PAGES):
                    if arguments.only and not any(text in (path or "^") for text in wanted):
                        continue
                    _renew_flows(load)  # so that the flows take commands
                    load.flush(5)
                    for theme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("light", 3840)):
                        name = f"{number:02}-{theme}-{width}.png"
                        take(browser, base + path, theme, width, arguments.all / name, is_whole=True)
            else:
                folder = ROOT / "docs" / "console"
                folder.mkdir(exist_ok=True)
                for name, (path, theme, width) in SHOWN.items():
                    _renew_flows(load)
                    load.flush(5)
                    take(browser, base + path, theme, width, folder / f"{name}.png")
            browser.close()
        registry.stop()


if __name__ == "__main__":
    main()
