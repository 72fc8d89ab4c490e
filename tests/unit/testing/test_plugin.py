"""The pytest plugin as a project uses it: its own pytest run, nothing imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.pytest_plugin import PLUGIN, plugin_environment

TESTS = """
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

def topics(bootstrap):
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics)

@pytest.mark.parametrize("again", range(3))
def test_isolation(headrace, again):
    assert topics(headrace.bootstrap) == set()
    producer = Producer({"bootstrap.servers": headrace.bootstrap})
    producer.produce("orders", "tea")
    assert producer.flush(10) == 0

def test_topic(headrace, headrace_topic):
    assert headrace_topic == "test_topic"
    assert topics(headrace.bootstrap) == {"test_topic"}

@pytest.mark.headrace(settings={"auto.create.topics.enable": "false"})
def test_settings(headrace):
    errors = []
    producer = Producer({"bootstrap.servers": headrace.bootstrap, "message.timeout.ms": 500})
    producer.produce("missing", "tea", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert errors[0] is not None

def test_secured(secured_headrace):
    secured_headrace.add_user("ann", "secret")
    admin = AdminClient(secured_headrace.client("admin"))
    assert admin.list_topics(timeout=10).topics == {}
    secured_headrace.create_topic("orders")
    errors = []
    producer = Producer({**secured_headrace.client("ann"), "message.timeout.ms": 2000})
    producer.produce("orders", "tea", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert errors[0].name() == "TOPIC_AUTHORIZATION_FAILED"
    with pytest.raises(ValueError, match="there is no user 'bob'"):
        secured_headrace.client("bob")

def test_registry(headrace_registry):
    import urllib.request
    assert urllib.request.urlopen(headrace_registry.url + "/subjects").read() == b"[]"
"""


def run_pytest(directory: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_shop.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more, "test_shop.py"]
    environment = {**os.environ, **plugin_environment()}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120)


def test_the_fixtures_work_and_tests_do_not_see_each_other(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, TESTS)
    assert "7 passed" in result.stdout, result.stdout + result.stderr


def test_two_xdist_workers_run_side_by_side(tmp_path: Path) -> None:
    text = TESTS.split("def test_secured")[0]
    result = run_pytest(tmp_path, text, "-n", "2")
    assert "5 passed" in result.stdout, result.stdout + result.stderr


def test_a_failed_test_prints_what_the_broker_saw(tmp_path: Path) -> None:
    text = (
        "from confluent_kafka import Producer\n"
        "def test_it(headrace, headrace_topic):\n"
        "    headrace.fail('Produce', error='NOT_LEADER_OR_FOLLOWER', times=1)\n"
        "    producer = Producer({'bootstrap.servers': headrace.bootstrap, 'client.id': 'shop'})\n"
        "    producer.produce(headrace_topic, 'tea')\n"
        "    producer.flush(10)\n"
        "    assert False\n"
    )
    result = run_pytest(tmp_path, text)
    assert "what the broker of headrace saw" in result.stdout
    assert "test_it: offsets 0–1" in result.stdout
    assert "shop  NOT_LEADER_OR_FOLLOWER  [fault: NOT_LEADER_OR_FOLLOWER]" in result.stdout


def test_an_unknown_argument_of_the_marker_is_named(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.headrace(brokers=3)\ndef test_it(headrace): pass\n"
    assert "takes settings=, version= and snapshot=, not brokers" in run_pytest(tmp_path, text).stdout


def test_the_plugin_costs_nothing_where_it_is_not_used() -> None:
    """A project that has Headrace installed loads no module of a broker."""
    code = (
        f"import sys, {PLUGIN}\n"
        "heavy = {'kio', 'uvloop', 'asyncio.runners', 'confluent_kafka', 'headrace.broker', 'headrace.kernel'}\n"
        "print(sorted(heavy & set(sys.modules) - {'asyncio.runners'}))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_names_of_the_package_load_when_they_are_used() -> None:
    """Twice: a module of the same name would take the place of a function after its first use."""
    import headrace.testing

    for name in headrace.testing.__all__ * 2:
        assert callable(getattr(headrace.testing, name)), name


def test_a_projects_own_fixture_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    fixture = "import pytest\n\n@pytest.fixture\ndef headrace():\n    return 5\n"
    own = f"{fixture}\ndef test_it(headrace):\n    assert headrace == 6\n"
    result = run_pytest(tmp_path, own)
    assert "assert 5 == 6" in result.stdout and "INTERNALERROR" not in result.stdout, result.stdout + result.stderr
