"""Run `unitail encode`."""

from pathlib import Path
from typing import Any

import typer

from unitail.banks.manifest import FeatureType
from unitail.cli.console import bar, say_trouble, say_unreadable
from unitail.configuration import choice
from unitail.encoders.cache import default_cache
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.registry import default_encoder, make_encoder
from unitail.errors import UnknownEncoder
from unitail.inputs.items import LabelledItems
from unitail.inputs.read import read_labelled
from unitail.own_code import is_own, own_object
from unitail.processes import ProcessGroup
from unitail.workflows.encode_bank import MadeBank, check_items, encode_bank


def run(
    source: Path,
    folder: Path,
    *,
    modality: str | None,
    label_column: str,
    content_column: str | None,
    encoder: str | None,
    name: str | None,
    licence: str,
    dtype: str,
    device: str,
) -> None:
    """Make the bank, in this process or together with others."""
    stored = choice(FeatureType, dtype, "dtype")
    examples = read_labelled(
        source, label_column=label_column, content_column=content_column, modality=modality
    )
    processes = ProcessGroup.join(cpu=device == "cpu")
    cache = default_cache()
    if processes.is_main:
        _tell_examples(examples)
    check_items(examples)
    kind = examples.modality
    maker = _maker(encoder or default_encoder(kind), kind, device)
    with bar(
        f"encoding with {maker.name}", len(examples), quiet=not processes.is_main
    ) as on_progress:
        made = encode_bank(
            examples,
            maker,
            folder,
            name=name or folder.absolute().name,
            cache=cache,
            processes=processes,
            licence=licence,
            dtype=stored,
            on_progress=on_progress,
        )
    if processes.is_main:
        say_trouble(cache)
    if made is not None:
        _tell_bank(made, examples)


def _maker(name: str, kind: Modality, device: str) -> Encoder[Any]:
    """Return the encoder of that name, or the user's own."""
    if not is_own(name):
        return make_encoder(name, kind, device=device)
    maker = own_object(name, "read", "embed")
    if not isinstance(maker, Encoder) or maker.modality is not kind:
        raise UnknownEncoder(
            f"{name} is no encoder for {kind} items",
            got=f"{type(maker).__name__} for {getattr(maker, 'modality', 'nothing')}",
            allowed=f"an unitail.Encoder whose modality is Modality.{kind.name}",
        )
    return maker


def _tell_examples(examples: LabelledItems) -> None:
    classes = len(examples.classes)
    typer.echo(f"{examples.modality}: {len(examples):,} items of {classes:,} classes.")
    for note in examples.guesses:
        typer.echo(f"Guessed: {note}.")
    for note in examples.ignored:
        typer.echo(f"Passed over: {note}.")


def _tell_bank(made: MadeBank, examples: LabelledItems) -> None:
    """Say what is in the bank, and what is not."""
    bank = made.bank
    classes = len(bank.class_names)
    typer.echo(
        f"{bank.folder}: {bank.num_rows:,} rows of {classes:,} classes, {bank.feature_dim}"
        f" numbers each, by {bank.encoder}."
    )
    unreadable = [f"{examples.names[item.place]}: {item.reason}" for item in made.unreadable]
    say_unreadable(unreadable, all_in="none of them is in the bank")
