"""Sort files by their answers into one folder per class; nothing is ever overwritten."""

import filecmp
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from unitail.configuration import parse_json
from unitail.errors import CannotWrite, InvalidInput
from unitail.files import disk_errors, write_text
from unitail.inputs.folders import OWN_FOLDER
from unitail.inputs.items import FILE, Items, Record
from unitail.wording import exact, shown
from unitail.workflows.answers import Answers, State

OWN_FOLDERS = {State.DOUBTFUL: "_doubtful", State.NOVEL: "_novel"}
"""Folders for uncertain answers; classes never get these names."""
UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
"""Characters that some systems do not allow in file names."""
MAX_NAME_BYTES = 200
"""Longest name of a folder or file; systems allow 255, and numbers may be appended."""


RECORD = "sorted.json"
"""Lists what earlier runs made, in a folder that is never read as a class."""


class SortBy(StrEnum):
    """How files are put into their folders."""

    COPY = "copy"
    LINK = "link"
    MOVE = "move"


@dataclass(frozen=True)
class Step:
    """One file and its new path."""

    source: Path
    target: Path
    is_there: bool
    """Whether the target exists with the same content: then nothing is done."""


def check_sorting(target: Path, inputs: Iterable[Path]) -> None:
    """Raise an error if the target is not a folder, or lies inside a folder that is read."""
    if os.path.lexists(target) and not target.is_dir():
        raise CannotWrite(
            f"files cannot be sorted into {shown(target)}",
            got="a file" if target.exists() else "a broken link",
            allowed="a folder",
        )
    for path in inputs:
        if path.is_dir() and target.resolve().is_relative_to(path.resolve()):
            raise CannotWrite(
                f"files cannot be sorted into {shown(target)}",
                got=f"a folder in {shown(path)}, which is read",
                allowed="a folder outside, so that answers are not read as examples next time",
                remedy="Name another folder.",
            )


def plan_sorting(result: Answers, queries: Items, target: Path) -> list[Step]:
    """Plan where each file goes: likely ones by class, doubtful and novel ones to own folders.

    Files that the user labelled go to the class of the label. A name that is taken, by another step
    or on the disk, gets a number.
    """
    files = [(queries.items[each.place], each.label, each.state) for each in result.answers]
    files += [(item, label, State.GIVEN) for item, label in queries.given]
    folders = _class_folders(label for _, label, _ in files)
    taken: set[str] = set()
    steps = []
    for item, label, state in files:
        folder = target / OWN_FOLDERS.get(state, folders[label])
        step = _plan_step(item, folder / _shortened(Path(item).name), taken)
        taken.add(_folded(step.target))
        steps.append(step)
    return steps


def require_files(queries: Items) -> None:
    """Raise an error for texts and rows, which cannot be sorted into folders."""
    if not all(isinstance(item, Path) for item in queries.items):
        raise InvalidInput(
            "only files can be sorted",
            got=f"{queries.modality} items that are not files",
            allowed="folders, files, or tables of paths",
            remedy="Name the column of files with --content-column, or write the answers to a file"
            " with --out.",
        )


def sort_files(steps: Sequence[Step], by: SortBy) -> list[Step]:
    """Copy, link or move the files, and return the steps whose file has vanished since planning.

    A target that has appeared since then is an error; it is not overwritten.
    """
    act = {SortBy.COPY: _copy, SortBy.LINK: _link, SortBy.MOVE: _move}[by]
    vanished = []
    for step in steps:
        if step.is_there:
            continue
        try:
            if step.source.exists():  # a link to a missing file would be made without an error
                with disk_errors(step.target):
                    step.target.parent.mkdir(parents=True, exist_ok=True)
                    act(step.source, step.target)
                continue
        except CannotWrite:
            if step.source.exists():
                raise
        vanished.append(step)
    return vanished


def remove_outdated(steps: Sequence[Step], target: Path) -> list[Path]:
    """Remove copies and links that an earlier run made elsewhere in the target folder.

    These belong to files that have another folder now, or are links to files that are gone. Only
    what is still exactly as it was made is removed. What this run made is recorded for the next.
    """
    record = target / OWN_FOLDER / RECORD
    recorded = _recorded(record)
    now = {os.fspath(step.source.resolve()): step.target.relative_to(target) for step in steps}
    already_there = {os.fspath(step.source.resolve()) for step in steps if step.is_there}
    removed, kept = [], {}
    for source, name in recorded.items():
        path = target / name
        is_outdated = source in now if Path(source).exists() else path.is_symlink()
        if name == now.get(source) or not (is_outdated and _is_as_made(path, Path(source))):
            kept[source] = name
            continue
        path.unlink()
        removed.append(path)
        with suppress(OSError):  # it still holds other files
            path.parent.rmdir()
    with disk_errors(record):
        record.parent.mkdir(parents=True, exist_ok=True)
        # A copy that a user had put there is none of ours.
        made = {source: name for source, name in now.items() if source not in already_there}
        names = {source: os.fspath(name) for source, name in {**kept, **made}.items()}
        write_text(record, json.dumps(names, indent=0))
    return removed


def where_moved(items: Items, steps: Iterable[Step]) -> Items:
    """Return the items with their new paths after a move.

    Paths in a user's own table are not changed.
    """
    moved = {step.source: step.target for step in steps if not step.is_there}
    files = {exact(source): exact(target) for source, target in moved.items()}

    def cells(record: Record) -> Mapping[str, Any]:
        if record.source or set(record.cells) != {FILE}:
            return record.cells
        name = str(record.cells[FILE])
        return {FILE: files.get(name, files.get(name.removeprefix("./"), name))}

    return replace(
        items,
        items=tuple(moved.get(item, item) for item in items.items),
        given=tuple((moved.get(item, item), label) for item, label in items.given),
        records=tuple(replace(record, cells=cells(record)) for record in items.records),
    )


def _recorded(record: Path) -> dict[str, Path]:
    """Return what earlier runs made: the path inside the target folder of each source."""
    try:
        names = parse_json(record.read_bytes())
        paths = {str(source): Path(str(name)) for source, name in names.items()}
    except (OSError, ValueError, AttributeError):
        return {}
    return {
        source: path
        for source, path in paths.items()
        if not path.is_absolute() and ".." not in path.parts
    }


def _is_as_made(path: Path, source: Path) -> bool:
    """Return whether a file is a link to its source, or still an exact copy of it."""
    if path.is_symlink():
        return os.readlink(path) == os.fspath(source)
    return path.is_file() and source.is_file() and filecmp.cmp(source, path, shallow=False)


def _class_folders(labels: Iterable[str]) -> dict[str, str]:
    """Return a folder name for each class that is valid on any system."""
    folders: dict[str, str] = {}
    taken = {name.casefold() for name in OWN_FOLDERS.values()}
    for label in sorted(set(labels)):
        name = _shortened(UNSAFE.sub("_", label).strip(". ") or "_")
        folders[label] = _first_free(name, lambda each: each.casefold() in taken)
        taken.add(folders[label].casefold())
    return folders


def _plan_step(source: Path, target: Path, taken: set[str]) -> Step:
    """Plan a step to a free name, or to an existing file with the same content."""
    is_there = False

    def is_taken(name: str) -> bool:
        nonlocal is_there
        path = target.with_name(name)
        if _folded(path) in taken:
            return True
        both = path.is_file() and source.is_file()  # the source may have vanished
        is_there = both and filecmp.cmp(source, path, shallow=False)
        return os.path.lexists(path) and not is_there

    name = _first_free(target.name, is_taken)
    return Step(source, target.with_name(name), is_there)


def _first_free(name: str, is_taken: Callable[[str], bool]) -> str:
    """Return the first free name of "x.png", "x (2).png", "x (3).png", ..."""
    stem, suffix = os.path.splitext(name)
    free, number = name, 1
    while is_taken(free):
        number += 1
        free = f"{stem} ({number}){suffix}"
    return free


def _shortened(name: str) -> str:
    """Shorten a name that is too long, and keep its suffix."""
    stem, suffix = os.path.splitext(name)
    room = MAX_NAME_BYTES - len(os.fsencode(suffix))
    if len(os.fsencode(stem)) <= room or room <= 0:
        return name
    cut = os.fsencode(stem)[:room]
    while True:  # never in the middle of a character
        try:
            return cut.decode() + suffix
        except UnicodeDecodeError as error:
            if error.start < len(cut) - 3:  # the name is not valid text
                return os.fsdecode(cut) + suffix
            cut = cut[: error.start]


def _folded(path: Path) -> str:
    """Return a path as a case-insensitive file system compares it."""
    return os.fsdecode(path).casefold()


def _copy(source: Path, target: Path) -> None:
    fresh = target.with_name(f".{target.name}.new")
    try:
        shutil.copy2(source, fresh)
        _rename(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)


def _link(source: Path, target: Path) -> None:
    target.symlink_to(source.resolve())


def _move(source: Path, target: Path) -> None:
    if source.is_symlink():  # its target may be relative
        _link(source, target)
    else:
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError:  # another disk, or one without links
            _copy(source, target)
    source.unlink()


def _rename(source: Path, target: Path) -> None:
    """Rename a file, but never overwrite another."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a disk without links
        if os.path.lexists(target):
            raise FileExistsError(f"{target} exists") from None
        source.rename(target)
