"""`unitail encode`: labelled files to a feature bank."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unitail.cli import options

if TYPE_CHECKING:
    from unitail.inputs.sources import LabelledItems
    from unitail.workflows.encode_bank import MadeBank


def encode(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A subfolder for each class; or a table of labelled items."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the new bank.")],
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    name: Annotated[
        str | None, typer.Option(help="What to call the data set; else as the bank's folder.")
    ] = None,
    licence: Annotated[str, typer.Option(help="A note on the terms of use.")] = "",
    dtype: Annotated[str, typer.Option(help="How to store features: float16, float32.")] = (
        "float16"
    ),
    device: options.Device = "auto",
) -> None:
    """Encode labelled files once, to a bank for training and benchmarks.

    Broken off, the same command goes on. Several processes share the work:
    `torchrun --nproc-per-node 2 -m unitail encode ...`, with one cache folder for all of them.
    Exit codes: 0; 1, some files could not be read and are not in the bank; 2, the call is wrong.
    """
    from unitail.banks.manifest import FeatureType
    from unitail.cli.console import say_trouble
    from unitail.cli.progress import under_bar
    from unitail.configuration import choice
    from unitail.encoders.cache import default_cache
    from unitail.encoders.encoder import Modality
    from unitail.encoders.registry import default_encoder, make_encoder
    from unitail.inputs.sources import read_labelled
    from unitail.workflows.encode_bank import check_items, encode_bank
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
    check_items(examples)
    kind = examples.modality
    maker = make_encoder(encoder or default_encoder(kind), kind, device=device)
    work = partial(
        encode_bank,
        examples,
        maker,
        out,
        name=name or out.absolute().name,
        cache=cache,
        team=team,
        licence=licence,
        dtype=stored,
    )
    made = under_bar(f"encoding with {maker.name}", len(examples), work, shown=first)
    if first:
        say_trouble(cache)
    if made is not None:
        _tell_bank(made, examples)


def _tell_examples(examples: "LabelledItems") -> None:
    classes = len(examples.classes)
    typer.echo(f"{examples.modality}: {len(examples):,} items of {classes:,} classes.")
    for note in examples.ignored:
        typer.echo(f"Passed over: {note}.")


def _tell_bank(made: "MadeBank", examples: "LabelledItems") -> None:
    """Say what is in the bank, and what is not."""
    from unitail.cli.console import say_unreadable

    bank = made.bank
    classes = len(bank.class_names)
    typer.echo(
        f"{bank.folder}: {bank.num_rows:,} rows of {classes:,} classes, {bank.feature_dim}"
        f" numbers each, by {bank.encoder}."
    )
    lost = [f"{examples.names[item.place]}: {item.reason}" for item in made.unreadable]
    say_unreadable(lost, all_in="none of them is in the bank")
