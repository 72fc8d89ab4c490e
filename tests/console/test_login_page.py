"""The login page: password, OpenID provider, sessions, and what must not work."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from playwright.sync_api import Browser, expect

from headrace.console.login.attempts import MOST_PER_ADDRESS, MOST_PER_NAME, WINDOW_S, Attempts
from headrace.console.login.oidc import OidcClient
from headrace.console.login.pages import safe_next
from headrace.console.settings import ClusterAddress, ConsoleSettings
from headrace.web.login import Brokers
from tests.console.browser import page_of, serious_violations
from tests.console.openid_provider import CLIENT_ID, CLIENT_SECRET, Provider
from tests.support.console import console_of
from tests.support.sasl import PASSWORD, SaslBroker, sasl_broker

MECHANISM = "SCRAM-SHA-256"
SESSION = "headrace_session"


@dataclass(frozen=True)
class Secured:
    broker: SaslBroker
    url: str
    provider: Provider

    def page(self, path: str = "") -> str:
        return f"{self.url}/clusters/local{path}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Provider(Path(tmp_path_factory.mktemp("keys")) / "keys.json").serving() as provider:
        settings = {
            "listener.name.clients.sasl.enabled.mechanisms": f"PLAIN,{MECHANISM},OAUTHBEARER",
            "listener.name.clients.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{provider.keys}",
            "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.issuer": provider.issuer,
            "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        with sasl_broker(settings) as running:
            for user in ("anna", "bert", "guessed"):
                running.set_password(user, PASSWORD, MECHANISM)
            for topic, user in (("annas", "anna"), ("olgas", "olga")):
                running.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
                acl = AclBinding(
                    ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.ALL,
                    AclPermissionType.ALLOW,
                )  # fmt: skip
                running.admin.create_acls([acl])[acl].result(30)
            brokers = Brokers.from_settings(
                running.bootstrap, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": MECHANISM}
            )
            oidc = OidcClient(provider.issuer, CLIENT_ID, CLIENT_SECRET)
            with console_of(ConsoleSettings((ClusterAddress("local", brokers),), oidc=oidc)) as url:
                yield Secured(running, url, provider)


HTML = {"accept": "text/html"}


def visitor(**cookies: str) -> httpx.Client:
    return httpx.Client(headers=HTML, cookies=cookies, timeout=60)


def submitted(client: httpx.Client, secured: Secured, user: str, password: str, **more: str) -> httpx.Response:
    """Sends the form of the login page."""
    text = client.get(secured.page("/login")).text
    token = text.split('name="form_token" value="', 1)[1].split('"', 1)[0]
    fields = {"form_token": token, "user": user, "password": password, **more}
    return client.post(secured.page("/login"), data=fields)


@pytest.mark.needs("chromium")
def test_a_person_logs_in_sees_own_topics_only_and_logs_out(secured: Secured, browser: Browser) -> None:
    with page_of(browser) as page:
        page.goto(secured.page("/topics?q=nna"))
        expect(page.get_by_role("heading", name="Log in to local")).to_be_visible()
        page.get_by_label("User").fill("anna")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("do not accept this user name and password")
        expect(page.get_by_label("User")).to_have_value("anna")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(secured.page("/topics?q=nna"))
        expect(page.locator("table.rows .name")).to_have_text(["annas"])
        expect(page.locator(".who")).to_contain_text("anna")
        page.goto(secured.page("/topics/olgas"))
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in to local")).to_be_visible()
        page.goto(secured.page("/topics"))
        expect(page.get_by_role("heading", name="Log in to local")).to_be_visible()


@pytest.mark.needs("chromium")
def test_a_person_logs_in_at_an_openid_provider(secured: Secured, browser: Browser) -> None:
    with page_of(browser) as page:
        page.goto(secured.page("/topics"))
        page.get_by_role("link", name="Log in with").click()
        expect(page).to_have_url(secured.page("/topics"))
        expect(page.locator("table.rows .name")).to_have_text(["olgas"])
        expect(page.locator(".who")).to_contain_text("olga")


@pytest.mark.needs("chromium", "npm")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_violation_on_the_login_page(secured: Secured, browser: Browser, theme: str) -> None:
    with page_of(browser, theme=theme) as page:
        page.goto(secured.page("/login"))
        assert serious_violations(page) == []


def test_a_planted_session_id_is_replaced_at_the_login(secured: Secured) -> None:
    with visitor(**{SESSION: "planted"}) as client:
        answer = submitted(client, secured, "anna", PASSWORD)
        assert answer.status_code == 303
        given = answer.cookies[SESSION]
        assert given != "planted" and len(given) > 40
        attributes = next(line for line in answer.headers.get_list("set-cookie") if SESSION in line).lower()
        assert "httponly" in attributes and "samesite=lax" in attributes
    with visitor(**{SESSION: "planted"}) as thief:
        assert thief.get(secured.page("/topics")).status_code == 303
    with visitor(**{SESSION: given}) as owner:
        assert "annas" in owner.get(secured.page("/topics")).text


def test_a_login_renews_the_token_of_forms_and_ends_the_old_session(secured: Secured) -> None:
    with visitor() as client:
        first = submitted(client, secured, "anna", PASSWORD)
        before = client.cookies["headrace_form"]
        second = submitted(client, secured, "bert", PASSWORD)
        assert client.cookies["headrace_form"] != before
        assert first.cookies[SESSION] != second.cookies[SESSION]
    with visitor(**{SESSION: first.cookies[SESSION]}) as old:
        assert old.get(secured.page("/topics")).status_code == 303


def test_a_login_from_another_site_is_refused(secured: Secured) -> None:
    fields = {"user": "anna", "password": PASSWORD}
    with visitor() as client:
        assert client.post(secured.page("/login"), data=fields).status_code == 403, "without the token of the page"
        token = {**fields, "form_token": "guessed"}
        assert client.post(secured.page("/login"), data=token).status_code == 403
        foreign = {"origin": "https://evil.example"}
        assert client.post(secured.page("/login"), data=fields, headers=foreign).status_code == 403
        assert client.post(secured.page("/logout"), data={"x": "y"}).status_code == 403


def test_passwords_cannot_be_tried_without_end(secured: Secured) -> None:
    with visitor() as client:
        found = [submitted(client, secured, "guessed", f"try {n}").status_code for n in range(MOST_PER_NAME + 1)]
        assert found == [401] * MOST_PER_NAME + [429]
        right = submitted(client, secured, "guessed", PASSWORD)
        assert right.status_code == 429 and "too many logins have failed" in right.text.lower()
        assert submitted(client, secured, "anna", PASSWORD).status_code == 303, "other users are not locked out"


def test_limits_of_attempts() -> None:
    attempts = Attempts()
    for n in range(MOST_PER_ADDRESS):
        assert attempts.wait_s("10.0.0.1", f"user {n}", 0) == 0
        attempts.began("10.0.0.1", f"user {n}", 0)
    assert attempts.wait_s("10.0.0.1", "another", 0) == WINDOW_S
    assert attempts.wait_s("10.0.0.2", "another", 0) == 0
    assert attempts.wait_s("10.0.0.1", "another", WINDOW_S) == 0


@pytest.mark.parametrize(
    "address", ["https://evil.example", "//evil.example", "/\\evil.example", "/clusters/x//evil", "javascript:x", ""]
)
def test_a_login_leads_to_pages_of_the_console_only(address: str) -> None:
    assert safe_next(address, "local") == "/clusters/local"


def test_an_address_of_another_site_after_the_login_is_ignored(secured: Secured) -> None:
    with visitor() as client:
        answer = submitted(client, secured, "bert", PASSWORD, next="https://evil.example/")
        assert answer.headers["location"] == "/clusters/local"


def test_an_expired_session_leads_to_the_login_page_and_back(secured: Secured) -> None:
    with visitor(**{SESSION: "forgotten by a restart"}) as client:
        answer = client.get(secured.page("/topics?q=a"))
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(answer.headers["location"]).query)
        assert answer.status_code == 303 and query == {"next": ["/clusters/local/topics?q=a"]}


def test_programs_get_a_challenge_and_no_page(secured: Secured) -> None:
    answer = httpx.get(secured.page("/topics"), headers={"accept": "application/json"}, timeout=60)
    assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Basic")


def _sent_to_the_provider(client: httpx.Client, secured: Secured) -> dict[str, str]:
    answer = client.get(secured.page("/login/oidc"))
    assert answer.status_code == 303 and answer.headers["location"].startswith(secured.provider.issuer)
    back = httpx.get(answer.headers["location"], timeout=60).headers["location"]
    return {name: values[0] for name, values in urllib.parse.parse_qs(urllib.parse.urlsplit(back).query).items()}


def test_the_answer_of_the_provider_belongs_to_one_browser_and_is_used_once(secured: Secured) -> None:
    with visitor() as victim, visitor() as other:
        answer = _sent_to_the_provider(other, secured)
        stolen = victim.get(f"{secured.url}/login/oidc", params=answer)
        assert stolen.status_code == 403 and "does not belong" in stolen.text
        answer = _sent_to_the_provider(other, secured)
        assert other.get(f"{secured.url}/login/oidc", params=answer).status_code == 303
        assert other.get(f"{secured.url}/login/oidc", params=answer).status_code == 403


def test_a_token_with_another_nonce_and_a_refusal_are_explained(secured: Secured) -> None:
    with visitor() as client:
        secured.provider.nonce = "of another login"
        try:
            refused = client.get(f"{secured.url}/login/oidc", params=_sent_to_the_provider(client, secured))
        finally:
            secured.provider.nonce = None
        assert refused.status_code == 403 and "nonce differs" in refused.text
        secured.provider.refuses = True
        try:
            denied = client.get(f"{secured.url}/login/oidc", params=_sent_to_the_provider(client, secured))
        finally:
            secured.provider.refuses = False
        assert denied.status_code == 403 and "access_denied" in denied.text


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"client.id": "x"}, "issuer is missing"),
        ({"issuer": "https://idp"}, "client.id is missing"),
        ({"issuer": "http://idp.example", "client.id": "x"}, "must be an https:// address"),
        ({"issuer": "https://idp", "client.id": "x", "secret": "y"}, "secret: must be one of"),
    ],
)
def test_a_wrong_provider_is_explained(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        OidcClient.from_settings(settings)
