"""Open the folders, tables or addresses that a user names as the rows of a job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from unitail.encoders.encoder import Modality
from unitail.engines import chunks
from unitail.engines.chunk_items import Reading, without_unread_dates
from unitail.engines.chunks import STREAMED, ListedStream, RowStream, TableStream
from unitail.engines.storage import Storage
from unitail.errors import InvalidInput, optional
from unitail.files import is_address
from unitail.inputs.cells import orders_of_dates, with_fixed_formats, written_styles
from unitail.inputs.columns import choose_content
from unitail.inputs.items import FILE, PLAIN, Items, LabelledItems, ReadOptions
from unitail.inputs.read import read_labelled, read_unlabelled
from unitail.inputs.recognise import common_modality, modality_of
from unitail.inputs.table_rows import items_of_rows
from unitail.missing_columns import no_label_column
from unitail.wording import numbered, some

TEXT = "text"
LABEL = "label"


@dataclass(frozen=True, eq=False)
class JobRows:
    """The rows of a job, and how workers read them."""

    stream: RowStream
    reading: Reading
    notes: tuple[str, ...] = ()
    """Notes for the user, a phrase each."""
    head_rows: int = 0
    """Number of first rows that decided formats which the examples leave open."""

    def note_unread(self, cells: Mapping[str, int]) -> str:
        """Return a phrase on the cells, by column, that were not read in its format."""
        like = self.reading.like
        dates = {} if like is None else orders_of_dates(like.items)
        counted = some(
            (
                f"{numbered(number, 'cell')} of {name!r} without a"
                f" {'date' if name in dates else 'number'}"
                for name, number in cells.items()
            ),
            5,
        )
        first = numbered(self.head_rows, "row")
        return f"{counted}: formats were decided by the examples and the first {first}"


def open_rows(
    names: Sequence[str],
    options: ReadOptions = PLAIN,
    *,
    labelled: bool = False,
    like: LabelledItems | None = None,
) -> JobRows:
    """Open tables or folders as the rows of a job, and decide how they are read.

    Tables (CSV, TSV, JSON lines, Parquet, or folders of Parquet files) are streamed, and their
    columns are recognised from the first rows. Folders of files are listed. `labelled` rows need
    labels: a column of a table, or class folders. With `like`, rows are read like those examples.
    """
    kind, label_column = options.like(like).modality, options.label_column
    tables = _tables([Storage(name) for name in names])
    if tables:
        stream = TableStream(tables)
        head = stream.head()
        _check_labels(head, tables[0], label_column, required=labelled)
        if kind is Modality.TABLE:
            reading, notes = _read_cells(head, like, label_column)
        else:
            reading, notes = _read_column(head, tables[0], options.content_column, kind, like), ()
        reading = replace(reading, label_column=label_column)
        return JobRows(stream, reading, notes, head_rows=len(head))
    if any(map(is_address, names)):
        return _listed_at_address(names, kind, labelled=labelled)
    paths = [Path(name) for name in names]
    if labelled:
        return _labelled_here(paths, options)
    return rows_of_items(read_unlabelled(paths, options, like=like))


def rows_of_items(items: Items) -> JobRows:
    """Return files or texts that were read already as the rows of a job."""
    if items.modality is Modality.TABLE:
        raise _not_streamed("cells of a file that is read in one piece, such as an Excel file")
    labels = items.labels if isinstance(items, LabelledItems) else None
    are_files = all(isinstance(item, Path) for item in items.items)
    sizes = [_size(item) for item in items.items] if are_files else None
    column = FILE if are_files else TEXT
    stream = ListedStream(column, [str(item) for item in items.items], labels, sizes)
    relative = are_files and not all(Path(item).is_absolute() for item in items.items)
    base = str(Path.cwd()) if relative else ""  # workers may run in another folder
    reading = Reading(modality=items.modality, column=column, are_files=are_files, base=base)
    return JobRows(stream, reading, (*items.guesses, *items.skipped))


def _tables(places: Sequence[Storage]) -> list[Storage]:
    """Return the tables in these places; an empty list unless all of them are tables."""
    tables: list[Storage] = []
    for place in places:
        if PurePosixPath(place.name).suffix.lower() in STREAMED and not place.is_folder:
            tables.append(place)
        elif place.is_folder:
            names = [name for name in place.names() if not name.startswith((".", "_"))]
            files = [place.inside(name) for name in names]
            if not files or not all(file.name.endswith(".parquet") for file in files):
                return []
            tables += files
        else:
            return []
    return tables


def _check_labels(
    head: Any,  # noqa: ANN401 - a table of pyarrow
    table: Storage,
    label_column: str,
    *,
    required: bool,
) -> None:
    """Raise an error if labels are required but missing, or are neither texts nor numbers."""
    columns = {each.name: each.type for each in head.schema}
    if label_column not in columns and required:
        raise no_label_column(table.name, list(columns), label_column)
    kind = columns.get(label_column)
    if kind is not None and not _is_plain(kind):
        raise InvalidInput(
            f"{table.name} has no text or number in each cell of {label_column!r}",
            got=kind,
            allowed="labels that are texts or numbers",
            remedy="Write the column as text, or name another one: --label-column NAME.",
        )


def _is_plain(kind: Any) -> bool:  # noqa: ANN401 - a type of pyarrow
    """Return whether cells of this type are scalars, such as texts, numbers and dates."""
    types = optional("pyarrow", extra="scale").types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    binary = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    return not any(is_(kind) for is_ in (*binary, types.is_nested))


def _read_column(
    head: Any,  # noqa: ANN401 - a table of pyarrow
    table: Storage,
    column: str | None,
    kind: Modality | None,
    like: LabelledItems | None,
) -> Reading:
    """Decide from the first rows of a table which column holds the items, and what they are."""
    pyarrow = optional("pyarrow", extra="scale")
    wanted = column or (like.content_column if like else None)
    binary = [each.name for each in head.schema if pyarrow.types.is_binary(each.type)]
    if wanted in binary or (wanted not in head.column_names and len(binary) == 1):
        chosen = wanted if wanted in binary else binary[0]
        return Reading(modality=_required(kind, binary), column=chosen)
    if wanted is not None and wanted not in head.column_names and column is None:
        wanted = None  # the column of the examples may have another name in this table
    frame = optional("pandas", extra="scale").DataFrame(head.to_pydict(), dtype=object)
    folder = Path(table.folder.name)
    column, content = choose_content(frame, folder, column=wanted, modality=kind)
    base = table.folder.name if content.are_files else ""
    if (
        base
        and not is_address(base)
        and not any((folder / str(x)).is_file() for x in frame[column])
    ):
        base = str(Path.cwd())
    return Reading(modality=content.modality, column=column, are_files=content.are_files, base=base)


def _read_cells(
    head: Any,  # noqa: ANN401 - a table of pyarrow
    like: LabelledItems | None,
    label_column: str,
) -> tuple[Reading, tuple[str, ...]]:
    """Decide how the rows of a table are read like the examples; return also notes.

    Formats of numbers and dates that the examples leave open are decided by the first rows.
    """
    contents = like.layout.contents if like is not None and like.layout is not None else {}
    files = [name for name, column in contents.items() if column.are_files]
    if like is None or files:
        got = f"files beside other cells, in {some(map(repr, files))}" if files else "features"
        raise _not_streamed(got)
    frame = optional("pandas", extra="scale").DataFrame(head.to_pydict(), dtype=object)
    first = items_of_rows(frame, Path("rows"), ReadOptions(label_column), like)
    _check_dates(first.items)
    table = with_fixed_formats(first.items, like=like.items)
    empty = replace(like, items=table, names=(), labels=(), records=())
    notes = (*first.guesses, *_note_decided(first.items, like.items, len(head)))
    return Reading(modality=Modality.TABLE, like=empty), notes


def _check_dates(first: Any) -> None:  # noqa: ANN401 - a DataFrame
    """Raise an error if no cell of a date column in the first rows is a date, but some are there.

    The encoder would, but workers pass it these columns without the cells that are not dates.
    """
    dated = without_unread_dates(first)
    for name in [name for name in orders_of_dates(first) if name in first]:
        given = first[name][first[name].notna()]
        if len(given) and dated[name].isna().all():
            raise InvalidInput(
                f"column {name!r} holds no dates, unlike the examples",
                got=repr(given.iloc[0]),
                allowed="dates, or empty cells",
                remedy="Correct the column.",
            )


def _note_decided(
    first: Any,  # noqa: ANN401 - DataFrames
    examples: Any,  # noqa: ANN401
    number: int,
) -> list[str]:
    """Return notes on the formats that the first rows decided, or left open like the examples."""
    orders, known = orders_of_dates(first), orders_of_dates(examples)
    styles = set(written_styles(first)) - set(written_styles(examples))
    decided = [
        name
        for name in first
        if name in styles or (orders.get(name) is not None and known.get(name) is None)
    ]
    is_open = [name for name in first if name in known and orders.get(name) is None]
    rows, notes = f"the first {numbered(number, 'row')}", list[str]()
    if decided:
        notes.append(f"{rows} decided the formats of {some(map(repr, decided))}")
    if is_open and number >= chunks.READ_ROWS:  # otherwise there are no more rows
        notes.append(
            f"neither the examples nor {rows} show whether the dates of"
            f" {some(map(repr, is_open))} have the day or the month first: later ones are read"
            " with the month first"
        )
    return notes


def _not_streamed(got: str) -> InvalidInput:
    return InvalidInput(
        "such tables cannot be streamed",
        got=got,
        allowed="CSV, JSON lines or Parquet with numbers, categories and texts, like the"
        " examples; or with one column of files",
        remedy="Name it with --content-column, or leave out --engine and --workers.",
    )


def _required(kind: Modality | None, columns: Sequence[str]) -> Modality:
    if kind is None:
        raise InvalidInput(
            "the kind of the files in a column of bytes is not known",
            got=some(map(repr, columns)),
            allowed="image or audio",
            remedy="Set it with --modality KIND.",
        )
    return kind


def _labelled_here(paths: Sequence[Path], options: ReadOptions) -> JobRows:
    """List the examples of a local folder, or of a table that is read in one piece."""
    if len(paths) != 1:
        raise InvalidInput("several folders", got=len(paths), allowed="one")
    return rows_of_items(read_labelled(paths[0], options))


def _listed_at_address(names: Sequence[str], kind: Modality | None, *, labelled: bool) -> JobRows:
    """List the files of a remote folder; its subfolders are classes."""
    if len(names) != 1:
        raise InvalidInput(
            "several folders at addresses", got=len(names), allowed="one", remedy="Name one."
        )
    folder = Storage(names[0])
    files = folder.files()
    kind = kind or common_modality(map(Path, files), folder.name)
    sizes = {name: size for name, size in files.items() if modality_of(Path(name)) is kind}
    tops = [name.split("/")[0] if "/" in name else "" for name in sizes]
    if not sizes or (labelled and not all(tops)):
        raise InvalidInput(
            f"{folder.name} holds no {kind} files" + (" in class folders" if sizes else ""),
            got=f"{len(files):,} files",
            allowed="a folder for each class, with its examples" if labelled else f"{kind} files",
        )
    skipped = len(files) - len(sizes)
    notes = (f"{skipped:,} files of other kinds",) if skipped else ()
    labels = tops if labelled else None
    stream = ListedStream(FILE, list(sizes), labels, list(sizes.values()))
    reading = Reading(modality=kind, column=FILE, are_files=True, base=folder.name)
    return JobRows(stream, reading, notes)


def _size(item: Any) -> int:  # noqa: ANN401 - a Path
    try:
        return int(item.stat().st_size)
    except OSError:  # reported when the file is read
        return -1
