"""A project's settings: how its items are read, stored with its labels when it is first opened.

The key of a text or of a row depends on how the table is read. So a table that was once opened with
`--content-column body` is read so again, and an option that would hide labels is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidConfig, UserError
from unitail.inputs.columns import SKIP
from unitail.inputs.items import Items
from unitail.inputs.table_files import read_table
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
            columns=_kinds(items),
        )


@dataclass(frozen=True, eq=False)
class Project:
    """The items of a project, its store, and its settings."""

    catalogue: Catalogue
    store: Store
    settings: ProjectSettings
    notes: tuple[str, ...] = ()
    """What the user should know about the settings."""


def open_project(source: Path, project: str | None, given: ProjectSettings) -> Project:
    """Read the items and open the store; `given` are the options of this call.

    What was stored when the project was first opened applies where no option is given. An option
    that differs replaces it, but is refused if labels belong to items that are read otherwise.
    """
    require_source(source)
    store = Store(database_of(source, project)) if exists(source, project) else None
    before = {} if store is None else store.settings()
    stored = ProjectSettings.of(before) if before else None
    num_labels = 0 if store is None else _count_labels(store)
    if stored is not None and num_labels:
        _require_same_items(source, stored, given, num_labels)
    settings = given if stored is None else _merged(stored, given)
    catalogue, gone = _read(source, settings)
    store = store or Store(database_of(source, project))
    unknown = tuple(_note_unknown_items(catalogue, store, stored))
    used = settings.as_used(catalogue.items)
    if stored is not None and (num_labels or gone):  # labels stay with how they were given
        known = stored.columns or (None if unknown else used.columns)
        used = replace(stored, encoder=settings.encoder, columns=known)
    if used != stored and not (stored is None and unknown):
        store.save_settings(asdict(used))
    notes = (*_note_encoder(stored, given), *_note_gone(source, gone), *unknown)
    return Project(catalogue, store, used, notes)


def _read(source: Path, settings: ProjectSettings) -> tuple[Catalogue, list[str]]:
    """Read the items; return also the names of columns that have a stored kind but are gone."""

    def read(columns: Mapping[str, str]) -> Catalogue:
        # The kinds of all columns say more than "table", which excludes texts.
        modality = None if columns else settings.modality
        return Catalogue.read(
            source,
            label_column=settings.label_column or LABEL_COLUMN,
            content_column=settings.content_column,
            modality=modality,
            columns=columns,
        )

    kinds = settings.columns or {}
    try:
        return read(kinds), []
    except UserError:
        names = set(read_table(source)) if kinds else set()
        gone = [name for name in kinds if name not in names]
        if not gone:
            raise
    kept = {name: kind for name, kind in kinds.items() if name in names}
    return read(kept if set(kept.values()) - {SKIP} else {}), gone


def _kinds(items: Items) -> dict[str, str] | None:
    if items.modality is not Modality.TABLE or items.layout is None:
        return None
    layout = items.layout
    return {
        **{name: str(item.modality) for name, item in layout.contents.items()},
        **dict.fromkeys(layout.features, str(Modality.TABLE)),
        **dict.fromkeys(layout.unused, SKIP),
    }


def _merged(stored: ProjectSettings, given: ProjectSettings) -> ProjectSettings:
    """Return the stored settings with the options that are given instead."""
    chosen = {name: value for name, value in asdict(given).items() if value is not None}
    if any(getattr(stored, name) != value for name, value in chosen.items() if name != "encoder"):
        return replace(given, encoder=given.encoder or stored.encoder)  # all else is guessed anew
    return replace(stored, **chosen)


def _count_labels(store: Store) -> int:
    return sum(row.class_id is not None for row in store.since().labels)


def _require_same_items(
    source: Path, stored: ProjectSettings, given: ProjectSettings, num_labels: int
) -> None:
    """Raise if an option differs from the one that the labelled items were read with."""
    for name in ("label_column", "content_column", "modality"):
        value, before = getattr(given, name), getattr(stored, name)
        if value is not None and value != before:
            option = f"--{name.replace('_', '-')}"
            raise InvalidConfig(
                f"the labels of {shown(source)} were given with another {option}",
                got=f"{option} {value}",
                allowed=f"{before or 'none'}, as for the {numbered(num_labels, 'label')} so far",
                remedy=f"Leave out {option}, or keep other labels elsewhere with --project FILE.",
            )


def _note_encoder(stored: ProjectSettings | None, given: ProjectSettings) -> Iterator[str]:
    if stored is not None and given.encoder not in (None, stored.encoder):
        yield f"the encoder is now {given.encoder}; it was {stored.encoder or 'the default'}"


def _note_gone(source: Path, columns: Sequence[str]) -> Iterator[str]:
    if columns:
        names = some(map(repr, columns), 5)
        yield f"{shown(source)} was read without columns that it had before: {names}"


def _note_unknown_items(
    catalogue: Catalogue, store: Store, stored: ProjectSettings | None
) -> Iterator[str]:
    """Note if there are labels, but none of them is of these items."""
    labels = [row.item for row in store.since().labels if row.class_id is not None]
    if labels and not any(item in catalogue.places for item in labels):
        reason = "have been given with another --content-column, --label-column or --modality"
        if stored is not None:  # an older version stored none
            reason = f"be of earlier content of {shown(catalogue.source)}, and are kept"
        yield (
            f"none of the {numbered(len(labels), 'label')} so far belongs to these items: they may"
            f" {reason}"
        )
