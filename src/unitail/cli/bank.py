"""Run `unitail bank`."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Column, Table
from rich.text import Text

from unitail.banks.bank import FeatureBank, find_banks
from unitail.banks.importer import default_names, import_bank
from unitail.cli.console import bar
from unitail.errors import InvalidBank
from unitail.progress import OnProgress
from unitail.wording import numbered, some

NUMBERS = ("width", "rows", "classes", "rows of a class\nmin/median/max")


def import_banks(sources: Sequence[Path], out: Path, *, licence: str, encoder: str | None) -> None:
    """Import features as banks; banks that exist already are skipped."""
    files = _find_sources(sources)
    skipped = []
    with bar("importing (%)", 100) as on_progress:
        shares = _Shares(on_progress, sum(file.stat().st_size for file in files))
        for file in files:
            folder_name, name = default_names(file)
            maker = encoder or folder_name
            label, folder = f"{maker}/{name}", out / maker / name
            skipped += [label] if folder.exists() else []
            show = shares.begin(file.stat().st_size)
            import_bank(file, folder, encoder=maker, licence=licence, on_progress=show)
    if skipped:
        typer.echo(f"Skipped, exists already: {some(skipped, 5)}.")
    typer.echo(f"Imported {numbered(len(files) - len(skipped), 'bank')} to {out}.")


def list_banks(folders: Sequence[Path]) -> None:
    """Print a table of all banks in the folders."""
    banks, errors = _open_all(folders)
    if banks:
        Console().print(_table(banks))
    _exit_on_errors(errors)


def check_banks(folders: Sequence[Path]) -> None:
    """Read every bank completely; exit with 2 if one is damaged."""
    banks, errors = _open_all(folders)
    total = len(banks) + len(errors)
    with bar("checking (%)", 100) as on_progress:
        shares = _Shares(on_progress, sum(bank.features.nbytes for bank in banks))
        for bank in banks:
            show = shares.begin(bank.features.nbytes)
            try:
                bank.verify(show)
            except InvalidBank as error:
                errors.append(error)
    typer.echo(f"Intact: {total - len(errors)} of {numbered(total, 'bank')}.")
    _exit_on_errors(errors)


class _Shares:
    """Overall progress in % over several banks, each weighted by its size."""

    def __init__(self, on_progress: OnProgress, total: int) -> None:
        self._on_progress, self._total, self._begun = on_progress, max(total, 1), 0

    def begin(self, size: int) -> OnProgress:
        """Start the next bank; return the callback for its own progress."""
        before = self._begun
        self._begun += size

        def show(done: int, rows: int) -> None:
            self._on_progress(int(100 * (before + size * done / rows) / self._total), 100)

        return show


def _find_sources(sources: Iterable[Path]) -> list[Path]:
    """List the named files and the .npz files in the named folders, each once."""
    files: dict[Path, None] = {}
    for source in sources:
        inside = sorted(source.rglob("*.npz")) if source.is_dir() else [source]
        if not inside or not inside[0].is_file():
            raise InvalidBank(
                f"nothing to import in {source}",
                got="a folder without .npz files" if source.is_dir() else "no such file",
                allowed="an .npz file, or a folder with .npz files",
                remedy="Name another file or folder.",
            )
        files.update(dict.fromkeys(inside))
    return list(files)


def _open_all(folders: Iterable[Path]) -> tuple[list[FeatureBank], list[InvalidBank]]:
    """Open all banks in the folders, each once; also return the errors of damaged banks."""
    banks, errors = [], []
    for folder in folders:
        if not find_banks(folder):
            raise InvalidBank(
                f"no feature bank in {folder}",
                got="no manifest",
                allowed="a bank, or a folder that holds banks",
                remedy="Make some with `unitail bank import`, or name another folder.",
            )
    for path in dict.fromkeys(path for folder in folders for path in find_banks(folder)):
        try:
            banks.append(FeatureBank.open(path))
        except InvalidBank as error:
            errors.append(error)
    return banks, errors


def _exit_on_errors(errors: Sequence[InvalidBank]) -> None:
    """Print the errors, one line each, and exit with 2 if there are any."""
    for error in errors:
        typer.echo(f"unitail: {error}", err=True)
    if errors:
        raise typer.Exit(2)


def _table(banks: Sequence[FeatureBank]) -> Table:
    """Return a table of banks, grouped by encoder, with the notes on licences below it."""
    table = Table(
        Column("data set", no_wrap=True),
        *(Column(name, justify="right", no_wrap=True) for name in NUMBERS),
        Column("type", no_wrap=True),
        Column("size", justify="right", no_wrap=True),
        Column("licence", justify="right", no_wrap=True),
        box=box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
        caption_justify="left",
    )
    ordered = sorted(banks, key=lambda bank: (bank.encoder, bank.name))
    notes = list(dict.fromkeys(bank.manifest.licence for bank in ordered if bank.manifest.licence))
    for encoder, group in groupby(ordered, key=lambda bank: bank.encoder):
        table.add_row(Text(encoder, style="bold"))
        for bank in group:
            table.add_row(*_cells(bank, notes))
        table.add_section()
    rows, size = sum(bank.num_rows for bank in banks), sum(map(_size, banks))
    legend = [f"{number}: {note}" for number, note in enumerate(notes, start=1)]
    total = f"{numbered(len(banks), 'bank')}, {rows:,} rows, {decimal(size)}"
    table.caption = Text("\n".join([total, *(["licences", *legend] if legend else [])]))
    return table


def _cells(bank: FeatureBank, notes: Sequence[str]) -> list[Text]:
    """Return the cells of a bank, with its licence as a number among the notes."""
    sizes, licence = bank.class_sizes, bank.manifest.licence
    cells = (
        f"  {bank.name}",
        bank.feature_dim,
        bank.num_rows,
        len(bank.class_names),
        f"{sizes.min()}/{np.median(sizes):g}/{sizes.max()}",
        bank.manifest.dtype,
        decimal(_size(bank)),
        notes.index(licence) + 1 if licence else "-",
    )
    return [Text(str(cell)) for cell in cells]


def _size(bank: FeatureBank) -> int:
    """Return the size of a bank's files in bytes."""
    return sum(path.stat().st_size for path in bank.folder.iterdir())
