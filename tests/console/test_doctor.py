"""What `headrace doctor` finds, on the overview with its remedy and its button."""

from __future__ import annotations

from confluent_kafka.admin import NewTopic

from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.web.login import Brokers
from tests.console.conftest import Scene
from tests.console.test_pages import fetch_json, status_of
from tests.support.clock import wait_for
from tests.support.console import console_of
from tests.support.names import unique


def test_findings_of_the_doctor_are_on_the_overview_with_what_to_do_and_a_button(scene: Scene) -> None:
    topic = unique("strict")
    new = NewTopic(topic, 1, 1, config={"min.insync.replicas": "2"})
    scene.admin.create_topics([new])[topic].result(10)
    settings = ConsoleSettings((ClusterAddress("local", Brokers(scene.bootstrap)),), examines=True, read_only=True)
    with console_of(settings) as url:
        own = Scene(scene.bootstrap, url)
        # The first visit starts the checks in the background.
        assert fetch_json(own.page())["is_examining"]
        wait_for(lambda: fetch_json(own.page())["examined_ms"], "the checks to end")
        found = fetch_json(own.page())
        assert not found["examination_error"]
        finding = next(one for one in found["findings"] if topic in one["text"] or topic in str(one["details"]))
        assert finding["level"] == "bad" and "acks=all can never succeed" in finding["text"]
        assert "min.insync.replicas" in finding["advice"] and finding["path"][0] == "topics"
        page = status_of(own.page())[1]
        assert "Show the topic</a>" in page and "Checked by" in page
        # A person asks again after the remedy; a read-only console offers that, too.
        scene.admin.delete_topics([topic])[topic].result(10)
        before = found["examined_ms"]
        status, text = own.send("", "/examine", "")
        assert status == 200 and "Overview" in text
        wait_for(lambda: fetch_json(own.page())["examined_ms"] > before, "the second examination")
        found = fetch_json(own.page())
        assert not any(topic in one["text"] for one in found["findings"])


def test_a_console_without_the_checks_offers_none(scene: Scene) -> None:
    assert "Check now" not in status_of(scene.page())[1]
    assert scene.send("/new-topic", "/examine", "")[0] == 404
