from __future__ import annotations

import pytest

from headrace.web.address import BadAddress, ListenAddress


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0, None)),
        (":8082", ("127.0.0.1", 8082, None)),
        ("8082", ("127.0.0.1", 8082, None)),
        ("[::1]:8082", ("::1", 8082, None)),
        ("http://0.0.0.0:8082", ("0.0.0.0", 8082, "http")),
        ("https://example.org:443", ("example.org", 443, "https")),
    ],
)
def test_addresses(text: str, expected: tuple[str, int, str | None]) -> None:
    address = ListenAddress.parse(text)
    assert (address.host, address.port, address.scheme) == expected


@pytest.mark.parametrize("text", ["", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "ftp://127.0.0.1:1"])
def test_bad_addresses_name_the_option_and_the_form(text: str) -> None:
    with pytest.raises(BadAddress, match=r"--listen .*HOST:PORT"):
        ListenAddress.parse(text)


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("has_login", [False, True])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "192.0.2.7", "::", "example.org"])
@pytest.mark.parametrize("is_allowed", [False, True])
def test_other_machines_need_tls_and_login_unless_the_user_names_it(
    host: str, has_tls: bool, has_login: bool, is_allowed: bool
) -> None:
    is_local = host in ("127.0.0.1", "localhost", "::1")
    opened = is_local or is_allowed or (has_tls and has_login)
    address = ListenAddress(host, 8082)
    if opened:
        address.check("the service", has_tls=has_tls, has_login=has_login, is_insecure_allowed=is_allowed)
    else:
        with pytest.raises(BadAddress, match="If you want that"):
            address.check("the service", has_tls=has_tls, has_login=has_login)
    if not has_tls:
        ListenAddress(host, 8082, "http").check("the service", has_tls=False, has_login=has_login)


def test_the_scheme_agrees_with_the_certificate() -> None:
    with pytest.raises(BadAddress, match="--tls-config"):
        ListenAddress("127.0.0.1", 1, "https").check("the service", has_tls=False, has_login=True)
    with pytest.raises(BadAddress, match="use https"):
        ListenAddress("127.0.0.1", 1, "http").check("the service", has_tls=True, has_login=True)
