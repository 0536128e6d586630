"""Folders, tables and files of users, labelled or not, to items for an encoder.

Labelled examples are a folder with a subfolder for each class, or a table with a column of labels.
What the items are is recognised from the files' suffixes or the table's columns; where that leaves
a doubt, `InvalidInput` asks.
"""

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from unitail.configuration import choice
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.extras import optional
from unitail.inputs.folders import read_class_folders, read_folder
from unitail.inputs.items import Items, LabelledItems
from unitail.inputs.rows import read_labelled_rows, read_rows
from unitail.inputs.suffixes import TABLES, is_table, known_suffixes, modality_of
from unitail.inputs.tables import decode
from unitail.wording import excerpt, numbered, shown

STDIN = Path("-")
"""Stands for the lines of standard input, a text each."""


def read_labelled(
    path: Path,
    *,
    label_column: str = "label",
    content_column: str | None = None,
    modality: str | None = None,
) -> LabelledItems:
    """Read the examples of at least two classes from a folder or a table.

    A folder has a subfolder for each class; a table has a column of labels, and a column of paths
    (relative to the table), one of texts, or columns of features. Rows without a label and files
    of other kinds are passed over and told. `modality` and `content_column` decide where there is
    a doubt.
    """
    kind = _chosen(modality)
    if path.is_dir():
        examples = read_class_folders(path, kind)
    elif is_table(path):
        examples = read_labelled_rows(path, label_column, content_column, kind)
    else:
        raise InvalidInput(
            f"{shown(path)} does not hold labelled examples",
            got="another file" if path.exists() else "no such file or folder",
            allowed=f"a folder with a subfolder for each class, or a table ({' '.join(TABLES)})",
        )
    if len(examples.classes) < 2:
        raise InvalidInput(
            f"{shown(path)} holds one class only",
            got=repr(examples.classes[0]),
            allowed="two classes or more",
            remedy="Add examples of another class.",
        )
    return examples


def read_unlabelled(
    paths: Sequence[Path],
    *,
    label_column: str = "label",
    content_column: str | None = None,
    modality: str | None = None,
    like: LabelledItems | None = None,
) -> Items:
    """Read items from folders (with their subfolders), files, tables, and "-", lines of text.

    With `like`, the labelled examples that they are compared with, the items are read as those
    were: the modality, the column of content where a table has it, the columns of features.
    A column of labels is passed over.
    """
    kind = _chosen(modality) or (like.modality if like else None)
    pieces = []
    for path in paths:
        if path == STDIN:
            pieces.append(_read_lines(sys.stdin.buffer.read(), kind))
        elif path.is_dir():
            pieces.append(read_folder(path, kind))
        elif is_table(path):
            column = content_column or (like.content_column if like else None)
            pieces.append(read_rows(path, label_column, column, kind, like))
        else:
            pieces.append(_read_file(path, kind))
    return _joined(paths, pieces)


def _chosen(modality: str | None) -> Modality | None:
    return None if modality is None else choice(Modality, modality, "modality")


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
    return Items(items=texts, names=names, modality=Modality.TEXT, ignored=notes)


def _read_file(path: Path, modality: Modality | None) -> Items:
    """Take a file that was named as one item; with a modality given, whatever its suffix."""
    kind = modality or modality_of(path)
    if kind in (None, Modality.TABLE) or not path.is_file():
        raise InvalidInput(
            f"{shown(path)} cannot be an item",
            got="another kind of file" if path.exists() else "no such file or folder",
            allowed=f"{known_suffixes()}; tables: {' '.join(TABLES)}",
            remedy="Name another file, or choose the modality.",
        )
    return Items(items=(path,), names=(shown(path),), modality=kind)


def _joined(paths: Sequence[Path], pieces: Sequence[Items]) -> Items:
    """Put the items of several paths in a row, in the order of the paths."""
    kinds = sorted({piece.modality for piece in pieces})
    if len(kinds) != 1:
        raise InvalidInput(
            "the inputs hold items of several kinds" if kinds else "there is no input",
            got=", ".join(kinds) or "none",
            allowed="items of one kind",
            remedy="Ask for each kind by itself.",
        )
    if len(pieces) == 1:
        return pieces[0]
    if kinds[0] is Modality.TABLE:
        pandas = optional("pandas", extra="encoders")
        items: Any = pandas.concat([piece.items for piece in pieces], ignore_index=True)
    else:
        items = tuple(chain.from_iterable(piece.items for piece in pieces))
    return Items(
        items=items,
        names=tuple(chain.from_iterable(map(_full_names, paths, pieces))),
        modality=kinds[0],
        ignored=tuple(chain.from_iterable(piece.ignored for piece in pieces)),
        content_column=pieces[0].content_column,
    )


def _full_names(path: Path, piece: Items) -> tuple[str, ...]:
    """Put the path before names that are relative to it."""
    if path.is_dir():
        return tuple(f"{shown(path)}/{name}" for name in piece.names)
    if piece.modality is Modality.TABLE:
        return tuple(f"{shown(path)} {name}" for name in piece.names)
    return piece.names
