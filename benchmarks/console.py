"""Budgets of the web console: 1,000 topics with 10,000 partitions, and 10,000 groups.

`python -m benchmarks.console` prints the server time of the first pages, the memory of the process and the rate of a
search, and fails if one is over its budget. With a browser on a small cluster it measures the weight of the first page,
when it can be used, and the processor time while it is only watched. `--browser` runs that part alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from headrace.client.blocking.client import BlockingClient
from headrace.client.cluster_client import ClusterClient
from headrace.console.records.decoding import Decoding
from headrace.console.records.search import TextFilter, search_step
from headrace.testing import broker
from headrace.wire.apis import ApiKey

PAGE_MS, GROUPS_MS, MEMORY_MB, SEARCH_PER_S = 100, 200, 150, 200_000
PAGE_KB, INTERACTIVE_MS, IDLE_PERCENT = 300, 1000, 2
WATCHED_S = 20
CHROMIUM = "/usr/bin/chromium"


async def fill(bootstrap: str, topics: int, groups: int) -> None:
    async with ClusterClient(bootstrap, timeout=120) as client:
        wanted = [
            {"name": f"topic-{n:04}", "num_partitions": 10, "replication_factor": 1, "assignments": [], "configs": []}
            for n in range(topics)
        ]
        for at in range(0, topics, 100):
            body = {"topics": wanted[at : at + 100], "timeout": 60_000, "validate_only": False}
            await client.to_controller(ApiKey.CREATE_TOPICS, body)
        node = await client.coordinator("group-0")
        for at in range(0, groups, 500):
            await asyncio.gather(*(_commit(client, node, n, topics) for n in range(at, min(at + 500, groups))))


async def _commit(client: ClusterClient, node: int, number: int, topics: int) -> None:
    part = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
    body = {
        "group_id": f"group-{number}", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
        "topics": [{"name": f"topic-{number % topics:04}", "partitions": [part]}],
    }  # fmt: skip
    await client.request(ApiKey.OFFSET_COMMIT, body, node=node, at_most=9)


def page_ms(url: str, times: int = 15) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=60) as answer:
            answer.read()
        found.append((time.perf_counter() - began) * 1000)
    return statistics.median(found)


def search_rate(bootstrap: str) -> float:
    """Records a second of a search for text that no record has."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for n in range(400_000):
        producer.produce("topic-0000", f'{{"order": {n}, "customer": "somebody", "total": 12.5}}', str(n), partition=0)
        if n % 50_000 == 0:
            producer.flush(60)
    producer.flush(60)
    decoding = Decoding("topic-0000", None)
    with BlockingClient(bootstrap) as client:
        step = search_step(client, decoding, TextFilter("needle", "anywhere", decoding), {0: 0}, {0: 400_000})
    return step.scanned / step.elapsed_s


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024


def console(bootstrap: str) -> tuple[subprocess.Popen[str], str]:
    """A console as a process of its own, and the address of its cluster."""
    command = [sys.executable, "-m", "headrace.cli", "console", "start", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--bootstrap", bootstrap], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1] + "/clusters/local"


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def browser_figures() -> dict[str, tuple[float, float]]:
    from playwright.sync_api import Request, sync_playwright

    with broker() as running, sync_playwright() as playwright:
        process, base = console(running.bootstrap)
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            answered: list[Request] = []
            page.on("requestfinished", lambda request: answered.append(request))  # playwright marks its handlers
            page.goto(base)
            weight = sum(one.sizes()["responseBodySize"] for one in answered)  # as sent, so compressed
            interactive_ms = page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
            page.wait_for_timeout(3000)
            before = cpu_s(process.pid)
            page.wait_for_timeout(WATCHED_S * 1000)
            percent = 100 * (cpu_s(process.pid) - before) / WATCHED_S
            browser.close()
        finally:
            process.terminate()
            process.wait()
    return {
        "page KB": (weight / 1000, PAGE_KB), "interactive ms": (interactive_ms, INTERACTIVE_MS),
        "watched CPU %": (percent, IDLE_PERCENT),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--browser", action="store_true", help="only what a browser measures")
    arguments = parser.parse_args()
    if arguments.browser:
        return report(browser_figures(), None)
    with broker({"num.partitions": "1"}) as running:
        asyncio.run(fill(running.bootstrap, arguments.topics, arguments.groups))
        process, base = console(running.bootstrap)
        try:
            page_ms(base, 1)
            found = {
                "overview ms": (page_ms(base), PAGE_MS),
                "topics ms": (page_ms(f"{base}/topics"), PAGE_MS),
                "groups ms": (page_ms(f"{base}/groups"), GROUPS_MS),
                "memory MB": (memory_mb(process.pid), MEMORY_MB),
            }
        finally:
            process.terminate()
            process.wait()
        rate = search_rate(running.bootstrap)
    return report({**found, **browser_figures()}, rate)


def report(found: dict[str, tuple[float, float]], rate: float | None) -> int:
    for name, (value, budget) in found.items():
        print(f"{name:<14} {value:8.1f}   budget {budget}")
    is_slow = rate is not None and rate < SEARCH_PER_S
    if rate is not None:
        print(f"{'search rec/s':<14} {rate:8.0f}   budget at least {SEARCH_PER_S}")
    print(json.dumps({**{name: round(value, 1) for name, (value, _) in found.items()}, "search": rate and round(rate)}))
    return int(any(value > budget for value, budget in found.values()) or is_slow)


if __name__ == "__main__":
    sys.exit(main())
