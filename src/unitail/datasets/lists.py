"""Data sets with text files that list items and their labels, in three formats."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unitail.datasets.loader import Found, OneSet, check_files_exist, read_lines
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput

PRESENT, DIFFICULT, ABSENT = "1", "0", "-1"
"""Flags of Pascal VOC."""


@dataclass(frozen=True, kw_only=True)
class JoinedLists(OneSet):
    """Three lists: numbered items, numbered classes, and the class of each item, as in CUB."""

    paths: str
    """Lines ITEM_NUMBER PATH."""
    labels: str
    """Lines ITEM_NUMBER CLASS_NUMBER."""
    names: str
    """Lines CLASS_NUMBER NAME."""
    images: str
    """Folder that paths are relative to."""
    modulus: int = 1
    """Only classes whose number modulo this equals the remainder are used."""
    remainder: int = 0

    def read(self, root: Path, modality: Modality) -> Found:
        """Join the three lists."""
        paths, names = _pairs(root / self.paths), _pairs(root / self.names)
        labels = _pairs(root / self.labels)
        for item, number in labels.items():
            _check_listed(item, "item", paths, root / self.labels)
            _check_listed(number, "class", names, root / self.labels)
        chosen = [
            item
            for item, number in labels.items()
            if int(number) % self.modulus == self.remainder % self.modulus
        ]
        items = [root / self.images / paths[item] for item in chosen]
        check_files_exist(items, root)
        left_out = {"items of classes of other splits": len(labels) - len(chosen)}
        return Found(items, [names[labels[item]] for item in chosen], _nonzero(left_out))


@dataclass(frozen=True, kw_only=True)
class LabelLists(OneSet):
    """Lines ITEM LABEL, where the label may have spaces, as in FGVC-Aircraft."""

    files: tuple[str, ...]
    path: str
    """Path of an item, with {item} for its name."""
    class_file: str
    """File of all labels, one per line."""
    modulus: int = 1
    """Only labels whose line number, from 0, modulo this equals the remainder are used."""
    remainder: int = 0

    def read(self, root: Path, modality: Modality) -> Found:
        """Read all lists."""
        names = read_lines(root / self.class_file)
        places = {name: str(place) for place, name in enumerate(names)}
        items: list[Path | str] = []
        labels: list[str] = []
        num_left_out = 0
        for file in self.files:
            for item, label in _pairs(root / file).items():
                _check_listed(label, "label", places, root / file)
                if int(places[label]) % self.modulus != self.remainder % self.modulus:
                    num_left_out += 1
                    continue
                items.append(root / self.path.format(item=item))
                labels.append(label)
        check_files_exist(items, root)
        left_out = {"items of classes of other splits": num_left_out}
        return Found(items, labels, _nonzero(left_out))


@dataclass(frozen=True, kw_only=True)
class PresenceLists(OneSet):
    """A file for each class with lines ITEM FLAG, as in Pascal VOC; items of one class are used.

    The flags are 1 (present), 0 (present but difficult) and -1 (absent). An item is used if exactly
    one class is present and all others are absent.
    """

    files: str
    """Path of the file of a class, with {name} for the class."""
    only: tuple[str, ...]
    """The classes."""
    path: str
    """Path of an item, with {item} for its name."""

    def read(self, root: Path, modality: Modality) -> Found:
        """Collect the flags of all classes."""
        flags: dict[str, dict[str, str]] = {}
        for name in self.only:
            file = root / self.files.format(name=name)
            for item, flag in _pairs(file).items():
                if flag not in (PRESENT, DIFFICULT, ABSENT):
                    raise _wrong(file, f"the flag {flag!r} of {item}", "1, 0 or -1")
                flags.setdefault(item, {})[name] = flag
        items: list[Path | str] = []
        labels: list[str] = []
        left_out: dict[str, int] = {}
        for item, item_flags in sorted(flags.items()):
            present = [name for name, flag in item_flags.items() if flag == PRESENT]
            if sum(flag != ABSENT for flag in item_flags.values()) == len(present) == 1:
                items.append(root / self.path.format(item=item))
                labels += present
            else:
                reason = _reason_against(present, item_flags)
                left_out[reason] = left_out.get(reason, 0) + 1
        check_files_exist(items, root)
        return Found(items, labels, left_out)


def _reason_against(present: Sequence[str], flags: dict[str, str]) -> str:
    """Return why an item does not belong to exactly one class."""
    if present:
        return "items of several classes"
    difficult = DIFFICULT in flags.values()
    return "items of difficult objects only" if difficult else "items of no class"


def _pairs(path: Path) -> dict[str, str]:
    """Read lines of a unique first word and a second one, which may contain spaces."""
    pairs: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        words = line.split(maxsplit=1)
        if len(words) != 2 or words[0] in pairs:
            what = "one word" if len(words) != 2 else f"{words[0]!r} a second time"
            raise _wrong(path, f"{what} in line {number}", "two words per line, the first unique")
        pairs[words[0]] = words[1]
    return pairs


def _check_listed(name: str, what: str, listed: Sequence[str] | dict[str, str], path: Path) -> None:
    if name not in listed:
        raise _wrong(path, f"the {what} {name!r}", f"one of the {len(listed):,} that are listed")


def _wrong(path: Path, got: str, allowed: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is not the expected list",
        got=got,
        allowed=allowed,
        remedy="Fetch the file again: this may be another version.",
    )


def _nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {reason: number for reason, number in counts.items() if number}
