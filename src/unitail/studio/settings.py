"""How the items of a project are read and encoded: settings that are stored with its labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from unitail.encoders.encoder import Modality
from unitail.inputs.cells import Formats, formats_of
from unitail.inputs.columns import SKIP
from unitail.inputs.items import Items

LABEL_COLUMN = "label"
"""The label column of a table if none is named."""
MAX_READINGS = 8
"""Largest number of earlier sets of columns that are kept."""
Kinds = Mapping[str, str]
"""Kind of each column of a table whose rows are the items, as for `predict --column`."""


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """How the items of a project are read and encoded; None: as recognised, or the default."""

    label_column: str | None = None
    content_column: str | None = None
    modality: str | None = None
    encoder: str | None = None
    columns: Kinds | None = None
    formats: Formats | None = None
    """How the cells of the columns were read; while there are labels, they are read so again."""
    earlier_columns: Sequence[Kinds] | None = None
    """Other sets of columns in which rows of this table were labelled, or may have been."""

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
            formats=None if items.layout is None else formats_of(items.items),
        )

    def _kinds(self, items: Items) -> Kinds | None:
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
        """Return these settings with the given options in their place."""
        chosen = {name: value for name, value in asdict(given).items() if value is not None}
        if given.columns:
            chosen["columns"] = {**(self.columns or {}), **given.columns}
        return replace(self, **chosen)

    def with_columns(self, columns: Kinds | None) -> "ProjectSettings":
        """Return these settings with other columns, and keep the ones that they replace."""
        return replace(self, columns=columns).keeping(self.columns)

    def keeping(self, columns: Kinds | None) -> "ProjectSettings":
        """Return these settings with a set of columns among the earlier ones."""
        sets = [*(self.earlier_columns or ()), columns]
        earlier = [each for at, each in enumerate(sets) if each and each not in sets[at + 1 :]]
        earlier = [each for each in earlier if each != self.columns]
        return replace(self, earlier_columns=earlier[-MAX_READINGS:] or None)

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
