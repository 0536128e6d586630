"""`unitail data`: make feature banks of known data sets from their original files."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.answer_defaults import CHUNK_ROWS
from unitail.cli.commands import options
from unitail.cli.plain_help import PlainCommand, PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    help="Make feature banks of known data sets, those of the paper included, from their original "
    "files.",
)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of a data set, as listed by `unitail data list`."),
]


@app.command("list", cls=PlainCommand)
def list_(
    banks: Annotated[
        Path | None,
        typer.Option(help="Folder of banks; show which encoders each data set is encoded with."),
    ] = None,
) -> None:
    """List all known data sets with their roles in the paper."""
    from unitail.cli.data import list_data

    list_data(banks)


@app.command(cls=PlainCommand)
def info(name: Name) -> None:
    """Describe a data set: its content, where to get it, and which files are expected."""
    from unitail.cli.data import show_data

    show_data(name)


@app.command(cls=PlainCommand)
def prepare(
    name: Name,
    root: Annotated[Path, typer.Option(help="Folder with the original files of the data set.")],
    out: Annotated[Path, typer.Option(help="Write banks to OUT/ENCODER/NAME.")] = Path("banks"),
    encoder: options.Encoder = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split to encode, as listed by `unitail data info`. Default: the first."),
    ] = None,
    any_version: Annotated[
        bool,
        typer.Option(
            "--any-version",
            help="Accept the files even if they differ from the published version.",
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the files, and encode nothing.")
    ] = False,
    dtype: Annotated[str, typer.Option(help="Dtype of the stored vectors: float16 or float32.")] = (
        "float16"
    ),
    device: options.Device = "auto",
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    gpus_per_worker: options.GpusPerWorker = 0.0,
    chunk_rows: options.ChunkRows = CHUNK_ROWS,
) -> None:
    """Check the files of a data set and encode them to a feature bank.

    To resume an interrupted run, repeat the command. To share the work, use
    `--workers 4` on one machine, `--engine ray` on a cluster that sees ROOT and
    OUT under the same paths, or `torchrun --standalone --nproc-per-node 2 -m
    unitail data prepare ...` with one shared cache.

    Exit codes: 0, everything was encoded; 1, some files could not be read and
    are not in the bank; 2, the call is wrong.
    """
    from unitail.cli.data import prepare_data
    from unitail.engines.choice import EngineChoice

    prepare_data(
        name,
        root,
        out,
        encoder=encoder,
        split=split or "",
        any_version=any_version,
        check=check,
        dtype=dtype,
        device=device,
        engine=EngineChoice(engine, workers, address, gpus_per_worker, chunk_rows),
    )
