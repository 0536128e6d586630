"""The catalogue of data sets: what each is, where to get it, and how its files are read."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from unitail.configuration import from_table
from unitail.datasets.annotations import AnnotationFile
from unitail.datasets.class_folders import ClassFolders
from unitail.datasets.csv_index import CsvIndex
from unitail.datasets.intents import IntentFiles
from unitail.datasets.lists import JoinedLists, LabelLists, PresenceLists
from unitail.datasets.loader import DataSetPart, Found, Shape
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidConfig, InvalidInput, UserError, choice
from unitail.wording import some

FILE = Path(__file__).parent / "catalogue.toml"
SHAPES: dict[str, type[Any]] = {
    "class folders": ClassFolders,
    "joined lists": JoinedLists,
    "label lists": LabelLists,
    "presence lists": PresenceLists,
    "CSV": CsvIndex,
    "annotations": AnnotationFile,
    "intents": IntentFiles,
}


@dataclass(frozen=True, kw_only=True)
class Split:
    """Some classes or rows of a data set."""

    name: str
    about: str
    """Which they are, and who says so."""
    classes: int | None
    """How many classes there are as published; None for a collection."""
    rows: int | None
    """How many items, where that is known."""
    shape: Shape
    """How the files are read."""


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A data set, or a collection of some, that the catalogue knows."""

    name: str
    title: str
    modality: Modality
    role: str
    """In the paper, or that it has none."""
    source: str
    """Where to get it."""
    licence: str
    layout: str
    """What is expected on the disk."""
    folder: str
    """What the unpacked folder is usually called."""
    notes: str
    splits: tuple[Split, ...]
    """The first is the one that the paper's tables take."""

    def split(self, name: str = "") -> Split:
        """Return a split by its name; the first without one."""
        names = [each.name for each in self.splits]
        if name and name not in names:
            raise UserError(f"{self.name} has no such split", got=name, allowed=", ".join(names))
        return self.splits[names.index(name) if name else 0]

    def bank_name(self, split: Split, part: DataSetPart) -> str:
        """Name the bank: the usual split like the data set, others like "cub200-test"."""
        own = self.name if split is self.splits[0] else f"{self.name}-{split.name}"
        return f"{own}_{part.name}" if part.name else own

    def parts(self, root: Path, split: Split) -> list[DataSetPart]:
        """List the data sets in a folder: one, unless this is a collection."""
        return split.shape.parts(self._home(root))

    def read(self, part: DataSetPart, split: Split, *, any_version: bool = False) -> Found:
        """Find the items of a part, and compare them with what was published."""
        found = part.shape.read(part.root, self.modality)
        if len(found.class_sizes) < 2:
            raise InvalidInput(
                f"{self.name} has too few classes in {part.root}",
                got=some(found.class_sizes) or "none",
                allowed="2 or more",
                remedy="`unitail data info` shows the layout that is expected.",
            )
        if not any_version:
            self._check_version(found, split)
        return found

    def _home(self, root: Path) -> Path:
        """Take the folder named, or the one in it that is called as the archive unpacks."""
        if not root.is_dir():
            raise InvalidInput(
                f"{root} is not a folder",
                got="a file" if root.exists() else "nothing of that name",
                allowed=f"the folder that holds {self.folder or self.title}",
                remedy="Name it with --root.",
            )
        inner = root / self.folder
        return inner if self.folder and inner.is_dir() else root

    def _check_version(self, found: Found, split: Split) -> None:
        """Refuse other classes or rows than were published."""
        sizes = found.class_sizes
        remedy = (
            "Fetch the data again, or take what is there with --any-version; the numbers are then"
            " not about the published split."
        )
        if found.absent:
            raise InvalidInput(
                f"classes of {self.name} are missing",
                got=f"{len(found.absent)} without items: {some(found.absent)}",
                allowed="all classes of the split",
                remedy=remedy,
            )
        for what, got, allowed in (
            ("classes", len(sizes), split.classes),
            ("items", len(found.items), split.rows),
        ):
            if allowed is not None and got != allowed:
                raise InvalidInput(
                    f"this is another version of {self.name}, or not all of it",
                    got=f"{got:,} {what}, such as {some(sizes)}",
                    allowed=f"{allowed:,} {what} of the split {split.name!r}",
                    remedy=remedy,
                )


@cache
def catalogue() -> dict[str, CatalogueEntry]:
    """Return all entries by name, in the order of the file."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {name: _entry(name, table) for name, table in tables.items()}


def find_entry(name: str) -> CatalogueEntry:
    """Look an entry up."""
    entries = catalogue()
    if name not in entries:
        near = get_close_matches(name, entries, n=3)
        raise UserError(
            f"no data set of that name{f'; perhaps {near[0]} is meant' if near else ''}",
            got=name,
            allowed=", ".join(entries),
            remedy="Data of your own need no entry: `unitail encode` makes a bank of any folder of"
            " class folders, and of any CSV or Parquet file with a column of labels.",
        )
    return entries[name]


def entry_of_bank(bank: str) -> CatalogueEntry | None:
    """Return the entry that a bank of this data set would be made from, if there is one."""
    return catalogue().get(bank.partition("-")[0])


def _entry(name: str, table: Mapping[str, Any]) -> CatalogueEntry:
    keys = {"title", "role", "source", "licence", "layout", "folder", "notes"}
    splits = table["splits"]
    words = {key: " ".join(str(table.get(key, "")).split()) for key in keys - {"layout"}}
    return CatalogueEntry(
        name=name,
        modality=choice(Modality, table["modality"], "modality"),
        layout=str(table["layout"]).strip("\n"),
        splits=tuple(_split(name, table["files"], each) for each in splits),
        **words,
    )


def _split(name: str, files: Mapping[str, Any], table: Mapping[str, Any]) -> Split:
    own = {key: value for key, value in table.items() if key != "files"}
    shape = {**files, **table.get("files", {})}
    kind = shape.pop("shape")
    if kind not in SHAPES:
        raise InvalidConfig(f"the shape of {name} is unknown", got=kind, allowed=", ".join(SHAPES))
    return Split(
        name=own["name"],
        about=" ".join(own["about"].split()),
        classes=own.get("classes"),
        rows=own.get("rows"),
        shape=from_table(SHAPES[kind], shape, f"{name}.files"),
    )
