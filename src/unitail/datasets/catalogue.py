"""The catalogue of data sets: their description, their source, and how their files are read."""

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
    """A subset of the classes or rows of a data set."""

    name: str
    about: str
    """Description of the split, and who defined it."""
    classes: int | None
    """Published number of classes; None for a collection."""
    rows: int | None
    """Published number of items; None if unknown."""
    shape: Shape
    """Layout of the files."""


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A data set, or a collection of data sets, in the catalogue."""

    name: str
    title: str
    modality: Modality
    role: str
    """Its role in the paper, if any."""
    source: str
    """Where to get it."""
    licence: str
    layout: str
    """Expected layout on disk."""
    folder: str
    """Usual name of the unpacked folder."""
    notes: str
    splits: tuple[Split, ...]
    """The first is the one in the paper's tables."""

    def split(self, name: str = "") -> Split:
        """Return a split by its name; without a name, the first."""
        names = [split.name for split in self.splits]
        if name and name not in names:
            raise UserError(f"{self.name} has no such split", got=name, allowed=", ".join(names))
        return self.splits[names.index(name) if name else 0]

    def bank_name(self, split: Split, part: DataSetPart) -> str:
        """Return the name of the bank: the data set's for the first split, else "cub200-test"."""
        name = self.name if split is self.splits[0] else f"{self.name}-{split.name}"
        return f"{name}_{part.name}" if part.name else name

    def parts(self, root: Path, split: Split) -> list[DataSetPart]:
        """List the data sets in a folder: one, unless this is a collection."""
        return split.shape.parts(self._home(root))

    def read(self, part: DataSetPart, split: Split, *, any_version: bool = False) -> Found:
        """Read the items of a part, and check that their numbers are those published."""
        contents = part.shape.read(part.root, self.modality)
        if len(contents.class_sizes) < 2:
            raise InvalidInput(
                f"{self.name} has too few classes in {part.root}",
                got=some(contents.class_sizes) or "none",
                allowed="2 or more",
                remedy="`unitail data info` shows the expected layout.",
            )
        if not any_version:
            self._check_version(contents, split)
        return contents

    def _home(self, root: Path) -> Path:
        """Return the data set's own folder inside `root` if it exists, else `root`."""
        if not root.is_dir():
            raise InvalidInput(
                f"{root} is not a folder",
                got="a file" if root.exists() else "no such folder",
                allowed=f"the folder that holds {self.folder or self.title}",
                remedy="Name it with --root.",
            )
        inner = root / self.folder
        return inner if self.folder and inner.is_dir() else root

    def _check_version(self, contents: Found, split: Split) -> None:
        """Raise an error if classes are missing or the numbers are not those published."""
        sizes = contents.class_sizes
        remedy = (
            "Fetch the data again, or use it as it is with --any-version; results are then not"
            " comparable with those on the published split."
        )
        if contents.absent:
            raise InvalidInput(
                f"classes of {self.name} are missing",
                got=f"{len(contents.absent)} without items: {some(contents.absent)}",
                allowed="all classes of the split",
                remedy=remedy,
            )
        for what, got, allowed in (
            ("classes", len(sizes), split.classes),
            ("items", len(contents.items), split.rows),
        ):
            if allowed is not None and got != allowed:
                raise InvalidInput(
                    f"this is another version of {self.name}, or incomplete",
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
    """Return the entry of this name."""
    entries = catalogue()
    if name not in entries:
        near = get_close_matches(name, entries, n=3)
        raise UserError(
            f"no data set of that name{f'; perhaps you meant {near[0]}' if near else ''}",
            got=name,
            allowed=", ".join(entries),
            remedy="Your own data need no entry: `unitail encode` makes a bank from any folder of"
            " class folders, and from any CSV or Parquet file with a column of labels.",
        )
    return entries[name]


def entry_of_bank(bank: str) -> CatalogueEntry | None:
    """Return the entry that a bank of this name is made from; None if there is none."""
    return catalogue().get(bank.partition("-")[0])


def _entry(name: str, table: Mapping[str, Any]) -> CatalogueEntry:
    keys = {"title", "role", "source", "licence", "layout", "folder", "notes"}
    splits = table["splits"]
    texts = {key: " ".join(str(table.get(key, "")).split()) for key in keys - {"layout"}}
    return CatalogueEntry(
        name=name,
        modality=choice(Modality, table["modality"], "modality"),
        layout=str(table["layout"]).strip("\n"),
        splits=tuple(_split(name, table["files"], split) for split in splits),
        **texts,
    )


def _split(name: str, files: Mapping[str, Any], table: Mapping[str, Any]) -> Split:
    shape = {**files, **table.get("files", {})}
    kind = shape.pop("shape")
    if kind not in SHAPES:
        raise InvalidConfig(f"the shape of {name} is unknown", got=kind, allowed=", ".join(SHAPES))
    return Split(
        name=table["name"],
        about=" ".join(table["about"].split()),
        classes=table.get("classes"),
        rows=table.get("rows"),
        shape=from_table(SHAPES[kind], shape, f"{name}.files"),
    )
