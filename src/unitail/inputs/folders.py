"""Folders of files: one item in each file, one class in each subfolder."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.inputs.cells import escape_formula
from unitail.inputs.items import FILE, Items, LabelledItems, Record
from unitail.inputs.recognise import common_modality, known_suffixes, modality_of
from unitail.wording import exact, numbered, shown, some

OWN_FOLDER = ".unitail"
"""Folder next to the items where the studio keeps its labels; skipped silently."""


@dataclass(frozen=True)
class Listing:
    """All files in a folder and its subfolders."""

    files: tuple[Path, ...]
    """Sorted, without hidden files."""
    hidden: int
    broken: tuple[str, ...]
    """Notes on entries that cannot be opened, and on links to folders searched before."""


def list_files(folder: Path, *, never: Iterable[Path] = ()) -> Listing:
    """List a folder recursively, following links; each real folder is visited once, `never` not."""
    visited = {_identity(path) for path in never}
    files: list[Path] = []
    broken: list[str] = []
    hidden = 0

    def note_error(error: OSError) -> None:
        broken.append(f"{shown(error.filename)}: {error.strerror}")

    for place, folders, names in os.walk(folder, onerror=note_error, followlinks=True):
        here = Path(place)
        if _identity(here) in visited:
            folders.clear()
            broken.append(f"{shown(here)}: a link to a folder that was searched already")
            continue
        visited.add(_identity(here))
        entries = {*folders, *names} - {OWN_FOLDER}
        hidden += sum(name.startswith(".") for name in entries)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (here / name for name in names if not name.startswith(".")):
            if path.is_file():
                files.append(path)
            else:
                broken.append(f"{shown(path)}: not a file that can be opened")
    return Listing(tuple(sorted(files, key=lambda path: path.parts)), hidden, tuple(broken))


def read_folder(folder: Path, modality: Modality | None, *, classes: Collection[str] = ()) -> Items:
    """Read the items of a folder and its subfolders; names are relative to the folder.

    If all files are in subfolders named after `classes`, these names are their labels.
    """
    listing = list_files(folder)
    modality = modality or common_modality(listing.files, shown(folder))
    chosen = tuple(file for file in listing.files if modality_of(file) is modality)
    if not chosen:
        raise _no_files(folder, modality, listing.files)
    names = tuple(shown(file.relative_to(folder)) for file in chosen)
    tops = [name.split("/")[0] if "/" in name else "" for name in names]
    labels = tops if set(tops) <= set(classes) else [""] * len(tops)
    return Items(
        items=chosen,
        names=names,
        modality=modality,
        ignored=_note_skipped([listing], modality),
        records=records_of_files(chosen, labels),
    )


def read_loose_files(folder: Path, modality: Modality) -> Items:
    """Read the items next to the class folders."""
    files = [path for path in _entries(folder) if path.is_file()]
    chosen = tuple(
        file for file in files if modality_of(file) is modality and not file.name.startswith(".")
    )
    if not chosen:
        raise InvalidInput(
            f"{shown(folder)} holds no {modality} files next to its class folders",
            got="nothing to answer",
            allowed="files without a class next to the class folders",
            remedy="Name the files to answer after the examples, or put them there.",
        )
    visible = tuple(file for file in files if not file.name.startswith("."))
    return Items(
        items=chosen,
        names=tuple(shown(file.name) for file in chosen),
        modality=modality,
        ignored=_note_skipped([Listing(visible, hidden=0, broken=())], modality),
        records=records_of_files(chosen),
    )


def records_of_files(files: Sequence[Path], labels: Sequence[str] = ()) -> tuple[Record, ...]:
    """Return a record per file with its path as given; "./" escapes one that is like a formula."""
    names = (exact(file) for file in files)
    cells = [{FILE: name if escape_formula(name) == name else f"./{name}"} for name in names]
    return tuple(
        Record(cells=cells[place], item=place, label=label)
        for place, label in enumerate(labels or [""] * len(files))
    )


def read_class_folders(folder: Path, modality: Modality | None) -> LabelledItems:
    """Read the labelled examples of a folder with a subfolder for each class."""
    listings = {path.name: list_files(path, never=[folder]) for path in _subfolders(folder)}
    if not listings:
        raise InvalidInput(
            f"{shown(folder)} holds no class folders",
            got=numbered(len(list_files(folder).files), "file"),
            allowed="a subfolder for each class, with its examples inside",
            remedy="Put the examples of each class into a subfolder that is named after the class.",
        )
    files = [file for listing in listings.values() for file in listing.files]
    modality = modality or common_modality(files, shown(folder))
    pairs = [
        (file, shown(label))
        for label, listing in listings.items()
        for file in listing.files
        if modality_of(file) is modality
    ]
    if not pairs:
        raise _no_files(folder, modality, files)
    empty = [name for name in map(shown, listings) if name not in {label for _, label in pairs}]
    notes = _note_skipped(listings.values(), modality)
    return LabelledItems(
        items=tuple(file for file, _ in pairs),
        names=tuple(shown(file.relative_to(folder)) for file, _ in pairs),
        labels=tuple(label for _, label in pairs),
        modality=modality,
        ignored=(*_note_empty_classes(empty, modality), *notes),
        unlabelled=tuple(_note_outside(folder)),
        guesses=tuple(_note_nested(folder, pairs)),
    )


def _note_nested(folder: Path, pairs: Iterable[tuple[Path, str]]) -> Iterator[str]:
    """Yield a note on classes with files in subfolders, which may be meant as classes."""
    nested = dict.fromkeys(label for file, label in pairs if file.parent.parent != folder)
    if nested:
        yield f"subfolders of a class folder are not classes of their own ({some(nested)})"


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_dir() and not path.name.startswith(".")]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InvalidInput(
            f"{shown(folder)} cannot be opened", got=str(error.strerror), allowed="a folder"
        ) from error


def _identity(folder: Path) -> tuple[int, int]:
    """Return a key that is equal for all links to one real folder."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def _note_outside(folder: Path) -> Iterator[str]:
    names = [shown(path.name) for path in _entries(folder) if not path.is_dir()]
    visible = [name for name in names if not name.startswith(".")]
    if visible:
        yield f"{numbered(len(visible), 'file')} outside the class folders ({some(visible)})"


def _note_empty_classes(names: list[str], modality: Modality) -> Iterator[str]:
    if names:
        folders = numbered(len(names), "class folder")
        yield f"{folders} without {modality} files ({some(names)})"


def _note_skipped(listings: Iterable[Listing], modality: Modality) -> tuple[str, ...]:
    """Return notes on the files that are not items."""
    listings = list(listings)
    suffixes = Counter(
        shown(file.suffix.lower()) or "no suffix"
        for listing in listings
        for file in listing.files
        if modality_of(file) is not modality
    )
    hidden = sum(listing.hidden for listing in listings)
    notes = [broken for listing in listings for broken in listing.broken]
    if suffixes:
        kinds = some(name for name, _ in suffixes.most_common())
        notes.append(f"{numbered(suffixes.total(), 'file')} of other kinds ({kinds})")
    if hidden:
        notes.append(f"{numbered(hidden, 'hidden file')}")
    return tuple(notes)


def _no_files(folder: Path, modality: Modality, files: Iterable[Path]) -> InvalidInput:
    return InvalidInput(
        f"{shown(folder)} holds no {modality} files",
        got=f"{numbered(len(list(files)), 'file')} of other kinds",
        allowed="a table file, not a folder"
        if modality is Modality.TABLE
        else known_suffixes(modality),
        remedy="Name another folder, or another kind: --modality KIND.",
    )
