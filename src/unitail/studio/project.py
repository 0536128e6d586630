"""A project's settings: how its items are read, stored with its labels when it is first opened.

The key of a text or of a row depends on which columns are used. So a table that was once opened
with `--content-column body` is read so again, an option that would hide labels is refused, and
columns that are new in the table are not used while there are labels.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidConfig, UserError
from unitail.inputs.columns import SKIP
from unitail.inputs.items import Items, ReadOptions
from unitail.inputs.read import check_columns
from unitail.inputs.table_files import read_table, without_row_numbers
from unitail.missing_columns import no_chosen_column, no_label_column
from unitail.studio.catalogue import Catalogue, require_source
from unitail.studio.schema import database_of, exists
from unitail.studio.store import Store
from unitail.wording import numbered, shown, some

LABEL_COLUMN = "label"
"""The label column of a table if none is named."""


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """How the items of a project are read and encoded; None: as recognised, or the default."""

    label_column: str | None = None
    content_column: str | None = None
    modality: str | None = None
    encoder: str | None = None
    columns: Mapping[str, str] | None = None
    """Kind of each column of a table whose rows are the items, as for `predict --column`."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "ProjectSettings":
        """Return stored settings; those that a newer version added are ignored."""
        return cls(**{each.name: stored.get(each.name) for each in fields(cls)})

    def as_used(self, items: Items) -> "ProjectSettings":
        """Return these settings with what was recognised, so that it is not guessed again."""
        return replace(
            self,
            label_column=self.label_column or LABEL_COLUMN,
            content_column=items.content_column,
            modality=str(items.modality),
            columns=self._kinds(items),
        )

    def _kinds(self, items: Items) -> dict[str, str] | None:
        """Return the kind of each column, as chosen or as recognised."""
        if items.modality is not Modality.TABLE or items.layout is None:
            return None
        layout = items.layout
        recognised = {
            **{name: str(item.modality) for name, item in layout.contents.items()},
            **dict.fromkeys(layout.features, str(Modality.TABLE)),
            **dict.fromkeys(layout.unused, SKIP),
        }
        chosen = self.columns or {}
        return {name: chosen.get(name, kind) for name, kind in recognised.items()}

    def with_chosen(self, given: "ProjectSettings") -> "ProjectSettings":
        """Return these settings with the given options in their place, but the same columns."""
        chosen = {name: value for name, value in asdict(given).items() if value is not None}
        return replace(self, **{**chosen, "columns": self.columns})

    def differences(self, given: "ProjectSettings") -> Iterator[tuple[str, str, str | None]]:
        """Yield options that differ: name, given value, value here; the encoder may differ."""
        for name in ("label_column", "content_column", "modality"):
            value, here = getattr(given, name), getattr(self, name)
            if value is not None and value != here:
                yield name, value, here
        for name, kind in (given.columns or {}).items():
            known = (self.columns or {}).get(name, SKIP)
            if kind != known:
                yield "column", f"{name}={kind}", f"{name}={known}"


@dataclass(frozen=True, eq=False)
class Project:
    """The items of a project, its store, and its settings."""

    catalogue: Catalogue
    store: Store
    settings: ProjectSettings
    notes: tuple[str, ...] = ()
    """What the user should know about the settings."""


@dataclass(frozen=True, eq=False)
class _Opening:
    """What is there before the items are read."""

    source: Path
    columns: Collection[str]
    """Columns of the table; none for a folder."""
    given: ProjectSettings
    """The options of this call."""
    stored: ProjectSettings | None = None
    labelled: frozenset[str] = frozenset()
    """Keys of the items with a label."""

    def settings(self) -> ProjectSettings:
        """Return the stored settings with what is given in their place."""
        if self.stored is None:
            return self.given
        differences = list(self.stored.differences(self.given))
        if self.labelled:
            self._require_same_items(differences)
        elif differences:  # all but the encoder is recognised anew
            return replace(self.given, encoder=self.given.encoder or self.stored.encoder)
        return self.stored.with_chosen(self.given)

    def _require_same_items(self, differences: Sequence[tuple[str, str, str | None]]) -> None:
        """Raise if an option differs from the one that the labelled items were read with."""
        for name, value, before in differences:
            if not self._was_renamed(name, value, before):
                option = f"--{name.replace('_', '-')}"
                labels = numbered(len(self.labelled), "label")
                raise InvalidConfig(
                    f"the labels of {shown(self.source)} were given with another {option}",
                    got=f"{option} {value}",
                    allowed=f"{before or 'none'}, as for the {labels} so far",
                    remedy=f"Leave out {option}, or keep other labels elsewhere with --project"
                    " FILE.",
                )

    def _was_renamed(self, name: str, value: str, before: str | None) -> bool:
        """Return whether an option names a column of which no key depends, and the old is gone."""
        assert self.stored is not None
        is_used = (self.stored.columns or {}).get(value, SKIP) != SKIP
        return name.endswith("_column") and before not in self.columns and not is_used

    def read(self, settings: ProjectSettings) -> tuple[Catalogue, list[str]]:
        """Read the items; return also the columns that are not used because they are new."""
        chosen = settings.columns or {}
        kinds = {name: kind for name, kind in chosen.items() if name in self.columns}
        if set(chosen.values()) - {SKIP} and not set(kinds.values()) - {SKIP}:
            kinds = {}  # all that was used is gone
        if self.labelled and kinds:
            known = {*chosen, settings.label_column}
            new = [name for name in self.columns if name not in known]
            catalogue = self._read(settings, {**kinds, **dict.fromkeys(new, SKIP)})
            if not new or self.has_labels(catalogue):
                return catalogue, new
        try:
            return self._read(settings, kinds), []
        except UserError:
            if self.labelled or self.stored is None:
                raise
            return self._read(self.given, self.given.columns or {}), []  # other content by now

    def _read(self, settings: ProjectSettings, kinds: Mapping[str, str]) -> Catalogue:
        return Catalogue.read(
            self.source,
            label_column=settings.label_column or LABEL_COLUMN,
            content_column=settings.content_column,
            # The kinds of all columns say more than "table", which excludes texts.
            modality=self.given.modality if kinds else settings.modality,
            columns=kinds,
        )

    def has_labels(self, catalogue: Catalogue) -> bool:
        """Return whether there is a label of these items, by today's keys or by earlier ones."""
        keys = {*catalogue.keys, *catalogue.keys_of_converted_cells()}
        return not self.labelled.isdisjoint(keys)


def open_project(source: Path, project: str | None, given: ProjectSettings) -> Project:
    """Read the items and open the store; `given` are the options of this call.

    What was stored when the project was first opened applies where no option is given. An option
    that differs replaces it, but is refused if labels belong to items that are read otherwise.
    """
    require_source(source)
    columns = () if source.is_dir() else tuple(without_row_numbers(read_table(source)))
    _check_options(source, columns, given)
    opening = _Opening(source, columns, given)
    if not exists(source, project):
        catalogue, _ = opening.read(given)  # first: nothing is created if this fails
        store = Store(database_of(source, project))
        used = given.as_used(catalogue.items)
        store.save_settings(asdict(used))
        return Project(catalogue, store, used)
    store = Store(database_of(source, project))
    try:
        return _open_again(opening, store)
    except BaseException:
        store.close()
        raise


def _check_options(source: Path, columns: Sequence[str], given: ProjectSettings) -> None:
    """Raise an error for options about columns that do not exist."""
    kinds = given.columns or {}
    check_columns(ReadOptions(content_column=given.content_column, columns=kinds), source)
    for name, kind in kinds.items():
        if name not in columns:
            raise no_chosen_column(columns, name, kind)
    if columns and given.label_column is not None and given.label_column not in columns:
        raise no_label_column(shown(source), columns, given.label_column)


def _open_again(opening: _Opening, store: Store) -> Project:
    """Open a project whose database exists; that of a server may be empty."""
    before = store.settings()
    stored = ProjectSettings.of(before) if before else None
    opening = replace(opening, stored=stored, labelled=_labelled(store))
    settings = opening.settings()
    catalogue, new = opening.read(settings)
    _update_keys(catalogue, store)
    labelled = _labelled(store)
    hidden = len(labelled - catalogue.places.keys())
    used = settings.as_used(catalogue.items)
    if stored is not None and labelled:  # labels stay with how they were given
        recognised = None if hidden == len(labelled) else used.columns
        used = replace(settings, columns=stored.columns or recognised)
    if used != stored and (stored is not None or hidden < len(labelled) or not labelled):
        store.save_settings(asdict(used))
    gone = [name for name in settings.columns or () if name not in opening.columns]
    notes = (
        *_note_encoder(stored, opening.given),
        *_note_columns(opening, gone, new),
        *_note_hidden(opening, hidden, len(labelled), columns_changed=bool(gone or new)),
    )
    return Project(catalogue, store, used, notes)


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


def _note_columns(opening: _Opening, gone: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    source = shown(opening.source)
    if gone:
        names = some(map(repr, gone), 5)
        yield f"{source} was read without columns that it had before: {names}"
    if new:
        yield (
            f"{source} has columns that are not used, since its"
            f" {numbered(len(opening.labelled), 'label')} so far were given without them:"
            f" {some(map(repr, new), 5)}; to use them, label anew with --project FILE"
        )


def _note_hidden(
    opening: _Opening, hidden: int, count: int, *, columns_changed: bool
) -> Iterator[str]:
    """Note if labels are of none of these items: of all of them, or because of changed columns."""
    if hidden == count and count:
        reason = "have been given with another --content-column, --label-column or --modality"
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
