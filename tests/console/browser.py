"""Debian's Chromium for scenarios. An error in a page, a violated policy or a dialog fails the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Dialog, Locator, Page, sync_playwright

from tests.support.npm import npm_package

CHROMIUM = "/usr/bin/chromium"


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def page_of(browser: Browser, *, width: int = 1280, theme: str = "light", scripts: bool = True) -> Iterator[Page]:
    """A new page. Fails at the end if the page reported an error, a violated policy or a dialog."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if theme == "dark" else "light",
        java_script_enabled=scripts, reduced_motion="reduce",
    )  # fmt: skip
    page = context.new_page()
    page.set_default_timeout(15_000)
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: _dismissed(dialog, troubles))
    page.on(
        "console",
        lambda message: (
            troubles.append(message.text) if message.type == "error" and "status of 4" not in message.text else None
        ),
    )
    yield page
    context.close()
    assert troubles == [], troubles


def retype(field: Locator, text: str) -> None:
    """Replaces the text of a code editor as a person does. `fill` would replace coloured text in the browser itself,
    which gives the new text the old colours as a style attribute, and the policy of the page reports that."""
    field.press("ControlOrMeta+a")
    field.press("Delete")
    field.page.keyboard.insert_text(text)


def _dismissed(dialog: Dialog, troubles: list[str]) -> None:
    troubles.append(f"dialog {dialog.message}")
    dialog.dismiss()


def serious_violations(page: Page, *, only: str = "", within: str = "") -> list[str]:
    """What axe finds on the page and calls serious or critical. `only`: one rule instead of all. `within`: the selector
    of a part."""
    if not page.evaluate("typeof axe !== 'undefined'"):
        axe = npm_package("axe-core", "4.14.0") / "axe.min.js"
        # The policy of the page forbids foreign scripts; the browser's debugger may run one.
        page.evaluate(Path(axe).read_text() + "; undefined")
    found = page.evaluate(
        """([only, within]) => axe.run(within || document,
            {resultTypes: ['violations'], ...(only ? {runOnly: [only]} : {})})""",
        [only, within],
    )
    return [
        f"{violation['id']}: {node['target']} {node.get('failureSummary', '')}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
