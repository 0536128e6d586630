"""`unitail data`: data sets from their original files to feature banks."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options
from unitail.cli.plain_help import PlainCommand, PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    help="Data sets, the paper's among them, from their original files.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `unitail data list` calls it.")]


@app.command("list", cls=PlainCommand)
def list_(
    banks: Annotated[
        Path | None, typer.Option(help="Say which are encoded in this folder of banks.")
    ] = None,
) -> None:
    """List the data sets that are known, with their roles in the paper."""
    from unitail.cli.data import list_data

    list_data(banks)


@app.command(cls=PlainCommand)
def info(name: Name) -> None:
    """Say what a data set is, where to get it, and which files are expected."""
    from unitail.cli.data import show_data

    show_data(name)


@app.command(cls=PlainCommand)
def prepare(
    name: Name,
    root: Annotated[Path, typer.Option(help="The folder with the data set's own files.")],
    out: Annotated[Path, typer.Option(help="Banks go to OUT/ENCODER/NAME.")] = Path("banks"),
    encoder: options.Encoder = None,
    split: Annotated[
        str | None, typer.Option(help="Another split than the usual; see `unitail data info`.")
    ] = None,
    any_version: Annotated[
        bool,
        typer.Option(
            "--any-version", help="Take what is there, even if not all of it as published."
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Look at the files and encode nothing.")
    ] = False,
    dtype: Annotated[str, typer.Option(help="How to store features: float16, float32.")] = (
        "float16"
    ),
    device: options.Device = "auto",
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    gpus_per_worker: options.GpusPerWorker = 0.0,
    chunk_rows: options.ChunkRows = options.CHUNK_ROWS,
) -> None:
    """Check a data set's files and encode them, once, to a feature bank.

    Broken off, the same command goes on. Several processes share the work with `--workers 4`,
    several machines with `--engine ray`, where all see ROOT and OUT under the same names; or
    `torchrun --standalone --nproc-per-node 2 -m unitail data prepare ...`, with one cache folder.
    Exit codes: 0; 1, some files could not be read and are not in the bank; 2, the call is wrong.
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
