"""The daemon of Python workers: quiet when the session has ended."""

from __future__ import annotations

import socket

import pytest

from headrace.pipelines.spark import worker_daemon


def test_closed_session_ends_a_worker_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def flush_fails(_sock: socket.socket, _authenticated: bool) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(worker_daemon, "_worker", flush_fails)
    with socket.socket() as sock:
        assert worker_daemon.worker(sock, True) == 1


def test_other_failures_of_a_worker_stay_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_sock: socket.socket, _authenticated: bool) -> int:
        raise ValueError("bad module")

    monkeypatch.setattr(worker_daemon, "_worker", fails)
    with socket.socket() as sock, pytest.raises(ValueError, match="bad module"):
        worker_daemon.worker(sock, True)
