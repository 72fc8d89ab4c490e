"""`headrace schemas ls|show|register|check|diff|delete|compat|export|import`: schemas of a registry."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from headrace.cli.records.schema_records import SCHEMA_TYPES
from headrace.cli.registry.incompatibilities import sentences
from headrace.cli.support.change_report import report_one
from headrace.cli.support.client_settings import client_security
from headrace.cli.support.connection import Failed, Output, Yes, sure
from headrace.cli.support.output import Format, show, show_one
from headrace.cli.support.registry_address import Registry, registry_address
from headrace.kernel.plurals import counted
from headrace.serialization.errors import RegistryError
from headrace.serialization.registry_client import RegistryClient, in_path
from headrace.serialization.registry_login import registry_client
from headrace.serialization.schema_text import indented

app = typer.Typer(no_args_is_help=True, help="Schemas of a schema registry.")

Subject = Annotated[str, typer.Argument(help="Name of the subject, for example orders-value.")]
SchemaFile = Annotated[
    Path, typer.Argument(help="File with the schema: .avsc, .json, .proto or .xsd. '-' reads standard input.")
]
Type = Annotated[
    str | None, typer.Option("--type", help="AVRO, JSON, PROTOBUF or XML. The file's ending decides without it.")
]
References = Annotated[
    list[str] | None,
    typer.Option("--reference", help="NAME=SUBJECT:VERSION of a schema that this one uses. Repeatable."),
]
_INCOMPATIBLE: Final = 409  # as HTTP status


@contextmanager
def _asking(registry: str | None) -> Iterator[RegistryClient]:
    """Turns an error of the registry into one sentence."""
    try:
        yield registry_client(registry_address(registry), client_security(None))
    except (RegistryError, ValueError) as error:
        raise Failed(str(error)) from error


@app.command("ls")
def ls(
    prefix: Annotated[str, typer.Argument(help="Only subjects that begin so.")] = "",
    deleted: Annotated[bool, typer.Option(help="Show soft-deleted versions too.")] = False,
    registry: Registry = None,
    output: Output = Format.TABLE,
) -> None:
    """List subjects with their type, versions, latest id and compatibility level.

    $ headrace schemas ls
    """
    with _asking(registry) as client:
        query = f"?subjectPrefix=:*:{in_path(prefix)}" + ("&deleted=true" if deleted else "")
        found: dict[str, list[dict[str, Any]]] = {}
        for each in client.call("GET", f"/schemas{query}"):
            found.setdefault(each["subject"], []).append(each)
        rows = [
            {
                "subject": subject,
                "type": versions[-1].get("schemaType", "AVRO"),
                "versions": [each["version"] for each in versions],
                "latest id": versions[-1]["id"],
                "compatibility": _level(client, subject),
            }
            for subject, versions in found.items()
        ]
    show(rows, output, empty="no subjects")


def _level(client: RegistryClient, subject: str) -> str:
    config = client.call("GET", f"/config/{in_path(subject)}?defaultToGlobal=true")
    return str(config["compatibilityLevel"])


@app.command("show")
def show_(
    subject: Subject,
    version: Annotated[str, typer.Option(help="A number, or latest.")] = "latest",
    registry: Registry = None,
    output: Output = Format.TABLE,
) -> None:
    """Show one version of a subject.

    $ headrace schemas show orders-value
    """
    with _asking(registry) as client:
        found = _version(client, subject, version)
    if output is not Format.TABLE:
        show_one(found, output)
        return
    references = ", ".join(f"{r['name']} = {r['subject']}:{r['version']}" for r in found.get("references", ()))
    print(f"subject {found['subject']}  version {found['version']}  id {found['id']}  guid {found['guid']}")
    if references:
        print(f"references {references}")
    print(_readable(found))


def _version(client: RegistryClient, subject: str, version: str) -> dict[str, Any]:
    found: dict[str, Any] = client.call("GET", f"/subjects/{in_path(subject)}/versions/{in_path(version)}")
    return found


def _readable(version: dict[str, Any]) -> str:
    return indented(str(version["schema"])).rstrip("\n")


@app.command()
def register(
    subject: Subject,
    file: SchemaFile,
    type_: Type = None,
    references: References = None,
    normalize: Annotated[bool, typer.Option(help="Ignore the order of fields and properties.")] = False,
    registry: Registry = None,
    output: Output = Format.TABLE,
) -> None:
    """Register a schema as the next version of a subject. A schema that is there already keeps its version.

    $ headrace schemas register orders-value order.avsc
    """
    body = _request(file, type_, references or [])
    with _asking(registry) as client:
        query = "?normalize=true" if normalize else ""
        try:
            answer = client.call("POST", f"/subjects/{in_path(subject)}/versions{query}", body)
        except RegistryError as error:
            if error.status != _INCOMPATIBLE:
                raise
            _refuse(file, subject, _level(client, subject), _compared(client, subject, None, body)["messages"])
    show_one({"subject": subject, "version": answer["version"], "id": answer["id"], "guid": answer["guid"]}, output)


@app.command()
def check(
    subject: Subject,
    file: SchemaFile,
    type_: Type = None,
    references: References = None,
    version: Annotated[str | None, typer.Option(help="Check against this version only.")] = None,
    registry: Registry = None,
    output: Output = Format.TABLE,
) -> None:
    """Check whether a schema may become the next version. Exits with 1 if it may not, and says why.

    $ headrace schemas check orders-value order.avsc
    """
    body = _request(file, type_, references or [])
    with _asking(registry) as client:
        answer = _compared(client, subject, version, body)
        level = _level(client, subject)
    verdict = {"subject": subject, "compatible": answer["is_compatible"], "level": level}
    if answer["is_compatible"]:
        report_one({**verdict, "messages": []}, output, f"compatible with {subject} ({level})")
        return
    if output is not Format.TABLE:
        show_one({**verdict, "messages": answer["messages"]}, output)
    _refuse(file, subject, level, answer["messages"] if output is Format.TABLE else [])


def _compared(client: RegistryClient, subject: str, version: str | None, body: dict[str, Any]) -> dict[str, Any]:
    one = f"/{in_path(version)}" if version is not None else ""
    path = f"/compatibility/subjects/{in_path(subject)}/versions{one}?verbose=true"
    answer: dict[str, Any] = client.call("POST", path, body)
    return answer


def _refuse(file: Path, subject: str, level: str, messages: list[str]) -> NoReturn:
    for sentence in sentences(messages):
        print(sentence, file=sys.stderr)
    raise Failed(f"{file}: not compatible with {subject} ({level})")


def _request(file: Path, type_: str | None, references: list[str]) -> dict[str, Any]:
    text = sys.stdin.read() if str(file) == "-" else file.read_text()
    kind = type_.upper() if type_ is not None else SCHEMA_TYPES.get(file.suffix, "AVRO")
    body: dict[str, Any] = {"schema": text, "schemaType": kind}
    if references:
        body["references"] = [_reference(each) for each in references]
    return body


def _reference(text: str) -> dict[str, Any]:
    name, equals, place = text.partition("=")
    subject, colon, version = place.rpartition(":")
    if not equals or not colon or not version.isdecimal():
        raise typer.BadParameter(f"--reference {text}: must be NAME=SUBJECT:VERSION")
    return {"name": name, "subject": subject, "version": int(version)}


@app.command()
def diff(
    subject: Subject,
    old: Annotated[str, typer.Argument(help="A version.")],
    new: Annotated[str, typer.Argument(help="Another version, or latest.")] = "latest",
    registry: Registry = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what changed between two versions of a subject.

    $ headrace schemas diff orders-value 1 latest
    """
    with _asking(registry) as client:
        first, second = _version(client, subject, old), _version(client, subject, new)
    before, after = (f"{subject} version {each['version']}" for each in (first, second))
    lines = list(
        difflib.unified_diff(_readable(first).split("\n"), _readable(second).split("\n"), before, after, lineterm="")
    )
    row = {"subject": subject, "old": first["version"], "new": second["version"], "difference": lines}
    report_one(row, output, "\n".join(lines) or "no difference")


@app.command()
def delete(
    subject: Subject,
    version: Annotated[str | None, typer.Option(help="One version instead of the whole subject.")] = None,
    permanent: Annotated[bool, typer.Option(help="Delete for good what is soft-deleted already.")] = False,
    yes: Yes = False,
    registry: Registry = None,
    output: Output = Format.TABLE,
) -> None:
    """Delete a subject or one of its versions. Ids stay readable until the deletion is permanent.

    $ headrace schemas delete orders-value --version 1
    """
    what = f"version {version} of {subject}" if version is not None else f"subject {subject}"
    sure(f"Delete {what}{' for good' if permanent else ''}?", yes)
    with _asking(registry) as client:
        path = f"/subjects/{in_path(subject)}" + (f"/versions/{in_path(version)}" if version is not None else "")
        answer = client.call("DELETE", path + ("?permanent=true" if permanent else ""))
    numbers = answer if isinstance(answer, list) else [answer]
    done = "deleted for good" if permanent else "soft-deleted"
    row = {"subject": subject, "versions": numbers, "permanent": permanent}
    report_one(row, output, f"{done}: {subject} version {', '.join(map(str, numbers))}")


@app.command()
def compat(
    subject: Annotated[str | None, typer.Argument(help="A subject; without one, the global level.")] = None,
    level: Annotated[str | None, typer.Argument(help="NONE, BACKWARD, FORWARD, FULL, or one with _TRANSITIVE.")] = None,
    registry: Registry = None,
    output: Output = Format.TABLE,
) -> None:
    """Show or set the compatibility level.

    $ headrace schemas compat orders-value FULL
    """
    with _asking(registry) as client:
        path = "/config" + (f"/{in_path(subject)}" if subject is not None else "")
        if level is not None:
            client.call("PUT", path, {"compatibility": level})
        now = client.call("GET", f"{path}?defaultToGlobal=true")["compatibilityLevel"]
    report_one({"subject": subject, "level": now}, output, now)


@app.command("export")
def export_(
    file: Annotated[Path | None, typer.Argument(help="Where to write. Standard output without it.")] = None,
    registry: Registry = None,
) -> None:
    """Write every version with its id as one JSON object a line.

    $ headrace schemas export schemas.jsonl
    """
    with _asking(registry) as client:
        found = client.call("GET", "/schemas")
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in sorted(found, key=lambda each: each["id"]))
    if file is None:
        print(text, end="")
    else:
        file.write_text(text)
        print(f"{counted(len(found), 'version')} written to {file}")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that `headrace schemas export` wrote.")],
    registry: Registry = None,
    output: Output = Format.TABLE,
) -> None:
    """Read exported versions into an empty registry. Ids and versions stay the same.

    $ headrace schemas import schemas.jsonl
    """
    versions = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    with _asking(registry) as client:
        client.call("PUT", "/mode", {"mode": "IMPORT"})
        try:
            for each in versions:
                path = f"/subjects/{in_path(each['subject'])}/versions"
                client.call("POST", path, {name: each[name] for name in each.keys() - {"subject", "guid"}})
        finally:
            client.call("PUT", "/mode", {"mode": "READWRITE"})
    subjects = len({each["subject"] for each in versions})
    words = f"{counted(len(versions), 'version')} of {counted(subjects, 'subject')} imported"
    report_one({"versions": len(versions), "subjects": subjects}, output, words)
