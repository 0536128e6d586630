"""`unitail studio`: label items in the browser while the model sorts all others."""

from pathlib import Path
from typing import Annotated, Any

import typer

from unitail.cli.commands import options
from unitail.cli.plain_help import PlainCommand, PlainGroup

OPEN = "open"


class _OpenByDefault(PlainGroup):
    """Reads `studio FOLDER` as `studio open FOLDER`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as typer has it
        """Insert `open` if the first argument is not a command."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [OPEN, *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    cls=_OpenByDefault,
    no_args_is_help=True,
    help="Label items in the browser: label a few, see all others sorted, correct and export.",
)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="Items to label: a folder of images, texts or sounds, or a table of texts or rows.",
    ),
]
Project = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Where to store the labels: a file, or the URL of a PostgreSQL database. Default: "
        ".unitail/studio.db in FOLDER.",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of a table that holds the labels. Default: label."),
]


@app.command(OPEN, cls=PlainCommand)
def open_studio(
    folder: Source,
    project: Project = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to bind. With 0.0.0.0, anyone in your network who has the link can open "
            "the page."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 picks the first free one from 8765.")
    ] = 0,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="UNITAIL_TOKEN", help="Secret token in the link. Default: a generated one."
        ),
    ] = None,
    no_browser: Annotated[
        bool,
        typer.Option("--no-browser", help="Print the link without opening it in the browser."),
    ] = False,
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: LabelColumn = None,
    content_column: options.ContentColumn = None,
    column: options.Columns = None,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Open the studio in the browser; `unitail studio FOLDER` does the same.

    Name some classes and label a few items of each; the model sorts all others
    at once. Look at the doubtful ones and correct them. The page shows a label
    only after it is saved, so you can close the page or stop the command with
    Ctrl-C at any time. Options for reading and encoding are stored with the
    labels: later calls, and `studio export`, use them again.
    """
    from unitail.cli.studio import Place, serve

    serve(
        folder,
        project,
        Place(host=host, port=port, token=token, browser=not no_browser),
        options={
            "encoder": encoder,
            "modality": modality,
            "label_column": label_column,
            "content_column": content_column,
            "columns": column,
        },
        use_cache=not no_cache,
        device=device,
    )


@app.command(cls=PlainCommand)
def export(
    folder: Source,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="Write all answers to this .csv, .jsonl, .parquet, .xlsx or .json file, or as a "
            "report to this .html file. Repeatable."
        ),
    ] = None,
    sort_into: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Sort the files into this folder, one subfolder per class."
        ),
    ] = None,
    sort_by: Annotated[
        str, typer.Option(metavar="HOW", help="How --sort-into sorts files: copy, link or move.")
    ] = "copy",
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Save the classifier here, for `unitail predict --model DIR`."
        ),
    ] = None,
    project: Project = None,
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: LabelColumn = None,
    content_column: options.ContentColumn = None,
    column: options.Columns = None,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Export the labels, and the answers for all unlabelled items.

    Exit codes: 0, everything was written; 1, some files could not be read and
    the others were written; 2, the call is wrong and nothing was written.
    """
    from unitail.cli.studio import Targets, write

    write(
        folder,
        project,
        Targets(out or [], sort_into, sort_by, save),
        options={
            "encoder": encoder,
            "modality": modality,
            "label_column": label_column,
            "content_column": content_column,
            "columns": column,
        },
        use_cache=not no_cache,
        device=device,
    )
