"""`unitail studio`: label a few items on a page, see all others sorted, correct, repeat."""

from pathlib import Path
from typing import Annotated, Any

import typer

from unitail.cli.commands import options
from unitail.cli.plain_help import PlainCommand, PlainGroup

OPEN = "open"


class _OpensByItself(PlainGroup):
    """`studio FOLDER` is `studio open FOLDER`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as typer has it
        """Put the command in front of a folder that stands alone."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [OPEN, *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    cls=_OpensByItself,
    no_args_is_help=True,
    help="A page on which you label a few items, see all others sorted, and correct.",
)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="A folder of images, texts or sounds, or a table of texts or rows."
    ),
]
Project = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Where labels are kept: a file, or the URL of a PostgreSQL database; else "
        ".unitail/studio.db in the folder.",
    ),
]


@app.command(OPEN, cls=PlainCommand)
def open_studio(
    folder: Source,
    project: Project = None,
    host: Annotated[
        str, typer.Option(help="The address to bind; 0.0.0.0 lets others in who know the link.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is the first free one from 8765.")] = 0,
    token: Annotated[
        str | None,
        typer.Option(envvar="UNITAIL_TOKEN", help="What the link ends with; else one is made."),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open the page, only say where it is.")
    ] = False,
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Open the page; `unitail studio FOLDER` does the same.

    Name some classes, label a few items of each, and all others are sorted at
    once. Look at the doubtful ones and correct them. Every label is on the
    disk before the page says so; close the page or the command whenever you
    like. Ctrl-C ends it.
    """
    from unitail.cli.studio import Place, serve

    serve(
        folder,
        project,
        Place(host=host, port=port, token=token, browser=not no_browser),
        encoder=encoder,
        modality=modality,
        label_column=label_column,
        content_column=content_column,
        use_cache=not no_cache,
        device=device,
    )


@app.command(cls=PlainCommand)
def export(
    folder: Source,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="A .csv, .jsonl, .parquet, .xlsx or .json file of all answers, or a page, .html; "
            "as often as needed."
        ),
    ] = None,
    sort_into: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Sort the files into this folder, by class."),
    ] = None,
    sort_by: Annotated[
        str, typer.Option(metavar="HOW", help="copy, link or move the files.")
    ] = "copy",
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save a classifier for `unitail predict --model DIR`."),
    ] = None,
    project: Project = None,
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Write what was labelled, and the answers to all the rest.

    Exit codes: 0, all was written; 1, some files could not be read; 2, the
    call is wrong and nothing was written.
    """
    from unitail.cli.studio import Targets, write

    write(
        folder,
        project,
        Targets(out or [], sort_into, sort_by, save),
        encoder=encoder,
        modality=modality,
        label_column=label_column,
        content_column=content_column,
        use_cache=not no_cache,
        device=device,
    )
