"""`unitail encode`: labelled files to a feature bank."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unitail.tasks.sources import LabelledItems
    from unitail.workflows.encode_bank import MadeBank

TOLD = 10
"""Unreadable files on the screen."""
MODALITIES = ("image", "text", "audio")


def encode(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A subfolder for each class; or a table of labelled items."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the new bank.")],
    encoder: Annotated[
        str | None,
        typer.Option(help="Name of an encoder, or a transformers model; else the offline default."),
    ] = None,
    modality: Annotated[
        str | None, typer.Option(help=f"Where files leave a doubt: {', '.join(MODALITIES)}.")
    ] = None,
    label_column: Annotated[str, typer.Option(help="The column of labels in a table.")] = "label",
    content_column: Annotated[
        str | None, typer.Option(help="The column of texts or paths in a table.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What to call the data set; else as the bank's folder.")
    ] = None,
    licence: Annotated[str, typer.Option(help="A note on the terms of use.")] = "",
    dtype: Annotated[str, typer.Option(help="How to store features: float16, float32.")] = (
        "float16"
    ),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
) -> None:
    """Encode labelled files once, to a bank for training and benchmarks.

    Broken off, the same command goes on. Several processes share the work:
    `torchrun --nproc-per-node 2 -m unitail encode ...`, with one cache folder for all of them.
    Exit codes: 0; 1, some files could not be read and are not in the bank; 2, the call is wrong.
    """
    from unitail.configuration import choice
    from unitail.encoders.cache import default_cache
    from unitail.encoders.encoder import Modality
    from unitail.tasks.bank_manifest import FeatureType
    from unitail.tasks.sources import read_labelled
    from unitail.workflows.team import find_team

    kind = None if modality is None else choice(Modality, modality, "modality")
    stored = choice(FeatureType, dtype, "dtype")
    examples = read_labelled(
        source, label_column=label_column, content_column=content_column, modality=kind
    )
    team = find_team(cpu=device == "cpu")
    cache = default_cache()
    first = team.index == 0
    if first:
        _tell_examples(examples)
    facts = {"name": name or out.absolute().name, "licence": licence, "dtype": stored}
    options = {"cache": cache, "team": team, **facts}
    made = _encode(examples, out, encoder, device, options, show=first)
    if first and cache.trouble:
        typer.echo(f"unitail: {cache.trouble}", err=True)
    if made is not None:
        _tell_bank(made, examples)


def _tell_examples(examples: "LabelledItems") -> None:
    classes = len(examples.classes)
    typer.echo(f"{examples.modality}: {len(examples):,} items of {classes:,} classes.")
    for note in examples.ignored:
        typer.echo(f"Passed over: {note}.")


def _encode(
    examples: "LabelledItems",
    out: Path,
    encoder: str | None,
    device: str,
    options: "dict[str, object]",
    *,
    show: bool,
) -> "MadeBank | None":
    """Encode under a bar, which only the first process shows."""
    from rich.console import Console

    from unitail.cli.progress import progress_bar
    from unitail.encoders.registry import default_encoder, make_encoder
    from unitail.workflows.encode_bank import check_items, encode_bank

    check_items(examples)
    maker = make_encoder(
        encoder or default_encoder(examples.modality), examples.modality, device=device
    )
    with progress_bar(Console(stderr=True, quiet=not show)) as progress:
        bar = progress.add_task(f"encoding with {maker.name}", total=len(examples))

        def tell(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        return encode_bank(examples, maker, out, **options, on_progress=tell)  # type: ignore[arg-type]


def _tell_bank(made: "MadeBank", examples: "LabelledItems") -> None:
    """Say what is in the bank, and what is not."""
    bank = made.bank
    classes = len(bank.class_names)
    typer.echo(
        f"{bank.folder}: {bank.num_rows:,} rows of {classes:,} classes, {bank.feature_dim}"
        f" numbers each, by {bank.encoder}."
    )
    lost = made.unreadable
    if not lost:
        return
    typer.echo(f"unitail: {len(lost):,} could not be read and are not in the bank:", err=True)
    for item in lost[:TOLD]:
        typer.echo(f"  {examples.names[item.place]}: {item.reason}", err=True)
    if len(lost) > TOLD:
        typer.echo(f"  and {len(lost) - TOLD:,} more.", err=True)
    raise typer.Exit(1)
