"""Builds the documentation site, or checks the links of every page.

    python tools/docs_site.py --check    every relative link and anchor in the repository's pages leads somewhere, and
                                         every page of the site is in the navigation; no other program is needed
    python tools/docs_site.py            the same, then the site in build/site (zensical reads mkdocs.yml)

The site holds docs/ and the pages at the root of the repository. Both are read on a forge too, so links are written for
the repository; this program turns them into links of the site. A link to a file that is not a page, such as a source
file, becomes its text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
ASSEMBLED = ROOT / "build" / "docs"
NAVIGATION = ROOT / "mkdocs.yml"
# Pages at the root of the repository → their place on the site. docs/index.md replaces README.md.
ROOT_PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "COMPATIBILITY.md": "reference/compatibility.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "report-a-vulnerability.md",
}
_HIDDEN = (".venv", ".cache", "build", "dist", "data", "node_modules", ".pytest_cache")
# Code first: text that looks like a link inside a fence or between backticks is no link.
_TOKEN = re.compile(
    r"^(?P<fence>[ ]*(?:```+|~~~+)).*?^(?P=fence)[ ]*$|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)"
    r"|(?P<text>\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^()\s]+)(?P<title>\s+\"[^\"]*\")?\)",
    re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z]+:|//", re.IGNORECASE)


@dataclass(frozen=True)
class Link:
    text: str
    target: str
    line: int

    @property
    def path(self) -> str:
        return self.target.partition("#")[0]

    @property
    def anchor(self) -> str:
        return self.target.partition("#")[2]


def pages() -> list[Path]:
    """Every page of the repository."""
    found = []
    for directory, names, files in os.walk(ROOT):
        names[:] = [name for name in names if name not in _HIDDEN and not (Path(directory) / name).is_symlink()]
        found += [Path(directory) / name for name in files if name.endswith(".md")]
    return sorted(found)


def site_pages() -> dict[Path, str]:
    """Page of the repository → its place on the site."""
    docs = ROOT / "docs"
    own = {page: str(page.relative_to(docs)) for page in sorted(docs.rglob("*.md"))}
    return own | {ROOT / name: place for name, place in ROOT_PAGES.items()}


def replace_links(text: str, change: Callable[[Link], str | None]) -> str:
    """The text with every relative link target changed. A link whose new target is None becomes its text."""

    def changed(match: re.Match[str]) -> str:
        target = match["target"]
        if target is None or _ELSEWHERE.match(target):
            return match[0]
        new = change(Link(match["text"][1:-1], target, text.count("\n", 0, match.start()) + 1))
        return match["text"][1:-1] if new is None else f"{match['text']}({new}{match['title'] or ''})"

    return _TOKEN.sub(changed, text)


def links(text: str) -> list[Link]:
    found: list[Link] = []

    def note(link: Link) -> str:
        found.append(link)
        return link.target

    replace_links(text, note)
    return found


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as forges and the site generate them."""
    text = re.sub(r"^([ ]*)(```+|~~~+).*?^\1\2[ ]*$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    seen: dict[str, int] = {}
    found = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(f"{slug}_{count}" if count else slug)
        found.add(f"{slug}-{count}" if count else slug)
    return frozenset(found)


def broken_links() -> Iterator[str]:
    for page in pages():
        for link in links(page.read_text()):
            target = (page.parent / link.path).resolve() if link.path else page
            where = f"{page.relative_to(ROOT)}:{link.line}: {link.target}"
            if not target.exists():
                yield f"{where}: there is no such file"
            elif link.anchor and target.suffix == ".md" and link.anchor not in anchors(target):
                yield f"{where}: {target.name} has no heading with that anchor"


def navigation() -> list[str]:
    """The pages that the navigation names."""

    def leaves(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            for value in entry.values():
                yield from leaves(value)
        elif isinstance(entry, list):
            for value in entry:
                yield from leaves(value)

    # The file names functions of Python-Markdown. Only the navigation matters here.
    text = NAVIGATION.read_text()
    return list(leaves(yaml.safe_load(text[text.index("\nnav:") :])["nav"]))


def wrong_navigation() -> Iterator[str]:
    """A page is in the navigation, or the index of its folder links to it."""
    named, there = navigation(), site_pages()
    listed = {there[page.parent / link.path] for page in there if page.name == "index.md" for link in _inside(page)}
    yield from (f"mkdocs.yml: {page}: there is no such page" for page in named if page not in there.values())
    for page in sorted(set(there.values()) - set(named) - listed):
        yield f"mkdocs.yml: {page}: is neither in the navigation nor in the index.md of its folder"
    yield from (f"mkdocs.yml: {page}: is named twice" for page in sorted({p for p in named if named.count(p) > 1}))


def _inside(index: Path) -> list[Link]:
    """The links of an index to pages beside it."""
    return [
        link for link in links(index.read_text()) if (index.parent / link.path) in site_pages() and "/" not in link.path
    ]


def assemble() -> None:
    """Writes build/docs: the pages at their places on the site, with the site's links."""
    shutil.rmtree(ASSEMBLED, ignore_errors=True)
    shutil.copytree(ROOT / "docs", ASSEMBLED)
    places = site_pages()
    for page, place in places.items():
        target = ASSEMBLED / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(replace_links(page.read_text(), lambda link, page=page: _on_site(link, page, places)))  # type: ignore[misc]


def _on_site(link: Link, page: Path, places: dict[Path, str]) -> str | None:
    if not link.path:
        return link.target
    target = (page.parent / link.path).resolve()
    place = places.get(target / "index.md" if target.is_dir() else target)
    if place is None and target == ROOT / "README.md":
        place = "index.md"
    if place is None:
        return link.target if target.is_relative_to(ROOT / "docs") and target.is_file() else None
    relative = os.path.relpath(place, Path(places[page]).parent)
    return f"{relative}#{link.anchor}" if link.anchor else relative


def main(arguments: list[str]) -> int:
    problems = [*broken_links(), *wrong_navigation()]
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    if "--check" in arguments:
        return 0
    assemble()
    built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=ROOT, check=False).returncode
    if built == 0:
        print(f"open {ROOT / 'build/site/index.html'} in a browser")
    return built


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
