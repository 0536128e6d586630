"""A project's settings: how its items are read, stored with its labels when it is first opened.

The key of a text or of a row depends on how the table is read. So a table that was once opened with
`--content-column body` is read so again, and an option that would hide labels is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidConfig, UserError
from unitail.inputs.items import Items
from unitail.studio.catalogue import Catalogue, require_source
from unitail.studio.schema import database_of, exists
from unitail.studio.store import Store
from unitail.wording import numbered, shown

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
    stored = None if store is None or not store.settings() else ProjectSettings.of(store.settings())
    num_labels = 0 if store is None else _count_labels(store)
    if stored is not None and num_labels:
        _require_same_items(source, stored, given, num_labels)
    settings = given if stored is None else _merged(stored, given)
    catalogue = _read(source, settings)
    store = store or Store(database_of(source, project))
    notes = (*_note_encoder(stored, given), *_note_unknown_items(catalogue, store, stored))
    if not (num_labels and stored is None and notes):
        settings = settings.as_used(catalogue.items)
        if settings != stored:
            store.save_settings(asdict(settings))
    return Project(catalogue, store, settings, tuple(notes))


def _read(source: Path, settings: ProjectSettings) -> Catalogue:
    def read(modality: str | None, columns: Mapping[str, str]) -> Catalogue:
        return Catalogue.read(
            source,
            label_column=settings.label_column or LABEL_COLUMN,
            content_column=settings.content_column,
            modality=modality,
            columns=columns,
        )

    if not settings.columns:
        return read(settings.modality, {})
    try:  # the kinds of all columns say more than "table", which excludes texts
        return read(None, settings.columns)
    except UserError:  # a column is gone, and with it all rows as they were: the page says so
        return read(settings.modality, {})


def _kinds(items: Items) -> dict[str, str] | None:
    if items.modality is not Modality.TABLE or items.layout is None:
        return None
    layout = items.layout
    return {
        **{name: str(item.modality) for name, item in layout.contents.items()},
        **dict.fromkeys(layout.features, str(Modality.TABLE)),
        **dict.fromkeys(layout.unused, "skip"),
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


def _note_unknown_items(
    catalogue: Catalogue, store: Store, stored: ProjectSettings | None
) -> Iterator[str]:
    """Note if an older version stored labels without settings, and none is of these items."""
    labels = [row.item for row in store.since().labels if row.class_id is not None]
    if stored is None and labels and not any(item in catalogue.places for item in labels):
        yield (
            f"none of the {numbered(len(labels), 'label')} so far belongs to these items: they may"
            " have been given with another --content-column, --label-column or --modality"
        )
