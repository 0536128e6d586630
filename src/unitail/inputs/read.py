"""Read a user's folders, tables and files, labelled or not, as items for an encoder.

Labelled examples are a folder with a subfolder for each class, or a table with a column of labels.
The kind of the items is recognised from the files' suffixes or the table's columns; if that is
ambiguous, `InvalidInput` names the option that resolves it.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from unitail.encoders.encoder import Modality
from unitail.encoders.images import has_pages
from unitail.errors import InvalidConfig, InvalidInput
from unitail.files import is_address
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
"""Stands for standard input, where each line is a text."""
NO_ITEM = "cannot be an item"
PACKED = (".zip", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".tgz")
"""Suffixes of archives, which are not opened even if they hold a table or a folder."""


def read_labelled(
    path: Path, options: ReadOptions = PLAIN, *, also: Sequence[Path] = ()
) -> LabelledItems:
    """Read the examples of at least two classes from a folder or a table.

    A folder has a subfolder for each class; a table has a column of labels, and a column of paths
    (relative to the table), one of texts, or columns of features. Rows without a label and files
    of other kinds are skipped and noted. `also` are more folders and tables; an item in several of
    them has the label of the last.
    """
    examples = _read_examples(path, options)
    for more_path in also:
        more = _read_examples(more_path, options.like(examples), examples)
        examples = join_examples(examples, more)
    if len(examples.classes) < 2:
        raise InvalidInput(
            f"{shown(path)} holds one class only",
            got=some([repr(examples.classes[0]), *examples.skipped], separator="; "),
            allowed="two classes or more",
            remedy="Add examples of another class.",
        )
    notes = (*_note_multipage_files(examples), *_note_similar_classes(examples.classes))
    return replace(examples, guesses=(*examples.guesses, *notes))


def check_columns(
    options: ReadOptions, examples: Path | None, others: Iterable[Path | str] = ()
) -> None:
    """Raise an error for options about columns if nothing that is read has columns.

    `examples` is None if they are those of a saved classifier. A folder may hold a large table.
    """
    if options.columns and examples is not None and examples.is_dir():
        raise InvalidConfig(
            "--column is about a column of the examples",
            got=f"{shown(examples)}, a folder of files",
            allowed="a table of examples",
            remedy="Leave out --column.",
        )
    names = [*([] if examples is None else [examples]), *others]
    if options.content_column is not None and not any(map(_may_be_table, names)):
        raise InvalidConfig(
            "--content-column is about a column of a table",
            got=some(map(shown, names)),
            allowed="at least one table",
            remedy="Leave out --content-column.",
        )


def _may_be_table(name: Path | str) -> bool:
    path = Path(name)
    return is_address(str(name)) or is_table(path) or any(path.glob("*.parquet"))


def _note_similar_classes(classes: Sequence[str]) -> list[str]:
    """Return a note on names that may be spellings of one class."""
    groups: dict[str | Decimal, list[str]] = {}
    for name in classes:
        groups.setdefault(_normalised(name), []).append(name)
    similar = [names for names in groups.values() if len(names) > 1]
    listed = some((" and ".join(map(repr, names)) for names in similar), 3, separator="; ")
    return [f"{listed} are different classes"] if similar else []


def _normalised(name: str) -> str | Decimal:
    """Return a name without case, spaces and dashes; for numbers, their value."""
    if re.fullmatch(r"[+-]?\d+(\.\d*)?", name):
        return Decimal(name)  # floats would merge long numbers that differ in their last digits
    words = re.split(r"[\s_]+|(?<=\w)-(?=\w)", name.casefold())
    return " ".join(filter(None, words))


def read_half_labelled(path: Path, examples: LabelledItems, options: ReadOptions = PLAIN) -> Items:
    """Read the unlabelled items of the examples' own table or folder."""
    if path.is_dir():
        return read_loose_files(path, examples.modality)
    options = options.like(examples)
    return items_of_rows(read_table(path), path, options, examples, unlabelled_only=True)


def _read_examples(
    path: Path, options: ReadOptions, like: LabelledItems | None = None
) -> LabelledItems:
    if path.is_dir():
        return read_class_folders(path, options.modality)
    if is_table(path):
        return read_labelled_rows(path, options, like)
    got, remedy = _describe_packed(path) or ("another file", None)
    raise InvalidInput(
        f"{shown(path)} does not hold labelled examples",
        got=got if path.exists() else "no such file or folder",
        allowed=f"a folder with a subfolder for each class, or a table ({' '.join(TABLES)})",
        remedy=remedy if path.exists() else None,
    )


def read_unlabelled(
    paths: Sequence[Path], options: ReadOptions = PLAIN, *, like: LabelledItems | None = None
) -> Items:
    """Read items from folders (with their subfolders), files, tables, and lines of text ("-").

    With `like`, the labelled examples, the items are read the same way: same modality, same content
    column if the table has it, same feature columns. Labels are not content; they are kept in the
    records.
    """
    options = options.like(like)
    kind = options.modality
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
    return replace(items, guesses=(*items.guesses, *_note_multipage_files(items)))


def _note_multipage_files(items: Items) -> list[str]:
    """Return a note on images with several pages, since only the first page is read."""
    if items.modality is not Modality.IMAGE:
        return []
    files = [item for item in items.items if isinstance(item, Path)]
    files = [file for file in files if file.suffix.lower() in (".tif", ".tiff")]
    files = [file for file in files if has_pages(file)]
    names = some(shown(file.name) for file in files)
    number = numbered(len(files), "file")
    return [f"only the first page is read of {number} with several ({names})"] if files else []


def _standard_input() -> bytes:
    if sys.stdin is None:  # closed by the shell with <&-
        raise InvalidInput(
            "standard input is closed",
            got="'-'",
            allowed="lines of text from a pipe or a file",
            remedy="Pipe some text in, or name a file instead of '-'.",
        )
    return sys.stdin.buffer.read()


def _read_lines(content: bytes, modality: Modality | None) -> Items:
    """Read each line as a text."""
    if modality not in (None, Modality.TEXT):
        raise InvalidInput(
            "lines of standard input are texts", got=f"'-' for {modality} items", allowed="texts"
        )
    lines = [line.strip() for line in decode(content, "standard input").splitlines()]
    texts = tuple(line for line in lines if line)
    if not texts:
        raise InvalidInput("standard input is empty", got="no text", allowed="one text per line")
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
    """Read a named file as one item, of the given modality or of that of its suffix."""
    kind = modality or modality_of(path)
    if not path.exists():
        raise InvalidInput(
            f"{shown(path)} does not exist",
            got="no such file or folder",
            allowed="existing folders, files and tables",
            remedy="Check the name and the current folder.",
        )
    if kind in (None, Modality.TABLE) or not path.is_file():
        tables = f"tables: {' '.join(TABLES)}, each also with .gz"
        needs_table = kind is Modality.TABLE
        other = "another kind of file", "Name another file, or its kind: --modality KIND."
        got, remedy = _describe_packed(path) or other
        raise InvalidInput(
            f"{shown(path)} {'is not a table like the examples' if needs_table else NO_ITEM}",
            got=got,
            allowed=tables if needs_table else f"{known_suffixes()}; {tables}",
            remedy=remedy,
        )
    return Items(
        items=(path,), names=(shown(path),), modality=kind, records=records_of_files([path])
    )


def _describe_packed(path: Path) -> tuple[str, str] | None:
    """Return a description of a packed file and a remedy; None for other files."""
    if table_suffix(path) not in PACKED:
        return None
    return f"a packed file ({table_suffix(path)})", "Unpack it: only tables with .gz are unpacked."
