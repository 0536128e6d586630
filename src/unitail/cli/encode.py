"""Run `unitail encode`."""

from enum import StrEnum
from pathlib import Path

import typer
from rich.console import Console

from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import FeatureType
from unitail.cli.console import (
    bar,
    print_cache_trouble,
    print_examples,
    print_rows,
    report_unreadable,
)
from unitail.encoders.cache import default_cache
from unitail.engines.bank import BankFacts
from unitail.engines.choice import EngineChoice
from unitail.engines.job import encode_rows, encode_rows_to_bank
from unitail.engines.rows import open_rows
from unitail.engines.storage import Storage
from unitail.errors import InvalidConfig, choice
from unitail.files import is_address
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled
from unitail.processes import ProcessGroup
from unitail.wording import numbered
from unitail.workflows.encode_bank import encode_bank, encoder_for

NOT_IN_BANK = "none of them is in the bank"


class Format(StrEnum):
    """Format of the output."""

    BANK = "bank"
    PARQUET = "parquet"


def run(
    source: str,
    out: str,
    *,
    engine: EngineChoice,
    form: str,
    encoder: str | None,
    name: str | None,
    licence: str,
    dtype: str | None,
    device: str,
    options: ReadOptions,
) -> None:
    """Write the bank or the Parquet files, in this process or with workers."""
    written = choice(Format, form, "--format")
    default = FeatureType.FLOAT16 if written is Format.BANK else FeatureType.FLOAT32
    stored = choice(FeatureType, dtype or default, "--dtype")
    device = engine.device(device)
    if written is Format.BANK and is_address(out):
        raise InvalidConfig(
            "a bank is a folder on a disk",
            got=out,
            allowed="--out FOLDER; at an address, Parquet files",
            remedy="Name a folder, or add --format parquet.",
        )
    facts = BankFacts(name=name or Path(out).absolute().name, licence=licence, dtype=stored)
    if written is Format.PARQUET:
        _encode_to_files(source, out, engine, encoder, stored, device, options)
    elif engine.is_plain and not is_address(source):
        _encode_here(Path(source), Path(out), encoder, facts, device, options)
    else:
        _encode_with_workers(source, Path(out), engine, encoder, facts, device, options)


def _encode_here(
    source: Path,
    folder: Path,
    encoder: str | None,
    facts: BankFacts,
    device: str,
    options: ReadOptions,
) -> None:
    """Write a bank in this process, or in those that torchrun started."""
    examples = read_labelled(source, options)
    processes = ProcessGroup.join(cpu=device == "cpu")
    cache = default_cache()
    if processes.is_main:
        print_examples(Console(), examples)
    maker = encoder_for(encoder, examples.modality, device)
    what = f"encoding with {maker.name}"
    with bar(what, len(examples), quiet=not processes.is_main) as on_progress:
        made = encode_bank(
            examples,
            maker,
            folder,
            name=facts.name,
            cache=cache,
            processes=processes,
            licence=facts.licence,
            dtype=facts.dtype,
            on_progress=on_progress,
        )
    processes.leave()
    if made is not None:
        print_cache_trouble(cache)
        print_bank(made.bank)
        unreadable = [f"{examples.names[item.place]}: {item.reason}" for item in made.unreadable]
        report_unreadable(unreadable, all_in=NOT_IN_BANK)


def _encode_with_workers(
    source: str,
    folder: Path,
    engine: EngineChoice,
    encoder: str | None,
    facts: BankFacts,
    device: str,
    options: ReadOptions,
) -> None:
    """Write a bank with the workers of an engine."""
    rows = open_rows([source], options, labelled=True)
    print_rows(rows)
    maker = encoder_for(encoder, rows.reading.modality, device)
    workers = engine.make()
    with bar(f"encoding with {maker.name}", rows.stream.total) as on_progress:
        bank, summary = encode_rows_to_bank(
            workers,
            rows,
            maker,
            folder,
            facts,
            made_by=encoder,
            device=device,
            chunk_rows=engine.chunk_rows,
            on_progress=on_progress,
        )
    print_bank(bank)
    report_unreadable(summary.named, all_in=NOT_IN_BANK, number=summary.unreadable)


def _encode_to_files(
    source: str,
    out: str,
    engine: EngineChoice,
    encoder: str | None,
    dtype: FeatureType,
    device: str,
    options: ReadOptions,
) -> None:
    """Write all rows, labelled or not, with their vectors to Parquet files."""
    rows = open_rows([source], options)
    print_rows(rows)
    maker = encoder_for(encoder, rows.reading.modality, device)
    workers = engine.make()
    with bar(f"encoding with {maker.name}", rows.stream.total) as on_progress:
        summary = encode_rows(
            workers,
            rows,
            maker,
            Storage(out),
            made_by=encoder,
            device=device,
            dtype=dtype,
            chunk_rows=engine.chunk_rows,
            on_progress=on_progress,
        )
    typer.echo(
        f"{out}: {numbered(summary.rows, 'row')} in {numbered(summary.chunks, 'file')},"
        f" {summary.counts['vectors']:,} of them with a vector of {maker.width} numbers by"
        f" {maker.name}."
    )
    all_in = "the column 'reason' names all"
    report_unreadable(summary.named, all_in=all_in, number=summary.unreadable)


def print_bank(bank: FeatureBank) -> None:
    """Print a summary of a bank."""
    typer.echo(
        f"{bank.folder}: {bank.num_rows:,} rows of {len(bank.class_names):,} classes,"
        f" vectors of {bank.feature_dim} numbers by {bank.encoder}."
    )
