"""Tables whose rows hold items beside numbers and categories: each part by its own encoder."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoding import Failure, Vectors, encode_items
from unitail.encoders.registry import default_encoder, encoder_names, make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import InvalidInput, UnknownEncoder
from unitail.inputs.cells import reading_of
from unitail.inputs.columns import Layout
from unitail.inputs.input_encoder import AUTO, ItemEncoder, MixedEncoder, TablePart
from unitail.inputs.recognise import is_frame, says_nothing
from unitail.missing_columns import lacks_columns
from unitail.progress import OnProgress

EMPTY = "nothing in any of its columns"


def fit_mixed(layout: Layout, frame: Any, encoder: str, device: str) -> MixedEncoder:  # noqa: ANN401
    """Return what makes vectors of tables whose columns are laid out so, some of them items.

    `encoder` reads the columns of items that it takes, unless these have one of their own. How
    large the parts are is measured when the examples are encoded, see `encode_mixed`.
    """
    takes = _taken_by(encoder, layout)
    parts = []
    for name, column in layout.contents.items():
        usual = encoder if takes is column.modality else default_encoder(column.modality)
        chosen = usual if column.encoder == AUTO else column.encoder
        reader = ItemEncoder(
            encoder=make_encoder(chosen, column.modality, device=device),
            named=True,
            strings_are_files=column.are_files,
            device=device,
        )
        parts.append(TablePart(reader, name))
    if layout.features:
        cells = frame[list(layout.features)]
        parts.append(TablePart(TableEncoder(reading_of(cells)).fit(cells), None))
    return MixedEncoder(parts, layout.unused)


def encode_mixed(
    encoder: MixedEncoder,
    frames: Sequence[Any],
    *,
    cache: FeatureCache | None = None,
    on_progress: OnProgress | None = None,
) -> Vectors:
    """Return the vectors of all rows of some frames; a new encoder is shown the examples first.

    A row has none if one of its items cannot be read, or if it has nothing at all. Empty cells
    are missing values: they say nothing, and the other parts answer.
    """
    total = sum(map(len, frames))
    known = [name for part in encoder.parts for name in part.columns]
    cells = [_items_of(part, frames, known) for part in encoder.parts]
    progress = _Progress(on_progress, sum(map(len, cells)))
    tables = {  # quick, and refused before long work if columns are missing
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
        rows, by = np.array(list(items), dtype=np.int64), part.encoder.encoder
        vectors = encode_items(
            by,
            part.encoder.items(list(items.values())),
            cache=cache,
            on_progress=progress.of_next(len(items)),
        )
        blocks.append(np.full((total, by.width), np.nan, dtype=np.float32))
        blocks[-1][rows[vectors.kept]] = vectors.features
        fresh[rows[vectors.kept]] |= ~vectors.cached
        for each in vectors.unreadable:
            reasons[int(rows[each.place])] = f"{part.column}: {each.reason}"
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


def _taken_by(encoder: str, layout: Layout) -> Any:  # noqa: ANN401 - a Modality, or None
    """Say what kind of items a named encoder takes, among those that there are."""
    kinds = {column.modality for column in layout.contents.values()}
    if encoder == AUTO:
        return None
    takes = encoder_names().get(encoder) or (next(iter(kinds)) if len(kinds) == 1 else None)
    if takes in kinds:
        return takes
    name = next(iter(layout.contents))
    raise UnknownEncoder(
        f"it is not clear which column the encoder {encoder!r} reads",
        got=", ".join(f"{each!r} ({item.modality})" for each, item in layout.contents.items()),
        allowed="an encoder for one kind of these",
        remedy=f"Name the column: --column {name}=ENCODER; in Python encoder={{{name!r}: ...}}.",
    )


def _items_of(part: TablePart, frames: Sequence[Any], known: Sequence[str]) -> dict[int, Any]:
    """Return the items of a part by their rows; cells of numbers and categories are not items."""
    if part.column is None:
        return {}
    strange = [type(frame).__name__ for frame in frames if not is_frame(frame)]
    if strange:
        raise InvalidInput(
            "not a table, unlike the examples", got=strange[0], allowed="a DataFrame of its columns"
        )
    if any(part.column not in frame for frame in frames):
        lost = [name for name in known if any(name not in frame for frame in frames)]
        raise lacks_columns(lost, known)
    cells = (cell for frame in frames for cell in frame[part.column])
    return {row: cell for row, cell in enumerate(cells) if not says_nothing(cell)}


class _Progress:
    """Progress over several lists of items, as one."""

    def __init__(self, on_progress: OnProgress | None, total: int) -> None:
        self._tell, self._total, self._before = on_progress, total, 0

    def of_next(self, number: int) -> OnProgress | None:
        """Return what is to be told of the next items."""
        tell, before = self._tell, self._before
        self._before += number
        return None if tell is None else lambda done, _: tell(before + done, self._total)
