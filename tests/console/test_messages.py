"""Records of a topic, as programs get them: pages, search, export, produce."""

from __future__ import annotations

import csv
import io
import json
import time
import urllib.parse
import urllib.request

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from headrace.console.core.masking import MASKED, Mask
from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.kernel.json_values import JsonValue
from headrace.web.login import Brokers
from tests.console.conftest import Scene
from tests.console.test_pages import fetch_json, status_of
from tests.support.console import console_of
from tests.support.effort import is_long
from tests.support.names import unique


def _offsets(found: JsonValue) -> list[tuple[int, int]]:
    return [(record["partition"], record["offset"]) for record in found["records"]]


def _pages(scene: Scene, topic: str, **query: str) -> list[tuple[int, int]]:
    """All records over all pages of the address."""
    found: list[tuple[int, int]] = []
    for _ in range(20):
        page = fetch_json(scene.page(f"/topics/{topic}/messages?{urllib.parse.urlencode(query)}"))
        found += _offsets(page)
        if page["next"] is None or not page["records"]:
            return found
        query["at"] = page["next"]
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("place", ["newest", "oldest"])
def test_pages_show_every_record_of_every_partition_once(scene: Scene, place: str) -> None:
    topic = scene.topic(3)
    scene.numbered(topic, 230)
    found = _pages(scene, topic, **{"from": place})
    assert len(found) == len(set(found)) == 230


def test_the_newest_record_is_first(scene: Scene) -> None:
    topic = scene.topic()
    scene.numbered(topic, 120)
    assert _offsets(fetch_json(scene.page(f"/topics/{topic}/messages")))[:2] == [(0, 119), (0, 118)]


def test_a_page_from_an_offset_and_a_time(scene: Scene) -> None:
    topic = scene.topic()
    scene.numbered(topic, 10)
    found = fetch_json(scene.page(f"/topics/{topic}/messages?from=offset&offset=7"))
    assert _offsets(found) == [(0, 7), (0, 8), (0, 9)]
    assert len(fetch_json(scene.page(f"/topics/{topic}/messages?from=time&time=2020-01-01T00:00"))["records"]) == 10
    assert fetch_json(scene.page(f"/topics/{topic}/messages?from=time&time=2099-01-01T00:00"))["records"] == []


@pytest.mark.parametrize("query", ["from=offset&offset=x", "from=time&time=soon", "from=nowhere", "at=0", "at=0:x"])
def test_a_wrong_place_is_a_bad_request(scene: Scene, query: str) -> None:
    topic = scene.topic()
    assert status_of(scene.page(f"/topics/{topic}/messages?{query}"))[0] == 400


@pytest.mark.parametrize(
    ("data", "kind", "value"),
    [
        (b'{"a": 1}', "json", {"a": 1}),
        (b"plain", "text", "plain"),
        (b"\xff\x00", "hex", "ff 00"),
        (b"\x00\x00\x00\x00\x07x", "hex", "00 00 00 00 07 78"),
        (b"{broken", "text", "{broken"),
        (b"[" * 5000, "text", "[" * 5000),
        (b"", "text", ""),
        (None, "null", None),
    ],
)
def test_values_are_shown_as_json_text_or_bytes(scene: Scene, data: bytes | None, kind: str, value: object) -> None:
    topic = scene.topic()
    scene.produce(topic, ("k", data), headers=[("trace", b"t1"), ("odd", b"\xfe")])
    shown = fetch_json(scene.page(f"/topics/{topic}/messages/0/0"))["record"]
    assert (shown["value"]["kind"], shown["value"]["value"]) == (kind, value)
    assert [(name, header["value"]) for name, header in shown["headers"]] == [("trace", "t1"), ("odd", "fe")]


def test_raw_bytes_are_always_available(scene: Scene) -> None:
    topic = scene.topic()
    scene.produce(topic, (b"\x01k", b"\x00\xff raw"))
    with urllib.request.urlopen(scene.page(f"/topics/{topic}/messages/0/0/value"), timeout=20) as answer:
        assert answer.read() == b"\x00\xff raw" and "attachment" in answer.headers["content-disposition"]
    status, text = status_of(scene.page(f"/topics/{topic}/messages/0/5"))
    assert status == 404 and f"Partition {topic}-0 has no record at offset 5" in text
    status, text = status_of(scene.page(f"/topics/{topic}/messages/9/0"))
    assert status == 404 and "has no partition 9" in text


def _search(scene: Scene, topic: str, **query: str) -> list[int]:
    """Offsets of the matches over all steps."""
    url = scene.page(f"/topics/{topic}/search?{urllib.parse.urlencode(query)}")
    found: list[int] = []
    for _ in range(50):
        step = fetch_json(url)
        found += [offset for _, offset in _offsets(step)]
        if step["done"]:
            return found
        url = scene.url + step["resume"]
    raise AssertionError("the search does not end")


def test_a_search_reaches_the_end_over_its_resume_links(scene: Scene) -> None:
    topic = scene.topic(2)
    scene.numbered(topic, 400)
    assert len(_search(scene, topic, q='"n": ')) == 400  # more than one step of 50 matches


def test_a_search_looks_in_key_value_and_headers(scene: Scene) -> None:
    topic = scene.topic()
    scene.produce(topic, ("Needle-1", "x"), ("k", "a needle"), (None, None))
    scene.produce(topic, ("k", "v"), headers=[("NEEDLE", b"y")])
    assert _search(scene, topic, q="needle") == [0, 1, 3]
    assert _search(scene, topic, q="needle", **{"in": "key"}) == [0]
    assert _search(scene, topic, q="NEEDLE", **{"in": "value"}) == [1]
    assert _search(scene, topic, q="needle", **{"in": "header"}) == [3]


def test_a_search_ends_at_the_high_watermark_of_its_start(scene: Scene) -> None:
    topic = scene.topic()
    scene.numbered(topic, 60)
    first = fetch_json(scene.page(f"/topics/{topic}/search?q=n"))
    scene.numbered(topic, 10)
    rest = fetch_json(scene.url + first["resume"])
    assert rest["done"] and rest["matched"] == 60


def test_cel_filters_by_fields_and_skips_records_without_them(scene: Scene) -> None:
    topic = scene.topic()
    scene.numbered(topic, 20)
    scene.produce(topic, ("k", "not json"), ("k", '{"other": 1}'))
    assert _search(scene, topic, cel="value.n >= 18") == [18, 19]
    assert _search(scene, topic, cel="key == 'k3' && offset < 10") == [3]


@pytest.mark.parametrize("query", ["cel=value.n+%3E", "q=", "q=x&in=nowhere"])
def test_a_wrong_search_is_explained(scene: Scene, query: str) -> None:
    status, text = status_of(scene.page(f"/topics/{scene.topic()}/search?{query}"))
    assert status in (400, 422) and "Traceback" not in text


def _download(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def test_export_has_every_record(scene: Scene) -> None:
    topic = scene.topic(2)
    scene.numbered(topic, 70)
    scene.produce(topic, ("=1+1", None), headers=[("h", b"v")])
    lines = [json.loads(line) for line in _download(scene.page(f"/topics/{topic}/export?format=ndjson")).splitlines()]
    assert len(lines) == 71 and sorted(line["value"]["n"] for line in lines if line["value"]) == list(range(70))
    rows = list(csv.DictReader(io.StringIO(_download(scene.page(f"/topics/{topic}/export?format=csv")))))
    formula = next(row for row in rows if row["headers"])
    assert len(rows) == 71 and formula["key"] == "'=1+1" and formula["headers"] == "h=v"
    assert len(_download(scene.page(f"/topics/{topic}/export?format=ndjson&limit=5")).splitlines()) == 5


def test_a_huge_record_is_listed_by_its_beginning_shown_in_part_and_downloaded_whole(scene: Scene) -> None:
    size = (50 if is_long() else 12) << 20
    topic = unique("huge")
    new = NewTopic(topic, 1, 1, config={"max.message.bytes": str(size + (1 << 20))})
    scene.admin.create_topics([new])[topic].result(20)
    producer = Producer({"bootstrap.servers": scene.bootstrap, "message.max.bytes": size + (1 << 20)})
    for value in (b"x" * size, b"\xff" * size):
        producer.produce(topic, value)
        assert producer.flush(60) == 0
    scene.produce(topic, ("k", "small"))
    base = scene.page(f"/topics/{topic}")
    status, text = status_of(f"{base}/messages")
    assert status == 200 and "small" in text and "xxxx" in text and "ff ff" in text and len(text) < 100_000
    status, text = status_of(f"{base}/messages/0/0")
    assert status == 200 and "Download the bytes to see all" in text and len(text) < 500_000
    assert status_of(f"{base}/messages/0/2")[0] == 200
    status, text = status_of(f"{base}/produce?copy=0:0")
    assert status == 413 and "too large to edit in a form" in text
    with urllib.request.urlopen(f"{base}/messages/0/1/value", timeout=60) as answer:
        assert len(answer.read()) == size
    assert fetch_json(f"{base}/search?q=small")["matched"] == 1


def test_a_copy_has_the_key_of_the_record(scene: Scene) -> None:
    """JSON with other blanks would be another key: in another partition, and for compaction."""
    topic = scene.topic()
    scene.produce(topic, ('{"id":1,"at":1.10}', "v"))
    form = status_of(scene.page(f"/topics/{topic}/produce?copy=0:0"))[1]
    assert ' name="key" class="mono" value="{&#34;id&#34;:1,&#34;at&#34;:1.10}"' in form


def test_masked_fields_are_in_no_page_search_export_or_download(scene: Scene) -> None:
    topic = scene.topic()
    scene.produce(topic, ("k", '{"card": {"number": "4111222", "type": "visa"}}'), ("k", "4111222 as text"))
    clusters = (ClusterAddress("local", Brokers(scene.bootstrap)),)
    with console_of(ConsoleSettings(clusters, masks=(Mask.parse(f"{topic}:card.number"),))) as url:
        base = f"{url}/clusters/local/topics/{topic}"
        for path in ("/messages", "/messages/0/0", "/messages/0/1", "/export?format=csv", "/search?q=visa"):
            for accept in ("text/html", "application/json"):
                status, text = status_of(base + path, accept)
                assert status == 200 and "4111222" not in text, path
        assert MASKED in status_of(base + "/messages/0/0")[1]
        assert fetch_json(base + "/search?q=4111222")["records"] == []
        assert (
            fetch_json(base + "/search?" + urllib.parse.urlencode({"cel": "value.card.number == '4111222'"}))["matched"]
            == 0
        )
        for path in ("/messages/0/0/value", "/produce?copy=0:0"):
            assert status_of(base + path)[0] == 403


def test_masks_hold_for_keys_dead_letters_their_errors_and_flows(scene: Scene) -> None:
    topic, flow = scene.topic(), unique("totals")
    letters = scene.topic(name=f"{topic}.dlq")
    card = json.dumps({"card": {"number": "4111222", "type": "visa"}})
    scene.produce(topic, (card, card), headers=[("h", card.encode())])
    scene.produce(letters, ("k", "{broken 4111222"), headers=[("headrace.error", b"not JSON: 4111222"), ("h", b"x")])
    report = {"pipeline": "p", "flow": flow, "state": "failed", "batch_id": 1, "at_ms": int(time.time() * 1000)}
    report |= {"end_offsets": {topic: {"0": 1}}, "last_error": "cannot cast 4111222"}
    scene.produce("__pipelines", (f"p.{flow}", json.dumps(report)))
    clusters = (ClusterAddress("local", Brokers(scene.bootstrap)),)
    pages = [f"/topics/{name}{path}" for name in (topic, letters) for path in ("/messages", "/messages/0/0")]
    pages += ["/pipelines", f"/pipeline?name=p.{flow}", "/flow"]
    with console_of(ConsoleSettings(clusters, masks=(Mask.parse(f"{topic}:card.number"),))) as url:
        for path in pages:
            for accept in ("text/html", "application/json"):
                status, text = status_of(f"{url}/clusters/local{path}", accept)
                assert status == 200 and "4111222" not in text, path
        assert "visa" in status_of(f"{url}/clusters/local/topics/{topic}/messages/0/0")[1]
        assert status_of(f"{url}/clusters/local/topics/{letters}/produce?copy=0:0")[0] == 403
        assert status_of(f"{url}/clusters/local/demos")[0] == 403
    for path in pages:
        # The same pages without the rule show it, so the test looks in the right places.
        assert path == "/flow" or "4111222" in status_of(scene.page(path))[1], path


def test_hidden_values_are_in_no_page(scene: Scene) -> None:
    topic = scene.topic()
    scene.produce(topic, ("secret-key", "secret-value"), headers=[("h", b"secret-header")])
    with console_of(ConsoleSettings((ClusterAddress("local", Brokers(scene.bootstrap)),), hides_values=True)) as url:
        base = f"{url}/clusters/local/topics/{topic}"
        for path in ("/messages", "/messages/0/0", "/export?format=ndjson"):
            assert "secret" not in status_of(base + path)[1]
        assert status_of(base + "/search?q=secret")[0] == status_of(base + "/messages/0/0/key")[0] == 403
