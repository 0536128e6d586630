"""Which reading of a table shows most labels, and options that would hide some.

The key of a text or of a row depends on which columns are used. So a table that was once opened
with `--content-column body` is read so again, an option that would hide labels is refused, and
columns that are new in the table are not used while there are labels. Where columns went or came,
the reading that shows most labels is chosen among those in which labels were given.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from unitail.errors import InvalidConfig, UserError
from unitail.inputs.columns import SKIP
from unitail.studio.catalogue import Catalogue
from unitail.studio.settings import LABEL_COLUMN, Kinds, ProjectSettings
from unitail.wording import numbered, shown


@dataclass(frozen=True, eq=False)
class ReadItems:
    """The items, read in one way."""

    catalogue: Catalogue
    columns: Kinds | None
    """The set of columns that was used, with those that are gone; None: as recognised."""
    new: Sequence[str] = ()
    """Columns that are not used because they are new."""
    num_shown: int = 0
    """Number of labels that are of these items."""


@dataclass(frozen=True, eq=False)
class Opening:
    """What is there before the items are read."""

    source: Path
    columns: Collection[str]
    """Columns of the table; none for a folder."""
    given: ProjectSettings
    """The options of this call."""
    stored: ProjectSettings | None = None
    labelled: frozenset[str] = frozenset()
    """Keys of the items with a label."""

    def read(self) -> tuple[ProjectSettings, ReadItems]:
        """Read the items; return also the settings, as stored or as given."""
        if self.stored is None:
            return self.given, self._read(self.given, self.given.columns or {})
        differences = list(self.stored.differences(self.given))
        settings = self.stored.with_chosen(self.given)
        if self.labelled:
            return settings, self._checked(settings, differences)
        anew = replace(self.given, encoder=settings.encoder)
        if not differences:
            kinds = self._present(settings.columns)
            with suppress(UserError):  # it has other content by now
                return settings, self._read(settings, kinds)
        return anew, self._read(anew, anew.columns or {})

    def _checked(
        self, settings: ProjectSettings, differences: Sequence[tuple[str, str, str | None]]
    ) -> ReadItems:
        """Read the items with their labels; raise if an option would hide some of these."""
        assert self.stored is not None
        if not differences:
            return self._best(settings)
        for name, value, here in differences:
            if name == "modality" or (name == "label_column" and here in self.columns):
                raise self._refusal(name, value, here)
        before = 0
        with suppress(UserError):
            before = self._best(self.stored).num_shown
        try:
            reading = self._best(settings)
        except UserError as error:
            if not before:
                raise
            raise self._refusal(*differences[0]) from error
        if reading.num_shown < max(before, 1):
            raise self._refusal(*differences[0])
        return reading

    def _best(self, settings: ProjectSettings) -> ReadItems:
        """Return the reading that shows most labels; in doubt with the columns of the settings."""
        readings, failures = list[ReadItems](), list[UserError]()
        for reading in self._readings(settings):
            try:
                readings.append(reading())
            except UserError as error:  # it may name files that are gone
                failures.append(error)
            else:
                if readings[-1].num_shown == len(self.labelled):
                    break
        best = max(readings, key=lambda each: each.num_shown, default=None)
        if best is not None and best.num_shown:
            return best
        if failures:
            raise failures[0]
        names = {*self.columns} - {settings.label_column}
        known = (each for each in readings if set(each.columns or ()) == names)
        return next(known, readings[-1])  # the last is as recognised

    def _readings(self, settings: ProjectSettings) -> Iterator[Callable[[], ReadItems]]:
        """Yield ways to read the items: with each set of columns, then with new columns, too."""
        for columns in (settings.columns or {}, *reversed(settings.earlier_columns or ())):
            kinds = self._present(columns)
            if kinds:  # else all that was used is gone, or items are not rows
                yield partial(self._read_without_new, settings, columns, kinds)
        kinds = {**self._present(settings.columns), **(self.given.columns or {})}
        yield partial(self._read, settings, kinds)

    def _read_without_new(
        self, settings: ProjectSettings, columns: Kinds, kinds: Kinds
    ) -> ReadItems:
        known = {*columns, settings.label_column}
        new = [name for name in self.columns if name not in known]
        reading = self._read(settings, {**kinds, **dict.fromkeys(new, SKIP)})
        return replace(reading, columns=columns, new=new)

    def _present(self, columns: Kinds | None) -> Kinds:
        """Return the columns that the table has; none if all that were used are gone."""
        kinds = {name: kind for name, kind in (columns or {}).items() if name in self.columns}
        return kinds if set(kinds.values()) - {SKIP} else {}

    def _read(self, settings: ProjectSettings, kinds: Kinds) -> ReadItems:
        label_column = settings.label_column or LABEL_COLUMN
        catalogue = Catalogue.read(
            self.source,
            label_column=label_column,
            content_column=settings.content_column,
            # The kinds of all columns say more than "table", which excludes texts.
            modality=self.given.modality if kinds else settings.modality,
            columns={name: kind for name, kind in kinds.items() if name != label_column},
            formats=settings.formats if self.labelled else None,
        )
        return ReadItems(catalogue, None, num_shown=self._num_shown(catalogue))

    def _num_shown(self, catalogue: Catalogue) -> int:
        number = len(self.labelled & catalogue.places.keys())
        if number == len(self.labelled):
            return number
        keys = {*catalogue.keys, *catalogue.keys_of_converted_cells()}  # also of earlier versions
        return len(self.labelled & keys)

    def _refusal(self, name: str, value: str, before: str | None) -> InvalidConfig:
        """Return the error for an option that differs from the one that labels were given with."""
        option = f"--{name.replace('_', '-')}"
        return InvalidConfig(
            f"the labels of {shown(self.source)} were given with another {option}",
            got=f"{option} {value}",
            allowed=f"{before or 'none'}, as for the"
            f" {numbered(len(self.labelled), 'label')} so far",
            remedy=f"Leave out {option}, or keep other labels elsewhere with --project FILE.",
        )
