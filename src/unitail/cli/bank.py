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
    """Import under a progress bar."""
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
        typer.echo(f"Already there, skipped: {some(skipped, 5)}.")
    typer.echo(f"Imported {numbered(len(files) - len(skipped), 'bank')} to {out}.")


def list_banks(folders: Sequence[Path]) -> None:
    """Print a table of all banks in the folders."""
    banks, errors = _open_all(folders)
    if banks:
        Console().print(_table(banks))
    _refuse(errors)


def check_banks(folders: Sequence[Path]) -> None:
    """Read all of every bank; leave with 2 if one is damaged."""
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
    typer.echo(f"Whole: {total - len(errors)} of {numbered(total, 'bank')}.")
    _refuse(errors)


class _Shares:
    """Progress over several banks in %, each with a share as large as its size."""

    def __init__(self, on_progress: OnProgress, total: int) -> None:
        self._tell, self._total, self._begun = on_progress, max(total, 1), 0

    def begin(self, size: int) -> OnProgress:
        """Go on to the next bank; return what is to be told of its progress."""
        before = self._begun
        self._begun += size

        def tell(done: int, rows: int) -> None:
            self._tell(int(100 * (before + size * done / rows) / self._total), 100)

        return tell


def _find_sources(sources: Iterable[Path]) -> list[Path]:
    """List the files named and those in the folders named, each once."""
    files: dict[Path, None] = {}
    for source in sources:
        inside = sorted(source.rglob("*.npz")) if source.is_dir() else [source]
        if not inside or not inside[0].is_file():
            raise InvalidBank(
                f"nothing to import in {source}",
                got="a folder without .npz files" if source.is_dir() else "no such file",
                allowed="an .npz file, or a folder with some",
                remedy="Name another file or folder.",
            )
        files.update(dict.fromkeys(inside))
    return list(files)


def _open_all(folders: Iterable[Path]) -> tuple[list[FeatureBank], list[InvalidBank]]:
    """Open all banks in the folders, each once; give the errors of those that cannot be."""
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


def _refuse(errors: Sequence[InvalidBank]) -> None:
    """Tell all errors, one line each, and leave."""
    for error in errors:
        typer.echo(f"unitail: {error}", err=True)
    if errors:
        raise typer.Exit(2)


def _table(banks: Sequence[FeatureBank]) -> Table:
    """List banks under the encoders that made them; notes on licences stand below."""
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
    """Describe a bank, with the number of its licence among the notes."""
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
    """Sum the bytes of the files of a bank."""
    return sum(path.stat().st_size for path in bank.folder.iterdir())
