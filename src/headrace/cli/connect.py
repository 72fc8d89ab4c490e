"""`headrace connect`: configurations of Kafka Connect as connector files, and Kafka Connect's REST interface."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.support.change_report import report
from headrace.cli.support.client_settings import client_settings
from headrace.cli.support.connection import Bootstrap, Output, bootstrap_address
from headrace.cli.support.http_service import InsecureListener, TlsConfig, listen_address, listener_tls, listening
from headrace.cli.support.output import Format
from headrace.cli.support.pipeline_options import Master, one_sentence, say

if TYPE_CHECKING:
    from headrace.pipelines.connect.connector_task import Run, Runner
    from headrace.pipelines.connectors.connector import ConnectorSpec

_DEFAULT_PORT: Final = 8083
app = typer.Typer(no_args_is_help=True, help="Kafka Connect's configurations and REST interface.")


@app.callback()
def connect() -> None:
    """Kafka Connect's configurations and REST interface."""


@app.command("import")
def import_config(
    file: Annotated[Path, typer.Argument(help="JSON file with the configuration of a connector.", metavar="FILE")],
    directory: Annotated[
        Path, typer.Option("--directory", "-d", help="Directory for the connector files.", metavar="DIR")
    ] = Path(),
    schema: Annotated[
        str | None, typer.Option(help="Columns of JSON values, such as 'id int, name string'. Sinks need them.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Translate a configuration of Kafka Connect to connector files, or say what is missing.

    The file, JDBC and Debezium PostgreSQL connectors are known. A setting that cannot be translated is never ignored.

    $ headrace connect import orders.json -d connectors
    """
    with one_sentence():
        from headrace.pipelines.connect.connect_config import read_config
        from headrace.pipelines.connect.translation import as_yaml, translated
        from headrace.pipelines.errors import OptionError

        configs = read_config(file)
        files = {
            directory / f"{name}.yml": (config, as_yaml(document))
            for config in configs
            for name, document in translated(config, schema).items()
        }
        existing = next((path for path in files if path.exists()), None)
        if existing is not None and not force:
            raise OptionError(f"{existing} exists already: choose another --directory, or replace it with --force")
        directory.mkdir(parents=True, exist_ok=True)
        rows = []
        for path, (config, text) in files.items():
            path.write_text(text)
            rows.append({"connector": path.stem, "file": str(path), "notes": config.notes, "done": True})
    report(rows, output, lambda row: str(row["file"]))
    if output is Format.TABLE:
        for note in dict.fromkeys(note for config in configs for note in config.notes):
            say(f"note: {note}")


@app.command()
def serve(
    data: Annotated[Path, typer.Option("--data", help="Directory of the connectors and their checkpoints.")] = Path(
        "connectors"
    ),
    listen: Annotated[
        str, typer.Option("--listen", help="HOST:PORT. Port 0 takes a free one. Beyond this machine: TLS and login.")
    ] = f"127.0.0.1:{_DEFAULT_PORT}",
    bootstrap: Bootstrap = None,
    lite: Annotated[bool, typer.Option("--lite", help="Run all connectors without Spark.")] = False,
    master: Master = None,
    tls_config: TlsConfig = None,
    insecure_listener: InsecureListener = False,
) -> None:
    """Run connectors in one process, driven by Kafka Connect's REST interface, until SIGTERM or Ctrl-C.

    $ headrace connect serve --listen 127.0.0.1:8083 --data connectors --lite
    """
    from headrace.pipelines.connect.connector_store import ConnectorStore
    from headrace.pipelines.connect.service import ConnectService, connect_server
    from headrace.pipelines.connect.worker import Worker
    from headrace.telemetry import set_up_logging
    from headrace.web.login import Brokers

    settings = client_settings(bootstrap)
    brokers = Brokers.from_settings(bootstrap_address(bootstrap), settings)
    tls = listener_tls(tls_config)
    address = listen_address(
        listen,
        "Kafka Connect's interface",
        has_tls=tls is not None,
        has_login=brokers.need_login,
        is_insecure_allowed=insecure_listener,
    )
    set_up_logging("INFO")
    listener = listening(address)
    with one_sentence():
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        runner = _lite_runner() if lite else _spark_runner(master)
        worker = Worker(ConnectorStore(data.resolve(), brokers.bootstrap), runner, settings, say)
        service = ConnectService(brokers, worker)
        server = connect_server(
            listener, service, ready=lambda url: print(f"Kafka Connect ready on {url}", flush=True), tls=tls
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


def _lite_runner() -> Runner:
    from headrace.pipelines.lite.run import LiteRun

    def run(spec: ConnectorSpec) -> Run:
        return LiteRun(spec, say)

    return run


def _spark_runner(master: str | None) -> Runner:
    """All connectors share one Spark application. Each has a session of its own: settings and views are apart."""
    from headrace.pipelines.connectors.connector import connector_run
    from headrace.pipelines.session import spark_session

    spark = spark_session("connect", master=master)

    def run(spec: ConnectorSpec) -> Run:
        return connector_run(spec, spark.newSession(), once=False, report=say)

    return run
