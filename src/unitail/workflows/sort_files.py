"""Sort files into a folder for each class by their answers; nothing is ever overwritten."""

import filecmp
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from unitail.errors import CannotWrite, InvalidInput
from unitail.files import disk_errors
from unitail.inputs.items import FILE, Items, Record
from unitail.wording import exact, shown
from unitail.workflows.answers import Answers, State

OWN_FOLDERS = {State.DOUBTFUL: "_doubtful", State.NOVEL: "_novel"}
"""Folders for answers to look at; classes never have them."""
UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
"""What some system does not take in a name."""
MAX_NAME_BYTES = 200
"""Of a folder or file; systems take 255, and numbers may be added."""


class SortBy(StrEnum):
    """What happens to the files."""

    COPY = "copy"
    LINK = "link"
    MOVE = "move"


@dataclass(frozen=True)
class Step:
    """One file, and where it goes."""

    source: Path
    target: Path
    is_there: bool
    """Whether the same content lies there already: then nothing is done."""


def check_sorting(target: Path, inputs: Iterable[Path]) -> None:
    """Refuse a folder that cannot take files, or that is read as examples or queries."""
    if os.path.lexists(target) and not target.is_dir():
        raise CannotWrite(
            f"files cannot be sorted into {shown(target)}",
            got="a file" if target.exists() else "a link that leads nowhere",
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
    """Say where each file goes: the likely by class, the doubtful and the novel apart.

    Files that the user corrected go where they said. Names that are taken, by another file here or
    on the disk, get a number.
    """
    files = [(queries.items[each.place], each.label, each.state) for each in result.answers]
    files += [(item, label, State.GIVEN) for item, label in queries.given]
    folders = _class_folders(label for _, label, _ in files)
    taken: set[str] = set()
    steps = []
    for item, label, state in files:
        folder = target / OWN_FOLDERS.get(state, folders[label])
        step = _free(item, folder / _shortened(Path(item).name), taken)
        taken.add(_folded(step.target))
        steps.append(step)
    return steps


def require_files(queries: Items) -> None:
    """Refuse texts and rows, which cannot be sorted into folders."""
    if not all(isinstance(item, Path) for item in queries.items):
        raise InvalidInput(
            "only files can be sorted",
            got=f"{queries.modality} items that are not files",
            allowed="folders, files, or tables of paths",
            remedy="Name the column of files with --content-column, or write the answers to a file"
            " with --out.",
        )


def sort_files(steps: Sequence[Step], by: SortBy) -> list[Step]:
    """Copy, link or move; a file that has appeared since is not overwritten but refused.

    Files that have vanished since are left out, and returned.
    """
    act = {SortBy.COPY: _copy, SortBy.LINK: _link, SortBy.MOVE: _move}[by]
    gone = []
    for step in steps:
        if step.is_there:
            continue
        try:
            if step.source.exists():  # a link to nothing would be made without an error
                with disk_errors(step.target):
                    step.target.parent.mkdir(parents=True, exist_ok=True)
                    act(step.source, step.target)
                continue
        except CannotWrite:
            if step.source.exists():
                raise
        gone.append(step)
    return gone


def where_moved(items: Items, steps: Iterable[Step]) -> Items:
    """Return items after they were moved: paths of files that were named lead to them again.

    Paths in a user's own table stay as they are.
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


def _class_folders(labels: Iterable[str]) -> dict[str, str]:
    """Give each class a folder with a name that any system takes."""
    folders: dict[str, str] = {}
    taken = {name.casefold() for name in OWN_FOLDERS.values()}
    for label in sorted(set(labels)):
        name = _shortened(UNSAFE.sub("_", label).strip(". ") or "_")
        folders[label] = _numbered(name, lambda each: each.casefold() in taken)
        taken.add(folders[label].casefold())
    return folders


def _free(source: Path, target: Path, taken: set[str]) -> Step:
    """Find a name that is not taken, or the place where the same content lies already."""
    is_there = False

    def is_taken(name: str) -> bool:
        nonlocal is_there
        path = target.with_name(name)
        if _folded(path) in taken:
            return True
        both = path.is_file() and source.is_file()  # which may have vanished
        is_there = both and filecmp.cmp(source, path, shallow=False)
        return os.path.lexists(path) and not is_there

    name = _numbered(target.name, is_taken)
    return Step(source, target.with_name(name), is_there)


def _numbered(name: str, is_taken: Callable[[str], bool]) -> str:
    """Add the first number that makes a name free: "x.png", "x (2).png", ..."""
    stem, suffix = os.path.splitext(name)
    free, number = name, 1
    while is_taken(free):
        number += 1
        free = f"{stem} ({number}){suffix}"
    return free


def _shortened(name: str) -> str:
    """Cut a name in the middle, so that its suffix stays."""
    stem, suffix = os.path.splitext(name)
    room = MAX_NAME_BYTES - len(os.fsencode(suffix))
    if len(os.fsencode(stem)) <= room or room <= 0:
        return name
    cut = os.fsencode(stem)[:room]
    while True:  # never in the middle of a character
        try:
            return cut.decode() + suffix
        except UnicodeDecodeError as error:
            if error.start < len(cut) - 3:  # not text at all
                return os.fsdecode(cut) + suffix
            cut = cut[: error.start]


def _folded(path: Path) -> str:
    """Write a path as systems see it that do not tell cases apart."""
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
    """Rename, but never onto another file."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a disk without links
        if os.path.lexists(target):
            raise FileExistsError(f"{target} is there") from None
        source.rename(target)
