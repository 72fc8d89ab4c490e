"""`make docs-site` builds a site that needs neither a server nor a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import load_tool
from tests.docs.page import ROOT

SITE = ROOT / "build" / "site"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "tools/docs_site.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def html(page: str) -> Path:
    return SITE / page.replace(".md", ".html")


def test_every_page_of_the_navigation_is_built_and_found_by_search() -> None:
    pages = load_tool("docs_site").navigation()
    assert len(pages) > 30
    assert [page for page in pages if not html(page).is_file()] == []
    index = (SITE / "search.js").read_text().partition("=")[2].rstrip(" ;\n")
    found = {item["location"].partition("#")[0] for item in json.loads(index)["items"]}
    assert {page.replace(".md", ".html") for page in pages} <= found


def test_pages_load_nothing_from_the_network() -> None:
    for page in SITE.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"([^\"]+)\"", page.read_text())
        assert loaded
        assert [url for url in loaded if re.match(r"(?:https?:)?//", url)] == [], page


def test_search_has_its_own_worker_for_pages_opened_as_files() -> None:
    assert "iframe-worker.js" in (SITE / "index.html").read_text()
    assert "window.Worker" in (SITE / "assets/iframe-worker.js").read_text()


@pytest.mark.parametrize(
    "question", ["create", "install", "consumer group", "Parquet", "metrics", "cluster on my machine"]
)
def test_how_to_page_is_two_clicks_away(question: str) -> None:
    """Home → How-to guides → the page."""
    assert 'href="how-to/index.html"' in (SITE / "index.html").read_text().replace('"./', '"')
    guides = (SITE / "how-to/index.html").read_text()
    assert re.search(rf"<td>[^<]*{question}[^<]*</td>\s*<td><a href=\"[\w./-]+\.html", guides)


_WORKER = """
const inside = new EventTarget()
const scripts = []
inside.document = { createElement: () => ({}), body: { append: script => scripts.push(script) } }
globalThis.location = { protocol: "file:", href: "file:///site/index.html" }
globalThis.document = {
  createElement: () => ({ contentWindow: inside, remove() { console.log("removed") } }),
  body: { append() {} },
}
globalThis.window = globalThis
require(process.argv[2])

const question = { text: "reset" }, answer = { found: 1 }
const worker = new Worker("search.js")
worker.onmessage = event => {
  console.log("answer", event.data.found, event.data === answer)
  worker.terminate()
}
inside.addEventListener("message", event => {
  console.log("question", event.data.text, event.data === question)
  inside.postMessage(answer)
  console.log("sent")
})
worker.postMessage(question)
console.log("loads", String(scripts[0].src))
scripts[0].onload()
"""


@pytest.mark.needs("node")
def test_search_worker_of_local_files_posts_copies_asynchronously(tmp_path: Path) -> None:
    """Zensical's search box loses its text if a message arrives synchronously or is the sender's object."""
    script = tmp_path / "worker.cjs"
    script.write_text(_WORKER)
    command = ["node", str(script), str(ROOT / "docs/assets/iframe-worker.js")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    lines = ["loads file:///site/search.js", "question reset false", "sent", "answer 1 false", "removed"]
    assert done.stdout.splitlines() == lines, done.stderr
