"""The check of links finds what leads nowhere, and the links of the site lead to the site's own pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import load_tool

site = load_tool("docs_site")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs/adr").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/log.py").write_text("")
    for name in site.ROOT_PAGES:
        (tmp_path / name).write_text("# A page\n")
    named = ["index.md", "adr/index.md", *site.ROOT_PAGES.values()]
    (tmp_path / "mkdocs.yml").write_text("site_name: x\nnav:\n" + "".join(f"  - {name}\n" for name in named))
    (tmp_path / "docs/index.md").write_text("# Home\n\n## Don't lose it\n")
    (tmp_path / "docs/adr/index.md").write_text("# Decisions\n\n[one](0001-one.md)\n")
    (tmp_path / "docs/adr/0001-one.md").write_text("# 1. One\n")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "NAVIGATION", tmp_path / "mkdocs.yml")
    monkeypatch.setattr(site, "ASSEMBLED", tmp_path / "build/docs")
    site.anchors.cache_clear()
    return tmp_path


def test_pages_of_this_repository_have_no_broken_link() -> None:
    site.anchors.cache_clear()
    assert [*site.broken_links(), *site.wrong_navigation()] == []


def test_links_that_lead_somewhere_are_accepted(repository: Path) -> None:
    (repository / "README.md").write_text(
        "[home](docs/index.md) [part](docs/index.md#dont-lose-it) [code](src/log.py) [web](https://example.org/x)\n"
        "`[not](a-link.md)`\n\n```\n[nor](this.md)\n```\n"
    )
    assert [*site.broken_links(), *site.wrong_navigation()] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[x](docs/gone.md)", "README.md:1: docs/gone.md: there is no such file"),
        ("\n[x](docs/index.md#gone)", "README.md:2: docs/index.md#gone: index.md has no heading with that anchor"),
        ("[x](#gone)", "README.md:1: #gone: README.md has no heading with that anchor"),
    ],
)
def test_a_link_that_leads_nowhere_is_named_with_its_line(repository: Path, text: str, problem: str) -> None:
    (repository / "README.md").write_text(text)
    assert list(site.broken_links()) == [problem]


def test_every_page_is_in_the_navigation_or_in_the_index_of_its_folder(repository: Path) -> None:
    (repository / "docs/adr/0002-two.md").write_text("# 2. Two\n")
    (found,) = site.wrong_navigation()
    assert found.startswith("mkdocs.yml: adr/0002-two.md: is neither in the navigation nor")


def test_links_of_the_repository_become_links_of_the_site(repository: Path) -> None:
    (repository / "docs/adr/0001-one.md").write_text(
        "# 1. One\n\n[a](../../ARCHITECTURE.md#a-page) [b](../../COMPATIBILITY.md) [c](../../src/log.py) [d](#1-one)\n"
    )
    (repository / "ARCHITECTURE.md").write_text("# A page\n\n[decisions](docs/adr) [one](docs/adr/0001-one.md)\n")
    site.assemble()
    built = repository / "build/docs"
    assert (
        (built / "adr/0001-one.md")
        .read_text()
        .endswith("[a](../architecture.md#a-page) [b](../reference/compatibility.md) c [d](#1-one)\n")
    )
    assert "[decisions](adr/index.md) [one](adr/0001-one.md)" in (built / "architecture.md").read_text()
