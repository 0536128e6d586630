"""Run `unitail data`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from unitail.banks.bank import named_banks
from unitail.banks.manifest import FeatureType
from unitail.cli.console import bar, print_cache_trouble, report_unreadable
from unitail.cli.encode import NOT_IN_BANK, print_bank
from unitail.datasets.catalogue import CatalogueEntry, Split, catalogue, entry_of_bank, find_entry
from unitail.encoders.cache import default_cache
from unitail.encoders.encoder import Encoder
from unitail.encoders.registry import default_encoder, make_encoder
from unitail.engines.bank import BankFacts
from unitail.engines.choice import EngineChoice
from unitail.engines.job import encode_rows_to_bank
from unitail.engines.rows import rows_of_items
from unitail.errors import choice
from unitail.processes import ProcessGroup
from unitail.wording import numbered
from unitail.workflows.prepare import Prepared, encode_data_set, read_data_set

OWN_DATA_NOTE = (
    "Data of your own need no entry: `unitail encode` makes a bank from any folder with one"
    " subfolder per class, and from any CSV or Parquet file with a column of labels."
)
INDENT = "\n    "


def list_data(banks: Path | None) -> None:
    """Print a table of all known data sets, with the encoders of their banks if there are any."""
    encoders: dict[str, list[str]] = {}
    for name in named_banks(banks) if banks else ():
        encoder, _, data_set = name.rpartition("/")
        entry = _entry_of(data_set)
        if entry is not None and encoder not in encoders.setdefault(entry.name, []):
            encoders[entry.name].append(encoder)
    table = Table(
        Column("name", no_wrap=True),
        Column("content"),
        Column("kind", no_wrap=True),
        Column("role"),
        *([Column("encoded with")] if banks else []),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for entry in catalogue().values():
        cells = [", ".join(encoders.get(entry.name, ())) or "-"] if banks else []
        table.add_row(entry.name, entry.title, str(entry.modality), entry.role, *cells)
    Console().print(table)
    typer.echo(OWN_DATA_NOTE)


def show_data(name: str) -> None:
    """Print everything the catalogue knows about a data set."""
    entry = find_entry(name)
    facts = {
        "kind": str(entry.modality),
        "role": entry.role,
        "source": entry.source,
        "licence": entry.licence,
        "notes": entry.notes,
    }
    typer.echo(f"{entry.name}: {entry.title}")
    for what, text in facts.items():
        if text:
            typer.echo(f"  {what:8} {text}")
    parent = f" (or its parent, with {entry.folder} in it)" if entry.folder else ""
    typer.echo(f"  layout   --root is the folder ROOT{parent}{INDENT}" + _indented(entry.layout))
    for split in entry.splits:
        typer.echo(f"  split    {split.name}: {_numbers(split)}{split.about}")
    typer.echo(f"  encode   unitail data prepare {name} --root ROOT --encoder E --out BANKS")


def prepare_data(
    name: str,
    root: Path,
    out: Path,
    *,
    encoder: str | None,
    split: str,
    any_version: bool,
    check: bool,
    dtype: str,
    device: str,
    engine: EngineChoice,
) -> None:
    """Read, check and encode a data set, in this process or with workers."""
    entry, stored = find_entry(name), choice(FeatureType, dtype, "dtype")
    chosen = entry.split(split)
    device = engine.device(device)
    processes = ProcessGroup.join(cpu=device == "cpu") if engine.is_plain else ProcessGroup()
    # All parts of a collection are read before any is encoded, so errors are reported at once.
    parts = list(read_data_set(entry, root, chosen, any_version=any_version))
    if processes.is_main:
        for part in parts:
            _print_part(part)
    if check:
        return
    maker = make_encoder(encoder or default_encoder(entry.modality), entry.modality, device=device)
    if not engine.is_plain:
        facts = BankFacts(name=name, licence=entry.licence, dtype=stored)
        _prepare_with_workers(parts, maker, out, engine, facts, device)
        return
    cache, unreadable = default_cache(), []
    for part in parts:
        what = f"{part.name}: encoding with {maker.name}"
        with bar(what, len(part.examples), quiet=not processes.is_main) as on_progress:
            made = encode_data_set(
                part,
                maker,
                out,
                cache=cache,
                processes=processes,
                licence=entry.licence,
                dtype=stored,
                on_progress=on_progress,
            )
        if made is not None:
            print_bank(made.bank)
            names = part.examples.names
            unreadable += [f"{names[item.place]}: {item.reason}" for item in made.unreadable]
    processes.leave()
    if processes.is_main:
        print_cache_trouble(cache)
        report_unreadable(unreadable, all_in=NOT_IN_BANK)


def _prepare_with_workers(
    parts: Sequence[Prepared],
    maker: Encoder[Any],
    out: Path,
    engine: EngineChoice,
    facts: BankFacts,
    device: str,
) -> None:
    """Encode the parts with the workers of an engine."""
    workers, unreadable, number = engine.make(), list[str](), 0
    for part in parts:
        with bar(f"{part.name}: encoding with {maker.name}", len(part.examples)) as on_progress:
            bank, summary = encode_rows_to_bank(
                workers,
                rows_of_items(part.examples),
                maker,
                part.folder(out, maker.name),
                replace(facts, name=part.name),
                device=device,
                chunk_rows=engine.chunk_rows,
                on_progress=on_progress,
            )
        print_bank(bank)
        unreadable += summary.named
        number += summary.unreadable
    report_unreadable(unreadable, all_in=NOT_IN_BANK, number=number)


def _print_part(part: Prepared) -> None:
    sizes = part.found.class_sizes.values()
    smallest, largest = min(sizes), max(sizes)
    per_class = f"{smallest:,} to {largest:,}" if smallest < largest else f"{smallest:,}"
    typer.echo(
        f"{part.name}: {numbered(len(part.examples), str(part.examples.modality))} of"
        f" {numbered(len(sizes), 'class')}, {per_class} per class."
    )
    for note in part.examples.skipped:
        typer.echo(f"Left out: {note}.")


def _entry_of(data_set: str) -> CatalogueEntry | None:
    """Return the entry of a bank; banks of a collection begin with the name of its entry."""
    entry = entry_of_bank(data_set)
    collections = [each for each in catalogue().values() if data_set.startswith(f"{each.name}_")]
    return entry or (collections[0] if collections else None)


def _numbers(split: Split) -> str:
    numbers = ((split.classes, "classes"), (split.rows, "items"))
    words = [f"{number:,} {what}" for number, what in numbers if number is not None]
    return f"{', '.join(words)}. " if words else ""


def _indented(text: str) -> str:
    return text.replace("\n", INDENT)
