"""Headers, forms and names: what another site cannot do with a console."""

from __future__ import annotations

import http.client
import re
from urllib.parse import urlencode, urlsplit

import pytest

from tests.console.conftest import Scene
from tests.support.names import unique


def _request(
    scene: Scene, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, str]:
    address = urlsplit(scene.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def _form(scene: Scene, path: str) -> tuple[str, str]:
    """(cookie, token) of a form as a browser gets them."""
    answer, text = _request(scene, "GET", path)
    cookie = str(answer.getheader("set-cookie")).split(";")[0]
    found = re.search(r'name="form_token" value="([^"]+)"', text)
    assert found is not None
    return cookie, found.group(1)


NEW = "/clusters/local/new-topic"
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "path",
    [
        "/clusters/local",
        "/clusters/local/topics",
        "/clusters/local/topics/absent",
        "/no-such-page",
        "/static/console.js",
    ],
)
def test_every_answer_forbids_foreign_scripts_and_frames(scene: Scene, path: str) -> None:
    answer, _ = _request(scene, "GET", path)
    policy = str(answer.getheader("content-security-policy"))
    assert "script-src 'self';" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and answer.getheader("x-frame-options") == "DENY"
    assert answer.getheader("x-content-type-options") == "nosniff"


def test_a_form_with_its_token_makes_the_change(scene: Scene) -> None:
    cookie, token = _form(scene, NEW)
    name = unique("made")
    body = urlencode({"form_token": token, "name": name, "partitions": "3"})
    answer, _ = _request(scene, "POST", NEW, body, {**FORM, "cookie": cookie})
    assert answer.status == 303 and str(answer.getheader("location")).startswith(f"/clusters/local/topics/{name}")
    assert len(scene.admin.list_topics(name, timeout=10).topics[name].partitions) == 3


@pytest.mark.parametrize("case", ["no token", "wrong token", "no cookie", "another origin", "null origin", "json"])
def test_a_form_that_is_not_the_consoles_own_changes_nothing(scene: Scene, case: str) -> None:
    cookie, token = _form(scene, NEW)
    name = unique("forged")
    fields = {"form_token": token, "name": name}
    headers = {**FORM, "cookie": cookie}
    if case == "no token":
        del fields["form_token"]
    elif case == "wrong token":
        fields["form_token"] = "x" * len(token)
    elif case == "no cookie":
        del headers["cookie"]
    elif case == "another origin":
        headers["origin"] = "https://evil.example"
    elif case == "null origin":
        headers["origin"] = "null"
    elif case == "json":
        headers["content-type"] = "text/plain"
    answer, _ = _request(scene, "POST", NEW, urlencode(fields), headers)
    assert answer.status in (403, 415)
    assert name not in scene.admin.list_topics(timeout=10).topics


def test_the_cookie_of_forms_is_not_sent_by_other_sites_or_read_by_scripts(scene: Scene) -> None:
    answer, _ = _request(scene, "GET", "/clusters/local")
    cookie = str(answer.getheader("set-cookie")).lower()
    assert "httponly" in cookie and "samesite=strict" in cookie


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example"])
def test_a_name_that_only_resolves_to_this_machine_is_refused(scene: Scene, host: str) -> None:
    answer, text = _request(scene, "GET", "/clusters/local/topics", None, {"host": host})
    assert answer.status == 421 and "Topics" not in text


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9"])
def test_names_of_loopback_are_served(scene: Scene, host: str) -> None:
    answer, _ = _request(scene, "GET", "/clusters/local/topics", None, {"host": host})
    assert answer.status == 200


@pytest.mark.parametrize(
    "path",
    ["//evil.example/", "/clusters//evil.example", "/clusters/local?notice=//evil.example", "/?next=//evil.example"],
)
def test_no_address_redirects_to_another_site(scene: Scene, path: str) -> None:
    answer, _ = _request(scene, "GET", path)
    location = answer.getheader("location") or "/"
    assert urlsplit(location).netloc in ("", urlsplit(scene.url).netloc)


def test_a_notice_is_shown_once_and_only_by_the_console(scene: Scene) -> None:
    _, text = _request(scene, "GET", "/clusters/local/topics?notice=You+won")
    assert "You won" not in text


def test_a_form_beyond_the_limit_is_refused(scene: Scene) -> None:
    cookie, token = _form(scene, NEW)
    body = urlencode({"form_token": token, "name": "x" * (3 << 20)})
    answer, _ = _request(scene, "POST", NEW, body, {**FORM, "cookie": cookie})
    assert answer.status == 413
