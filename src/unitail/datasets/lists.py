"""Text files that list items with their labels: three customs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unitail.datasets.loader import Found, OneSet, check_there, read_lines
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput

PRESENT, DIFFICULT, ABSENT = "1", "0", "-1"
"""The flags of Pascal VOC."""


@dataclass(frozen=True, kw_only=True)
class JoinedLists(OneSet):
    """Numbered items, numbered classes, and which item has which class, as in CUB."""

    paths: str
    """Lines ITEM_NUMBER PATH."""
    labels: str
    """Lines ITEM_NUMBER CLASS_NUMBER."""
    names: str
    """Lines CLASS_NUMBER NAME."""
    images: str
    """The folder that paths begin in."""
    modulus: int = 1
    """Only classes whose number leaves the remainder below are taken."""
    remainder: int = 0

    def read(self, root: Path, modality: Modality) -> Found:
        """Join the three lists."""
        paths, names = _pairs(root / self.paths), _pairs(root / self.names)
        labels = _pairs(root / self.labels)
        for item, number in labels.items():
            _check_known(item, "item", paths, root / self.labels)
            _check_known(number, "class", names, root / self.labels)
        chosen = [
            item
            for item, number in labels.items()
            if int(number) % self.modulus == self.remainder % self.modulus
        ]
        items = [root / self.images / paths[item] for item in chosen]
        check_there(items, root)
        left_out = {"items of classes of other splits": len(labels) - len(chosen)}
        return Found(items, [names[labels[item]] for item in chosen], _some(left_out))


@dataclass(frozen=True, kw_only=True)
class LabelLists(OneSet):
    """Lines ITEM LABEL, where the label may have spaces, as in FGVC-Aircraft."""

    files: tuple[str, ...]
    path: str
    """Of an item, with {item} for its name."""
    class_file: str
    """All labels, one in a line."""
    modulus: int = 1
    """Only labels whose line, from 0, leaves the remainder below are taken."""
    remainder: int = 0

    def read(self, root: Path, modality: Modality) -> Found:
        """Read all lists one after the other."""
        names = read_lines(root / self.class_file)
        places = {name: str(place) for place, name in enumerate(names)}
        items: list[Path | str] = []
        labels: list[str] = []
        others = 0
        for file in self.files:
            for item, label in _pairs(root / file).items():
                _check_known(label, "label", places, root / file)
                if int(places[label]) % self.modulus != self.remainder % self.modulus:
                    others += 1
                    continue
                items.append(root / self.path.format(item=item))
                labels.append(label)
        check_there(items, root)
        return Found(items, labels, _some({"items of classes of other splits": others}))


@dataclass(frozen=True, kw_only=True)
class PresenceLists(OneSet):
    """A file for each class with lines ITEM FLAG, as in Pascal VOC; items of one class are taken.

    The flags are 1 (there), 0 (there, but difficult) and -1 (not there). An item counts if one
    class is there and all others are not, not even with difficulty.
    """

    files: str
    """Of a class, with {name} for it."""
    only: tuple[str, ...]
    """The classes."""
    path: str
    """Of an item, with {item} for its name."""

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
        for item, own in sorted(flags.items()):
            there = [name for name, flag in own.items() if flag == PRESENT]
            if sum(flag != ABSENT for flag in own.values()) == len(there) == 1:
                items.append(root / self.path.format(item=item))
                labels += there
            else:
                reason = _why_not(there, own)
                left_out[reason] = left_out.get(reason, 0) + 1
        check_there(items, root)
        return Found(items, labels, left_out)


def _why_not(there: Sequence[str], flags: dict[str, str]) -> str:
    """Say why an item is not one of exactly one class."""
    if there:
        return "items of several classes"
    difficult = DIFFICULT in flags.values()
    return "items of difficult objects only" if difficult else "items of no class"


def _pairs(path: Path) -> dict[str, str]:
    """Read lines of two words, the second perhaps with spaces; each first word comes once."""
    pairs: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        words = line.split(maxsplit=1)
        if len(words) != 2 or words[0] in pairs:
            what = "one word" if len(words) != 2 else f"{words[0]!r} a second time"
            raise _wrong(path, f"{what} in line {number}", "two words in a line, the first once")
        pairs[words[0]] = words[1]
    return pairs


def _check_known(name: str, what: str, known: Sequence[str] | dict[str, str], path: Path) -> None:
    if name not in known:
        raise _wrong(path, f"the {what} {name!r}", f"one of {len(known):,} that are listed")


def _wrong(path: Path, got: str, allowed: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is not the list that it should be",
        got=got,
        allowed=allowed,
        remedy="Fetch the file again: this may be another version.",
    )


def _some(counts: dict[str, int]) -> dict[str, int]:
    return {reason: number for reason, number in counts.items() if number}
