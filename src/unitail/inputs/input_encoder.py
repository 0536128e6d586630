"""Encoders of a user's inputs, and how they are saved with a classifier."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.registry import make_encoder
from unitail.encoders.tables import TableEncoder, not_used
from unitail.errors import InvalidCheckpoint, UserError, optional
from unitail.inputs.cells import with_reading
from unitail.inputs.recognise import is_frame, listed
from unitail.wording import numbered

AUTO = "auto"
"""Chooses the encoder that fits the examples."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemEncoder:
    """A frozen encoder of items, and how it was chosen."""

    encoder: Encoder[Any]
    named: bool
    """Whether it can be recreated from its name; if so, it is neither saved nor pickled."""
    strings_are_files: bool = False
    device: str = AUTO
    content_column: str | None = None
    """Column of the examples' table that held the items."""

    notes = ()
    dropped: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @property
    def name(self) -> str:
        """Name of the encoder."""
        return self.encoder.name

    def items(self, inputs: Any) -> list[object]:  # noqa: ANN401 - whatever users give
        """Return the items as a list, with a `Path` for each file."""
        items = listed(inputs)
        if not self.strings_are_files:
            return items
        return [Path(item) if isinstance(item, str) else item for item in items]

    def notes_on(
        self, examples: Sequence[object], queries: Sequence[object] = ()
    ) -> tuple[str, ...]:
        """Return a note on the number of texts that the encoder truncates, not counting files."""
        limit = self.encoder.max_words
        if limit is None:
            return ()
        texts = (item for item in (*examples, *queries) if isinstance(item, str))
        number = sum(len(text.split(maxsplit=limit)) > limit for text in texts)
        return (f"{numbered(number, 'text')} read up to word {limit:,} at most",) if number else ()

    def __reduce__(self) -> tuple[Any, ...]:
        encoder = None if self.named else self.encoder
        return restore_encoder, (describe_encoder(self), encoder, self.device)


@dataclass(frozen=True)
class ItemColumn:
    """A column of a table whose cells are items: texts, or paths to images and sounds."""

    modality: Modality
    encoder: str = AUTO
    """Name of their encoder."""
    are_files: bool = False


@dataclass(frozen=True, eq=False)
class TablePart:
    """Some columns of a table, their encoder, and the scale of its vectors."""

    encoder: ItemEncoder | TableEncoder
    column: str | None
    """The column of items; None for the part of numbers and categories."""
    centre: NDArray[np.float64] | None = None
    """Mean of the examples' vectors; None before fitting."""
    size: float = 0.0
    """Root mean squared distance of the examples' vectors from the centre."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the encoder reads."""
        if isinstance(self.encoder, TableEncoder):
            return tuple(column.name for column in self.encoder.columns)
        return () if self.column is None else (self.column,)

    def learned(self, block: NDArray[np.float32]) -> "TablePart":
        """Return the part with centre and size of the examples' vectors; NaN rows are skipped."""
        present = block[~np.isnan(block).any(axis=1)].astype(np.float64)
        centre = present.mean(axis=0) if len(present) else np.zeros(block.shape[1])
        squares = ((present - centre) ** 2).sum() / max(len(present) - 1, 1)
        return replace(self, centre=centre, size=float(np.sqrt(squares)))

    def scaled(self, block: NDArray[np.float32], size: float) -> NDArray[np.float64]:
        """Rescale vectors so that the part has this size; missing ones become the centre."""
        assert self.centre is not None
        return np.where(np.isnan(block), self.centre, block) * (size / (self.size or np.inf))

    def notes_on(self, examples: Any, queries: Any) -> tuple[str, ...]:  # noqa: ANN401 - DataFrames
        """Return the encoder's notes on these tables; for cells of items, with their column."""
        if isinstance(self.encoder, TableEncoder):
            return self.encoder.notes_on(examples, queries)
        cells = [frame[self.column] for frame in (examples, queries) if is_frame(frame)]
        notes = self.encoder.notes_on([cell for column in cells for cell in column])
        return tuple(f"{self.column!r}: {note}" for note in notes)

    def __str__(self) -> str:
        if isinstance(self.encoder, TableEncoder):
            return f"{numbered(len(self.encoder.columns), 'column')} of numbers and categories"
        return f"{self.column!r} ({self.encoder.encoder.modality}, {self.encoder.name})"


class MixedEncoder:
    """Encoder of table rows, some of whose cells are texts, or paths to images or sounds.

    All parts are scaled to the same mean square around their mean on the examples, then
    concatenated: each contributes equally to the mean squared distance between rows. How to use the
    parts is up to the learner (`widths` separates them). A single part is not scaled. With several,
    the common size is that of the numbers and categories, or 1 if there are none.
    """

    def __init__(
        self,
        parts: Sequence[TablePart],
        unused: Mapping[str, str] | None = None,
        size: float | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self.size = size
        """Common size of all parts; None before fitting."""
        self.dropped = dict(unused or {})
        """Columns that are not used, with the reason."""

    @property
    def name(self) -> str:
        """Names of the parts' encoders."""
        return " + ".join(dict.fromkeys(part.encoder.name for part in self.parts))

    @property
    def widths(self) -> tuple[int, ...] | None:
        """Number of vector columns of each part; None if there is only one part."""
        if len(self.parts) < 2:
            return None
        assert all(part.centre is not None for part in self.parts), "not fitted yet"
        return tuple(len(part.centre) for part in self.parts if part.centre is not None)

    @property
    def contents(self) -> dict[str, ItemColumn]:
        """Columns of items."""
        return {
            part.column: ItemColumn(
                part.encoder.encoder.modality, part.encoder.name, part.encoder.strings_are_files
            )
            for part in self.parts
            if part.column is not None and isinstance(part.encoder, ItemEncoder)
        }

    @property
    def cells(self) -> TableEncoder | None:
        """Encoder of the columns of numbers and categories; None if there are none."""
        encoders = (part.encoder for part in self.parts)
        return next((each for each in encoders if isinstance(each, TableEncoder)), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on how the columns are used."""
        intro = "Read as separate parts: " if len(self.parts) > 1 else "Read: "
        dropped = (not_used(name, why) for name, why in self.dropped.items())
        return (intro + ", ".join(map(str, self.parts)), *dropped)

    def notes_on(self, examples: Any, queries: Any = None) -> tuple[str, ...]:  # noqa: ANN401 - DataFrames
        """Return the notes of all parts; either table may be missing or empty."""
        return tuple(note for part in self.parts for note in part.notes_on(examples, queries))

    def join(self, blocks: Sequence[NDArray[np.float32]], num_examples: int) -> NDArray[np.float32]:
        """Concatenate the vectors of all parts, (n, K); an unfitted encoder fits on the first rows.

        These are the `num_examples` rows of the examples.
        """
        if self.size is None:
            examples = [block[:num_examples] for block in blocks]
            self.parts = tuple(map(TablePart.learned, self.parts, examples))
            tables = (part.size for part in self.parts if isinstance(part.encoder, TableEncoder))
            self.size = next(tables, 0.0) or 1.0
        if len(blocks) == 1:
            return blocks[0]
        pairs = zip(self.parts, blocks, strict=True)
        joined = np.concatenate([part.scaled(block, self.size) for part, block in pairs], axis=1)
        return np.asarray(joined, dtype=np.float32)


InputEncoder: TypeAlias = ItemEncoder | TableEncoder | MixedEncoder
"""An encoder of a user's inputs, fitted to the labelled examples."""


def describe_encoder(encoder: InputEncoder | None) -> dict[str, Any] | None:
    """Return the JSON data from which `restore_encoder` rebuilds an encoder."""
    if encoder is None:
        return None
    if isinstance(encoder, TableEncoder):
        return {"columns": encoder.to_dict()}
    if isinstance(encoder, MixedEncoder):
        parts = list(map(_describe_part, encoder.parts))
        return {"parts": parts, "dropped": encoder.dropped, "size": encoder.size}
    return {
        "encoder": encoder.name,
        "modality": str(encoder.encoder.modality),
        "fingerprint": encoder.encoder.fingerprint,
        "strings_are_files": encoder.strings_are_files,
        "content_column": encoder.content_column,
    }


def _describe_part(part: TablePart) -> dict[str, Any]:
    centre = None if part.centre is None else part.centre.tolist()
    reader = describe_encoder(part.encoder)
    return {"reader": reader, "column": part.column, "centre": centre, "size": part.size}


def restore_encoder(
    table: Mapping[str, Any] | None, own: Encoder[Any] | None, device: object
) -> InputEncoder | None:
    """Rebuild the encoder that `describe_encoder` described; `own` is the one that has no name."""
    try:
        return _restored(table, own, str(device))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise InvalidCheckpoint(
            "the saved encoder is damaged",
            got=f"{type(error).__name__}: {error}",
            allowed="what `save` writes",
            remedy="Save the classifier again, or name another folder.",
        ) from error


def _restored(
    table: Mapping[str, Any] | None, own: Encoder[Any] | None, device: str
) -> InputEncoder | None:
    if table is None:
        return None
    if "columns" in table:
        encoder = TableEncoder.from_dict(table["columns"])
        with_reading(optional("pandas", extra="encoders").DataFrame(), encoder.reading)
        return encoder
    if "parts" in table:
        parts = [_restored_part(part, device) for part in table["parts"]]
        # Earlier versions scaled each part to mean square 1, and then the whole vector, too.
        size = table.get("size", 1 / np.sqrt(len(parts)))
        return MixedEncoder(parts, table["dropped"], None if size is None else float(size))
    name, modality = table["encoder"], Modality(table["modality"])
    frozen = make_encoder(name, modality, device=device) if own is None else own
    if frozen.fingerprint != table["fingerprint"]:
        raise InvalidCheckpoint(
            f"the encoder {frozen.name} is not the one that the classifier was fitted with",
            got=f"fingerprint {frozen.fingerprint}",
            allowed=f"{name} with fingerprint {table['fingerprint']}",
            remedy="Load it with that encoder, or fit it again.",
        )
    return ItemEncoder(
        encoder=frozen,
        named=own is None,
        strings_are_files=bool(table["strings_are_files"]),
        device=device,
        content_column=table.get("content_column"),
    )


def _restored_part(table: Mapping[str, Any], device: str) -> TablePart:
    encoder = _restored(table["reader"], None, device)
    assert isinstance(encoder, ItemEncoder | TableEncoder)
    centre = None if table["centre"] is None else np.array(table["centre"], dtype=np.float64)
    return TablePart(encoder, table["column"], centre, float(table["size"]))
