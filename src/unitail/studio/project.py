"""Open a project: its items, read as they were when they were labelled, its store and settings."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from unitail.errors import InvalidConfig, InvalidInput
from unitail.inputs.columns import SKIP
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import check_columns
from unitail.inputs.table_files import read_table, without_row_numbers
from unitail.missing_columns import no_chosen_column, no_label_column
from unitail.studio.catalogue import Catalogue, require_source
from unitail.studio.reading import Opening, ReadItems
from unitail.studio.schema import database_of, exists
from unitail.studio.settings import LABEL_COLUMN, ProjectSettings
from unitail.studio.store import Store
from unitail.wording import numbered, shown, some


@dataclass(frozen=True, eq=False)
class Project:
    """The items of a project, its store, and its settings."""

    catalogue: Catalogue
    store: Store
    settings: ProjectSettings
    notes: tuple[str, ...] = ()
    """What the user should know about the settings."""
    takes_table_labels: bool = True
    """Whether labels in the table count for rows that have none here: not if others are hidden."""


def open_project(source: Path, project: str | None, given: ProjectSettings) -> Project:
    """Read the items and open the store; `given` are the options of this call.

    What was stored when the project was first opened applies where no option is given. An option
    that differs replaces it, but is refused if it would hide labels.
    """
    require_source(source)
    columns = () if source.is_dir() else tuple(without_row_numbers(read_table(source)))
    _check_options(source, columns, given)
    opening = Opening(source, columns, given)
    if not exists(source, project):
        _, reading = opening.read()  # first: nothing is created if this fails
        store = Store(database_of(source, project))
        used = given.as_used(reading.catalogue.items)
        store.save_settings(asdict(used))
        return Project(reading.catalogue, store, used)
    store = Store(database_of(source, project))
    try:
        return _open_again(opening, store)
    except BaseException:
        store.close()
        raise


def _check_options(source: Path, columns: Sequence[str], given: ProjectSettings) -> None:
    """Raise an error for options about columns that do not exist, or that leave none."""
    kinds, label_column = given.columns or {}, given.label_column
    check_columns(ReadOptions(content_column=given.content_column, columns=kinds), source)
    for name, kind in kinds.items():
        if name not in columns:
            raise no_chosen_column(columns, name, kind)
    if columns and label_column is not None and label_column not in columns:
        raise no_label_column(shown(source), columns, label_column)
    labels = label_column or LABEL_COLUMN
    if labels in kinds:
        raise InvalidConfig(
            "the column of labels has no other kind",
            got=f"--column {labels}={kinds[labels]}",
            allowed="--column for the other columns",
            remedy=f"Leave it out, or name another --label-column than {labels}.",
        )
    if kinds and all(kinds.get(name) == SKIP for name in columns if name != labels):
        raise InvalidInput(
            "no column is left",
            got="--column NAME=skip for all of them",
            allowed="at least one that is used",
        )


def _open_again(opening: Opening, store: Store) -> Project:
    """Open a project whose database exists; that of a server may be empty."""
    before = store.settings()
    stored = ProjectSettings.of(before) if before else None
    opening = replace(opening, stored=stored, labelled=_labelled(store))
    settings, reading = opening.read()
    catalogue, count = reading.catalogue, len(opening.labelled)
    used = settings.as_used(catalogue.items)
    if stored is not None and count:  # labels stay with how they were given
        if reading.columns is not None or used.columns is None:
            used = settings.with_columns(reading.columns)
        elif reading.num_shown or settings.columns is None:
            used = settings.with_columns(used.columns)
        else:
            used = settings.keeping(used.columns)
        if used.formats is not None or reading.num_shown:  # of new columns, too
            recognised = settings.as_used(catalogue.items).formats or {}
            used = replace(used, formats={**recognised, **(used.formats or {})} or None)
    if used != stored and (stored is not None or reading.num_shown or not count):
        store.save_settings(asdict(used))
    _update_keys(catalogue, store)
    columns = reading.columns or settings.columns or {}
    gone = [name for name, kind in columns.items() if kind != SKIP and name not in opening.columns]
    notes = (
        *_note_encoder(stored, opening.given),
        *_note_columns(opening, gone, reading),
        *_note_hidden(opening, reading, columns_changed=bool(gone or reading.new)),
    )
    takes_labels = not count or reading.num_shown > 0
    return Project(catalogue, store, used, notes, takes_labels)


def _labelled(store: Store) -> frozenset[str]:
    return frozenset(row.item for row in store.since().labels if row.class_id is not None)


def _update_keys(catalogue: Catalogue, store: Store) -> None:
    """Give rows that were labelled in earlier versions the keys of this one."""
    stored = {row.item for row in store.since().labels}
    if stored <= catalogue.places.keys():
        return
    pairs = zip(catalogue.keys_of_converted_cells(), catalogue.keys, strict=False)
    renamed = {old: new for old, new in pairs if old in stored and new not in stored}
    if renamed:
        store.rename_items(renamed)


def _note_encoder(stored: ProjectSettings | None, given: ProjectSettings) -> Iterator[str]:
    if stored is not None and given.encoder not in (None, stored.encoder):
        yield f"the encoder is now {given.encoder}; it was {stored.encoder or 'the default'}"


def _note_columns(opening: Opening, gone: Sequence[str], reading: ReadItems) -> Iterator[str]:
    source = shown(opening.source)
    if gone:
        names = some(map(repr, gone), 5)
        back = "; labels are in view again once they are back" if opening.labelled else ""
        yield f"{source} was read without columns that it had before: {names}{back}"
    if reading.new:
        remedy = "to use them, label anew with --project FILE"
        if opening.stored is not None and opening.stored.label_column not in opening.columns:
            remedy += "; if one of them holds the labels, name it with --label-column"
        yield (
            f"{source} has columns that are not used, since the"
            f" {numbered(reading.num_shown, 'label')} of its rows were given without them:"
            f" {some(map(repr, reading.new), 5)}; {remedy}"
        )


def _note_hidden(opening: Opening, reading: ReadItems, *, columns_changed: bool) -> Iterator[str]:
    """Note if labels are of none of these items: of all of them, or because of changed columns."""
    count = len(opening.labelled)
    hidden = count - reading.num_shown
    if hidden == count and count:
        options = "--content-column, --label-column, --column or --modality"
        reason = f"have been given with another {options}"
        if opening.stored is not None:  # an older version stored none
            reason = f"be of earlier content of {shown(opening.source)}, and are kept"
        yield (
            f"none of the {numbered(count, 'label')} so far belongs to these items: they may"
            f" {reason}"
        )
    elif hidden and columns_changed:
        yield (
            f"{hidden:,} of the {numbered(count, 'label')} so far are of rows that are not among"
            " these, with their columns: they are kept"
        )
