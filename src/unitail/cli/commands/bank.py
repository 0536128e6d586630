"""`unitail bank`: import feature banks, list them, check them."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.plain_help import PlainCommand, PlainGroup

app = typer.Typer(
    cls=PlainGroup, no_args_is_help=True, help="Features of data sets, encoded once, in folders."
)

Folders = Annotated[
    list[Path], typer.Argument(metavar="FOLDER", help="Banks, or folders that hold banks.")
]


@app.command("import", cls=PlainCommand)
def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE", help="8-bit coded .npz files, or folders searched for them."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Banks go to OUT/ENCODER/DATASET.")],
    licence: Annotated[str, typer.Option(help="A note on the terms of use, for all of them.")] = "",
    encoder: Annotated[
        str | None, typer.Option(help="What made the features; else the name of a file's folder.")
    ] = None,
) -> None:
    """Import 8-bit coded features; what is there already is skipped."""
    from unitail.cli.bank import import_banks

    import_banks(sources, out, licence=licence, encoder=encoder)


@app.command(cls=PlainCommand)
def info(folders: Folders) -> None:
    """List banks: data sets, encoders, sizes and licences."""
    from unitail.cli.bank import list_banks

    list_banks(folders)


@app.command(cls=PlainCommand)
def check(folders: Folders) -> None:
    """Read all of every bank; name those that are damaged, with exit code 2."""
    from unitail.cli.bank import check_banks

    check_banks(folders)
