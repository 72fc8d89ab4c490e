"""One broker, one console and one browser for all scenarios of this folder. So names of topics are unique."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser

from headrace.testing import broker
from tests.console.browser import chromium
from tests.support.console import console_on
from tests.support.names import unique


@dataclass(frozen=True)
class Scene:
    """A broker with a console, and short names for what scenarios do."""

    bootstrap: str
    url: str

    def page(self, path: str = "") -> str:
        return f"{self.url}/clusters/local{path}"

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def topic(self, partitions: int = 1, name: str = "") -> str:
        made = name or unique("topic")
        self.admin.create_topics([NewTopic(made, partitions, 1)])[made].result(10)
        return made

    def produce(
        self, topic: str, *records: tuple[str | bytes | None, str | bytes | None], headers: object = None
    ) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for key, value in records:
            producer.produce(topic, value, key, headers=headers)
        assert producer.flush(10) == 0

    def post(self, path: str, **fields: str) -> tuple[int, str]:
        """Sends the form of a page as a browser does. Returns the status of the last page and its text."""
        return self.send(path, path, urllib.parse.urlencode(fields))

    def send(self, path: str, action: str, fields: str) -> tuple[int, str]:
        """Sends encoded fields with the token of a page to another address."""
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(self.page(path), timeout=20) as answer:
            token = re.search(r'name="form_token" value="([^"]+)"', answer.read().decode())
        assert token is not None, f"{path} has no form"
        body = f"{urllib.parse.urlencode({'form_token': token.group(1)})}&{fields}".encode()
        try:
            with browser.open(self.page(action), body, timeout=20) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def numbered(self, topic: str, count: int) -> None:
        self.produce(topic, *((f"k{n}", json.dumps({"n": n})) for n in range(count)))

    def commit(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        consumer.close()


# A package's fixtures end before tests of other folders begin: Playwright's event loop must not be theirs.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def scene() -> Iterator[Scene]:
    with broker() as running, console_on(running.bootstrap) as url:
        yield Scene(running.bootstrap, url)
