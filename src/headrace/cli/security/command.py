"""`headrace security …`: certificates, users and settings of a secured cluster."""

from __future__ import annotations

import typer

from headrace.cli.security.init import init
from headrace.cli.security.users import add_user

app = typer.Typer(help="Certificates, users and settings of a secured cluster.", no_args_is_help=True)
app.command()(init)
app.command("add-user")(add_user)
