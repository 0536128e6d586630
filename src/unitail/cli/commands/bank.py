"""`unitail bank`: import feature banks, list them, check them."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.plain_help import PlainCommand, PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    help="Import, list and check feature banks: folders that hold the vectors of a data set.",
)

Folders = Annotated[
    list[Path], typer.Argument(metavar="FOLDER", help="Banks, or folders that contain banks.")
]


@app.command("import", cls=PlainCommand)
def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE",
            help="Files of features in 8-bit code (.npz), or folders to search for such files.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Write banks to OUT/ENCODER/DATASET.")],
    licence: Annotated[str, typer.Option(help="Note on the terms of use, stored in each bank.")] = (
        ""
    ),
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder that made the features. Default: the name of the file's folder."
        ),
    ] = None,
) -> None:
    """Import features in 8-bit code as banks; banks that exist already are skipped."""
    from unitail.cli.bank import import_banks

    import_banks(sources, out, licence=licence, encoder=encoder)


@app.command(cls=PlainCommand)
def info(folders: Folders) -> None:
    """List banks with their data sets, encoders, sizes and licences."""
    from unitail.cli.bank import list_banks

    list_banks(folders)


@app.command(cls=PlainCommand)
def check(folders: Folders) -> None:
    """Read every bank completely; list damaged ones and exit with 2 if there are any."""
    from unitail.cli.bank import check_banks

    check_banks(folders)
