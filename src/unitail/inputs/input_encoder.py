"""What makes vectors of a user's inputs, and how it is saved with a classifier."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.registry import make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import InvalidCheckpoint, UserError, optional
from unitail.inputs.cells import with_reading
from unitail.inputs.recognise import listed
from unitail.wording import numbered

AUTO = "auto"
"""The name of the encoder that fits what the examples are."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemEncoder:
    """A frozen encoder, and how it was chosen."""

    encoder: Encoder[Any]
    named: bool
    """Whether its name makes it again; if so, it is neither saved nor pickled."""
    strings_are_files: bool = False
    device: str = AUTO
    content_column: str | None = None
    """The column of the examples' table that they were in."""

    notes = ()
    dropped: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @property
    def name(self) -> str:
        """What users call the encoder."""
        return self.encoder.name

    def items(self, inputs: Any) -> list[object]:  # noqa: ANN401 - whatever users give
        """List the items, with a `Path` for each file."""
        items = listed(inputs)
        if not self.strings_are_files:
            return items
        return [Path(item) if isinstance(item, str) else item for item in items]

    def __reduce__(self) -> tuple[Any, ...]:
        encoder = None if self.named else self.encoder
        return restore_encoder, (describe_encoder(self), encoder, self.device)


@dataclass(frozen=True)
class ItemColumn:
    """A column of a table whose cells are items: texts, or images and sounds by their paths."""

    modality: Modality
    encoder: str = AUTO
    """The name of what makes vectors of them."""
    are_files: bool = False


@dataclass(frozen=True, eq=False)
class TablePart:
    """Some columns of a table, the encoder that reads them, and how large its vectors are."""

    encoder: ItemEncoder | TableEncoder
    column: str | None
    """The column of items; None if the encoder reads all columns of cells."""
    centre: NDArray[np.float64] | None = None
    """The mean of the examples' vectors; None until they were seen."""
    size: float = 0.0
    """The root of their mean squared distance from it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the encoder reads."""
        if isinstance(self.encoder, TableEncoder):
            return tuple(column.name for column in self.encoder.columns)
        return () if self.column is None else (self.column,)

    def learned(self, block: NDArray[np.float32]) -> "TablePart":
        """Measure the examples' vectors; rows without an item are NaN."""
        present = block[~np.isnan(block).any(axis=1)].astype(np.float64)
        centre = present.mean(axis=0) if len(present) else np.zeros(block.shape[1])
        squares = ((present - centre) ** 2).sum() / max(len(present) - 1, 1)
        return replace(self, centre=centre, size=float(np.sqrt(squares)))

    def scaled(self, block: NDArray[np.float32], size: float) -> NDArray[np.float64]:
        """Bring vectors to this size around their mean, which stands for what is missing."""
        assert self.centre is not None
        return np.where(np.isnan(block), self.centre, block) * (size / (self.size or np.inf))

    def __str__(self) -> str:
        if isinstance(self.encoder, TableEncoder):
            return f"{numbered(len(self.encoder.columns), 'column')} of numbers and categories"
        return f"{self.column!r} ({self.encoder.encoder.modality}, {self.encoder.name})"


class MixedEncoder:
    """Vectors of table rows, some of whose cells are texts, or paths of images or sounds.

    Every part is brought to the same mean square around its mean by the examples, then all are put
    side by side: each has an equal share in the mean squared distance between rows. What is made of
    them is the learner's business (`widths` tells the parts apart). A single part stays as its
    encoder has it, and so do columns of numbers and categories beside others: these come to their
    size, and to 1 where there are none.
    """

    def __init__(
        self,
        parts: Sequence[TablePart],
        unused: Mapping[str, str] | None = None,
        size: float | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self.size = size
        """What all parts come to; None until examples were seen."""
        self.dropped = dict(unused or {})
        """Columns that are not used, and why."""

    @property
    def name(self) -> str:
        """What users call it."""
        return " + ".join(dict.fromkeys(part.encoder.name for part in self.parts))

    @property
    def widths(self) -> tuple[int, ...] | None:
        """How many columns of the vectors are of each part; None if there is but one."""
        if len(self.parts) < 2:
            return None
        assert all(part.centre is not None for part in self.parts), "no examples were shown yet"
        return tuple(len(part.centre) for part in self.parts if part.centre is not None)

    @property
    def contents(self) -> dict[str, ItemColumn]:
        """The columns of items."""
        return {
            part.column: ItemColumn(
                part.encoder.encoder.modality, part.encoder.name, part.encoder.strings_are_files
            )
            for part in self.parts
            if part.column is not None and isinstance(part.encoder, ItemEncoder)
        }

    @property
    def cells(self) -> TableEncoder | None:
        """What reads the other columns."""
        tables = (part.encoder for part in self.parts)
        return next((each for each in tables if isinstance(each, TableEncoder)), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What users should know, a phrase each."""
        together = "Parts that each have a say: " if len(self.parts) > 1 else "Read: "
        dropped = [f"Column {name!r} is not used: {why}" for name, why in self.dropped.items()]
        return (together + ", ".join(map(str, self.parts)), *dropped)

    def join(self, blocks: Sequence[NDArray[np.float32]], num_examples: int) -> NDArray[np.float32]:
        """Put the vectors of all parts side by side; the first rows are examples, if it is new."""
        if self.size is None:
            examples = [block[:num_examples] for block in blocks]
            self.parts = tuple(map(TablePart.learned, self.parts, examples))
            tables = (part.size for part in self.parts if isinstance(part.encoder, TableEncoder))
            self.size = next(tables, 0.0) or 1.0
        if len(blocks) == 1:
            return blocks[0]
        each = zip(self.parts, blocks, strict=True)
        joined = np.concatenate([part.scaled(block, self.size) for part, block in each], axis=1)
        return np.asarray(joined, dtype=np.float32)


InputEncoder: TypeAlias = ItemEncoder | TableEncoder | MixedEncoder
"""What makes vectors of inputs, fixed by the labelled examples."""


def describe_encoder(encoder: InputEncoder | None) -> dict[str, Any] | None:
    """Return what `restore_encoder` needs, as JSON holds it."""
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
    """Make the encoder that `describe_encoder` told of; `own` is given if no name makes it."""
    try:
        return _restored(table, own, str(device))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise InvalidCheckpoint(
            "what was saved of the encoder is damaged",
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
        learned = TableEncoder.from_dict(table["columns"])
        with_reading(optional("pandas", extra="encoders").DataFrame(), learned.reading)
        return learned
    if "parts" in table:
        parts = [_part(each, device) for each in table["parts"]]
        # Earlier versions brought each part to mean square 1, and all together, too.
        size = table.get("size", 1 / np.sqrt(len(parts)))
        return MixedEncoder(parts, table["dropped"], None if size is None else float(size))
    name, modality = table["encoder"], Modality(table["modality"])
    encoder = make_encoder(name, modality, device=device) if own is None else own
    if encoder.fingerprint != table["fingerprint"]:
        raise InvalidCheckpoint(
            f"the encoder {encoder.name} is not the one that the classifier was fitted with",
            got=f"fingerprint {encoder.fingerprint}",
            allowed=f"{name} with fingerprint {table['fingerprint']}",
            remedy="Load it with that encoder, or fit it again.",
        )
    return ItemEncoder(
        encoder=encoder,
        named=own is None,
        strings_are_files=bool(table["strings_are_files"]),
        device=device,
        content_column=table.get("content_column"),
    )


def _part(table: Mapping[str, Any], device: str) -> TablePart:
    reader = _restored(table["reader"], None, device)
    assert isinstance(reader, ItemEncoder | TableEncoder)
    centre = None if table["centre"] is None else np.array(table["centre"], dtype=np.float64)
    return TablePart(reader, table["column"], centre, float(table["size"]))
