from __future__ import annotations

import pytest

from headrace.security.sasl.jaas import BadJaas, login_modules, one_login_module

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_options_in_both_kinds_of_quotes_with_escapes_and_without_quotes() -> None:
    module = one_login_module(
        f'{PLAIN} required\n  username="ad\\"min" password=\'it\'\'s\'\n user_zoë="a=b;c" flag=true ;'.replace(
            "''", "\\'"
        )
    )
    assert module.name == PLAIN
    assert module.options == {"username": 'ad"min', "password": "it's", "user_zoë": "a=b;c", "flag": "true"}


def test_a_module_without_options() -> None:
    assert one_login_module("ScramLoginModule required;").options == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ScramLoginModule required",
        "ScramLoginModule;",
        "ScramLoginModule maybe;",
        "ScramLoginModule required a;",
        "ScramLoginModule required a=;",
        'ScramLoginModule required a="s3cret;',
        'ScramLoginModule required "s3cret"="s3cret" x;',
        "A required; B required;",
    ],
)
def test_another_text_is_refused_without_repeating_its_secrets(text: str) -> None:
    with pytest.raises(BadJaas) as bad:
        one_login_module(text)
    assert "s3cret" not in str(bad.value)


def test_several_modules() -> None:
    assert [module.name for module in login_modules("A required x=y; B optional;")] == ["A", "B"]


def test_a_module_is_printed_without_its_passwords() -> None:
    assert "s3cret" not in repr(one_login_module('A required password="s3cret";'))
