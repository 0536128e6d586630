"""Encode tables that mix items with numbers and categories, each part with its own encoder."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder, Failure, Modality, Vectors
from unitail.encoders.encoding import encode_items
from unitail.encoders.registry import default_encoder, encoder_names, make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import InvalidInput, UnknownEncoder
from unitail.inputs.cells import reading_of
from unitail.inputs.columns import SKIP, Layout
from unitail.inputs.input_encoder import AUTO, ItemColumn, ItemEncoder, MixedEncoder, TablePart
from unitail.inputs.recognise import is_blank, is_frame
from unitail.missing_columns import lacks_columns
from unitail.progress import OnProgress

EMPTY = "nothing in any of its columns"


def fit_mixed(layout: Layout, frame: Any, encoder: str, device: str) -> MixedEncoder:  # noqa: ANN401
    """Return an encoder for tables with this layout, some of whose columns are items.

    `encoder` reads the columns of its modality, unless a column names its own encoder. The scale of
    each part is measured later, when the examples are encoded; see `encode_mixed`.
    """
    modality = _modality_of_encoder(encoder, layout)
    parts = []
    for name, column in layout.contents.items():
        default = encoder if modality is column.modality else default_encoder(column.modality)
        reader = ItemEncoder(
            encoder=_encoder_of(name, column, default, device),
            named=True,
            strings_are_files=column.are_files,
            device=device,
        )
        parts.append(TablePart(reader, name))
    if layout.features:
        cells = frame[list(layout.features)]
        parts.append(TablePart(TableEncoder(reading_of(cells)).fit(cells), None))
    return MixedEncoder(parts, layout.unused)


def _encoder_of(name: str, column: ItemColumn, default: str, device: str) -> Encoder[Any]:
    """Return the encoder of a column of items."""
    if column.encoder == AUTO:
        return make_encoder(default, column.modality, device=device)
    try:
        return make_encoder(column.encoder, column.modality, device=device)
    except UnknownEncoder as error:
        kinds = ", ".join((*Modality, SKIP))
        raise UnknownEncoder(
            f"column {name!r} cannot be read as {column.encoder!r}: {error.wrong}",
            got=error.got,
            allowed=f"{kinds}; or an encoder: {error.allowed}",
            remedy=f"Choose one: --column {name}=KIND, in Python encoder={{{name!r}: KIND}}.",
        ) from error


def encode_mixed(
    encoder: MixedEncoder,
    frames: Sequence[Any],
    *,
    cache: FeatureCache | None = None,
    on_progress: OnProgress | None = None,
) -> Vectors:
    """Return the vectors of all rows of `frames`; a new encoder learns its scales from the first.

    A row has no vector if one of its items cannot be read, or if all its cells are empty. Other
    empty cells are missing values.
    """
    total = sum(map(len, frames))
    columns = [name for part in encoder.parts for name in part.columns]
    cells = [_items_of(part, frames, columns) for part in encoder.parts]
    progress = _Progress(on_progress, sum(map(len, cells)))
    tables = {  # first, since this is quick and raises an error if columns are missing
        part: np.concatenate([part.encoder.transform(frame) for frame in frames])
        for part in encoder.parts
        if isinstance(part.encoder, TableEncoder)
    }
    blocks: list[NDArray[np.float32]] = []
    reasons: dict[int, str] = {}
    fresh = np.zeros(total, dtype=bool)
    for part, items in zip(encoder.parts, cells, strict=True):
        if isinstance(part.encoder, TableEncoder):
            blocks.append(tables[part])
            continue
        rows, item_encoder = np.array(list(items), dtype=np.int64), part.encoder.encoder
        vectors = encode_items(
            item_encoder,
            part.encoder.items(list(items.values())),
            cache=cache,
            on_progress=progress.of_next(len(items)),
        )
        blocks.append(np.full((total, item_encoder.width), np.nan, dtype=np.float32))
        blocks[-1][rows[vectors.kept]] = vectors.features
        fresh[rows[vectors.kept]] |= ~vectors.cached
        for failure in vectors.unreadable:
            reasons[int(rows[failure.place])] = f"{part.column}: {failure.reason}"
    missing = np.array([np.isnan(block).any(axis=1) for block in blocks])
    for row in np.flatnonzero(missing.all(axis=0)):
        reasons.setdefault(int(row), EMPTY)
    kept = np.setdiff1d(np.arange(total), list(reasons))
    num_examples = int((kept < len(frames[0])).sum())
    has_item = np.isin(kept, [row for items in cells for row in items])
    return Vectors(
        features=encoder.join([block[kept] for block in blocks], num_examples),
        kept=kept,
        cached=has_item & ~fresh[kept],
        unreadable=tuple(Failure(row, reason) for row, reason in sorted(reasons.items())),
    )


def _modality_of_encoder(encoder: str, layout: Layout) -> Any:  # noqa: ANN401 - a Modality, or None
    """Return the modality, among those of the columns, that a named encoder reads."""
    kinds = {column.modality for column in layout.contents.values()}
    if encoder == AUTO:
        return None
    if encoder == TableEncoder.name:
        raise UnknownEncoder(
            f"the encoder {encoder!r} reads numbers and categories",
            got=", ".join(f"{name!r} ({item.modality})" for name, item in layout.contents.items()),
            allowed="an encoder for one kind of these",
            remedy="Leave it out; or read all columns as numbers and categories: --modality table,"
            " in Python encoder='columns'.",
        )
    modality = encoder_names().get(encoder) or (next(iter(kinds)) if len(kinds) == 1 else None)
    if modality in kinds:
        return modality
    first = next(iter(layout.contents))
    raise UnknownEncoder(
        f"it is not clear which column the encoder {encoder!r} reads",
        got=", ".join(f"{name!r} ({item.modality})" for name, item in layout.contents.items()),
        allowed="an encoder for one kind of these",
        remedy=f"Name the column: --column {first}=ENCODER; in Python encoder={{{first!r}: ...}}.",
    )


def _items_of(part: TablePart, frames: Sequence[Any], columns: Sequence[str]) -> dict[int, Any]:
    """Return the items of a part by row; empty for the part of numbers and categories."""
    if part.column is None:
        return {}
    wrong_types = [type(frame).__name__ for frame in frames if not is_frame(frame)]
    if wrong_types:
        raise InvalidInput(
            "the input is not a table, unlike the examples",
            got=wrong_types[0],
            allowed="a DataFrame with the columns of the examples",
        )
    if any(part.column not in frame for frame in frames):
        missing = [name for name in columns if any(name not in frame for frame in frames)]
        raise lacks_columns(missing, columns)
    cells = (cell for frame in frames for cell in frame[part.column])
    return {row: cell for row, cell in enumerate(cells) if not is_blank(cell)}


class _Progress:
    """Reports progress over several lists of items as if they were one."""

    def __init__(self, on_progress: OnProgress | None, total: int) -> None:
        self._report, self._total, self._before = on_progress, total, 0

    def of_next(self, number: int) -> OnProgress | None:
        """Return the callback for the next `number` items."""
        report, before = self._report, self._before
        self._before += number
        return None if report is None else lambda done, _: report(before + done, self._total)
