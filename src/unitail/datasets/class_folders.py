"""Data sets with a folder for each class."""

from dataclasses import dataclass
from pathlib import Path

from unitail.datasets.loader import Found, OneSet, is_item, read_lines, shipped_list
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class ClassFolders(OneSet):
    """Files FOLDER/CLASS/ITEM."""

    folders: tuple[str, ...] = (".",)
    """Folders that hold the class folders."""
    only: tuple[str, ...] = ()
    """Classes to use; other folders are left out."""
    class_file: str = ""
    """A file of the data set with the classes to use, one per line."""
    class_list: str = ""
    """A list of the classes to use that comes with the package."""

    def read(self, root: Path, modality: Modality) -> Found:
        """List the files of all classes."""
        wanted = self._wanted(root)
        items: list[Path | str] = []
        labels: list[str] = []
        left_out: dict[str, int] = {}
        for folder in self.folders:
            for name in _subfolders(root / folder):
                if wanted and name not in wanted:
                    _count(left_out, "class folders of other splits", 1)
                    continue
                files = sorted((root / folder / name).iterdir())
                members = [path for path in files if is_item(path, modality)]
                _count(left_out, "files of other kinds", len(files) - len(members))
                items += members
                labels += [name] * len(members)
        absent = [name for name in wanted if name not in set(labels)]
        return Found(items, labels, left_out, absent)

    def _wanted(self, root: Path) -> list[str]:
        if self.class_file:
            return read_lines(root / self.class_file)
        return shipped_list(self.class_list) if self.class_list else list(self.only)


def _subfolders(folder: Path) -> list[str]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise InvalidInput(
            f"{folder} cannot be read",
            got="no such folder" if not folder.exists() else str(error),
            allowed="a folder with a subfolder for each class",
            remedy="Name the folder that holds it with --root; `unitail data info` shows the"
            " layout.",
        ) from error
    return [path.name for path in paths if path.is_dir() and not path.name.startswith(".")]


def _count(left_out: dict[str, int], reason: str, number: int) -> None:
    if number:
        left_out[reason] = left_out.get(reason, 0) + number
