"""What goes wrong with a demo is one sentence, with the smaller way where there is one."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from headrace.demos import postgres, processes, program
from headrace.demos.catalogue import demos
from headrace.demos.errors import DemoFailed
from headrace.demos.program import Wishes, run_demo
from headrace.kernel.errors import Refused
from headrace.pipelines.connectors.cdc.change_logs import change_log
from headrace.pipelines.spark import java
from headrace.pipelines.spark.java import JavaMissing


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match=f"port {port} is taken already: .* leave out --port"):
            processes.chosen_port(port)


def test_without_a_wish_the_usual_port_or_another_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "is_free", lambda port: True)
    assert processes.chosen_port(None) == 9092
    monkeypatch.setattr(processes, "is_free", lambda port: False)
    assert processes.chosen_port(None) not in (0, 9092)
    monkeypatch.setattr(processes, "is_free", lambda port: port != 9093)
    assert processes.chosen_port(None) == 9092
    assert processes.chosen_port(None, 3) not in (0, 9092)


def test_without_java_the_demos_that_need_none_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def no_java() -> None:
        raise JavaMissing("Spark needs Java 17 or newer: pip install 'headrace[spark]'")

    monkeypatch.setattr(program, "find_java", no_java)
    assert run_demo(demos()["taxi"], Wishes(data=tmp_path)) == 1
    said = capsys.readouterr().out
    assert "headrace: Spark needs Java 17 or newer: pip install 'headrace[spark]'" in said
    assert "These demos need no Java on one broker: " in said and "queue" in said and "taxi" not in said


def test_several_brokers_need_java_for_zookeeper(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def no_java() -> None:
        raise JavaMissing("Spark needs Java 17 or newer")

    monkeypatch.setattr(java, "find_java", no_java)
    assert run_demo(demos()["queue"], Wishes(data=tmp_path, brokers=3, port=0)) == 1
    assert "headrace: 3 brokers need ZooKeeper, which needs Java 17 or newer" in capsys.readouterr().out


def test_without_postgresql_the_bank_uses_sqlite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> tuple[str, str]:
        raise postgres.NoPostgres("PostgreSQL is not installed (programs initdb and postgres)")

    monkeypatch.setattr(postgres, "_programs", missing)
    monkeypatch.delenv("HEADRACE_DEMO_DATABASE", raising=False)
    story = demos()["bank"].story
    assert story is not None
    with story.resources(tmp_path) as settings:  # type: ignore[attr-defined]
        url = settings["headrace.demo.database"]
        assert url == f"sqlite:///{tmp_path / 'bank.db'}"
        assert settings["note"].startswith("PostgreSQL is not installed") and "SQLite" in settings["note"]
        bank = story.Bank(url)  # type: ignore[attr-defined]
        bank.choose_threshold("ann", 100)
        small, large = bank.book("ann", 100), bank.book("ann", 101)
        log = change_log(url, ("transactions", "thresholds"), "headrace_bank")
        rows = [change.after or {} for change in log.changes(0, log.latest())]
        assert [row["cents"] for row in rows] == [100, 100, 101]
        assert bank.large_transactions() == [(large, "ann", 101, 100)] and small < large
    (tmp_path / "pipeline").mkdir()
    with story.resources(tmp_path) as again:  # type: ignore[attr-defined]
        assert again["headrace.demo.database"] == url


def test_the_bank_does_not_go_on_without_its_temporary_database(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HEADRACE_DEMO_DATABASE", raising=False)
    (tmp_path / "pipeline").mkdir()
    story = demos()["bank"].story
    assert story is not None
    refused = pytest.raises(DemoFailed, match="was temporary: name another --data directory")
    with refused, story.resources(tmp_path):  # type: ignore[attr-defined]
        pass


@pytest.mark.parametrize("is_right", [True, False])
def test_the_files_of_a_failed_run_are_kept(
    is_right: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without --data the files are temporary, and the reason of a failure is in them."""

    def ends(demo: object, wishes: object, data: Path, console: object) -> int:
        (data / "spark.log").write_text("the reason")
        return 0 if is_right else 1

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(program, "_exit_code", ends)
    assert run_demo(demos()["taxi"], Wishes()) == (0 if is_right else 1)
    kept = [str(folder) for folder in tmp_path.iterdir()]
    said = capsys.readouterr().out
    if is_right:
        assert kept == [] and said == ""
    else:
        assert said == f"The files of this run are kept in {kept[0]}\n"
