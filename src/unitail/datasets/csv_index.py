"""CSV files with a row for each item: its path or text, its label, perhaps its split."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from unitail.configuration import parse_json
from unitail.datasets.loader import DataSetPart, Found, check_files_exist, column, read_rows
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.wording import some

ANY = "*"


@dataclass(frozen=True, kw_only=True)
class CsvIndex:
    """One table, or one in each folder of a collection."""

    file: str
    """Path of the table."""
    item: str
    """Column of paths, of texts, or of URLs, of which the last part is used."""
    label: str
    """Column of labels. "PREFIX/*" makes a data set from each column PREFIX/TASK, with the names of
    its classes in the column TASK."""
    path: str = "{item}"
    """Path of an item, with {item} for the value of its column."""
    separator: str = ""
    """Separator between several labels of an item; only items with one label are used."""
    no_item: tuple[str, ...] = ()
    """Values in the column of items that stand for a missing item, such as N/A."""
    split_column: str = ""
    splits: tuple[str, ...] = ()
    """Values of the split column to use; empty for all."""
    rename: dict[str, str] = field(default_factory=dict)
    """New names of classes, by their names in the file."""
    each: str = ""
    """Glob pattern for the folders of a collection, each of which is a data set."""
    leave_out: tuple[str, ...] = ()
    """Folders of the collection to leave out."""
    columns_from: str = ""
    """A JSON file next to the table that may name other columns (image_column_name, ...)."""

    def parts(self, root: Path) -> list[DataSetPart]:
        """List the data sets: one for each folder of a collection, and for each task."""
        if not self.each:
            return self._tasks(DataSetPart("", self, root))
        folders = [path.parent for path in sorted(root.glob(f"{self.each}/{self.file}"))]
        kept = [folder for folder in folders if folder.name not in self.leave_out]
        if not kept:
            raise InvalidInput(
                f"{root} holds no data set of the collection",
                got=some([path.name for path in sorted(root.iterdir())]) or "nothing",
                allowed=f"folders with {self.file}",
                remedy="Name the folder that holds them with --root.",
            )
        whole = replace(self, each="")
        return [
            task
            for folder in kept
            for task in whole._tasks(DataSetPart(_word(folder.name), whole, folder))
        ]

    def read(self, root: Path, modality: Modality) -> Found:
        """Read the items and labels of all rows."""
        path = root / self.file
        items: list[str] = []
        labels: list[str] = []
        left_out: dict[str, int] = {}
        rows_of_item: Counter[str] = Counter()
        item_column, label_column = self._columns(root)
        for number, row in read_rows(path):
            label = column(row, label_column, path)
            item = column(row, item_column, path)
            rows_of_item[item] += 1
            reason = self._reason_against(row, item, label, path)
            if reason:
                left_out[reason] = left_out.get(reason, 0) + 1
                continue
            if not item:
                raise InvalidInput(
                    f"line {number} of {path} names no item",
                    got=f"an empty cell {item_column!r}",
                    allowed="an item in each row",
                    remedy="Fetch the file again.",
                )
            items.append(item)
            labels.append(self.rename.get(label, label))
        if modality is Modality.TEXT:
            return Found(items, labels, left_out)
        kept = [place for place, item in enumerate(items) if rows_of_item[item] == 1]
        if len(kept) < len(items):  # otherwise a file could be both example and query
            left_out["rows that share a file"] = len(items) - len(kept)
        files = [root / self._path(items[place]) for place in kept]
        check_files_exist(files, root)
        return Found(files, [labels[place] for place in kept], left_out)

    def _reason_against(self, row: dict[str, str], item: str, label: str, path: Path) -> str:
        """Return why a row is left out; empty if it is used."""
        if self.splits and column(row, self.split_column, path) not in self.splits:
            return "items of other splits"
        if item in self.no_item:
            return "rows without a file"
        if not label:
            return "items without a label"
        several = bool(self.separator) and len(label.split(self.separator)) > 1
        return "items of several classes" if several else ""

    def _path(self, item: str) -> str:
        name = item.rsplit("/", 1)[-1] if "://" in item else item
        return self.path.format(item=name)

    def _columns(self, root: Path) -> tuple[str, str]:
        """Return the columns of items and labels, which `columns_from` may override."""
        if not self.columns_from or not (root / self.columns_from).exists():
            return self.item, self.label
        path = root / self.columns_from
        try:
            table = parse_json(path.read_text(encoding="utf-8-sig"))
            item = table.get("image_column_name", self.item)
            return str(item), str(table.get("category_column_name", self.label))
        except (OSError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"{path} cannot be read",
                got=f"{type(error).__name__}: {error}",
                allowed="the published JSON file",
                remedy="Fetch the file again.",
            ) from error

    def _tasks(self, whole: DataSetPart) -> list[DataSetPart]:
        """Return a data set for each task, if the column of labels stands for several."""
        if not self.label.endswith(ANY):
            return [whole]
        prefix = self.label.removesuffix(ANY)
        _, first = next(read_rows(whole.root / self.file), (0, {}))
        tasks = [name.removeprefix(prefix) for name in first if name.startswith(prefix)]
        return [
            DataSetPart(
                f"{whole.name}_{_word(task)}".strip("_"), replace(self, label=task), whole.root
            )
            for task in tasks
        ]


def _word(name: str) -> str:
    """Convert the name of a folder or task to a part of a data set's name."""
    return "_".join(name.replace("/", " ").lower().split())
