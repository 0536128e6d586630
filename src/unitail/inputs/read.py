"""Folders, tables and files of users, labelled or not, to items for an encoder.

Labelled examples are a folder with a subfolder for each class, or a table with a column of labels.
What the items are is recognised from the files' suffixes or the table's columns; where that leaves
a doubt, `InvalidInput` asks.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from unitail.encoders.encoder import Modality
from unitail.encoders.images import has_pages
from unitail.errors import InvalidInput
from unitail.inputs.folders import (
    read_class_folders,
    read_folder,
    read_loose_files,
    records_of_files,
)
from unitail.inputs.items import (
    PLAIN,
    Items,
    LabelledItems,
    ReadOptions,
    Record,
    join_examples,
    join_items,
)
from unitail.inputs.recognise import known_suffixes, modality_of
from unitail.inputs.table_files import TABLES, decode, is_table, read_table, table_suffix
from unitail.inputs.table_rows import items_of_rows, read_labelled_rows
from unitail.wording import excerpt, numbered, shown, some

STDIN = Path("-")
"""Stands for the lines of standard input, a text each."""
NO_ITEM = "cannot be an item"
PACKED = (".zip", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".tgz")
"""Files that may hold a table or a folder, and are not looked into."""


def read_labelled(
    path: Path, options: ReadOptions = PLAIN, *, also: Sequence[Path] = ()
) -> LabelledItems:
    """Read the examples of at least two classes from a folder or a table.

    A folder has a subfolder for each class; a table has a column of labels, and a column of paths
    (relative to the table), one of texts, or columns of features. Rows without a label and files
    of other kinds are passed over and told. `also` are more folders and tables; about an item that
    several name, the last is right.
    """
    examples = _read_examples(path, options)
    for each in also:
        more = _read_examples(each, options.like(examples), examples)
        examples = join_examples(examples, more)
    if len(examples.classes) < 2:
        raise InvalidInput(
            f"{shown(path)} holds one class only",
            got=some([repr(examples.classes[0]), *examples.ignored], separator="; "),
            allowed="two classes or more",
            remedy="Add examples of another class.",
        )
    guesses = (*examples.guesses, *_pages(examples), *_alike(examples.classes))
    return replace(examples, guesses=guesses)


def _alike(classes: Sequence[str]) -> list[str]:
    """Say which classes may be one, written in several ways."""
    folded: dict[str | Decimal, list[str]] = {}
    for name in classes:
        folded.setdefault(_folded(name), []).append(name)
    alike = [names for names in folded.values() if len(names) > 1]
    several = some((" and ".join(map(repr, names)) for names in alike), 3, separator="; ")
    return [f"{several} are different classes"] if alike else []


def _folded(name: str) -> str | Decimal:
    """Return what is left of a name without case, spaces and dashes; of numbers, their value."""
    if re.fullmatch(r"[+-]?\d+(\.\d*)?", name):
        return Decimal(name)  # a float would make one of long ones that differ in their last digit
    words = re.split(r"[\s_]+|(?<=\w)-(?=\w)", name.casefold())
    return " ".join(filter(None, words))


def read_half_labelled(path: Path, examples: LabelledItems, options: ReadOptions = PLAIN) -> Items:
    """Read what has no label beside the examples: rows of their table, or files in their folder."""
    if path.is_dir():
        return read_loose_files(path, examples.modality)
    how = options.like(examples)
    return items_of_rows(read_table(path), path, how, examples, unlabelled_only=True)


def _read_examples(
    path: Path, options: ReadOptions, like: LabelledItems | None = None
) -> LabelledItems:
    if path.is_dir():
        return read_class_folders(path, options.kind)
    if is_table(path):
        return read_labelled_rows(path, options, like)
    got, remedy = _what_is_packed(path) or ("another file", None)
    raise InvalidInput(
        f"{shown(path)} does not hold labelled examples",
        got=got if path.exists() else "no such file or folder",
        allowed=f"a folder with a subfolder for each class, or a table ({' '.join(TABLES)})",
        remedy=remedy if path.exists() else None,
    )


def read_unlabelled(
    paths: Sequence[Path], options: ReadOptions = PLAIN, *, like: LabelledItems | None = None
) -> Items:
    """Read items from folders (with their subfolders), files, tables, and "-", lines of text.

    With `like`, the labelled examples that they are compared with, the items are read as those
    were: the modality, the column of content where a table has it, the columns of features.
    Labels are no content; they are kept in the records.
    """
    options = options.like(like)
    kind = options.kind
    pieces = []
    for path in paths:
        if path == STDIN:
            pieces.append(_read_lines(_standard_input(), kind))
        elif path.is_dir():
            pieces.append(read_folder(path, kind, classes=like.classes if like else ()))
        elif is_table(path):
            pieces.append(items_of_rows(read_table(path), path, options, like))
        else:
            pieces.append(_read_file(path, kind))
    items = join_items(paths, pieces)
    return replace(items, guesses=(*items.guesses, *_pages(items)))


def _pages(items: Items) -> list[str]:
    """Say which files have several pages, of which the first is read."""
    if items.modality is not Modality.IMAGE:
        return []
    files = [item for item in items.items if isinstance(item, Path)]
    many = [file for file in files if file.suffix.lower() in (".tif", ".tiff")]
    many = [file for file in many if has_pages(file)]
    names = some(shown(file.name) for file in many)
    number = numbered(len(many), "file")
    return [f"only the first page counts of {number} with several ({names})"] if many else []


def read_pool(
    paths: Sequence[Path], like: LabelledItems, options: ReadOptions = PLAIN
) -> Items | None:
    """Read items whose labels are of no use, as the examples were read; None where there are none.

    What is corrected by the examples, or labelled in its own table, is not left out: a pool is
    rows as they come.
    """
    return read_unlabelled(paths, options, like=like) if paths else None


def _standard_input() -> bytes:
    if sys.stdin is None:  # as Python has it where a shell says <&-
        raise InvalidInput(
            "standard input is closed",
            got="'-'",
            allowed="lines of text from a pipe or a file",
            remedy="Give it some, or name a file in place of '-'.",
        )
    return sys.stdin.buffer.read()


def _read_lines(content: bytes, modality: Modality | None) -> Items:
    """Take each line as a text."""
    if modality not in (None, Modality.TEXT):
        raise InvalidInput(
            "lines of standard input are texts", got=f"'-' for {modality} items", allowed="texts"
        )
    lines = [line.strip() for line in decode(content, "standard input").splitlines()]
    texts = tuple(line for line in lines if line)
    if not texts:
        raise InvalidInput("standard input is empty", got="no text", allowed="a text in each line")
    empty = len(lines) - len(texts)
    notes = (f"{numbered(empty, 'empty line')}",) if empty else ()
    names = tuple(map(excerpt, texts))
    places = iter(range(len(texts)))
    records = tuple(
        Record(
            cells={"text": line},
            item=next(places) if line else None,
            row=number,
            source=str(STDIN),
            reason="" if line else "empty line",
        )
        for number, line in enumerate(lines, start=1)
    )
    return Items(items=texts, names=names, modality=Modality.TEXT, ignored=notes, records=records)


def _read_file(path: Path, modality: Modality | None) -> Items:
    """Take a file that was named as one item; with a modality given, whatever its suffix."""
    kind = modality or modality_of(path)
    if not path.exists():
        raise InvalidInput(
            f"{shown(path)} is not there",
            got="no such file or folder",
            allowed="folders, files and tables that are",
            remedy="Check the name, and the folder that you are in.",
        )
    if kind in (None, Modality.TABLE) or not path.is_file():
        tables = f"tables: {' '.join(TABLES)}, each with .gz, too"
        like_table = kind is Modality.TABLE
        other = "another kind of file", "Name another file, or say what it is: --modality KIND."
        got, remedy = _what_is_packed(path) or other
        raise InvalidInput(
            f"{shown(path)} {'is not a table like the examples' if like_table else NO_ITEM}",
            got=got,
            allowed=tables if like_table else f"{known_suffixes()}; {tables}",
            remedy=remedy,
        )
    return Items(
        items=(path,), names=(shown(path),), modality=kind, records=records_of_files([path])
    )


def _what_is_packed(path: Path) -> tuple[str, str] | None:
    """Say what a packed file is, and what to do with it; None for others."""
    if table_suffix(path) not in PACKED:
        return None
    return f"a packed file ({table_suffix(path)})", "Unpack it: only tables with .gz are read so."
