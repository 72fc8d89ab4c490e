"""HTTP endpoints of a broker open to other machines only by name. A start that would open one changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.broker.broker import Broker, CannotStart
from headrace.config import load_broker_config


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"metrics.listen": "0.0.0.0:0"}, "say so, metrics.listen=http://0.0.0.0:0"),
        ({"metrics.listen": ":0"}, "say so, metrics.listen=http://:0"),
        ({"metrics.listen": "[::]:0"}, "opens the metrics to other machines"),
        ({"metrics.listen": "here"}, "must be host:port"),
        ({"registry.listen": "0.0.0.0:0"}, "set registry.tls.config and registry.command.config"),
        ({"registry.listen": "https://192.0.2.1:0", "registry.tls.config": "x"}, "set registry.command.config"),
        ({"registry.listen": "ftp://127.0.0.1:0"}, "must be host:port"),
        ({"registry.listen": "127.0.0.1:x"}, "must be host:port"),
    ],
    ids=str,
)
def test_an_address_beyond_this_machine_must_be_named(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    data = tmp_path / "data"
    config = load_broker_config({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data), **settings})
    with pytest.raises(CannotStart) as problem:
        asyncio.run(Broker(config).start())
    assert words in str(problem.value)
    assert not data.exists()
