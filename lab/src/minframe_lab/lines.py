"""Errors of settings, folders and files, told in a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def one_line(command: str) -> Iterator[None]:
    """Say in a line what is wrong with settings, folders and files, and leave with exit status 2."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"minframe {command}: {where}{error.strerror or error}", err=True)
        raise typer.Exit(2) from None
    except ValueError as error:
        typer.echo(f"minframe {command}: {error}", err=True)
        raise typer.Exit(2) from None
